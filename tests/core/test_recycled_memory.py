"""Large pieces of memory are used again, and given back when they have not been in use for a while."""

import gc
import os
import sys
import weakref

import numpy as np
import pytest

from penstock.core import recycled_memory
from penstock.core.recycled_memory import RecycledMemory

MB = 1 << 20


@pytest.fixture
def memory():
    return RecycledMemory(MB, spare=4, idle=3)


def address(array):
    return array.ctypes.data


def piece(array):
    """Return a weak reference to the piece that an array is part of."""
    return weakref.ref(array.base)


def test_a_free_piece_is_used_again(memory):
    before = address(memory.take(2 * MB))
    again = memory.take(2 * MB)
    assert address(again) == before
    assert address(memory.take(2 * MB)) != before, "it is in use"
    assert (again.dtype, again.shape, again.flags.writeable) == (np.uint8, (2 * MB,), True)


def test_a_view_keeps_a_piece_in_use(memory):
    view = memory.take(2 * MB)[5:9]
    before, view[:] = address(view) - 5, 7
    other = memory.take(2 * MB)
    other[:] = 0
    assert address(other) != before
    assert view.tolist() == [7] * 4


def test_the_smallest_piece_that_is_large_enough_is_used(memory):
    pieces = {size: memory.take(size * MB) for size in (4, 2, 3)}
    places = {address(array): size for size, array in pieces.items()}
    del pieces
    assert [places.get(address(memory.take(size * MB)), 0) for size in (2, 3, 4)] == [2, 3, 4]
    assert places[address(memory.take(5 * MB // 2))] == 3


def test_a_piece_that_is_much_larger_is_left(memory):
    before = address(memory.take(9 * MB))
    assert address(memory.take(2 * MB)) != before


def test_a_larger_piece_replaces_a_smaller_one(memory):
    small, smaller = memory.take(3 * MB), memory.take(2 * MB)
    given_back, kept = piece(small), piece(smaller)
    del small, smaller
    large = memory.take(5 * MB)
    assert given_back() is None
    assert kept() is not None
    del large
    assert address(memory.take(2 * MB)) == address(kept())


def test_a_piece_that_is_not_in_use_for_a_while_is_given_back(memory):
    used, unused = memory.take(2 * MB), memory.take(8 * MB)
    kept, given_back = piece(used), piece(unused)
    del unused
    for _ in range(3):
        assert given_back() is not None
        memory.take(MB)
    memory.take(MB)
    assert given_back() is None
    assert kept() is not None
    del used
    assert kept() is not None, "it has just been in use"
    memory.take(MB)
    assert kept() is not None


def test_free_pieces_have_a_limit_and_those_in_use_have_none(memory, monkeypatch):
    monkeypatch.setattr(recycled_memory, "_MAX_FREE", 5 * MB)
    arrays = [memory.take(2 * MB) for _ in range(6)]
    pieces = list(map(piece, arrays))
    assert all(reference() is not None for reference in pieces)
    arrays.clear()
    memory.take(9 * MB)
    assert sum(reference() is not None for reference in pieces) == 2


def test_small_arrays_are_not_kept(memory):
    array = memory.take(MB - 1)
    assert (array.size, array.base) == (MB - 1, None)


@pytest.mark.parametrize("rows", [2, MB])
def test_arrays_of_any_dtype(memory, rows):
    for dtype in ("f8", "i2", "?", "c16", "S5", [("a", "u1"), ("b", "f4")], "O"):
        array = memory.empty((rows, 3), np.dtype(dtype))
        assert (array.shape, array.dtype) == ((rows, 3), np.dtype(dtype))
        array[...] = np.zeros((), dtype)
        assert (array == np.zeros((), dtype)).all()
        assert (array.base is None) == (rows == 2 or dtype == "O"), "objects and small arrays are not kept"


def test_impossible_sizes_raise_memory_error(memory):
    with pytest.raises(MemoryError, match="cannot allocate"):
        memory.take(1 << 60)
    assert memory.take(MB).size == MB


@pytest.mark.skipif(sys.platform != "linux", reason="counts the mappings of the process")
def test_memory_is_returned_to_the_operating_system(memory):
    def resident():
        with open("/proc/self/statm") as file:  # noqa: PTH123  # as little memory as possible
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    gc.collect()
    array = memory.take(64 * MB)
    array[:] = 1
    before = resident()
    del array
    for _ in range(5):
        memory.take(MB)
    assert before - resident() > 60 * MB


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*")
def test_forked_processes_do_not_share_it(memory):
    array = memory.take(MB)
    array[:] = 1
    child = os.fork()
    if child == 0:
        array[:] = 2
        os._exit(0)
    os.waitpid(child, 0)
    assert (array == 1).all()
