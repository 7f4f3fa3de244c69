"""A chain of image operators: described for some rows, then executed."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from penstock.data.source import Array, Column
from penstock.graph.operator import Chain, Link
from penstock.operators.image.axis import footprint, reduced
from penstock.operators.image.compose import Axis, Pass, Visit
from penstock.operators.image.packing import ImageCanvas
from penstock.operators.image.rows import Memory, execute, in_one_piece
from penstock.operators.image.steps import Images

if TYPE_CHECKING:
    from penstock.operators.image.operator import ImageDecoder, ImageOperator

_CACHE = 1 << 18
"""Bytes that stay in a core's cache: several small images go through all passes together, a large one alone."""

_KEPT = 1 << 26
"""Scratch memory above this size is not held on to: one huge image would keep it taken for good."""


class ImageChain(Chain):
    """Image operators, perhaps behind a decoder."""

    def __init__(self, links: Sequence[Link]) -> None:
        self._links = links
        operators: list[Any] = [link.operator for link in links]
        self._decoder: ImageDecoder | None = operators.pop(0) if operators[0].heads else None
        self._operators: list[ImageOperator] = operators
        first = links[0].made if self._decoder else links[0].given
        self._layout = first.layout or next((each.assumed_layout for each in operators), "")
        self._ndim, self._dtype = len(first.shape), first.dtype
        self._scratch = _Scratch()

    def describe(self, data: Column, arguments: Sequence[Mapping[str, Any]], bits: Sequence[Any]) -> ImageWork:
        """From the images' sizes, or the headers of files, to passes."""
        headers: list[Any] = []
        if self._decoder is not None:
            headers = [self._decoder.header(each) for each in data]
            sizes = np.array([(h.height, h.width, h.channels) for h in headers], np.int64)
            arguments, bits = arguments[1:], bits[1:]
        elif isinstance(data, np.ndarray):
            sizes = np.broadcast_to(np.array(data.shape[1:], np.int64), (len(data), data.ndim - 1))
        else:
            sizes = np.array([each.shape for each in data], np.int64)
        visit = Visit(sizes.reshape(len(data), self._ndim), self._layout, self._dtype)
        for operator, given, random in zip(self._operators, arguments, bits, strict=True):
            visit.add(operator.describe(Images(np, len(data), visit.sizes, visit.dtype), random, **given))
        passes = _needed(visit.passes)
        if self._decoder is None:
            return ImageWork(data, passes, self._scratch)
        return DecodingWork(data, passes, self._scratch, self._decoder, headers)

    def trace(self, data: Any, arguments: Sequence[Mapping[str, Any]], bits: Sequence[Any]) -> Any:
        """Described with NumPy where nothing varies from row to row, else with JAX; executed by XLA."""
        import jax.numpy as jnp  # noqa: PLC0415  # for the device program alone

        from penstock.operators.image.canvas import execute as execute_canvas  # noqa: PLC0415  # likewise

        sizes = np.array([self._links[0].given.sizes], np.int32)
        visit = Visit(sizes, self._layout, self._dtype, jnp)
        for link, operator, given, random in zip(self._links, self._operators, arguments, bits, strict=True):
            varies = random is not None or not all(isinstance(value, np.ndarray) for value in given.values())
            sizes = [np.array([size], np.int32) for size in link.given.sizes]
            images = Images(jnp if varies else np, data.shape[0] if varies else 1, sizes, visit.dtype)
            visit.add(operator.describe(images, random, **given))
            visit.settle(link.made.sizes)
        return execute_canvas(visit.passes, data)

    def canvas(self, arguments: Sequence[Mapping[str, Any]]) -> ImageCanvas:
        """How the device program executes it with numbers from the host."""
        limits = self._links[0].given.limits
        if self._decoder is not None or limits is None:
            raise ValueError("its input has no largest size")
        visit = Visit(np.array([limits], np.int64), self._layout, self._dtype)
        for link, operator, given in zip(self._links, self._operators, arguments, strict=True):
            bits = np.zeros((1, operator.random_bits), np.uint32) if operator.random_bits else None
            before = len(visit.passes)
            visit.add(operator.describe(Images(np, 1, visit.sizes, visit.dtype), bits, **given))
            made = link.made.limits
            for each in visit.passes[before - 1 : -1]:
                sizes = each.shapes[0].tolist()
                if not limits or not all(
                    size in known for size, *known in zip(sizes, limits, made or limits, strict=True)
                ):
                    raise ValueError("what lies between its passes has no largest size")
            limits = made
            if limits is not None:
                visit.settle(limits)
        return ImageCanvas(_needed(visit.passes), self._links[0].given.limits or ())


def _needed(passes: list[Pass]) -> list[Pass]:
    return passes if len(passes) == 1 or not passes[-1].idle else passes[:-1]


