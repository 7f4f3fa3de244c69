"""Pseudorandom permutation that is computed per position."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core import Indices

_MASK64 = (1 << 64) - 1


def hash_words(*words: int) -> int:
    """Hash integers to 64 bits (SplitMix64's output function, chained), to derive keys from seeds.

    >>> hash_words(1, 2) == hash_words(1, 2) != hash_words(2, 1)
    True
    """
    state = 0x9E3779B97F4A7C15
    for word in words:
        state = (state ^ (word & _MASK64)) + 0x9E3779B97F4A7C15 & _MASK64
        state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & _MASK64
        state = (state ^ state >> 27) * 0x94D049BB133111EB & _MASK64
        state ^= state >> 31
    return state


def permuted_index(positions: Indices, length: int, key: int) -> Indices:
    """Return the values of a permutation of range(length) at `positions`.

    A Feistel network over the smallest power of two that holds `length`, repeated for the values that fall outside
    it (cycle walking), after Black and Rogaway, "Ciphers with Arbitrary Finite Domains", 2002. At most half of the
    values fall outside, so a position costs two passes on average.

    Args:
        positions: int64, any shape, each in [0, length).
        length: Number of samples, up to 2**62.
        key: 64 bits that select the permutation.

    Returns:
        int64 of the same shape, each in [0, length); distinct for distinct positions.

    >>> sorted(permuted_index(np.arange(5), 5, key=1).tolist())
    [0, 1, 2, 3, 4]
    """
    return _apply(positions, length, key, inverse=False)


def permutation_position(indices: Indices, length: int, key: int) -> Indices:
    """Return the positions at which a permutation has `indices`: the inverse of `permuted_index`, at the same cost.

    >>> permutation_position(permuted_index(np.arange(5), 5, key=1), 5, key=1).tolist()
    [0, 1, 2, 3, 4]
    """
    return _apply(indices, length, key, inverse=True)


def _apply(values: Indices, length: int, key: int, *, inverse: bool) -> Indices:
    """Apply the Feistel network, or its inverse, until all values are in range(length)."""
    bits = max(2, (length - 1).bit_length())
    word = np.uint32 if bits <= 32 else np.uint64  # narrow words are twice as fast
    low = word(bits // 2)
    low_mask, high_mask = word((1 << bits // 2) - 1), word((1 << bits - bits // 2) - 1)
    rounds = 6 if bits > 12 else 12 if bits > 8 else 24  # a few bits per half mix slowly
    keys = [word(hash_words(key, turn) & int(np.iinfo(word).max)) for turn in range(rounds)]

    def encrypt(values: NDArray[Any]) -> NDArray[Any]:
        left, right = values >> low, values & low_mask
        for turn in range(0, rounds, 2):
            left ^= _scramble(right, keys[turn]) & high_mask
            right ^= _scramble(left, keys[turn + 1]) & low_mask
        left <<= low
        left |= right
        return left

    def decrypt(values: NDArray[Any]) -> NDArray[Any]:
        # A round changes one half by a function of the other half, so the same rounds in reverse order undo it.
        left, right = values >> low, values & low_mask
        for turn in range(rounds - 1, 0, -2):
            right ^= _scramble(left, keys[turn]) & low_mask
            left ^= _scramble(right, keys[turn - 1]) & high_mask
        left <<= low
        left |= right
        return left

    network = decrypt if inverse else encrypt
    result = network(values.astype(word).ravel())
    while (outside := np.flatnonzero(result >= word(length))).size:
        result[outside] = network(result[outside])
    return result.astype(np.int64).reshape(values.shape)


def _scramble(values: NDArray[Any], key: Any) -> NDArray[Any]:
    """Hash each value so that its low bits depend on all bits: multiply and fold the high half down, twice.

    The multipliers are those of MurmurHash3 (32 bits) and SplitMix64.
    """
    word = values.dtype.type
    first, second = (0x85EBCA6B, 0xC2B2AE35) if word is np.uint32 else (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
    half = word(values.dtype.itemsize * 4)
    mixed = values ^ key
    mixed *= word(first)
    mixed ^= mixed >> half
    mixed *= word(second)
    mixed >>= half
    return mixed
