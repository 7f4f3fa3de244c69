"""Weighted draws: every position has a sample of its own draw, more often the heavier it weighs."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core.columns import Indices
from penstock.numerics.random_bits import random_bits, row_counters
from penstock.sources.order.sample_order import SampleSelection

_TOTAL = 1 << 51
"""What scaled weights sum to at most: draws of 53 bits are exact."""


@dataclass(frozen=True)
class WeightedSampling(SampleSelection):
    """Samples that are drawn with replacement, each position for itself.

    A draw is looked up among the sums of all weights before a sample: exact in integers, the same on every machine.

    Args:
        cumulative_weights: int64, the sum of the weights up to each sample, and its own.
        digest: what tells weights from others.
    """

    cumulative_weights: Indices = field(compare=False, repr=False)
    digest: str

    def __str__(self) -> str:
        # Part of the fingerprint of a data set, which states hold: it keeps the name of the first version.
        return f"Weighted(digest={self.digest!r})"

    @staticmethod
    def from_weights(weights: NDArray[Any]) -> WeightedSampling:
        """Draws by weights, float64 or integers: finite, none negative, not all 0."""
        largest = _TOTAL // len(weights)  # relative to it, weights have 30 bits where there are a million
        scaled = np.rint(weights / weights.max() * largest).astype(np.int64)
        sums = np.cumsum(np.maximum(scaled, weights > 0))
        return WeightedSampling(sums, hashlib.sha256(sums.astype("<i8").tobytes()).hexdigest()[:16])

    @property
    def length(self) -> int:
        """As many draws as there are samples."""
        return len(self.cumulative_weights)

    def indices(self, positions: Indices, *, shuffle: bool, seed: int) -> Indices:
        """The draws, which depend on seed and position alone."""
        del shuffle
        words = random_bits(np, seed, 0, row_counters(0, positions), 2).astype(np.uint64)
        return self._found(_share(words[:, 0] << np.uint64(32) | words[:, 1], self.cumulative_weights[-1]))

    def replacement_indices(self, indices: Indices, shifts: NDArray[np.uint64]) -> Indices:
        """A draw among the other samples."""
        before = np.where(indices > 0, self.cumulative_weights[indices - 1], 0)
        own = self.cumulative_weights[indices] - before
        draws = _share(shifts, self.cumulative_weights[-1] - own)
        draws += np.where(draws >= before, own, 0)
        only = own == self.cumulative_weights[-1]
        return np.where((shifts == 0) | only, indices, self._found(np.where(only, 0, draws)))

    def _found(self, draws: Indices) -> Indices:
        return np.searchsorted(self.cumulative_weights, draws, side="right")


def _share(words: NDArray[np.uint64], totals: Any) -> Indices:
    """Numbers below `totals`, which are below 2**52, as the upper 53 bits of random words have them."""
    return ((words >> np.uint64(11)).astype(np.float64) * 2.0**-53 * totals).astype(np.int64)