class ImageWork:
    """What becomes of images in memory.

    Args:
        data: the images, a dense batch or a list.
        passes: what to do.
        scratch: memory that is used again.
    """

    def __init__(self, data: Column, passes: Sequence[Pass], scratch: _Scratch) -> None:
        self._data, self.passes, self._scratch = data, passes, scratch

    @property
    def shapes(self) -> NDArray[np.int64]:
        """The shape of each row's result."""
        return self.passes[-1].shapes

    def compute(self, out: Array | None) -> Column:
        """Do all passes, over as many rows at once as stay in the cache."""
        if out is not None:
            self._compute(Memory.of_batch(out))
            return out
        shapes = self.shapes
        made = np.empty(int(shapes.prod(axis=1).sum()), self.passes[-1].dtype)
        target = Memory.packed(made, shapes)
        self._compute(target)
        ends = np.append(target.starts[1:], made.size).tolist()
        pairs = zip(target.starts.tolist(), ends, shapes.tolist(), strict=True)
        return [made[start:end].reshape(shape) for start, end, shape in pairs]

    def _compute(self, target: Memory) -> None:
        if isinstance(self._data, np.ndarray):
            images = self._data if in_one_piece(self._data) else np.ascontiguousarray(self._data)
            source, rows = Memory.of_batch(images), len(images)
            step = rows if len(self.passes) == 1 else self._together(rows)
            for start in range(0, rows, step):
                self._visit(slice(start, min(start + step, rows)), source, target)
        else:
            for row, image in enumerate(self._data):
                values = np.ascontiguousarray(image)
                source = Memory.packed(values.reshape(-1), np.array([values.shape], np.int64))
                self._visit(slice(row, row + 1), source, target, alone=True)

    def _together(self, rows: int) -> int:
        """How many rows go through several passes together."""
        between = max(int(each.shapes.prod(axis=1).max()) * each.dtype.itemsize for each in self.passes[:-1])
        return max(1, min(rows, _CACHE // max(between, 1)))

    def _visit(self, rows: slice, source: Memory, target: Memory, *, alone: bool = False) -> None:
        """All passes over some rows.

        Args:
            rows: which.
            source: the images, of all rows, or of these alone.
            target: where results go, for all rows.
            alone: whether `source` holds these rows alone.
        """
        given = source if alone else source.of(rows)
        last = len(self.passes) - 1
        for number, each in enumerate(self.passes):
            work = each.of(rows)
            made = target.of(rows)
            if number < last:
                shapes = work.shapes
                size = int(shapes.prod(axis=1).sum()) * work.dtype.itemsize
                values = self._scratch.take(number % 2, size).view(work.dtype)
                made = Memory.packed(values, shapes)
            execute(work, given, made)
            given = made


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
        self, data: Column, passes: Sequence[Pass], scratch: _Scratch, decoder: ImageDecoder, headers: Sequence[Any]
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
        for row, (data, header) in enumerate(zip(self._data, self._headers, strict=True)):
            whole = (0, 0, header.height, header.width)
            memory = out[row].reshape(-1) if out is not None and out.dtype == np.uint8 else None
            pixels, _, _ = self._decoder.decode(data, header, whole, memory, 1)
            if out is None:
                made.append(pixels)
            elif memory is None or not np.may_share_memory(pixels, memory):
                out[row] = pixels
        return made if out is None else out

    def _compute(self, target: Memory) -> None:
        if self._decoder.reduced and self.passes[0].resampled:
            self._reduce()
        tops, bottoms = footprint(self._axis("H").numbers)
        lefts, rights = footprint(self._axis("W").numbers)
        regions = np.stack([tops, lefts, bottoms, rights], axis=1).tolist()
        sizes = [header.height * header.width * header.channels for header in self._headers]
        row, rows = 0, len(sizes)
        while row < rows:
            end, total = row + 1, sizes[row]
            while end < rows and total + sizes[end] <= _CACHE and self.passes[0].reads == np.uint8:
                total += sizes[end]
                end += 1
            self._decode_group(row, end, total, regions, sizes, target)
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
        self, begin: int, end: int, total: int, regions: Sequence[Any], sizes: Sequence[int], target: Memory
    ) -> None:
        """Decode some rows, and do all passes over them; they are one row where that is large."""
        arena = self._scratch.take(2, total)
        shapes: list[Any] = []
        starts: list[int] = []
        offset, values = 0, arena
        for row in range(begin, end):
            memory = arena[offset : offset + sizes[row]]
            reduce = int(self._reductions[row])
            pixels, top, left = self._decoder.decode(self._data[row], self._headers[row], regions[row], memory, reduce)
            _check_covers(pixels, top, left, regions[row], self._headers[row].channels)
            inside = np.may_share_memory(pixels, memory) and pixels.flags.c_contiguous
            if not inside and end - begin == 1:
                values, at = np.ascontiguousarray(pixels).reshape(-1), 0
            elif not inside:
                part = arena[offset : offset + pixels.size]
                part.reshape(pixels.shape)[:] = pixels
                at = offset
            else:
                at = (pixels.ctypes.data - arena.ctypes.data) // 1
            starts.append(at - (top * pixels.shape[1] + left) * pixels.shape[2])
            shapes.append(pixels.shape)
            offset += sizes[row]
        source = Memory.packed(values, np.array(shapes, np.int64), np.array(starts, np.int64))
        self._visit(slice(begin, end), source, target, alone=True)


def _check_covers(pixels: Array, top: int, left: int, region: Sequence[int], channels: int) -> None:
    """Check that the decoder gives what the header announced: what is beyond would be read from foreign memory."""
    first_row, first_column, end_row, end_column = region
    height, width, count = pixels.shape
    rows, columns = top <= first_row and end_row <= top + height, left <= first_column and end_column <= left + width
    if not rows or not columns or count != channels:
        raise ValueError(f"damaged: the pixels are {height} x {width} x {count}, the header says otherwise")


class _Scratch(threading.local):
    """Memory of one chain on one thread, used again for one group of rows after the other."""

    def __init__(self) -> None:
        self._memory: dict[int, NDArray[np.uint8]] = {}

    def take(self, number: int, size: int) -> NDArray[np.uint8]:
        """`size` bytes, uninitialised, valid until the same number is taken again."""
        size = -(-size // 8) * 8
        if size > _KEPT:
            return np.empty(size, np.uint8)
        memory = self._memory.get(number)
        if memory is None or memory.size < size:
            memory = self._memory[number] = np.empty(max(size, 2 * (0 if memory is None else memory.size)), np.uint8)
        return memory[:size]
