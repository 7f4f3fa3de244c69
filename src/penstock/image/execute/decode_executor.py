"""Execution of passes on encoded images: the pixels that passes read are decoded into scratch memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from penstock.core import Array, Column, RowSelection
from penstock.core.result_memory import result_memory
from penstock.graph.ir.fusion_contract import Passes
from penstock.image.codecs.image_header import Region
from penstock.image.describe.axis_mapping import downscaled
from penstock.image.describe.pixel_pass import Pass
from penstock.image.execute.prepared_passes import PreparedPasses, spatial_axis
from penstock.image.execute.row_executor import cache_groups, pack_groups
from penstock.image.kernels.scratch_memory import ScratchMemory
from penstock.image.kernels.strided_images import StridedImages

if TYPE_CHECKING:
    from penstock.image.image_operator import ImageDecoder


class EncodedImages:
    """Images in files, decoded one by one into scratch memory.

    Args:
        files: Bytes of the files, uint8 (n,) per row.
        passes: Passes that read the pixels, with the headers of the files.
        prepared: The same passes, prepared.
        decoder: Decoder of the files.
        scratch: Scratch memory.
    """

    def __init__(
        self,
        files: Column | RowSelection,
        passes: Passes,
        prepared: PreparedPasses,
        decoder: ImageDecoder,
        scratch: ScratchMemory,
    ) -> None:
        self.scratch = scratch
        self._passes, self._prepared, self._decoder = passes, prepared, decoder
        self._dtype = passes.passes[0].input_dtype
        regions, partial = self._choose_regions()
        extents = regions[:, 1::2] - regions[:, ::2]
        shapes = np.column_stack([extents, [header.channels for header in passes.headers]])
        sizes = shapes.prod(axis=1).tolist()
        self._groups = cache_groups([size * self._dtype.itemsize for size in sizes])
        source = pack_groups(scratch, 2, self._dtype, shapes, self._groups)
        memory = [
            source.values[start : start + size] for start, size in zip(source.starts.tolist(), sizes, strict=True)
        ]
        # Passes count pixels from the corner of the whole image, which is not in memory if a region is decoded.
        source.starts = source.starts - (regions[:, ::2] * source.strides[:, :2]).sum(axis=1)
        self._source = source
        shapes = map(tuple, shapes.tolist())
        self._images = list(zip(files, passes.headers, passes.reductions, partial, shapes, memory, strict=True))

    def groups(self) -> list[slice]:
        """Return groups whose decoded pixels fit into the cache."""
        return self._groups

    def load(self, group: slice) -> StridedImages:
        """Decode the files of a group.

        Raises:
            ValueError: A file is damaged.
        """
        decode = self._decoder.decode_region
        # Codecs write uint8. For other dtypes they allocate the pixels, which are then converted into the memory.
        decodes_bytes = self._dtype == np.uint8
        for data, header, reduction, region, shape, memory in self._images[group]:
            pixels = decode(data, header, region, memory if decodes_bytes else None, reduction)
            if pixels.shape != shape:
                # Loops check no bounds: other shapes would make them read the pixels of another image.
                actual, expected = (" x ".join(map(str, extents)) for extents in (pixels.shape, shape))
                raise ValueError(f"damaged: the pixels are {actual}, but the header announces {expected}")
            if not _fills(pixels, memory):
                memory.reshape(shape)[:] = pixels
        return self._source

    def _choose_regions(self) -> tuple[NDArray[np.int64], list[Region | None]]:
        """Choose the region of each image that is decoded.

        Returns:
            The regions, (rows, 4) in the order of `Region`; and the same per row, with None for the whole image.
        """
        headers, reductions = self._passes.headers, np.array(self._passes.reductions)
        regions = self._prepared.read_regions.copy()
        # The extents of the image itself: `end` of a resampled axis is where the window of a crop before it ends.
        extents = np.array([(header.height, header.width) for header in headers])
        extents = -(-extents // reductions[:, None])
        parts = np.flatnonzero((regions[:, ::2] > 0).any(axis=1) | (regions[:, 1::2] < extents).any(axis=1))
        chosen: list[Region | None] = [None] * len(headers)
        if len(parts):
            partial = [headers[row] for row in parts.tolist()]
            regions[parts] = self._decoder.regions_to_decode(partial, regions[parts], reductions[parts])
            for row, region in zip(parts.tolist(), regions[parts].tolist(), strict=True):
                chosen[row] = Region._make(region)
        return regions, chosen


def decode_rows(files: Iterable[Array], headers: Sequence[Any], decoder: ImageDecoder, out: Array | None) -> Column:
    """Decode whole images, straight into the batch if possible.

    Args:
        files: Bytes of the files.
        headers: Headers of the files.
        decoder: Decoder of the files.
        out: Memory for the pixels, (rows, ...), if all images have one shape. None: allocate it.
    """
    column: list[Array] = []
    # Codecs write uint8 into contiguous memory; other pixels are copied or converted into the batch.
    batch = out if out is not None and out.dtype == np.uint8 and out.flags.c_contiguous else None
    places = [None] * len(headers) if batch is None else list(batch.reshape(len(batch), -1))
    if out is None and len(headers) > 1:
        # One array for all, which can be used again, and which operators on the images read in place.
        ends = np.cumsum([header.height * header.width * header.channels for header in headers])
        places = np.split(result_memory.take(int(ends[-1])), ends[:-1])
    for row, (data, header, memory) in enumerate(zip(files, headers, places, strict=True)):
        pixels = decoder.decode_region(data, header, None, memory, 1)
        if out is None:
            column.append(pixels)
        elif memory is None or not _fills(pixels, memory):
            out[row] = pixels
    return column if out is None else out


def reduce_images(pass_: Pass, headers: Sequence[Any]) -> list[int]:
    """Choose the scale at which each image is decoded, and adapt the pass that resamples it.

    Returns:
        Per row 1, 2, 4 or 8: the largest for which the decoded image is not smaller than the resampled one.
    """
    axes = [spatial_axis(pass_, letter) for letter in "HW"]
    shrink = np.min([np.abs(a.numbers.high - a.numbers.low) / a.numbers.size for a in axes], axis=0)
    reducible = np.array([header.reducible for header in headers])
    reductions = np.where(reducible, 2 ** np.clip(np.floor(np.log2(shrink)), 0, 3), 1).astype(np.int64)
    for axis in axes:
        axis.numbers = downscaled(axis.numbers, reductions)
    return reductions.tolist()


def _fills(pixels: Array, memory: Array) -> bool:
    """Return True if a decoder wrote the image into the memory it was given, completely and in order.

    A rotated or mirrored image is a view with other strides. May be False for an image that is in the memory.
    """
    return pixels.base is memory.base and pixels.size == memory.size and pixels.flags.c_contiguous
