"""As many random numbers as a loop asks for, from 64 random bits.

The generator is SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", 2014).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from penstock.core.columns import Array
from penstock.native.compiled import Compiled


def streams(bits: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """The states of generators, uint64 (rows,). Compiled loops hand an array of one of them to `fraction`.

    Args:
        bits: two times 32 random bits for each, (rows, 2).
    """
    words = bits.astype(np.uint64)
    return words[:, 0] << np.uint64(32) | words[:, 1]


@Compiled
def fraction(state: Array) -> float:
    """The next number, uniform in [0, 1)."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    word = state[0]
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    word = word ^ (word >> np.uint64(31))
    return np.float64(word >> np.uint64(11)) * 2.0**-53


@Compiled
def below(state: Array, count: int) -> int:
    """The next whole number, uniform from 0 to count - 1."""
    return min(int(fraction(state) * count), count - 1)
