"""Compiled loops equal their Python twins, and shortcuts equal the plain path, bit by bit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.data.order import Order
from penstock.operators.compiled import scale_and_shift
from penstock.operators.convert import normalize

numbers = st.floats(-1e4, 1e4, width=32)


@given(numbers, numbers, numbers, st.integers(0, 50), st.sampled_from(["u1", "i2", "f4", "f2"]))
def test_scale_and_shift_equals_its_twin(mean, factor, shift, count, dtype):
    values = np.random.default_rng(count).integers(0, 100, count).astype(dtype)
    compiled, plain = np.empty(count, np.float32), np.empty(count, np.float32)
    terms = np.float32(mean), np.float32(factor), np.float32(shift)
    if dtype == "f2":
        values = values.astype(np.float32)
    scale_and_shift(values, *terms, compiled)
    scale_and_shift.plain(values, *terms, plain)
    assert np.array_equal(compiled, plain)


@given(numbers, numbers, st.sampled_from([0.0, 0.5, -3.25]))
def test_the_flat_way_equals_the_general_one(mean, factor, shift):
    values = np.arange(240, dtype=np.uint8).reshape(2, 4, 10, 3)
    terms = np.float32([[[[mean]]]]), np.float32([[[[factor]]]])
    flat = normalize(np, values, *terms, shift, np.dtype(np.float32))
    general = normalize(np, values, *terms, shift, np.dtype(np.float32), np.empty((3, 10, 4, 2), np.float32).T)
    assert np.array_equal(flat, general)


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("shards", [1, 3])
@given(start=st.integers(0, 20_000), count=st.integers(1, 300), length=st.integers(3, 9000), epoch=st.integers(0, 4))
def test_spans_equal_positions(shuffle, shards, start, count, length, epoch):
    order = Order(length, shuffle, 5, shards=shards, shard=shards - 1)
    positions = np.arange(start, start + count)
    assert np.array_equal(order.span(epoch, start, count), order.indices(epoch, positions))
    assert np.array_equal(order.endless_span(start, count), order.endless(positions))
