"""A mixture: data sets that take turns, each in an order of its own that goes on from epoch to epoch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from penstock.data.order import Choice, Indices, Order, mix
from penstock.data.turns import Turns


@dataclass(frozen=True)
class Mixture(Choice):
    """What a mixture visits, of data sets that lie one behind the other.

    Each of them visits every sample once before any again, and goes on in the next epoch where it was.

    Args:
        sizes: how many samples each has.
        choices: which of them it visits.
        turns: when.
        epoch: how many positions an epoch has.
    """

    sizes: tuple[int, ...]
    choices: tuple[Choice | None, ...]
    turns: Turns
    epoch: int

    @property
    def length(self) -> int:
        """How many positions an epoch has."""
        return self.epoch

    def indices(self, positions: Indices, *, shuffle: bool, seed: int) -> Indices:
        """Which sample stands at each position of the endless order."""
        owners, ranks = self.turns.at(positions)
        result = np.empty_like(positions)
        for owner, here in _grouped(owners):
            own = self._order(owner, shuffle=shuffle, seed=seed).endless(ranks[here])
            result[here] = own + self._starts[owner]
        return result

    def others(self, indices: Indices, shifts: NDArray[np.uint64]) -> Indices:
        """Other samples of the same data sets."""
        result = np.empty_like(indices)
        for owner, here in _grouped(np.searchsorted(self._starts, indices, side="right") - 1):
            start = self._starts[owner]
            result[here] = self._order(owner).others(indices[here] - start, shifts[here]) + start
        return result

    @cached_property
    def _starts(self) -> Indices:
        return np.cumsum((0, *self.sizes[:-1]))

    def _order(self, owner: int, *, shuffle: bool = False, seed: int = 0) -> Order:
        choice = self.choices[owner]
        length = self.sizes[owner] if choice is None else choice.length
        return Order(length, shuffle, mix(seed, owner), choice=choice)


def _grouped(owners: Indices) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """Each number that occurs, and its places."""
    places = np.argsort(owners, kind="stable")
    present, firsts = np.unique(owners[places], return_index=True)
    yield from zip(present.tolist(), np.split(places, firsts[1:]), strict=True)
