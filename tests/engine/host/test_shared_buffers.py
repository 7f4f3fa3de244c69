"""Shared memory of batches: found by address, freed when nothing reaches it, and few file descriptors."""

import gc
import mmap
import os

import numpy as np
import psutil
import pytest

from penstock import errors
from penstock.engine.host import shared_buffers
from penstock.engine.host.shared_buffers import SharedBuffers

PAGE = mmap.PAGESIZE


def open_files():
    gc.collect()  # so that files of other tests are closed before
    return psutil.Process().num_fds()


def blocks(descriptor):
    """Bytes of a segment that take memory."""
    return os.fstat(descriptor).st_blocks * 512


def test_buffers_are_found_and_forgotten(monkeypatch):
    monkeypatch.setattr(shared_buffers, "_SMALLEST", 4 * PAGE)
    buffers = SharedBuffers()
    first, second, third = buffers.empty(100), buffers.empty(2 * PAGE + 1), buffers.empty(PAGE)
    places = [buffers.locate(view) for view in (first[10:], second[5:], third)]
    assert [(place.segment, place.place.offset) for place in places] == [(1, 10), (1, PAGE + 5), (2, 0)]
    assert all(array.ctypes.data % PAGE == 0 for array in (first, second, third))
    assert buffers.freed({1, 2}) == set()
    view = second[7:]
    del first, second
    assert buffers.freed({1, 2}) == set()
    del view
    assert buffers.freed({1, 2}) == {1}
    del third
    assert buffers.freed({1, 2}) == {1, 2}
    assert buffers.locate(buffers.empty(8)).segment == 3
    with pytest.raises(errors.InternalError, match="not in shared memory"):
        buffers.locate(np.zeros(3))


def test_the_number_of_descriptors_grows_with_the_logarithm_of_the_memory():
    buffers, before = SharedBuffers(), open_files()
    held = [buffers.empty(1 << 20) for _ in range(4096)]
    assert open_files() - before < 40
    for number in range(0, 4096, 97):
        place = buffers.locate(held[number])
        held[number][:] = number % 251
        with mmap.mmap(buffers.descriptor(place.segment), 0) as memory:  # as a worker sees it
            assert memory[place.place.offset + (1 << 20) - 1] == number % 251
    held.clear()
    assert open_files() == before


@pytest.mark.skipif(not hasattr(mmap, "MADV_REMOVE"), reason="the system cannot free a part of a segment")
def test_the_memory_of_a_buffer_is_freed_before_that_of_its_segment():
    buffers = SharedBuffers()
    first, second = buffers.empty(1 << 20), buffers.empty(1 << 20)
    first[:], second[:] = 1, 2
    descriptor = buffers.descriptor(1)
    assert blocks(descriptor) == 2 << 20
    del first
    assert blocks(descriptor) == 1 << 20
    assert (second == 2).all()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning", "ignore:.*fork:RuntimeWarning")
def test_a_fork_that_drops_a_buffer_does_not_clear_it():
    buffers = SharedBuffers()
    first, second = buffers.empty(PAGE), buffers.empty(PAGE)
    first[:], second[:] = 1, 2
    child = os.fork()
    if child == 0:
        del first
        os._exit(0)
    os.waitpid(child, 0)
    assert (first == 1).all()


def test_descriptors_are_closed_with_the_owner_of_the_buffers():
    before = open_files()
    buffers = SharedBuffers()
    held = buffers.empty(8)
    del buffers
    assert open_files() == before + 1, "the map has a duplicate"
    del held
    assert open_files() == before
