"""What a chain of image operators does with images in memory: passes, over as many rows as stay in the cache."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core.columns import Array, Column, RowSelection
from penstock.image.describe.pixel_pass import Pass
from penstock.image.execute.pass_executor import PassExecutor
from penstock.image.execute.value_pass import BYTE, FLOAT
from penstock.image.kernels.scratch_memory import ScratchMemory
from penstock.image.kernels.strided_images import StridedImages, is_contiguous

CACHE = 1 << 18
"""Bytes that stay in a core's cache: several small images go through all passes together, a large one alone."""


class RowExecution:
    """What becomes of images in memory.

    Args:
        data: the images, a dense batch or a list.
        passes: what to do.
        scratch: memory that is used again.
    """

    def __init__(self, data: Column | RowSelection, passes: Sequence[Pass], scratch: ScratchMemory) -> None:
        self._data, self.passes, self._scratch = data, passes, scratch

    @property
    def shapes(self) -> NDArray[np.int64]:
        """The shape of each row's result."""
        return self.passes[-1].shapes

    def compute(self, out: Array | None) -> Column:
        """Do all passes, over as many rows at once as stay in the cache."""
        if out is not None:
            self._compute(StridedImages.of_batch(out))
            return out
        shapes = self.shapes
        made = np.empty(int(shapes.prod(axis=1).sum()), self.passes[-1].dtype)
        target = StridedImages.packed(made, shapes)
        self._compute(target)
        ends = np.append(target.starts[1:], made.size).tolist()
        pairs = zip(target.starts.tolist(), ends, shapes.tolist(), strict=True)
        return [made[start:end].reshape(shape) for start, end, shape in pairs]

    def _compute(self, target: StridedImages) -> None:
        data = self._data
        if isinstance(data, RowSelection) and not (data.array.dtype in (BYTE, FLOAT) and is_contiguous(data.array)):
            data = data.gather()  # what is converted first is converted whole
        if not isinstance(data, list):
            source, rows = _memory_of(data), len(data)
            step = rows if len(self.passes) == 1 else self._together(rows)
            groups = [slice(start, min(start + step, rows)) for start in range(0, rows, step)]
            passes = self._bound(source, target, groups)
            for some in groups:
                for each in passes:
                    each(some)
        else:
            visit = self._visiting(target)
            for some in cache_groups([image.nbytes for image in data]):
                visit(some, self._gather(data[some]))

    def _gather(self, images: Sequence[Array]) -> StridedImages:
        """Small images, one after the other in scratch memory; a large one where it is."""
        shapes = np.array([image.shape for image in images], np.int64)
        if len(images) == 1:
            return StridedImages.packed(np.ascontiguousarray(images[0]).reshape(-1), shapes)
        dtype = images[0].dtype
        values = self._scratch.take(2, int(shapes.prod(axis=1).sum()) * dtype.itemsize).view(dtype)
        if (shapes[:, 1:] == shapes[0, 1:]).all():  # as they are, which is faster
            entries = int(shapes[:, 0].sum())
            values = values[: entries * int(shapes[0, 1:].prod())]
            np.concatenate(images, out=values.reshape(entries, *shapes[0, 1:]))
            return StridedImages.packed(values, shapes)
        flat = [image.reshape(-1) for image in images]
        return StridedImages.packed(np.concatenate(flat, out=values[: sum(map(len, flat))]), shapes)

    def _together(self, rows: int) -> int:
        """How many rows go through several passes together."""
        between = max(int(each.shapes.prod(axis=1).max()) * each.dtype.itemsize for each in self.passes[:-1])
        return max(1, min(rows, CACHE // max(between, 1)))

    def _bound(
        self, source: StridedImages, target: StridedImages, groups: Sequence[slice]
    ) -> list[Callable[[slice], None]]:
        """All passes, as functions that do them for the rows of a group.

        Args:
            source: where the images of all rows are, or will be when their group comes.
            target: where results go, for all rows.
            groups: runs of rows that go through all passes together, in scratch memory that the next group uses again.
        """
        *first, last = self.passes
        made: list[Callable[[slice], None]] = []
        for number, each in enumerate(first):
            between = self._shared(number % 2, each.dtype, each.shapes, groups)
            made.append(_bound_pass(each, source, between))
            source = between
        return [*made, _bound_pass(last, source, target)]

    def _shared(
        self, number: int, dtype: np.dtype[Any], shapes: NDArray[np.int64], groups: Sequence[slice]
    ) -> StridedImages:
        """Scratch memory in which the images of each group lie one after the other.

        Args:
            number: of the scratch memory.
            dtype: of the images.
            shapes: of all rows.
            groups: runs of rows, all of them.
        """
        ends = shapes.prod(axis=1).cumsum()
        before = np.array([ends[group.start - 1] if group.start else 0 for group in groups], np.int64)
        starts = np.append(0, ends[:-1]) - np.repeat(before, [group.stop - group.start for group in groups])
        most = int(np.diff(before, append=ends[-1:]).max(initial=0))
        values = self._scratch.take(number, most * dtype.itemsize).view(dtype)
        return StridedImages.packed(values, shapes, starts)

    def _visiting(self, target: StridedImages) -> Callable[[slice, StridedImages], None]:
        """A function that does all passes over some rows: given which, and the images of these rows alone.

        Args:
            target: where results go, for all rows.
        """
        *first, last = self.passes
        final = PassExecutor(last, target)

        def visit(some: slice, given: StridedImages) -> None:
            for number, each in enumerate(first):
                work = each.take(some)
                shapes = work.shapes
                size = int(shapes.prod(axis=1).sum()) * work.dtype.itemsize
                made = StridedImages.packed(self._scratch.take(number % 2, size).view(work.dtype), shapes)
                _bound_pass(work, given, made)(slice(0, work.rows))
                given = made
            final.bind(given, some)
            final.run(some)

        return visit


def _bound_pass(work: Pass, source: StridedImages, target: StridedImages) -> Callable[[slice], None]:
    executor = PassExecutor(work, target)
    executor.bind(source, slice(0, work.rows))
    return executor.run


def _memory_of(images: Array | RowSelection) -> StridedImages:
    """A dense batch where it is."""
    if isinstance(images, RowSelection):
        return StridedImages.of_batch(images.array, images.indices)
    return StridedImages.of_batch(images if is_contiguous(images) else np.ascontiguousarray(images))


def cache_groups(sizes: Sequence[int]) -> Iterator[slice]:
    """Runs of rows that stay in the cache together, given the bytes of each row; at least one row each."""
    ends = list(accumulate(sizes))
    start, before = 0, 0
    while start < len(ends):
        end = max(start + 1, bisect_right(ends, before + CACHE))
        yield slice(start, end)
        start, before = end, ends[end - 1]
