"""Counter-based random bits: a pure function of seed, stream, epoch and position.

The generator is Threefry-2x32 with 20 rounds (Salmon, Moraes, Dror and Shaw, "Parallel Random Numbers: As Easy as
1, 2, 3", 2011). It needs only additions, rotations and exclusive ors of 32-bit words, so XLA programs and compiled
loops on the host return the same bits. The host uses a loop where much is drawn, because NumPy needs 150 array
operations for a batch.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core import Indices
from penstock.native.compiled import Compiled, precompile

# Constants of Threefry-2x32, from the paper and its reference implementation, Random123.
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_WORD = np.uint64(0xFFFFFFFF)

# Words for which NumPy takes 0.15 s longer, as long as compiling the loop.
_ENOUGH_WORDS = 1 << 22


def threefry(key: tuple[Any, Any], counter: tuple[Any, Any]) -> tuple[Any, Any]:
    """Encrypt a counter with a key; all four words are uint32 arrays that broadcast against each other."""
    schedule = (key[0], key[1], key[0] ^ key[1] ^ np.uint32(_PARITY))
    left, right = counter[0] + schedule[0], counter[1] + schedule[1]
    # Five groups of four rounds; after each group, words of the key are added in rotation.
    for group in range(5):
        for rotation in _ROTATIONS[group % 2]:
            left = left + right
            right = right << np.uint32(rotation) | right >> np.uint32(32 - rotation)
            right = right ^ left
        left = left + schedule[(group + 1) % 3]
        right = right + schedule[(group + 2) % 3] + np.uint32(group + 1)
    return left, right


def row_counters(epoch: int, positions: Indices) -> NDArray[np.uint32]:
    """Return the coordinates of rows as uint32 (rows, 3): epoch, low and high half of the position."""
    result = np.empty((len(positions), 3), np.uint32)
    result[:, 0] = epoch
    result[:, 1] = positions & 0xFFFFFFFF
    result[:, 2] = positions >> 32
    return result


def random_bits(xp: Any, seed: int, stream: int, rows: Any, count: int) -> Any:
    """Draw `count` words of 32 random bits for each row.

    Args:
        xp: The array namespace, `numpy` or `jax.numpy`.
        seed: A 64-bit seed.
        stream: The stream of random numbers; every random operator of a definition has its own.
        rows: uint32 `(rows, 3)`, from `row_counters`.
        count: The number of words per row.

    Returns:
        uint32 of shape `(rows, count)`. Row i depends only on the arguments and on `rows[i]`.

    >>> random_bits(np, 1, 0, row_counters(0, np.arange(2)), 3).shape
    (2, 3)
    """
    if xp is np and _draw.pays_off(len(rows) * count, _ENOUGH_WORDS):
        result = np.empty((len(rows), count), np.uint32)
        _draw(seed & 0xFFFFFFFF, seed >> 32, stream, rows, result)
        return result
    low, high = xp.asarray([seed & 0xFFFFFFFF], dtype=np.uint32), xp.asarray([seed >> 32], dtype=np.uint32)
    numbers, epochs = xp.asarray([stream], dtype=np.uint32), rows[:, 0]
    left, right = threefry((low, high), (numbers, epochs))
    blocks = xp.arange(-(-count // 2), dtype=np.uint32)[None, :]
    pairs = threefry((left[:, None] ^ blocks, right[:, None]), (rows[:, 1, None], rows[:, 2, None]))
    bits = xp.stack(pairs, axis=-1).reshape(rows.shape[0], -1)[:, :count]
    return np.ascontiguousarray(bits) if xp is np else bits


def expand_bits(xp: Any, keys: Any, count: int) -> tuple[Any, Any]:
    """Random bits for many elements of each row: `count` pairs of words from a key of two.

    Args:
        xp: the array namespace, `numpy` or `jax.numpy`.
        keys: uint32 `(rows, 2)`, as `random_bits` makes them.
        count: how many pairs a row needs.

    Returns:
        Two times uint32 `(rows, count)`. Pair i of a row depends on i and the row's key alone.
    """
    if xp is np:
        left, right = np.empty((len(keys), count), np.uint32), np.empty((len(keys), count), np.uint32)
        _draw_more(np.ascontiguousarray(keys), left, right)
        return left, right
    numbers = xp.arange(count, dtype=np.uint32)[None, :]
    return threefry((keys[:, :1], keys[:, 1:]), (numbers, xp.zeros((1, 1), np.uint32)))


@Compiled
def threefry_scalar(key: np.uint64, other: np.uint64, left: np.uint64, right: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Encrypt scalars like `threefry`. Words have 64 bits, because numba widens sums of 32-bit words to 64."""
    parity = key ^ other ^ np.uint64(_PARITY)
    left, right = (left + key) & _WORD, (right + other) & _WORD
    for group in range(5):
        for step in range(4):
            rotation = np.uint64(_ROTATIONS[group % 2][step])
            left = (left + right) & _WORD
            right = (right << rotation | right >> (np.uint64(32) - rotation)) & _WORD ^ left
        key, other, parity = other, parity, key
        left, right = (left + key) & _WORD, (right + other + np.uint64(group + 1)) & _WORD
    return left, right


@precompile("i8 i8 i8 u4[2] u4[2]")
@Compiled
def _draw(low: int, high: int, stream: int, rows: NDArray[np.uint32], out: NDArray[np.uint32]) -> None:
    """Compute `random_bits` on the host.

    Args:
        low: The lower half of the seed.
        high: The upper half of the seed.
        stream: The number of the stream.
        rows: (rows, 3), from `row_counters`.
        out: (rows, count), receives the bits.
    """
    key, other = np.uint64(0), np.uint64(0)
    for row in range(rows.shape[0]):
        # The first encryption depends on the epoch only, which is nearly always that of the row before.
        if row == 0 or rows[row, 0] != rows[row - 1, 0]:
            key, other = threefry_scalar(np.uint64(low), np.uint64(high), np.uint64(stream), np.uint64(rows[row, 0]))
        for column in range(0, out.shape[1], 2):
            block = key ^ np.uint64(column // 2)
            left, right = threefry_scalar(block, other, np.uint64(rows[row, 1]), np.uint64(rows[row, 2]))
            out[row, column] = np.uint32(left)
            if column + 1 < out.shape[1]:
                out[row, column + 1] = np.uint32(right)


@precompile("u4[2] u4[2] u4[2]")
@Compiled
def _draw_more(keys: NDArray[np.uint32], left: NDArray[np.uint32], right: NDArray[np.uint32]) -> None:
    """Compute `expand_bits` on the host; `left` and `right`, (rows, count), receive the pairs."""
    for row in range(keys.shape[0]):
        key, other = np.uint64(keys[row, 0]), np.uint64(keys[row, 1])
        for column in range(left.shape[1]):
            one, two = threefry_scalar(key, other, np.uint64(column), np.uint64(0))
            left[row, column], right[row, column] = np.uint32(one), np.uint32(two)
