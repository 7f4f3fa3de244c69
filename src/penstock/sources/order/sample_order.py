"""Order of the samples in each epoch, as a pure function of seed, epoch and position.

Shuffled indices are never stored: the shuffle is a permutation that is computed per position. 10^12 samples
cost the same as 10^3, and resuming at any position of any epoch takes O(1).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from penstock.core import Indices
from penstock.core.dataclass import dataclass
from penstock.numerics.permutation import hash_words, permutation_position, permuted_index
from penstock.sources.order.part_offsets import PartOffsets, grouped

# Positions per page: batches are small, and the cost of a NumPy call is not. Pages of a selection are shorter, since
# a mixture may go through small data sets many times in one page.
_PAGE, _CHOSEN = 4096, 1024


@lru_cache(maxsize=1024)  # 32 MiB at most: a mixture of many data sets has a page of each in use
def _page(length: int, key: int, page: int) -> Indices:
    """Return `_PAGE` consecutive values of a permutation."""
    return permuted_index(np.arange(page * _PAGE, min(length, (page + 1) * _PAGE)), length, key)


def _paged(positions: Indices, page_of: Callable[[int], Indices], size: int) -> Indices:
    """Return the values at positions, one axis, of a sequence that is computed page by page."""
    pages = positions // size
    first, last = (int(pages.min()), int(pages.max())) if positions.size else (0, 0)
    if first == last:
        return page_of(first)[positions - first * size]
    result = np.empty_like(positions)
    for page, here in grouped(pages):
        result[here] = page_of(page)[positions[here] - page * size]
    return result


class SampleSelection(ABC):
    """Samples of an epoch, if it does not visit each of them once. Pure; compares by value."""

    @property
    @abstractmethod
    def length(self) -> int:
        """Number of positions in an epoch."""

    @abstractmethod
    def indices(self, positions: Indices, *, shuffle: bool, seed: int) -> Indices:
        """Return the sample at each position of an order that continues from epoch to epoch.

        Args:
            positions: int64, one axis, each >= 0; epoch e begins at ``e * length``.
            shuffle: True for a random order.
            seed: 64 bits that select the order.
        """

    @abstractmethod
    def replacement_indices(self, indices: Indices, shifts: NDArray[np.uint64]) -> Indices:
        """Return other samples; same as `SampleOrder.replacement_indices`."""


@lru_cache(maxsize=64)
def _chosen(choice: SampleSelection, shuffle: bool, seed: int, page: int) -> Indices:
    """Return a page of the samples that a selection visits."""
    return choice.indices(np.arange(page * _CHOSEN, (page + 1) * _CHOSEN), shuffle=shuffle, seed=seed)


@dataclass(frozen=True, slots=True)
class SampleOrder:
    """Order in which a reader visits its samples.

    Args:
        length: Number of samples in an epoch: of the data set, or of `choice`.
        shuffle: True for a different permutation in each epoch, False for the order of the data set.
        seed: Selects the permutations.
        pad_last: True to repeat the last sample past the end of an epoch (DALI's ``pad_last_batch``), so that an epoch
            ends with a batch. False to start the epoch again.
        shards: Number of contiguous, static shards; 1 for one global order.
        shard: Shard that this order visits.
        stick_to_shard: True to stay with that shard, False to move to the next shard with each epoch.
        choice: Samples to visit; None for each of them once per epoch. Requires one shard.

    >>> SampleOrder(length=5).indices(epoch=0, positions=np.arange(7)).tolist()
    [0, 1, 2, 3, 4, 0, 1]
    """

    length: int
    shuffle: bool = False
    seed: int = 0
    pad_last: bool = False
    shards: int = 1
    shard: int = 0
    stick_to_shard: bool = False
    choice: SampleSelection | None = None

    @property
    def epoch_length(self) -> int:
        """Number of positions in an epoch: that of the longest shard, since shards may differ by one."""
        return -(-self.length // self.shards)

    def shard_bounds(self, epoch: int) -> tuple[int, int]:
        """Return the first index and the number of the samples of this order in an epoch."""
        shard = self.shard if self.stick_to_shard else (self.shard + epoch) % self.shards
        first = self.length * shard // self.shards
        return first, self.length * (shard + 1) // self.shards - first

    def indices(self, epoch: int, positions: Indices) -> Indices:
        """Return the sample at each position of an epoch.

        Args:
            epoch: Number of the epoch, from 0.
            positions: int64, one axis, each >= 0. Positions past the end start the same epoch again, or repeat its last
                sample with `pad_last`.

        Returns:
            Sample indices, int64, of the same shape.
        """
        first, size = self.shard_bounds(epoch)
        inside = np.minimum(positions, size - 1) if self.pad_last else positions % size
        if self.choice is not None:
            return _paged(inside + epoch * size, partial(_chosen, self.choice, self.shuffle, self.seed), _CHOSEN)
        if not self.shuffle:
            return inside + first
        return _paged(inside, partial(_page, size, self._key(epoch, first)), _PAGE) + first

    def index_range(self, epoch: int, start: int, count: int) -> Indices:
        """Return `indices` of consecutive positions, as a slice if they are on one page of the shuffle."""
        first, size = self.shard_bounds(epoch)
        page = start // _PAGE
        if start + count > min(size, (page + 1) * _PAGE) or self.choice is not None:
            return self.indices(epoch, np.arange(start, start + count))
        if not self.shuffle:
            return np.arange(first + start, first + start + count)
        indices = _page(size, self._key(epoch, first), page)[start - page * _PAGE : start - page * _PAGE + count]
        return indices + first if first else indices

    def position(self, epoch: int, index: int) -> int | None:
        """Return the first position of a sample in an epoch; None if this shard does not visit it in the epoch.

        The inverse of `indices`, at the same cost for every epoch. Not for an order with a `choice`, which may visit a
        sample several times.

        >>> SampleOrder(length=5).position(epoch=3, index=4)
        4
        """
        first, size = self.shard_bounds(epoch)
        if not first <= index < first + size:
            return None
        if not self.shuffle:
            return index - first
        return int(permutation_position(np.array([index - first]), size, self._key(epoch, first))[0])

    def _key(self, epoch: int, first: int) -> int:
        """Return the key of a shard's permutation. It includes the length: similar lengths must not shuffle alike."""
        return hash_words(self.seed, self.length, epoch, first)

    def indices_over_epochs(self, positions: Indices, stride: int = 1) -> Indices:
        """Return the sample at each position of an endless order that continues from epoch to epoch.

        Args:
            positions: int64, one axis, each >= 0.
            stride: Positions per batch. With `pad_last`, an epoch has a whole number of batches.
        """
        if self == SampleOrder(self.length, seed=self.seed):
            return positions % self.length  # whole epochs in order: a small data set has many of them
        if self.pad_last or self.shards == 1:
            epochs, inside = np.divmod(positions, self.positions_per_epoch(stride))
        else:  # the shards of successive epochs may differ in length by one
            epochs, inside = self._cycles(positions)
        result = np.empty_like(positions)
        for epoch, here in grouped(epochs):
            result[here] = self.indices(epoch, inside[here])
        return result

    def index_range_over_epochs(self, start: int, count: int, stride: int = 1) -> Indices:
        """Return `indices_over_epochs` of consecutive positions."""
        passed = self.positions_per_epoch(stride)
        epoch, inside = divmod(start, passed)
        if inside + count > passed or (self.shards > 1 and not self.pad_last):
            return self.indices_over_epochs(np.arange(start, start + count), stride)
        return self.index_range(epoch, inside, count)

    def replacement_indices(self, indices: Indices, shifts: NDArray[np.uint64]) -> Indices:
        """Return replacements for samples.

        The result depends on the length alone, so that paired readers of equal length replace pairs by pairs.

        Args:
            indices: Samples to replace, int64.
            shifts: Per sample a number that selects another one of its shard, or 0 for the sample itself.

        Returns:
            Sample indices, int64, of the same shape. A replacement differs from its sample if the shard has others.
        """
        if self.choice is not None:
            return self.choice.replacement_indices(indices, shifts)
        bounds = np.array([self.length * part // self.shards for part in range(self.shards + 1)])
        part = np.searchsorted(bounds, indices, side="right") - 1
        first, size = bounds[part], bounds[part + 1] - bounds[part]
        # Steps from 1 to size - 1 reach every other sample of the shard, and never the sample itself.
        steps = 1 + (shifts % np.maximum(size - 1, 1).astype(np.uint64)).astype(np.int64)
        return np.where(shifts == 0, indices, first + (indices - first + steps) % size)

    def positions_per_epoch(self, stride: int) -> int:
        """Return the number of positions in an epoch, with batches of `stride` positions.

        For several shards without padding, it is the sum over all shards.
        """
        return -(-self.epoch_length // stride) * stride if self.pad_last else self.length

    def _cycles(self, positions: Indices) -> tuple[Indices, Indices]:
        """Return epochs and positions in them. A cycle of as many epochs as there are shards visits each shard once."""
        sizes = [self.shard_bounds(epoch)[1] for epoch in range(self.shards)]
        offsets = PartOffsets(sizes)
        cycle, inside = np.divmod(positions, len(offsets))
        epoch = offsets.owners(inside)
        return cycle * self.shards + epoch, inside - offsets.starts[epoch]
