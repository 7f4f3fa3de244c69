"""Images in flat memory, the form in which compiled loops receive them."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from penstock.core import Array
from penstock.core.dataclass import dataclass


@dataclass(slots=True)
class StridedImages:
    """Images in flat memory.

    Args:
        values: One-dimensional memory.
        starts: int64 (rows,), offset of each image's first element.
        strides: int64 (rows, axes), distance between neighbors along each axis, in elements.
    """

    values: Array
    starts: NDArray[np.int64]
    strides: NDArray[np.int64]

    @staticmethod
    def of_batch(images: Array, picked: NDArray[np.int64] | None = None) -> StridedImages:
        """Wrap a dense batch, or some of its rows, without a copy.

        The batch must be contiguous in some order of its axes.
        """
        strides = tuple([stride // images.dtype.itemsize for stride in images.strides])
        starts, distances = _places(len(images) if picked is None else len(picked), strides)
        return StridedImages(
            _in_memory_order(images).reshape(-1), starts if picked is None else picked * strides[0], distances
        )

    @staticmethod
    def packed(values: Array, shapes: NDArray[np.int64], starts: NDArray[np.int64] | None = None) -> StridedImages:
        """Wrap images that follow each other, or that begin at `starts`, each without gaps."""
        sizes = np.cumprod(np.concatenate([np.ones((len(shapes), 1), np.int64), shapes[:, ::-1]], axis=1), axis=1)
        if starts is None:
            starts = np.cumsum(sizes[:, -1]) - sizes[:, -1]
        return StridedImages(values, starts, np.ascontiguousarray(sizes[:, -2::-1]))

    def of(self, rows: slice | NDArray[np.int64]) -> StridedImages:
        """Select some of the rows."""
        if isinstance(rows, slice) and rows == slice(0, len(self.starts)):
            return self
        return StridedImages(self.values, self.starts[rows], self.strides[rows])


# Batches of one shape recur at every step, and small images make this arithmetic noticeable. The cached arrays are
# shared, so they are read-only.
@lru_cache(maxsize=64)
def _places(rows: int, strides: tuple[int, ...]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the offsets and strides of the images of a dense batch. All images have the same strides."""
    starts, distances = np.arange(rows) * strides[0], np.empty((rows, len(strides) - 1), np.int64)
    distances[:] = strides[1:]
    starts.flags.writeable = distances.flags.writeable = False
    return starts, distances


def _in_memory_order(images: Array) -> Array:
    """Return a view whose axes are in the order of the memory, the one with the largest stride first."""
    return images.transpose(sorted(range(images.ndim), key=lambda axis: -images.strides[axis]))


def is_contiguous(images: Array) -> bool:
    """Return True if the array's memory is contiguous in some order of its axes."""
    return _in_memory_order(images).flags.c_contiguous
