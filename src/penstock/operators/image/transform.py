"""Transforms: what becomes of whole images where no step says it, such as a warp or a blur.

A transform is computed by a compiled loop of its own on the host, for many images in one call, and by XLA on the
device.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from penstock.data.source import Array

if TYPE_CHECKING:
    from penstock.operators.image.rows import Memory


class Transform(ABC):
    """What becomes of whole images. Subclasses are frozen dataclasses, equal where they do the same."""

    @abstractmethod
    def rows(
        self, source: Memory, given: NDArray[np.int64], terms: Sequence[Any], target: Memory, made: NDArray[np.int64]
    ) -> None:
        """Compute on the host.

        Args:
            source: the images.
            given: their extents, (rows, axes).
            terms: the numbers that the step has, each (rows, n) or (1, n).
            target: where the results go.
            made: their extents.
        """

    @abstractmethod
    def trace(self, images: Any, given: Any, terms: Sequence[Any], made: Any, shape: tuple[int, ...]) -> Any:
        """Compute in the device program, while JAX traces it.

        Args:
            images: a dense batch; where images differ in size, each in the first corner.
            given: the extents of the images, int32 (rows, axes) or (1, axes).
            terms: the numbers that the step has, each (rows, n) or (1, n).
            made: the extents of the results.
            shape: the largest result.

        Returns:
            (rows, *shape); what lies beyond a row's result does not matter.
        """


@dataclass(frozen=True, slots=True)
class Planes:
    """Images as compiled loops take them: planes of rows, columns and channels in flat memory.

    An image has one plane; a sequence one per frame, a volume one per slice.

    Args:
        row: int64 (planes,): which row of the batch each belongs to.
        read: int64 (planes, 4): its first element, and the distances to the next row, column and channel, in elements.
        write: the same for the results.
        given: int64 (planes, 3): height, width and channels as they are read.
        made: the same for the results.
    """

    row: NDArray[np.int64]
    read: NDArray[np.int64]
    write: NDArray[np.int64]
    given: NDArray[np.int64]
    made: NDArray[np.int64]

    @staticmethod
    def of(layout: str, source: Memory, given: NDArray[np.int64], target: Memory, made: NDArray[np.int64]) -> Planes:
        """The planes of some rows.

        Args:
            layout: of the images, with H and W.
            source: the images.
            given: their extents, (rows, axes).
            target: where the results go.
            made: their extents; along other axes than H, W and C they are the images'.
        """
        rows = len(given)
        row = np.arange(rows)
        read, write = (np.zeros((rows, 4), np.int64) for _ in range(2))
        sizes = [np.ones((rows, 3), np.int64) for _ in range(2)]
        for place, memory, size, extents in ((read, source, sizes[0], given), (write, target, sizes[1], made)):
            place[:, 0] = memory.starts
            for at, letter in enumerate("HWC"):
                if letter in layout:
                    place[:, 1 + at] = memory.strides[:, layout.index(letter)]
                    size[:, at] = extents[:, layout.index(letter)]
        for at, letter in enumerate(layout):
            if letter in "HWC" or (given[row, at] == 1).all():
                continue
            counts = given[row, at]
            index = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
            read, write = np.repeat(read, counts, axis=0), np.repeat(write, counts, axis=0)
            row = np.repeat(row, counts)
            read[:, 0] += index * source.strides[row, at]
            write[:, 0] += index * target.strides[row, at]
        return Planes(row, read, write, sizes[0][row], sizes[1][row])

    def term(self, values: Any, dtype: Any = np.float32) -> Array:
        """A term of the step with an entry per plane, contiguous."""
        term = np.asarray(values, dtype)
        return np.ascontiguousarray(np.broadcast_to(term, (1, *term.shape[1:])) if len(term) == 1 else term[self.row])
