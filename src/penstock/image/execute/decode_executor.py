"""Execution of passes on encoded images: the pixels that passes read are decoded into scratch memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from penstock.core import Array, Column, RowSelection
from penstock.core.recycled_memory import result_memory
from penstock.graph.ir.fusion_contract import Passes
from penstock.image.codecs.exif_orientation import mirrored_axes
from penstock.image.codecs.image_header import CHANNELS, FRAME, ORIENTATION, ImageHeaders, Region
from penstock.image.codecs.loop_decoding import LoopDecoding
from penstock.image.describe.axis_mapping import downscaled
from penstock.image.describe.pixel_pass import Pass
from penstock.image.execute.prepared_passes import PreparedPasses, spatial_axis
from penstock.image.execute.row_executor import CACHE, Loading, cache_groups, pack_groups
from penstock.image.kernels.scratch_memory import KEPT, ScratchMemory
from penstock.image.kernels.strided_images import StridedImages
from penstock.native.loop_chain import LoopChain

if TYPE_CHECKING:
    from penstock.image.image_operator import ImageDecoder


class DecodedPlaces:
    """Regions of images to decode, and memory for their pixels.

    Args:
        passes: Passes that read the pixels, with the headers of the files.
        prepared: The same passes, prepared.
        decoder: Decoder of the files.
        scratch: Scratch memory.

    Attributes:
        shapes: int64 (rows, 3), shapes of the decoded regions.
        regions: int64 (rows, 4) in the order of `Region`.
        partial: Per row, True if the region is not the whole image.
        unreduced: int64 (rows, 4), regions of images that are not reduced; zeros for others.
        groups: Runs of rows that fit into the cache. They use the same memory, one after another.
        memory: Per row, memory for its pixels; None for a large image. Each takes memory that threads share while it is
            processed; memory for the largest would be kept by every thread.
        source: The pixels as passes read them. Large images have the same places in memory of their own.
    """

    def __init__(self, passes: Passes, prepared: PreparedPasses, decoder: ImageDecoder, scratch: ScratchMemory) -> None:
        dtype = passes.passes[0].input_dtype
        self.regions, self.partial = _choose_regions(passes, prepared, decoder)
        extents = self.regions[:, 1::2] - self.regions[:, ::2]
        self.shapes = np.column_stack([extents, passes.headers.numbers[:, CHANNELS]])
        self.unreduced = np.where(np.array(passes.reductions)[:, None] == 1, self.regions, 0)
        sizes = self.shapes.prod(axis=1)
        self.groups = cache_groups((sizes * dtype.itemsize).tolist())
        source = pack_groups(scratch, 2, dtype, self.shapes, self.groups, KEPT)
        small = (sizes * dtype.itemsize <= KEPT).tolist()
        places = zip(small, source.starts.tolist(), sizes.tolist(), strict=True)
        self.memory: list[Any] = [source.values[start : start + size] if kept else None for kept, start, size in places]
        # Passes count pixels from the corner of the whole image, which is not in memory if a region is decoded.
        source.starts = source.starts - (self.regions[:, ::2] * source.strides[:, :2]).sum(axis=1)
        self.source = source

    def take_large(self, row: int, scratch: ScratchMemory) -> Array:
        """Return memory for the pixels of a large image, which is a group of its own."""
        size, dtype = int(self.shapes[row].prod()), self.source.values.dtype
        return scratch.take(2, size * dtype.itemsize).view(dtype)[:size]

    @cached_property
    def _columns(self) -> list[list[Any]]:
        # All rows at once, since converting one by one takes several times as long. By column, because a tuple per row
        # would be work for the garbage collector, which a few hundred per batch make look at all objects of JAX.
        return [*self.shapes.T.tolist(), self.partial.tolist(), *self.regions.T.tolist()]

    def extent(self, row: int) -> tuple[tuple[int, ...], Region | None]:
        """Return shape and region of an image, for `decode_region`."""
        heights, widths, channels, partial, tops, bottoms, lefts, rights = self._columns
        region = Region(tops[row], bottoms[row], lefts[row], rights[row]) if partial[row] else None
        return (heights[row], widths[row], channels[row]), region


class EncodedImages:
    """Images in files, decoded into scratch memory.

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
        self._passes, self._decoder = passes, decoder
        # Codecs write uint8. For other dtypes they allocate the pixels, which are then converted into the memory.
        self._direct = passes.passes[0].input_dtype == np.uint8
        self._files = list(files)
        # Batches of equal sizes share their prepared passes. If images are decoded whole, the sizes decide where, and
        # choosing it again for each batch of small images would take a fifth of the time that is not decoding.
        key, places = scratch.derived
        if key is not prepared:
            places = DecodedPlaces(passes, prepared, decoder, scratch)
            if places.source.values.nbytes <= CACHE and not places.partial.any():
                scratch.derived = prepared, places
            else:  # the last places may keep memory that the thread has replaced
                scratch.derived = None, None
        self._places: DecodedPlaces = places
        self._decode_directly = decoder.direct_decoding(self._files, passes.headers, places.unreduced)

    def groups(self) -> list[slice]:
        """Return groups whose decoded pixels fit into the cache."""
        return self._places.groups

    def load(self, group: slice) -> StridedImages:
        """Decode the files of a group.

        Raises:
            ValueError: A file is damaged.
        """
        places, large = self._places, None
        memory: Mapping[int, Any] | Sequence[Any] = places.memory
        if memory[group.start] is None:
            large = places.take_large(group.start, self.scratch)
            memory = {group.start: large}
        rows = range(group.start, group.stop)
        for row in self._decode_directly(memory, rows) if self._direct else rows:
            into, (shape, region) = memory[row], places.extent(row)
            header, reduction = self._passes.headers[row], self._passes.reductions[row]
            pixels = self._decoder.decode_region(
                self._files[row], header, region, into if self._direct else None, reduction
            )
            if pixels.shape != shape:
                # Loops check no bounds: other shapes would make them read the pixels of another image.
                actual, expected = (" x ".join(map(str, extents)) for extents in (pixels.shape, shape))
                raise ValueError(f"damaged: the pixels are {actual}, but the header announces {expected}")
            if not _fills(pixels, into):
                into.reshape(shape)[:] = pixels
        source = places.source
        return source if large is None else StridedImages(large, source.starts, source.strides)

    def loading(self) -> Loading | None:
        """Return the loop of the decoder that decodes many files."""
        decode = self._decode_directly
        if not (self._direct and isinstance(decode, LoopDecoding) and LoopChain.pays_off(len(self._files))):
            return None
        found = decode.loop(self._places.memory)
        return found and Loading(*found, self._places.source)


