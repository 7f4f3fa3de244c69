"""Rows of mapped files: what they are, and what becomes of them when the file is cut."""

import ctypes
import mmap
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.data import mapped
from penstock.data.arrays import ArraySource
from penstock.errors import SourceError

KERNEL = pytest.mark.skipif(mapped._kernel_copy() is None, reason="process_vm_readv is not allowed here")


@st.composite
def views(draw):
    """How an array is saved, and which view of it is read."""
    shape = tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=4)))
    dtype = draw(st.sampled_from(["u1", "<i2", ">f4", "f8", "c16", "?"]))
    ends = [draw(st.integers(0, size)) for size in shape]
    steps = [draw(st.sampled_from([1, 1, 2, -1, -3])) for _ in shape]
    parts = tuple(
        slice(None, end, step) if step > 0 else slice(end, None, step) for end, step in zip(ends, steps, strict=True)
    )
    axes = draw(st.permutations(range(len(shape))))
    return shape, dtype, draw(st.sampled_from("CF")), parts, axes, draw(st.booleans())


@KERNEL
@settings(deadline=None, max_examples=300)
@given(view=views(), data=st.data())
def test_rows_of_any_view_are_what_numpy_takes(tmp_path_factory, view, data):
    shape, dtype, order, parts, axes, repeated = view
    file = tmp_path_factory.getbasetemp() / "view.npy"
    numbers = np.random.default_rng(1).integers(0, 100, shape).astype(dtype)
    file.unlink(missing_ok=True)
    np.save(file, np.asarray(numbers, order=order))
    array = np.load(file, mmap_mode="r")[parts].transpose(axes)
    if repeated:
        array = np.broadcast_to(array, (3, *array.shape))
    if len(array) == 0:
        return
    indices = np.array(data.draw(st.lists(st.integers(0, len(array) - 1), max_size=9)), np.int64)
    expected = np.array(array)[indices]
    source = ArraySource([array], [""])
    rows = source._mapped[0]
    for out in (None, np.empty_like(expected), np.empty((*expected.shape, 2), expected.dtype)[..., 0]):
        read = rows.copied(indices, out)
        assert out is None or read is out
        assert read.dtype == expected.dtype
        np.testing.assert_array_equal(read, expected)
    assert source.fingerprint() == ArraySource([np.array(array)], [""]).fingerprint()


def test_what_the_kernel_may_not_copy_numpy_copies(tmp_path, monkeypatch):
    numbers = np.arange(24, dtype=np.int16).reshape(6, 2, 2)
    np.save(tmp_path / "rows.npy", numbers)
    source = ArraySource([np.load(tmp_path / "rows.npy", mmap_mode="r")], [""])
    monkeypatch.setattr(mapped, "_kernel_copy", lambda: None)
    out = np.empty((3, 2, 2), np.int16)
    (read,) = source.read(np.array([5, 0, 0]), [out])
    assert read is out
    np.testing.assert_array_equal(read, numbers[[5, 0, 0]])
    os.truncate(tmp_path / "rows.npy", 100)
    with pytest.raises(SourceError, match=r"rows.npy' became shorter while it was mapped\n +given: +100 bytes"):
        source.read(np.array([0]), [None])


@pytest.mark.parametrize("longest", [1, 7, 64, 1000])
@KERNEL
def test_a_copy_that_the_kernel_ends_early_goes_on(longest):
    """It copies at most 2 GB in a call."""
    given, calls = np.random.default_rng(0).integers(0, 256, 9000, dtype=np.uint8), []

    def copy(process, here, one, there, count, flags):
        length = ctypes.c_int64.from_address(here + 8)
        length.value = min(length.value, longest)
        calls.append(count)
        return mapped._kernel_copy()(process, here, one, there, count, flags)

    starts = np.array([0, 30, 33, 36, 8997, 36, *range(100, 8000, 4)])
    into = np.empty(3 * len(starts), np.uint8)
    assert mapped._copied(copy, given.ctypes.data + starts, 3, into)
    np.testing.assert_array_equal(into.reshape(-1, 3), given[starts[:, None] + np.arange(3)])
    assert len(calls) >= into.size / longest
    assert max(calls) == mapped._PIECES


