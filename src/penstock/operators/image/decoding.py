"""What a chain of image operators does with encoded images: it decodes what will be read, and goes on from there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from penstock.data.source import Array, Column
from penstock.operators.image.axis import footprint, reduced
from penstock.operators.image.memory import Memory
from penstock.operators.image.passes import Axis, Pass
from penstock.operators.image.work import CACHE, ImageWork, Scratch

if TYPE_CHECKING:
    from penstock.operators.image.operator import ImageDecoder


class DecodingWork(ImageWork):
    """What becomes of encoded images: decoded one by one into scratch memory, and executed from there.

    Args:
        data: the files.
        passes: what to do.
        scratch: memory that is used again.
        decoder: from bytes to pixels.
        headers: what the files' headers say.
    """

    def __init__(
        self, data: Column, passes: Sequence[Pass], scratch: Scratch, decoder: ImageDecoder, headers: Sequence[Any]
    ) -> None:
        super().__init__(data, passes, scratch)
        self._decoder, self._headers = decoder, headers
        self._reductions = np.ones(len(headers), np.int64)

    def compute(self, out: Array | None) -> Column:
        """Decode and execute; where nothing is left to do, decode straight into the batch."""
        if len(self.passes) == 1 and self.passes[0].idle:
            return self._decode_only(out)
        return super().compute(out)

    def _decode_only(self, out: Array | None) -> Column:
        made: list[Array] = []
        batch = out if out is not None and out.dtype == np.uint8 and out.flags.c_contiguous else None
        places = [None] * len(self._headers) if batch is None else list(batch.reshape(len(batch), -1))
        for row, (data, header, memory) in enumerate(zip(self._data, self._headers, places, strict=True)):
            whole = (0, 0, header.height, header.width)
            pixels, _, _ = self._decoder.decode(data, header, whole, memory, 1)
            if out is None:
                made.append(pixels)
            elif memory is None or not _fills(pixels, memory):
                out[row] = pixels
        return made if out is None else out

    def _compute(self, target: Memory) -> None:
        if self._decoder.reduced and self.passes[0].resampled:
            self._reduce()
        tops, bottoms = footprint(self._axis("H").numbers)
        lefts, rights = footprint(self._axis("W").numbers)
        regions = np.stack([tops, lefts, bottoms, rights], axis=1)
        announced = [(0, 0, (each.height, each.width, each.channels)) for each in self._headers]
        sizes = [height * width * channels for _, _, (height, width, channels) in announced]
        visit = self._visiting(target)
        row, rows = 0, len(sizes)
        while row < rows:
            end, total = row + 1, sizes[row]
            while end < rows and total + sizes[end] <= CACHE and self.passes[0].reads == np.uint8:
                total += sizes[end]
                end += 1
            arena = self._scratch.take(2, total)
            group = slice(row, end)
            source = self._decode_group(group, arena, sizes[group], regions[group], announced[group])
            visit(group, source)
            row = end

    def _axis(self, letter: str) -> Axis:
        return next(axis for axis in self.passes[0].axes if axis.letter == letter)

    def _reduce(self) -> None:
        """Choose at which part of its size each image is decoded: one that is not smaller than what is made of it."""
        axes = [self._axis(letter) for letter in "HW"]
        shrink = np.min([np.abs(a.numbers.high - a.numbers.low) / a.numbers.size for a in axes], axis=0)
        possible = np.array([header.reducible for header in self._headers])
        self._reductions = np.where(possible, 2 ** np.clip(np.floor(np.log2(shrink)), 0, 3), 1).astype(np.int64)
        for axis in axes:
            axis.numbers = reduced(axis.numbers, self._reductions)

    def _decode_group(
        self, group: slice, arena: Array, sizes: Sequence[int], regions: NDArray[np.int64], announced: Sequence[Any]
    ) -> Memory:
        """Decode some rows into scratch memory; they are one row where that is large.

        Args:
            group: which.
            arena: the memory.
            sizes: per row of the group how much of it is for the whole image.
            regions: per row what will be read: top, left, bottom, right.
            announced: per row what the header says: 0, 0, and the shape.
        """
        reductions = self._reductions[group].tolist()
        rows = zip(self._data[group], self._headers[group], regions.tolist(), sizes, reductions, strict=True)
        found: list[Any] = []
        end, values = 0, arena
        for data, header, region, size, reduce in rows:
            begin, end = end, end + size
            memory = arena[begin:end]
            pixels, top, left = self._decoder.decode(data, header, region, memory, reduce)
            if not _fills(pixels, memory):
                if len(sizes) == 1:
                    values = np.ascontiguousarray(pixels).reshape(-1)
                else:
                    arena[begin : begin + pixels.size].reshape(pixels.shape)[:] = pixels
            found.append((top, left, pixels.shape))
        if found == announced:  # whole images, one after the other
            return Memory.packed(values, np.array([shape for _, _, shape in found], np.int64))
        origins = np.array([(top, left, *shape) for top, left, shape in found], np.int64)
        _check_cover(origins, regions, [shape[2] for _, _, shape in announced])
        begins = (
            np.cumsum(sizes, dtype=np.int64) - sizes - (origins[:, 0] * origins[:, 3] + origins[:, 1]) * origins[:, 4]
        )
        return Memory.packed(values, origins[:, 2:], begins)


def _fills(pixels: Array, memory: Array) -> bool:
    """Whether an image lies in the memory that its decoder was given, all of it, in order.

    A turned image does not: it is a view with other strides. May be false where it does lie there.
    """
    return pixels.base is memory.base and pixels.size == memory.size and pixels.flags.c_contiguous


def _check_cover(found: NDArray[np.int64], regions: NDArray[np.int64], channels: Sequence[int]) -> None:
    """Check that the decoder gives what the headers announced: what is beyond would be read from foreign memory.

    Args:
        found: per row where the pixels begin, top and left, and their height, width and channels.
        regions: per row what will be read: top, left, bottom, right.
        channels: per row how many there are.
    """
    begins, extents = found[:, :2], found[:, 2:4]
    covers = ((begins <= regions[:, :2]) & (regions[:, 2:] <= begins + extents)).all(axis=1)
    for row in np.flatnonzero(~covers | (found[:, 4] != channels))[:1].tolist():
        height, width, count = found[row, 2:].tolist()
        raise ValueError(f"damaged: the pixels are {height} x {width} x {count}, the header says otherwise")