def _choose_regions(
    passes: Passes, prepared: PreparedPasses, decoder: ImageDecoder
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Choose the region of each image that is decoded.

    Returns:
        The regions, (rows, 4) in the order of `Region`; and per row, True if it is not the whole image.
    """
    headers, reductions = passes.headers, np.array(passes.reductions)
    regions = prepared.read_regions
    # The extents of the image itself: `end` of a resampled axis is where the window of a crop before it ends.
    extents = -(-headers.shapes[:, :2] // reductions[:, None])
    partial = (regions[:, ::2] > 0).any(axis=1) | (regions[:, 1::2] < extents).any(axis=1)
    parts = np.flatnonzero(partial)
    if len(parts):
        regions = regions.copy()
        regions[parts] = decoder.regions_to_decode(headers.take(parts), regions[parts], reductions[parts])
        partial = (regions[:, 1::2] - regions[:, ::2] < extents).any(axis=1)
    return regions, partial


def decode_rows(files: Iterable[Array], headers: ImageHeaders, decoder: ImageDecoder, out: Array | None) -> Column:
    """Decode whole images, straight into the batch if possible.

    Args:
        files: Bytes of the files.
        headers: Headers of the files.
        decoder: Decoder of the files.
        out: Memory for the pixels, (rows, ...), if all images have one shape. None: allocate it.
    """
    files = list(files)
    # Codecs write uint8 into contiguous memory; other pixels are copied or converted into the batch.
    memory: list[Any] = [None] * len(files)
    if out is None and len(files) > 1:
        # One array for all, which can be used again, and which operators on the images read in place.
        ends = headers.shapes.prod(axis=1).cumsum()
        memory = np.split(result_memory.take(int(ends[-1])), ends[:-1])
    elif out is not None and out.dtype == np.uint8 and out.flags.c_contiguous:
        memory = list(out.reshape(len(out), -1))
    rest: Sequence[int] = range(len(files))
    if memory[0] is not None:
        rest = decoder.direct_decoding(files, headers, headers.whole)(memory, range(len(files)))
    column = memory if out is None else out
    if out is None and memory[0] is not None:
        column = [place.reshape(shape) for place, shape in zip(memory, headers.shapes.tolist(), strict=True)]
    for row in rest:
        pixels = decoder.decode_region(files[row], headers[row], None, memory[row], 1)
        if out is None or memory[row] is None or not _fills(pixels, memory[row]):
            column[row] = pixels
    return column


def reduce_images(pass_: Pass, headers: ImageHeaders) -> list[int]:
    """Choose the scale at which each image is decoded, and adapt the pass that resamples it.

    Returns:
        Per row 1, 2, 4 or 8: the largest for which the decoded image is not smaller than the resampled one.
    """
    axes = [spatial_axis(pass_, letter) for letter in "HW"]
    shrink = np.min([np.abs(a.numbers.high - a.numbers.low) / a.numbers.size for a in axes], axis=0)
    reductions = np.where(headers.numbers[:, FRAME] > 0, 2 ** np.clip(np.floor(np.log2(shrink)), 0, 3), 1).astype(
        np.int64
    )
    # libjpeg divides a stored axis from its start, so that the last of its pixels may stand for fewer pixels.
    mirrors = mirrored_axes(headers.numbers[:, ORIENTATION])
    for axis, mirrored, extent in zip(axes, mirrors, headers.shapes.T, strict=False):
        axis.numbers = downscaled(axis.numbers, reductions, np.where(mirrored, -extent % reductions, 0))
    return reductions.tolist()


def _fills(pixels: Array, memory: Array) -> bool:
    """Return True if a decoder wrote the image into the memory it was given, completely and in order.

    A rotated or mirrored image is a view with other strides. May be False for an image that is in the memory.
    """
    return pixels.base is memory.base and pixels.size == memory.size and pixels.flags.c_contiguous
