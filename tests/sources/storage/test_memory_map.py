"""Rows of mapped files: what they are, and what becomes of them when the file is cut."""

import ctypes
import errno
import mmap
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import SourceError
from penstock.sources.formats.array_source import ArraySource
from penstock.sources.storage import memory_map


def allowed():
    """Whether the kernel copies memory of its own process here."""
    given, into = np.arange(3), np.zeros(3, np.int64)
    try:
        memory_map._copy_memory(np.array([given.ctypes.data]), given.nbytes, into)
    except OSError:
        return False
    return into.tolist() == [0, 1, 2]


KERNEL = pytest.mark.skipif(not allowed(), reason="process_vm_readv is not allowed here")


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
    wraps = st.sampled_from(["", "", "repeated", "windows", "buffer"])
    return shape, dtype, draw(st.sampled_from("CF")), parts, axes, draw(wraps)


@KERNEL
@settings(deadline=None, max_examples=300)
@given(view=views(), data=st.data())
def test_rows_of_any_view_are_what_numpy_takes(tmp_path_factory, view, data):
    shape, dtype, order, parts, axes, wrap = view
    file = tmp_path_factory.getbasetemp() / "view.npy"
    numbers = np.random.default_rng(1).integers(0, 100, shape).astype(dtype)
    file.unlink(missing_ok=True)
    np.save(file, np.asarray(numbers, order=order))
    array = np.load(file, mmap_mode="r")[parts].transpose(axes)
    if wrap == "repeated":
        array = np.broadcast_to(array, (3, *array.shape))
    elif wrap == "windows" and len(array) > 1:
        array = np.lib.stride_tricks.sliding_window_view(array, 2, axis=0)
    elif wrap == "buffer" and array.flags.c_contiguous and array.dtype.isnative:
        array = np.asarray(memoryview(array))
    if len(array) == 0:
        return
    indices = np.array(data.draw(st.lists(st.integers(0, len(array) - 1), max_size=9)), np.int64)
    expected = np.array(array)[indices]
    source = ArraySource([array], [""])
    rows = source._mapped[0]
    swapped = np.empty(expected.shape, expected.dtype.newbyteorder())
    for out in (None, np.empty_like(expected), np.empty((*expected.shape, 2), expected.dtype)[..., 0], swapped):
        read = rows.copied(indices, out)
        assert out is None or read is out
        np.testing.assert_array_equal(read, expected)
    assert source.fingerprint() == ArraySource([np.array(array)], [""]).fingerprint()


def missing():
    raise OSError(errno.ENOSYS, "process_vm_readv")


@pytest.mark.parametrize("error", [errno.ENOSYS, errno.EPERM])
def test_what_the_kernel_may_not_copy_numpy_copies(error, tmp_path, monkeypatch):
    def refused(*given):
        ctypes.set_errno(error)
        return -1

    numbers = np.arange(24, dtype=np.int16).reshape(6, 2, 2)
    np.save(tmp_path / "rows.npy", numbers)
    array = np.load(tmp_path / "rows.npy", mmap_mode="r")
    source = ArraySource([array, array.transpose(0, 2, 1)], ["", ""])
    monkeypatch.setattr(memory_map, "_system_call", lambda: refused)
    out = np.empty((3, 2, 2), np.int16)
    read, turned = source.read(np.array([5, 0, 0]), [out, None])
    assert read is out
    np.testing.assert_array_equal(read, numbers[[5, 0, 0]])
    np.testing.assert_array_equal(turned, numbers[[5, 0, 0]].transpose(0, 2, 1))
    os.truncate(tmp_path / "rows.npy", 100)
    with pytest.raises(SourceError, match=r"rows.npy' became shorter while it was mapped\n +given: +100 bytes"):
        source.read(np.array([0]), [None, None])


def test_a_system_without_the_call(monkeypatch):
    monkeypatch.setattr(memory_map.sys, "platform", "darwin")
    with pytest.raises(OSError, match="process_vm_readv"):
        memory_map._system_call.__wrapped__()


def test_large_rows_are_copied_by_numpy_between_looks_at_the_size_of_their_file(tmp_path, monkeypatch):
    np.save(tmp_path / "rows.npy", np.arange(12 * (1 << 16), dtype=np.uint8).reshape(12, -1))
    source = ArraySource([np.load(tmp_path / "rows.npy", mmap_mode="r")], [""])
    looks = []
    monkeypatch.setattr(memory_map, "_system_call", missing)
    monkeypatch.setattr(source._mapped[0], "_check", lambda: looks.append(1))
    monkeypatch.setattr(memory_map, "_GROUP", 1 << 17)
    chosen = np.array([3, 11, 0, 7, 7])
    out = np.empty((5, 1 << 16), np.uint8)
    (read,) = source.read(chosen, [out])
    assert read is out
    np.testing.assert_array_equal(read, source.arrays[0][chosen])
    assert len(looks) == 4


