"""Turns: which of several data sets gives the sample at a position, so that each has its exact share of any stretch.

Two data sets take turns as a rounded line says: of the first P samples, the first one has ``floor(share * P + 1/2)``.
More are split in two again and again, the lightest ones together (Huffman, "A Method for the Construction of
Minimum-Redundancy Codes", 1952), and each half takes its own turns in the same manner. So any position can be asked
for at once, in integer arithmetic, and nothing drifts.

Of two data sets, any stretch of L samples has fewer than one sample more or less than ``share * L``. For three or more
no rule can promise that (Altman, Gaujal and Hordijk, "Balanced Sequences and Optimal Routing", 2000); `deviation`
bounds what the first P samples can be off, and a stretch is off by at most twice as much.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core.columns import Indices
from penstock.sources.order.permutation import hash_words
from penstock.sources.order.sample_order import SampleOrder, SampleSelection

_LARGEST = 1 << 30
"""The largest denominator of a share: products with remainders fit 64 bits."""

Tree = int | tuple["Tree", "Tree", Fraction]
"""A data set, or two trees and the share of the first one among both."""


@dataclass(frozen=True)
class Interleaving:
    """An endless sequence of turns.

    Args:
        shares: what each of the data sets has of all samples; they sum to 1. One of 0 has no turn.

    >>> Interleaving((Fraction(3, 4), Fraction(1, 4))).member_at(np.arange(8))[0].tolist()
    [0, 0, 1, 0, 0, 0, 1, 0]
    """

    shares: tuple[Fraction, ...]

    def __str__(self) -> str:
        # Part of the fingerprint of a data set, which states hold: it keeps the name of the first version.
        return f"Turns(shares={self.shares!r})"

    @staticmethod
    def from_weights(weights: Any) -> Interleaving:
        """Turns by weights: numbers, not all 0, none negative; as decimals they are exact."""
        exact = [Fraction(str(weight)) for weight in weights]
        return Interleaving(tuple(each / sum(exact) for each in exact))

    def member_at(self, positions: Indices) -> tuple[Indices, Indices]:
        """Who has the turn at each position, and how many it has had before.

        Args:
            positions: int64, one axis, each >= 0.

        Returns:
            The numbers of data sets, and their own positions; int64, as many as `positions`.
        """
        owners, ranks = np.empty_like(positions), np.empty_like(positions)
        _fill(self._tree, np.arange(len(positions)), positions, owners, ranks)
        return owners, ranks

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(self.shares)  # those of many fractions take a while

    @cached_property
    def _tree(self) -> Tree:
        heap: list[tuple[Fraction, int, Tree]] = [(s, -n, n) for n, s in enumerate(self.shares) if s > 0]
        heapq.heapify(heap)
        while len(heap) > 1:  # of equals, the one that stands first in the list has the first turn
            (light, last, right), (heavy, first, left) = heapq.heappop(heap), heapq.heappop(heap)
            share = (heavy / (light + heavy)).limit_denominator(_LARGEST)
            heapq.heappush(heap, (light + heavy, max(last, first), (left, right, share)))
        return heap[0][2]

    @cached_property
    def max_deviation(self) -> float:
        """How many samples more or less than its share a data set has at most, of the first P samples for any P."""
        return float(_deviation(self._tree, Fraction(0)))


def _fill(tree: Tree, places: NDArray[np.intp], positions: Indices, owners: Indices, ranks: Indices) -> None:
    """The owners and ranks of a tree's positions, which stand in these places of the result."""
    if isinstance(tree, int):
        owners[places], ranks[places] = tree, positions
        return
    left, right, share = tree
    before = _rounded(share, positions)
    first = _rounded(share, positions + 1) > before
    second = ~first
    _fill(left, places[first], before[first], owners, ranks)
    _fill(right, places[second], (positions - before)[second], owners, ranks)


def _rounded(share: Fraction, positions: Indices) -> Indices:
    """``floor(share * positions + 1/2)``."""
    numerator, denominator = share.numerator, share.denominator
    whole, rest = np.divmod(positions, denominator)
    return whole * numerator + (2 * numerator * rest + denominator) // (2 * denominator)


def _deviation(tree: Tree, above: Fraction) -> Fraction:
    """The largest deviation below a tree whose own is at most `above`: a rounding adds 1/2 to its share of that."""
    if isinstance(tree, int):
        return above
    left, right, share = tree
    half = Fraction(1, 2)
    return max(_deviation(left, half + share * above), _deviation(right, half + (1 - share) * above))


@dataclass(frozen=True)
class InterleavedSelection(SampleSelection):
    """What a mixture visits, of data sets that lie one behind the other.

    Each of them visits every sample once before any again, and goes on in the next epoch where it was.

    Args:
        sizes: how many samples each has.
        selections: which of them it visits.
        interleaving: when.
        epoch: how many positions an epoch has.
    """

    sizes: tuple[int, ...]
    selections: tuple[SampleSelection | None, ...]
    interleaving: Interleaving
    epoch: int

    def __str__(self) -> str:
        # Part of the fingerprint of a data set, which states hold: it keeps the names of the first version.
        choices = ", ".join(map(str, self.selections)) + "," * (len(self.selections) == 1)
        return f"Mixture(sizes={self.sizes!r}, choices=({choices}), turns={self.interleaving}, epoch={self.epoch!r})"

    @property
    def length(self) -> int:
        """How many positions an epoch has."""
        return self.epoch

    def indices(self, positions: Indices, *, shuffle: bool, seed: int) -> Indices:
        """Which sample stands at each position of the endless order."""
        owners, ranks = self.interleaving.member_at(positions)
        result = np.empty_like(positions)
        for owner, here in _grouped(owners):
            own = self._order(owner, shuffle=shuffle, seed=seed).indices_over_epochs(ranks[here])
            result[here] = own + self._starts[owner]
        return result

    def replacement_indices(self, indices: Indices, shifts: NDArray[np.uint64]) -> Indices:
        """Other samples of the same data sets."""
        result = np.empty_like(indices)
        for owner, here in _grouped(np.searchsorted(self._starts, indices, side="right") - 1):
            start = self._starts[owner]
            result[here] = self._order(owner).replacement_indices(indices[here] - start, shifts[here]) + start
        return result

    @cached_property
    def _starts(self) -> Indices:
        return np.cumsum((0, *self.sizes[:-1]))

    def _order(self, owner: int, *, shuffle: bool = False, seed: int = 0) -> SampleOrder:
        choice = self.selections[owner]
        length = self.sizes[owner] if choice is None else choice.length
        return SampleOrder(length, shuffle, hash_words(seed, owner), choice=choice)


def _grouped(owners: Indices) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """Each number that occurs, and its places."""
    places = np.argsort(owners, kind="stable")
    present, firsts = np.unique(owners[places], return_index=True)
    yield from zip(present.tolist(), np.split(places, firsts[1:]), strict=True)
