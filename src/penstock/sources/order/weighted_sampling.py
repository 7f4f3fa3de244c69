"""Weighted draws: every position has a sample of its own draw, more often the heavier it weighs."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core.columns import Indices
from penstock.numerics.random_bits import counters, random_bits
from penstock.sources.order.sample_order import Choice

_TOTAL = 1 << 51
"""What scaled weights sum to at most: draws of 53 bits are exact."""


@dataclass(frozen=True)
class Weighted(Choice):
    """Samples that are drawn with replacement, each position for itself.

    A draw is looked up among the sums of all weights before a sample: exact in integers, the same on every machine.

    Args:
        sums: int64, the sum of the weights up to each sample, and its own.
        digest: what tells weights from others.
    """

    sums: Indices = field(compare=False, repr=False)
    digest: str

    @staticmethod
    def by(weights: NDArray[Any]) -> Weighted:
        """Draws by weights, float64 or integers: finite, none negative, not all 0."""
        largest = _TOTAL // len(weights)  # relative to it, weights have 30 bits where there are a million
        scaled = np.rint(weights / weights.max() * largest).astype(np.int64)
        sums = np.cumsum(np.maximum(scaled, weights > 0))
        return Weighted(sums, hashlib.sha256(sums.astype("<i8").tobytes()).hexdigest()[:16])

    @property
    def length(self) -> int:
        """As many draws as there are samples."""
        return len(self.sums)

    def indices(self, positions: Indices, *, shuffle: bool, seed: int) -> Indices:
        """The draws, which depend on seed and position alone."""
        del shuffle
        words = random_bits(np, seed, 0, counters(0, positions), 2).astype(np.uint64)
        return self._found(_share(words[:, 0] << np.uint64(32) | words[:, 1], self.sums[-1]))

    def others(self, indices: Indices, shifts: NDArray[np.uint64]) -> Indices:
        """A draw among the other samples."""
        before = np.where(indices > 0, self.sums[indices - 1], 0)
        own = self.sums[indices] - before
        draws = _share(shifts, self.sums[-1] - own)
        draws += np.where(draws >= before, own, 0)
        only = own == self.sums[-1]
        return np.where((shifts == 0) | only, indices, self._found(np.where(only, 0, draws)))

    def _found(self, draws: Indices) -> Indices:
        return np.searchsorted(self.sums, draws, side="right")


def _share(words: NDArray[np.uint64], totals: Any) -> Indices:
    """Numbers below `totals`, which are below 2**52, as the upper 53 bits of random words have them."""
    return ((words >> np.uint64(11)).astype(np.float64) * 2.0**-53 * totals).astype(np.int64)