@KERNEL
@pytest.mark.parametrize(
    ("view", "pieces"),
    [
        (lambda x: x, 1),
        (lambda x: x[:, :, ::-1, ::-1], 1),
        (lambda x: x[:, ::8, ::8], 1),
        (lambda x: x.transpose(0, 3, 1, 2), 1),
        (lambda x: x[:, :2, :2], 1),
        (lambda x: x[:, ::63], 2),
        (lambda x: x.reshape(8, 2, -1).transpose(1, 0, 2), 8),
    ],
    ids=["as it is", "turned", "every eighth", "planes", "corner", "first and last line", "frames of series"],
)
def test_a_row_is_copied_in_few_pieces(view, pieces, tmp_path):
    """A piece costs as much as some kilobytes between the elements that are wanted."""
    np.save(tmp_path / "rows.npy", np.zeros((16, 64, 64, 3), np.uint8))
    assert len(memory_map.as_memory_mapped(view(np.load(tmp_path / "rows.npy", mmap_mode="r")))._offsets) == pieces


@pytest.mark.parametrize("longest", [1, 7, 64, 1000])
@KERNEL
def test_a_copy_that_the_kernel_ends_early_goes_on(longest, monkeypatch):
    """It copies at most 2 GB in a call."""
    real = memory_map._system_call()
    given, calls = np.random.default_rng(0).integers(0, 256, 9000, dtype=np.uint8), []

    def copy(process, here, one, there, count, flags):
        length = ctypes.c_int64.from_address(here + 8)
        length.value = min(length.value, longest)
        calls.append(count)
        return real(process, here, one, there, count, flags)

    starts = np.array([0, 30, 33, 36, 8997, 36, *range(100, 8000, 4)])
    into = np.empty(3 * len(starts), np.uint8)
    monkeypatch.setattr(memory_map, "_system_call", lambda: copy)
    memory_map._copy_memory(given.ctypes.data + starts, 3, into)
    np.testing.assert_array_equal(into.reshape(-1, 3), given[starts[:, None] + np.arange(3)])
    assert len(calls) >= into.size / longest
    assert max(calls) == memory_map._PIECES


@KERNEL
def test_neighbouring_rows_are_one_piece(tmp_path, monkeypatch):
    np.save(tmp_path / "rows.npy", np.zeros((256, 16), np.uint8))
    counts, copy = [], memory_map._system_call()
    monkeypatch.setattr(memory_map, "_system_call", lambda: lambda *given: counts.append(given[4]) or copy(*given))
    rows = memory_map.as_memory_mapped(np.load(tmp_path / "rows.npy", mmap_mode="r"))
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
    rows = memory_map.as_memory_mapped(np.load(tmp_path / "rows.npy", mmap_mode="r"))
    np.testing.assert_array_equal(rows.copied(np.arange(399, -1, -1)), numbers)
    os.truncate(tmp_path / "rows.npy", keep)
    with pytest.raises(SourceError, match=f"rows.npy' became shorter while it was mapped\n +given: +{keep} bytes"):
        rows.copied(np.array([399, 0]))
    with pytest.raises(SourceError, match="became shorter"):
        rows.copied(np.array([0]))


@pytest.mark.parametrize("by_numpy", [False, True])
def test_a_file_that_is_cut_while_a_batch_is_copied(by_numpy, tmp_path, monkeypatch):
    file = tmp_path / "rows.npy"
    np.save(file, np.ones((40, 1000), np.uint8))
    source = ArraySource([np.load(file, mmap_mode="r")], [""])
    rows = source._mapped[0]
    copy = rows._copy

    def cut_after_the_copy(indices, out):
        copy(indices, out)
        os.truncate(file, file.stat().st_size - 10)  # within a page, which stays, and has zeros from there on

    if by_numpy:
        monkeypatch.setattr(memory_map, "_system_call", missing)
    assert source.read(np.arange(40), [None])[0].all()
    monkeypatch.setattr(rows, "_copy", cut_after_the_copy)
    with pytest.raises(SourceError, match="became shorter while it was mapped"):
        source.read(np.arange(40), [None])


@pytest.mark.parametrize("keep", [100, 900])
def test_a_file_that_is_cut_before_its_rows_are_declared(keep, tmp_path):
    np.save(tmp_path / "rows.npy", np.ones((100, 100), np.uint8))
    array = np.load(tmp_path / "rows.npy", mmap_mode="r")
    os.truncate(tmp_path / "rows.npy", keep)
    with pytest.raises(SourceError, match="became shorter"):
        ArraySource([array], [""]).read(np.array([0, 99]), [None])


