"""Weighted sampling with replacement, an independent draw per position."""

from __future__ import annotations

from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core import Indices, short_digest
from penstock.core.dataclass import dataclass
from penstock.numerics.random_bits import random_bits, row_counters
from penstock.sources.order.sample_order import SampleSelection

# Limit on the sum of scaled weights: draws of 53 bits, which float64 holds exactly, cover it.
_TOTAL = 1 << 51


@dataclass(frozen=True)
class WeightedSampling(SampleSelection):
    """Samples drawn with replacement.

    A draw is looked up in the cumulative weights, in integers, so that the result is the same on every machine.

    Args:
        cumulative_weights: int64, per sample the sum of the weights up to and including its own.
        digest: Hash of the weights.
    """

    cumulative_weights: Indices = field(compare=False, repr=False)
    digest: str

    def __str__(self) -> str:
        # Part of the fingerprint of a data set, which states hold: it keeps the name of the first version.
        return f"Weighted(digest={self.digest!r})"

    @staticmethod
    def from_weights(weights: NDArray[Any]) -> WeightedSampling:
        """Create a selection from weights, float64 or integers: finite, none negative, at least one positive."""
        largest = _TOTAL // len(weights)  # leaves 30 bits of precision for a million weights
        scaled = np.rint(weights / weights.max() * largest).astype(np.int64)
        # A positive weight that rounds to 0 counts as 1, so that its sample can still be drawn.
        sums = np.cumsum(np.maximum(scaled, weights > 0))
        return WeightedSampling(sums, short_digest(sums))

    @property
    def length(self) -> int:
        """Number of draws in an epoch: the number of samples."""
        return len(self.cumulative_weights)

    def indices(self, positions: Indices, *, shuffle: bool, seed: int) -> Indices:
        """Return the draws, which depend only on seed and position."""
        words = random_bits(np, seed, 0, row_counters(0, positions), 2).astype(np.uint64)
        return self._samples_at(_share(words[:, 0] << np.uint64(32) | words[:, 1], self.cumulative_weights[-1]))

    def replacement_indices(self, indices: Indices, shifts: NDArray[np.uint64]) -> Indices:
        """Draw from the other samples."""
        # Draw as if the sample's own weight were cut out, then shift the draws behind the gap.
        before = np.where(indices > 0, self.cumulative_weights[indices - 1], 0)
        own = self.cumulative_weights[indices] - before
        draws = _share(shifts, self.cumulative_weights[-1] - own)
        draws += np.where(draws >= before, own, 0)
        only = own == self.cumulative_weights[-1]
        return np.where((shifts == 0) | only, indices, self._samples_at(np.where(only, 0, draws)))

    def _samples_at(self, draws: Indices) -> Indices:
        return np.searchsorted(self.cumulative_weights, draws, side="right")


def _share(words: NDArray[np.uint64], totals: Any) -> Indices:
    """Scale the upper 53 bits of random words to [0, totals); totals must be below 2**52."""
    return ((words >> np.uint64(11)).astype(np.float64) * 2.0**-53 * totals).astype(np.int64)
