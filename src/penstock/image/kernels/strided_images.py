"""Images in flat memory, as compiled loops take them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from penstock.core.columns import Array


@dataclass(slots=True)
class StridedImages:
    """Images in flat memory.

    Args:
        values: the memory, one-dimensional.
        starts: per row the element in which its image begins, int64.
        strides: per row the distance between neighbours along each axis, in elements, int64 (rows, axes).
    """

    values: Array
    starts: NDArray[np.int64]
    strides: NDArray[np.int64]

    @staticmethod
    def of_batch(images: Array, picked: NDArray[np.int64] | None = None) -> StridedImages:
        """A dense batch where it is, or some of its rows. It must be one piece of memory, in any order of its axes."""
        strides = tuple([stride // images.dtype.itemsize for stride in images.strides])
        starts, distances = _places(len(images) if picked is None else len(picked), strides)
        return StridedImages(_flat(images), starts if picked is None else picked * strides[0], distances)

    @staticmethod
    def packed(values: Array, shapes: NDArray[np.int64], starts: NDArray[np.int64] | None = None) -> StridedImages:
        """Images one after the other, or from `starts` on, each without gaps."""
        sizes = np.cumprod(np.concatenate([np.ones((len(shapes), 1), np.int64), shapes[:, ::-1]], axis=1), axis=1)
        if starts is None:
            starts = np.cumsum(sizes[:, -1]) - sizes[:, -1]
        return StridedImages(values, starts, np.ascontiguousarray(sizes[:, -2::-1]))

    def of(self, rows: slice | NDArray[np.int64]) -> StridedImages:
        """Some of the rows."""
        if isinstance(rows, slice) and rows == slice(0, len(self.starts)):
            return self
        return StridedImages(self.values, self.starts[rows], self.strides[rows])


@lru_cache(maxsize=64)
def _places(rows: int, strides: tuple[int, ...]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where the images of a dense batch begin, and the distances along their axes, which are the same for all."""
    starts, distances = np.arange(rows) * strides[0], np.empty((rows, len(strides) - 1), np.int64)
    distances[:] = strides[1:]
    starts.flags.writeable = distances.flags.writeable = False
    return starts, distances


def _flat(images: Array) -> Array:
    """The memory of an array, in the order in which it lies, without a copy."""
    order = sorted(range(images.ndim), key=lambda axis: -images.strides[axis])
    return images.transpose(order).reshape(-1)


def is_contiguous(images: Array) -> bool:
    """Whether an array is all of one piece of memory, in some order of its axes."""
    order = sorted(range(images.ndim), key=lambda axis: -images.strides[axis])
    return images.transpose(order).flags.c_contiguous