def test_what_follows_the_rows_may_be_cut(tmp_path):
    np.save(tmp_path / "rows.npy", np.ones((100, 100), np.uint8))
    source = ArraySource([np.load(tmp_path / "rows.npy", mmap_mode="r")[:10]], [""])
    os.truncate(tmp_path / "rows.npy", 128 + 1000)
    assert source.read(np.array([9]), [None])[0].all()
    os.truncate(tmp_path / "rows.npy", 128 + 999)
    with pytest.raises(SourceError, match="became shorter"):
        source.read(np.array([0]), [None])


@KERNEL
@pytest.mark.parametrize(
    "view",
    [
        lambda x: np.lib.stride_tricks.sliding_window_view(x, 4, axis=1),
        lambda x: np.frombuffer(memoryview(x), np.uint8).reshape(x.shape),
        lambda x: np.asarray(memoryview(x))[::-1],
    ],
    ids=["windows", "from a buffer", "through a memoryview"],
)
def test_views_that_numpy_makes_by_helpers_are_of_the_file(view, tmp_path):
    np.save(tmp_path / "rows.npy", np.ones((100, 100), np.uint8))
    source = ArraySource([view(np.load(tmp_path / "rows.npy", mmap_mode="r"))], [""])
    assert source.read(np.array([0, 99]), [None])[0].all()
    os.truncate(tmp_path / "rows.npy", 0)
    with pytest.raises(SourceError, match=r"rows.npy' became shorter"):
        source.read(np.array([0, 99]), [None])


@KERNEL
def test_a_file_that_is_removed_and_cut(tmp_path):
    file = tmp_path / "rows"
    file.write_bytes(bytes(range(100)) * 100)
    with file.open("r+b") as opened:
        rows = memory_map.as_memory_mapped(np.memmap(opened, mode="r", shape=(99, 100), offset=100))
        file.unlink()
        assert rows.copied(np.array([98]))[0].tolist() == list(range(100))
        opened.truncate(5000)
        with pytest.raises(SourceError, match="rows' became shorter while it was mapped"):
            rows.copied(np.array([98]))


@KERNEL
def test_pages_that_the_disk_does_not_give(tmp_path, monkeypatch):
    def failing(*given):
        ctypes.set_errno(errno.EFAULT)
        return -1

    np.save(tmp_path / "rows.npy", np.ones((100, 100), np.uint8))
    rows = memory_map.as_memory_mapped(np.load(tmp_path / "rows.npy", mmap_mode="r"))
    monkeypatch.setattr(memory_map, "_system_call", lambda: failing)
    with pytest.raises(SourceError, match=r"a part of '.*rows.npy' cannot be read\n.*errors of its disk"):
        rows.copied(np.array([5]))


def test_a_file_that_cannot_be_looked_at_any_more(tmp_path, monkeypatch):
    class Gone:
        def size(self):
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    np.save(tmp_path / "rows.npy", np.ones((100, 100), np.uint8))
    rows = memory_map.as_memory_mapped(np.load(tmp_path / "rows.npy", mmap_mode="r"))
    monkeypatch.setattr(rows, "_memory", Gone())
    with pytest.raises(SourceError, match=r"rows.npy', which is mapped, cannot be looked at\n.*given: .*[Ss]tale"):
        rows.copied(np.array([5]))


def test_maps_without_a_name_are_compared_by_content(tmp_path):
    (tmp_path / "rows").write_bytes(bytes(range(100)))

    def unnamed(file):
        descriptor = os.open(file, os.O_RDONLY)
        with os.fdopen(descriptor, "rb") as opened:
            array = np.memmap(opened, mode="r", shape=(10, 10))
        assert memory_map.as_memory_mapped(array).place is None
        return ArraySource([array], [""])

    (tmp_path / "others").write_bytes(bytes(range(1, 101)))
    assert unnamed(tmp_path / "rows").reads_same_samples(unnamed(tmp_path / "rows"))
    assert not unnamed(tmp_path / "rows").reads_same_samples(unnamed(tmp_path / "others"))


def test_memory_that_numpy_did_not_map_counts_as_memory(tmp_path):
    (tmp_path / "rows").write_bytes(bytes(4096))
    with (tmp_path / "rows").open("rb") as file:
        by_hand = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    for memory in (mmap.mmap(-1, 4096), by_hand, bytes(4096)):
        array = np.frombuffer(memory, np.uint8).reshape(4, 1024)
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
from penstock.sources.formats.array_source import ArraySource
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
