"""Orders and random bits that a release never changes: saved states would go on with other samples and other draws."""

import numpy as np
import pytest

from penstock.numerics.permutation import hash_words, permuted_index
from penstock.numerics.random_bits import random_bits, row_counters
from penstock.sources.order.sample_order import SampleOrder


def test_keys():
    assert [hash_words(), hash_words(1), hash_words(1, 2, 3)] == [
        11400714819323198485,
        16834447057089888969,
        5246500226706903259,
    ]


@pytest.mark.parametrize(
    ("positions", "length", "key", "expected"),
    [
        (range(10), 10, 1, [5, 4, 8, 3, 6, 2, 7, 1, 9, 0]),
        (range(4), 1000, 2**63, [107, 864, 74, 971]),
        ([0, 1, 999_999], 10**6, 3, [864171, 691192, 228098]),
        (range(3), 10**12, 7, [113123446974, 185295027183, 20174435164]),
    ],
)
def test_permutations(positions, length, key, expected):
    assert permuted_index(np.array(positions), length, key).tolist() == expected


@pytest.mark.parametrize(
    ("order", "epoch", "expected"),
    [
        (SampleOrder(10, True, 5), 0, [0, 1, 4, 6, 2, 9, 7, 5, 8, 3]),
        (SampleOrder(10, True, 5), 1, [9, 6, 1, 4, 8, 2, 7, 3, 0, 5]),
        (SampleOrder(10, True, 5, shards=3, shard=1), 1, [6, 8, 7, 9]),
        (SampleOrder(10, True, 5, shards=3, shard=1, stick_to_shard=True), 1, [4, 5, 3]),
        (SampleOrder(10, False, 5, shards=3, shard=1), 0, [3, 4, 5]),
    ],
)
def test_orders_of_epochs(order, epoch, expected):
    assert order.indices(epoch, np.arange(len(expected))).tolist() == expected


def test_orders_without_end():
    assert SampleOrder(4, True, 5).indices_over_epochs(np.arange(10)).tolist() == [2, 0, 1, 3, 0, 3, 2, 1, 2, 3]


@pytest.mark.parametrize(
    ("seed", "stream", "epoch", "positions", "expected"),
    [
        (0, 0, 0, [0, 1], [[0xF84E8312, 0x2FEF64F3, 0x2042E32A], [0x62D8FBA1, 0x188DDE0D, 0x66E8E6E7]]),
        (
            2**64 - 1,
            7,
            3,
            [5, 2**40],
            [[0x87770FEB, 0x870E3EEF, 0x17125BA1], [0x384E12F6, 0x0F99B46F, 0x8C97DD17]],
        ),
    ],
)
def test_random_bits(seed, stream, epoch, positions, expected):
    assert random_bits(np, seed, stream, row_counters(epoch, np.array(positions)), 3).tolist() == expected