@KERNEL
def test_neighbouring_rows_are_one_piece(tmp_path, monkeypatch):
    np.save(tmp_path / "rows.npy", np.zeros((256, 16), np.uint8))
    counts, copy = [], mapped._kernel_copy()
    monkeypatch.setattr(mapped, "_kernel_copy", lambda: lambda *given: counts.append(given[4]) or copy(*given))
    rows = mapped.mapped_rows(np.load(tmp_path / "rows.npy", mmap_mode="r"))
    rows.copied(np.arange(10, 100))
    rows.copied(np.array([3, 4, 5, 5, 6, 1, 0]))
    rows.copied(np.arange(256))
    assert counts == [1, 4, 1]


@pytest.mark.parametrize("keep", [0, 200, 4096, 8000, 39_999])
@KERNEL
def test_a_file_that_is_cut_after_every_look_at_it(keep, tmp_path):
    """Nothing looks at the file before its rows are copied: the copy meets the lost pages."""
    numbers = np.ones((400, 100), np.uint8)
    np.save(tmp_path / "rows.npy", numbers)
    rows = mapped.mapped_rows(np.load(tmp_path / "rows.npy", mmap_mode="r"))
    np.testing.assert_array_equal(rows.copied(np.arange(399, -1, -1)), numbers)
    os.truncate(tmp_path / "rows.npy", keep)
    with pytest.raises(SourceError, match=f"rows.npy' became shorter while it was mapped\n +given: +{keep} bytes"):
        rows.copied(np.array([399, 0]))
    with pytest.raises(SourceError, match="became shorter"):
        rows.copied(np.array([0]))


@KERNEL
def test_a_map_without_a_name_whose_file_is_removed_and_cut(tmp_path):
    file = tmp_path / "rows"
    file.write_bytes(bytes(range(100)) * 100)
    with file.open("r+b") as opened:
        memory = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
        rows = mapped.mapped_rows(np.frombuffer(memoryview(memory)[100:], np.uint8).reshape(99, 100))
        file.unlink()
        assert rows.copied(np.array([98]))[0].tolist() == list(range(100))
        opened.truncate(5000)
        with pytest.raises(SourceError, match="a mapped file became shorter while it was mapped"):
            rows.copied(np.array([98]))


@KERNEL
def test_pages_that_the_disk_does_not_give(tmp_path):
    (tmp_path / "rows").write_bytes(bytes(8192))
    with (tmp_path / "rows").open("rb") as file:  # a map that nobody may read stands for a disk that fails
        memory = mmap.mmap(file.fileno(), 8192, flags=mmap.MAP_PRIVATE, prot=0)
    rows = mapped.mapped_rows(np.frombuffer(memory, np.uint8).reshape(8, 1024))
    with pytest.raises(SourceError, match=r"a part of a mapped file cannot be read\n.*errors of its disk"):
        rows.copied(np.array([5]))


def test_memory_without_a_file_is_not_mapped():
    array = np.frombuffer(mmap.mmap(-1, 4096), np.uint8).reshape(4, 1024)
    assert ArraySource([array], [""]).in_memory[0] is array


def test_rows_that_were_written_to_a_private_map_are_read(tmp_path):
    np.save(tmp_path / "rows.npy", np.zeros((4, 3), np.int32))
    array = np.load(tmp_path / "rows.npy", mmap_mode="c")
    array[2] = 7
    (read,) = ArraySource([array], [""]).read(np.array([1, 2]), [None])
    assert read.tolist() == [[0, 0, 0], [7, 7, 7]]


CUT = """
import os, sys
file, size = sys.argv[1], os.stat(sys.argv[1]).st_size
print("ready", flush=True)
while True:
    os.truncate(file, 4096)
    os.truncate(file, size)
"""

READ = """
import sys
import numpy as np
from penstock.data.arrays import ArraySource
from penstock.errors import SourceError
source = ArraySource([np.load(sys.argv[1], mmap_mode="r")], [""])
print("ready", flush=True)
sys.stdin.readline()
refused, random = 0, np.random.default_rng(0)
for _ in range(3000):
    try:
        source.read(random.integers(0, len(source), 64), [None])
    except SourceError:
        refused += 1
print("refused", refused > 0)
"""


@KERNEL
@pytest.mark.slow
def test_a_file_that_another_process_cuts_all_the_time(tmp_path):
    file = tmp_path / "rows.npy"
    np.save(file, np.ones((2000, 3000), np.uint8))

    def start(program):
        command = [sys.executable, "-c", program, str(file)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert process.stdout.readline() == "ready\n"
        return process

    reader = start(READ)
    writer = start(CUT)
    try:
        said, _ = reader.communicate("go\n", timeout=120)
    finally:
        for process in (reader, writer):
            process.kill()
            process.communicate()
    assert (reader.returncode, said) == (0, "refused True\n")
