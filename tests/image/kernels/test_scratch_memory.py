"""Scratch memory: small buffers belong to a thread, large ones are shared."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.core.recycled_memory import RecycledMemory
from penstock.image.kernels import scratch_memory
from penstock.image.kernels.scratch_memory import ScratchMemory


@pytest.fixture(autouse=True)
def own_memory(monkeypatch):
    monkeypatch.setattr(scratch_memory, "_shared", RecycledMemory(scratch_memory.KEPT, spare=16, idle=8))


def address(memory):
    return memory.ctypes.data


def test_small_buffers_are_kept_by_number_and_thread():
    scratch = ScratchMemory()
    first, second = scratch.take(0, 1000), scratch.take(1, 1000)
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(scratch.take, 0, 1000).result()
    assert len({address(first), address(second), address(other)}) == 3
    assert address(scratch.take(0, 900)) == address(first)
    assert [scratch.take(0, size).size for size in (1, 8, 4001)] == [8, 8, 4008]


def test_threads_share_large_buffers():
    scratch, size = ScratchMemory(), 9 << 20
    first = scratch.take(0, size)
    second = scratch.take(0, size)
    assert address(first) != address(second), "the first one is in use"
    before = address(first)
    del first
    with ThreadPoolExecutor(1) as pool:
        assert address(pool.submit(scratch.take, 1, size).result()) == before
    assert not scratch._memory, "nothing large is kept"
