"""Reads and writes at a position, also without the calls that Windows lacks."""

import io
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from penstock.core import positional_io

SIZE = 1 << 16


@pytest.fixture(params=["", "_"], ids=["of the system", "as on Windows"])
def calls(request):
    return [getattr(positional_io, request.param + name) for name in ("pread", "pread_into", "pwrite")]


@pytest.fixture
def descriptor(tmp_path):
    descriptor = os.open(tmp_path / "data", os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0))
    yield descriptor
    os.close(descriptor)


def test_threads_share_a_descriptor(calls, descriptor):
    pread, pread_into, pwrite = calls
    data = np.random.default_rng(1).integers(0, 256, SIZE, np.uint8)
    places = np.random.default_rng(2).permutation(SIZE // 64) * 64

    def written(place):
        return pwrite(descriptor, data[place : place + 64].data, place)

    def read(place):
        memory = np.zeros(64, np.uint8)
        assert pread_into(descriptor, memory.data, place) == 64
        assert pread(descriptor, 64, place) == memory.tobytes()
        return memory

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(written, places.tolist())) == {64}
        for place, memory in zip(places.tolist(), pool.map(read, places.tolist()), strict=True):
            np.testing.assert_array_equal(memory, data[place : place + 64])


def test_the_end_of_a_file(calls, descriptor):
    pread, pread_into, pwrite = calls
    pwrite(descriptor, memoryview(b"abcdef"), 0)
    memory = bytearray(4)
    assert pread(descriptor, 4, 4) == b"ef"
    assert pread_into(descriptor, memoryview(memory), 4) == 2
    assert memory == b"ef\0\0"
    assert pread(descriptor, 4, 9) == b""
    assert pread_into(descriptor, memoryview(memory), 9) == 0


def test_the_position_stays(calls, descriptor):
    pread, _, pwrite = calls
    pwrite(descriptor, memoryview(b"abcdef"), 0)
    with io.FileIO(descriptor, closefd=False) as file:
        file.seek(2)
        assert pread(descriptor, 2, 4) == b"ef"
        pwrite(descriptor, memoryview(b"D"), 3)
        assert file.read(3) == b"cDe"
