"""Damaged image files."""

import numpy as np


def damaged(original, rng):
    """Return a file as an array, with flipped bits, a cut, or an edited header.

    Args:
        original: Bytes, or an array of bytes.
        rng: Generator that chooses the damage.
    """
    data = bytearray(bytes(original))
    kind = rng.integers(3)
    if kind == 0:
        for place in rng.integers(0, len(data), rng.integers(1, 20)):
            data[place] ^= 1 << rng.integers(8)
    elif kind == 1:
        del data[rng.integers(0, len(data)) :]
    else:
        for place in rng.integers(0, min(len(data), 700), rng.integers(1, 6)):
            data[place] = rng.integers(256)
    return np.frombuffer(bytes(data), np.uint8)
