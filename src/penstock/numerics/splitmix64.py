"""Random numbers for loops that need an unknown number of them, from 64 random bits.

The generator is SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", 2014).
"""

import numpy as np
from numpy.typing import NDArray

from penstock.core import Array
from penstock.native.compiled import Compiled


def streams(bits: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """Return the states of generators, uint64 (rows,). Compiled loops pass one, as an array of one element.

    Args:
        bits: uint32 (rows, 2), two random words for each generator.
    """
    words = bits.astype(np.uint64)
    return words[:, 0] << np.uint64(32) | words[:, 1]


@Compiled
def fraction(state: Array) -> float:
    """Draw a number, uniform in [0, 1)."""
    # The increment is 2**64 divided by the golden ratio; the multipliers are those of the paper (variant 13 of
    # Stafford).
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    word = state[0]
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    word = word ^ (word >> np.uint64(31))
    # The 53 highest bits, as many as a float64 has.
    return np.float64(word >> np.uint64(11)) * 2.0**-53


@Compiled
def below(state: Array, count: int) -> int:
    """Draw an integer, uniform from 0 to count - 1."""
    # The product may round up to `count`.
    return min(int(fraction(state) * count), count - 1)
