import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.numerics import random_bits as module
from penstock.numerics.random_bits import random_bits, row_counters, threefry

# known answers of Threefry-2x32 with 20 rounds, from the authors' distribution (Random123, kat_vectors)
KNOWN = [
    ((0x00000000, 0x00000000), (0x00000000, 0x00000000), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
]


@pytest.mark.parametrize("xp", [np, jnp])
@pytest.mark.parametrize(("key", "counter", "expected"), KNOWN)
def test_threefry_gives_the_known_answers(xp, key, counter, expected):
    result = threefry(
        tuple(xp.asarray([k], dtype=np.uint32) for k in key), tuple(xp.asarray([c], dtype=np.uint32) for c in counter)
    )
    assert [int(word[0]) for word in result] == list(expected)


@pytest.mark.slow
@given(st.integers(0, 2**64 - 1), st.integers(0, 50), st.integers(0, 2**32 - 1), st.integers(0, 2**63 - 300))
def test_host_and_xla_give_the_same_bits(seed, stream, epoch, start):
    rows = row_counters(epoch, np.arange(start, start + 5))
    on_host = random_bits(np, seed, stream, rows, 3)
    on_device = jax.jit(lambda rows: random_bits(jnp, seed, stream, rows, 3))(rows)
    assert np.array_equal(on_host, np.asarray(on_device))


def test_the_compiled_loop_equals_its_python_twin():
    rows = np.concatenate([row_counters(0, np.arange(3)), row_counters(1, np.arange(2) + (1 << 40))])
    compiled, plain = np.empty((2, 5, 3), np.uint32)
    module._draw(0xFFFFFFFE, 0xFFFFFFFF, 7, rows, compiled)
    module._draw.python_function(0xFFFFFFFE, 0xFFFFFFFF, 7, rows, plain)
    assert np.array_equal(compiled, plain)


def test_a_row_does_not_depend_on_its_neighbours():
    whole = random_bits(np, 7, 1, row_counters(2, np.arange(10)), 5)
    assert np.array_equal(random_bits(np, 7, 1, row_counters(2, np.arange(3, 5)), 5), whole[3:5])
    assert np.array_equal(random_bits(np, 7, 1, row_counters(2, np.arange(10)), 2), whole[:, :2])


def test_rows_of_different_epochs_may_stand_together():
    mixed = np.concatenate([row_counters(0, np.arange(2)), row_counters(1, np.arange(2))])
    parts = [random_bits(np, 7, 1, row_counters(epoch, np.arange(2)), 3) for epoch in (0, 1)]
    assert np.array_equal(random_bits(np, 7, 1, mixed, 3), np.concatenate(parts))


def test_seeds_streams_epochs_and_positions_differ():
    base = random_bits(np, 1, 1, row_counters(1, np.arange(1000)), 2)
    others = [
        random_bits(np, 2, 1, row_counters(1, np.arange(1000)), 2),
        random_bits(np, 1 << 40 | 1, 1, row_counters(1, np.arange(1000)), 2),
        random_bits(np, 1, 2, row_counters(1, np.arange(1000)), 2),
        random_bits(np, 1, 1, row_counters(2, np.arange(1000)), 2),
        random_bits(np, 1, 1, row_counters(1, np.arange(1000) + (1 << 32)), 2),
    ]
    assert all((base == other).sum() <= 1 for other in others)
    assert len(np.unique(base)) > 1990


def test_bits_are_fair():
    single = np.unpackbits(random_bits(np, 3, 0, row_counters(0, np.arange(20_000)), 2).view(np.uint8))
    assert abs(single.mean() - 0.5) < 0.002
