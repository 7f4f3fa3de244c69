"""Numbering of samples over several parts, one part after the other."""

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from penstock.core import Indices


def grouped(numbers: Indices) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """Yield each number that occurs, with its places in ascending order."""
    places = np.argsort(numbers, kind="stable")
    present, firsts = np.unique(numbers[places], return_index=True)
    yield from zip(present.tolist(), np.split(places, firsts[1:]), strict=True)


class PartOffsets:
    """Offsets of parts, such as files, whose samples are numbered one part after the other.

    Args:
        sizes: Number of samples per part.

    Attributes:
        starts: int64, number of the first sample of each part, then the number of all samples.

    >>> parts = PartOffsets([2, 0, 3])
    >>> len(parts), parts.locate(2), [(part, inner.tolist()) for part, _, inner in parts.split(np.array([4, 0, 3]))]
    (5, (2, 0), [(0, [0]), (2, [2, 1])])
    """

    def __init__(self, sizes: Iterable[int]) -> None:
        self.starts: Indices = np.cumsum([0, *sizes])

    def __len__(self) -> int:
        return int(self.starts[-1])

    def owners(self, indices: Indices) -> Indices:
        """Return the part of each sample."""
        return np.searchsorted(self.starts, indices, side="right") - 1

    def locate(self, index: int) -> tuple[int, int]:
        """Return the part of a sample, and the number of the sample in it."""
        part = int(np.searchsorted(self.starts, index, side="right")) - 1
        return part, index - int(self.starts[part])

    def split(self, indices: Indices) -> Iterator[tuple[int, NDArray[np.intp], Indices]]:
        """Yield each part that has any of the samples, their places in `indices`, and their numbers in the part."""
        for part, places in grouped(self.owners(indices)):
            yield part, places, indices[places] - self.starts[part]
