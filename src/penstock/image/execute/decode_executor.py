"""What a chain of image operators does with encoded images: it decodes what will be read, and goes on from there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from penstock.core.columns import Array, Column, RowSelection
from penstock.image.codecs.image_header import Region
from penstock.image.describe.axis_mapping import downscaled, read_range
from penstock.image.describe.pixel_pass import Pass, PassAxis
from penstock.image.execute.row_executor import RowExecution, cache_groups
from penstock.image.kernels.scratch_memory import ScratchMemory
from penstock.image.kernels.strided_images import StridedImages

if TYPE_CHECKING:
    from penstock.image.image_operator import ImageDecoder


class DecodeExecution(RowExecution):
    """What becomes of encoded images: decoded one by one into scratch memory, and executed from there.

    Args:
        data: the files.
        passes: what to do.
        scratch: memory that is used again.
        decoder: from bytes to pixels.
        headers: what the files' headers say.
    """

    def __init__(
        self,
        data: Column | RowSelection,
        passes: Sequence[Pass],
        scratch: ScratchMemory,
        decoder: ImageDecoder,
        headers: Sequence[Any],
    ) -> None:
        super().__init__(data, passes, scratch)
        self._decoder, self._headers = decoder, headers
        self._reductions = [1] * len(headers)

    def compute(self, out: Array | None) -> Column:
        """Decode and execute; where nothing is left to do, decode straight into the batch."""
        if len(self.passes) == 1 and self.passes[0].is_identity:
            return self._decode_only(out)
        return super().compute(out)

    def _decode_only(self, out: Array | None) -> Column:
        made: list[Array] = []
        batch = out if out is not None and out.dtype == np.uint8 and out.flags.c_contiguous else None
        places = [None] * len(self._headers) if batch is None else list(batch.reshape(len(batch), -1))
        for row, (data, header, memory) in enumerate(zip(self._data, self._headers, places, strict=True)):
            whole = Region(0, header.height, 0, header.width)
            pixels = self._decoder.decode_region(data, header, whole, memory, 1)
            if out is None:
                made.append(pixels)
            elif memory is None or not _fills(pixels, memory):
                out[row] = pixels
        return made if out is None else out

    def _compute(self, target: StridedImages) -> None:
        if self._decoder.reduced and self.passes[0].resampled:
            self._reduce()
        parts = self._parts()
        extents = parts[:, 1::2] - parts[:, ::2]
        shapes = np.column_stack([extents, [header.channels for header in self._headers]])
        sizes = shapes.prod(axis=1).tolist()
        dtype = self.passes[0].input_dtype
        groups = list(cache_groups([size * dtype.itemsize for size in sizes]))
        source = self._shared(2, dtype, shapes, groups)
        arena, begins = source.values, source.starts.tolist()
        source.starts = source.starts - (parts[:, ::2] * source.strides[:, :2]).sum(axis=1)
        passes = self._bound(source, target, groups)
        memory = [arena[begin : begin + size] for begin, size in zip(begins, sizes, strict=True)]
        regions, pixels = [Region._make(row) for row in parts.tolist()], [tuple(shape) for shape in shapes.tolist()]
        for group in groups:
            self._decode(group, regions, pixels, memory)
            for each in passes:
                each(group)

    def _axis(self, letter: str) -> PassAxis:
        return next(axis for axis in self.passes[0].axes if axis.letter == letter)

    def _reduce(self) -> None:
        """Choose at which part of its size each image is decoded: one that is not smaller than what is made of it."""
        axes = [self._axis(letter) for letter in "HW"]
        shrink = np.min([np.abs(a.numbers.high - a.numbers.low) / a.numbers.size for a in axes], axis=0)
        possible = np.array([header.reducible for header in self._headers])
        reductions = np.where(possible, 2 ** np.clip(np.floor(np.log2(shrink)), 0, 3), 1).astype(np.int64)
        for axis in axes:
            axis.numbers = downscaled(axis.numbers, reductions)
        self._reductions = reductions.tolist()

    def _parts(self) -> NDArray[np.int64]:
        """Per row what is decoded, that is at least what will be read: top, bottom, left, right."""
        (tops, bottoms), (lefts, rights) = (read_range(self._axis(letter).numbers) for letter in "HW")
        parts = np.stack([tops, bottoms, lefts, rights], axis=1)
        # the image's own size: an axis that is resampled ends where its window does
        sizes = np.array([(header.height, header.width) for header in self._headers])
        sizes = -(-sizes // np.array(self._reductions)[:, None])
        smaller = (tops > 0) | (lefts > 0) | (parts[:, 1::2] < sizes).any(axis=1)
        for row in np.flatnonzero(smaller).tolist():
            region = Region._make(parts[row].tolist())
            parts[row] = self._decoder.region_to_decode(self._headers[row], region, self._reductions[row])
        return parts

    def _decode(self, group: slice, parts: Sequence[Any], shapes: Sequence[Any], memory: Sequence[Array]) -> None:
        """Decode the images of a group, each into its memory.

        Args:
            group: which rows these are.
            parts: per row which part is decoded.
            shapes: per row the shape of its pixels.
            memory: per row where they go.
        """
        given = zip(self._data[group], self._headers[group], self._reductions[group], strict=True)
        made = zip(parts[group], shapes[group], memory[group], strict=True)
        decode, bytes_alone = self._decoder.decode_region, self.passes[0].input_dtype == np.uint8
        for (data, header, reduction), (part, shape, place) in zip(given, made, strict=True):
            pixels = decode(data, header, part, place if bytes_alone else None, reduction)
            if pixels.shape != shape:  # what is beyond would be another image's
                found, expected = (" x ".join(map(str, each)) for each in (pixels.shape, shape))
                raise ValueError(f"damaged: the pixels are {found}, and the header announces {expected}")
            if not _fills(pixels, place):
                place.reshape(shape)[:] = pixels


def _fills(pixels: Array, memory: Array) -> bool:
    """Whether an image lies in the memory that its decoder was given, all of it, in order.

    A turned image does not: it is a view with other strides. May be false where it does lie there.
    """
    return pixels.base is memory.base and pixels.size == memory.size and pixels.flags.c_contiguous
