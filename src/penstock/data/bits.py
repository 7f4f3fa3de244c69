"""Random bits, 32 at a time, as a pure function of seed, stream, epoch and position.

The generator is Threefry-2x32 with 20 rounds (Salmon, Moraes, Dror and Shaw, "Parallel Random Numbers: As Easy as
1, 2, 3", 2011). It needs only additions, rotations and exclusive ors of 32-bit words, so the same function, written
against an array namespace, gives the same bits under NumPy and inside an XLA program.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.data.order import Indices

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA


def threefry(key: tuple[Any, Any], counter: tuple[Any, Any]) -> tuple[Any, Any]:
    """Encrypt two words with two words; all four uint32 arrays that broadcast against each other."""
    schedule = (key[0], key[1], key[0] ^ key[1] ^ np.uint32(_PARITY))
    left, right = counter[0] + schedule[0], counter[1] + schedule[1]
    for turn in range(5):
        for rotation in _ROTATIONS[turn % 2]:
            left = left + right
            right = right << np.uint32(rotation) | right >> np.uint32(32 - rotation)
            right = right ^ left
        left = left + schedule[(turn + 1) % 3]
        right = right + schedule[(turn + 2) % 3] + np.uint32(turn + 1)
    return left, right


def counters(epoch: int, positions: Indices) -> NDArray[np.uint32]:
    """The coordinates of rows as uint32 words, shape (rows, 3): epoch, low and high half of the position."""
    result = np.empty((len(positions), 3), np.uint32)
    result[:, 0] = epoch
    result[:, 1] = positions & 0xFFFFFFFF
    result[:, 2] = positions >> 32
    return result


def random_bits(xp: Any, seed: int, stream: int, rows: Any, count: int) -> Any:
    """`count` times 32 random bits for each row.

    Args:
        xp: the array namespace, `numpy` or `jax.numpy`.
        seed: 64 bits that select one family of streams.
        stream: which stream of the family; every random operator of a definition has its own.
        rows: uint32 `(rows, 3)`, as `counters` makes them.
        count: how many times 32 bits a row needs.

    Returns:
        uint32 of shape `(rows, count)`. Row i depends on nothing but the arguments and `rows[i]`.

    >>> random_bits(np, 1, 0, counters(0, np.arange(2)), 3).shape
    (2, 3)
    """
    low, high = xp.asarray([seed & 0xFFFFFFFF], dtype=np.uint32), xp.asarray([seed >> 32], dtype=np.uint32)
    numbers, epochs = xp.asarray([stream], dtype=np.uint32), rows[:, 0]
    if xp is np and (epochs == epochs[:1]).all():
        epochs = epochs[:1]  # a host batch lies within one epoch: one key for all rows
    left, right = threefry((low, high), (numbers, epochs))
    blocks = xp.arange(-(-count // 2), dtype=np.uint32)[None, :]
    pairs = threefry((left[:, None] ^ blocks, right[:, None]), (rows[:, 1, None], rows[:, 2, None]))
    return xp.stack(pairs, axis=-1).reshape(rows.shape[0], -1)[:, :count]
