"""Tests that buffers are reused, but never while they are referenced."""

import gc
import weakref

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.host.batch_buffers import BatchBuffers

FLOAT = np.dtype(np.float32)


def test_buffers_are_reused():
    buffers = BatchBuffers(keep=2)
    addresses = set()
    for _ in range(20):
        addresses.add(buffers.empty((100, 10), FLOAT).ctypes.data)
    assert len(addresses) == 1
    assert all(address % 64 == 0 for address in addresses)


def test_buffers_of_unused_sizes_are_released():
    buffers = BatchBuffers(keep=4)
    alone = [buffers.empty((100,), FLOAT) for _ in range(4)]
    del alone
    pair = buffers.empty((200,), FLOAT)
    assert sum(memory.nbytes for unused in buffers._free.values() for memory in unused) == 0
    del pair
    assert sum(memory.nbytes for unused in buffers._free.values() for memory in unused) == 200 * 4


def test_released_buffers_are_freed():
    buffers = BatchBuffers(keep=4)
    lent, unused = buffers.empty((100,), FLOAT), buffers.empty((100,), FLOAT)
    memory = [weakref.ref(owner[1].base) for owner in buffers._owners.values()]
    del unused
    buffers.release()
    assert [item() is None for item in memory] == [False, True]
    del lent
    assert memory[0]() is None
    # The pool can be used again.
    assert buffers.empty((100,), FLOAT).shape == (100,)


@given(st.lists(st.integers(0, 5), max_size=3), st.sampled_from(["u1", "f4", "i8", "?"]))
def test_buffers_of_any_shape(shape, dtype):
    array = BatchBuffers(keep=1).empty(tuple(shape), np.dtype(dtype))
    assert (array.shape, array.dtype) == (tuple(shape), np.dtype(dtype))
    array[...] = 1
    assert array.flags.c_contiguous


HOLDERS = {
    "the array": lambda array: array,
    "a row": lambda array: array[3],
    "a strided view": lambda array: array.T[::2, ::-1],
    "another dtype": lambda array: array.view(np.uint8),
    "a memoryview": lambda array: memoryview(array),
    "a jax array": lambda array: jax.device_put(array),
    "a view of a jax array": lambda array: np.asarray(jax.device_put(array)),
    "a row of that": lambda array: np.asarray(jax.device_put(array))[5],
    "what dlpack made of it": lambda array: np.from_dlpack(jax.device_put(array)),
    "a jax array from a callback": lambda array: jax.make_array_from_callback(
        array.shape, jax.sharding.SingleDeviceSharding(jax.devices()[1]), array.__getitem__
    ),
}


@pytest.mark.parametrize("name", HOLDERS)
def test_referenced_buffers_are_not_reused(name):
    buffers = BatchBuffers(keep=4)
    array = buffers.empty((64, 64), FLOAT)
    array[...] = 7
    address = array.ctypes.data
    holder = HOLDERS[name](array)
    jax.block_until_ready(holder)
    del array
    gc.collect()
    others = [buffers.empty((64, 64), FLOAT) for _ in range(6)]
    for other in others:
        assert other.ctypes.data != address
        other[...] = 0
    held = np.asarray(holder)
    assert ((held == 7) if held.dtype == FLOAT else held.any(axis=-1)).all()


def test_buffers_return_after_jax_releases_them():
    buffers = BatchBuffers(keep=4)
    array = buffers.empty((64, 64), FLOAT)
    address = array.ctypes.data
    result = jax.jit(lambda x: x + 1.0)(jax.device_put(array))
    del array
    result.block_until_ready()
    del result
    addresses = set()
    while address not in addresses:  # a thread of JAX's may hold it a moment longer than the result is waited for
        gc.collect()
        jax.device_put(np.zeros(1)).block_until_ready()  # JAX drops references at its next call
        addresses = {buffers.empty((64, 64), FLOAT).ctypes.data for _ in range(3)}


def test_buffers_in_use_outlive_pool():
    buffers = BatchBuffers(keep=1)
    array = buffers.empty((8,), FLOAT)
    array[...] = 3
    del buffers
    gc.collect()
    assert (array == 3).all()


def test_number_of_unused_buffers_is_limited():
    buffers = BatchBuffers(keep=2)
    lent = [buffers.empty((10,), FLOAT) for _ in range(9)]
    lent.clear()
    assert len(buffers._free[40]) == 2
    assert not buffers._owners
