"""Deterministic interleaving of data sets by exact shares.

Of the first P samples of two data sets, the first data set has ``floor(share * P + 1/2)``. More data sets form a binary
tree that joins the lightest ones first (Huffman, "A Method for the Construction of Minimum-Redundancy Codes", 1952),
and each node splits its positions in this way. The result at any position takes integer arithmetic alone and cannot
drift.

With two data sets, a stretch of L samples is off from ``share * L`` by less than one. With three or more no rule can
promise that (Altman, Gaujal and Hordijk, "Balanced Sequences and Optimal Routing", 2000). There the error of the first
P samples is bounded by the rounding in each node on the way to the data set: 1/2, plus the node's share of the error of
the node above. A stretch is off by at most twice as much.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core import Indices
from penstock.numerics.permutation import hash_words
from penstock.sources.order.part_offsets import PartOffsets, grouped
from penstock.sources.order.sample_order import SampleOrder, SampleSelection

# Limit on the denominators of shares: products of a share with a remainder then fit 64 bits.
_MAX_DENOMINATOR = 1 << 30

# A data set, or two trees and the share of the first one in both.
Tree = int | tuple["Tree", "Tree", Fraction]


@dataclass(frozen=True)
class Interleaving:
    """An endless interleaving of data sets.

    Args:
        shares: Share of each data set in all samples; must sum to 1. A data set with share 0 is never sampled.

    >>> Interleaving((Fraction(3, 4), Fraction(1, 4))).member_at(np.arange(8))[0].tolist()
    [0, 0, 1, 0, 0, 0, 1, 0]
    """

    shares: tuple[Fraction, ...]

    def __str__(self) -> str:
        # Part of the fingerprint of a data set, which states hold: it keeps the name of the first version.
        return f"Turns(shares={self.shares!r})"

    @staticmethod
    def from_weights(weights: Any) -> Interleaving:
        """Create an interleaving from weights: at least one positive, none negative. Decimal numbers are exact."""
        # By way of text, 0.1 becomes 1/10 and not the nearest binary fraction.
        exact = [Fraction(str(weight)) for weight in weights]
        return Interleaving(tuple(weight / sum(exact) for weight in exact))

    def member_at(self, positions: Indices) -> tuple[Indices, Indices]:
        """Return the data set at each position, and its own position.

        Args:
            positions: int64, one axis, each >= 0.

        Returns:
            The numbers of the data sets and the positions in them, both int64 of the shape of `positions`.
        """
        owners, ranks = np.empty_like(positions), np.empty_like(positions)
        _fill(self._tree, np.arange(len(positions)), positions, owners, ranks)
        return owners, ranks

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(self.shares)  # cached, since hashing many fractions takes a while

    @cached_property
    def _tree(self) -> Tree:
        heap: list[tuple[Fraction, int, Tree]] = [(s, -n, n) for n, s in enumerate(self.shares) if s > 0]
        heapq.heapify(heap)
        while len(heap) > 1:  # of equal weights, the first in the list comes first
            (light, last, right), (heavy, first, left) = heapq.heappop(heap), heapq.heappop(heap)
            share = (heavy / (light + heavy)).limit_denominator(_MAX_DENOMINATOR)
            heapq.heappush(heap, (light + heavy, max(last, first), (left, right, share)))
        return heap[0][2]


def _fill(tree: Tree, places: NDArray[np.intp], positions: Indices, owners: Indices, ranks: Indices) -> None:
    """Compute the owners and ranks of a tree's positions, and write them to these places of the result."""
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
    """Return ``floor(share * positions + 1/2)``."""
    # Divide first: the product of the numerator and a large position would overflow.
    numerator, denominator = share.numerator, share.denominator
    whole, rest = np.divmod(positions, denominator)
    return whole * numerator + (2 * numerator * rest + denominator) // (2 * denominator)


@dataclass(frozen=True)
class InterleavedSelection(SampleSelection):
    """Order of samples in a mixture of concatenated data sets.

    Every data set visits each of its samples once before it repeats any, and continues in the next epoch.

    Args:
        sizes: Number of samples per data set.
        selections: Per data set the samples that it visits; None for all.
        interleaving: Data set at each position.
        epoch: Number of positions in an epoch.
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
        """Number of positions in an epoch."""
        return self.epoch

    def indices(self, positions: Indices, *, shuffle: bool, seed: int) -> Indices:
        """Return the sample at each position of the endless order."""
        owners, ranks = self.interleaving.member_at(positions)
        result = np.empty_like(positions)
        for owner, here in grouped(owners):
            own = self._order(owner, shuffle=shuffle, seed=seed).indices_over_epochs(ranks[here])
            result[here] = own + self._offsets.starts[owner]
        return result

    def replacement_indices(self, indices: Indices, shifts: NDArray[np.uint64]) -> Indices:
        """Return replacements from the same data sets."""
        result = np.empty_like(indices)
        for owner, here, inner in self._offsets.split(indices):
            own = self._order(owner).replacement_indices(inner, shifts[here])
            result[here] = own + self._offsets.starts[owner]
        return result

    @cached_property
    def _offsets(self) -> PartOffsets:
        return PartOffsets(self.sizes)

    def _order(self, owner: int, *, shuffle: bool = False, seed: int = 0) -> SampleOrder:
        choice = self.selections[owner]
        length = self.sizes[owner] if choice is None else choice.length
        return SampleOrder(length, shuffle, hash_words(seed, owner), choice=choice)
