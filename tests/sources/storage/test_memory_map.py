"""Rows of mapped files, and the errors for files that become shorter."""

import errno
import mmap
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import SourceError
from penstock.sources.formats.array_source import ArraySource
from penstock.sources.storage import memory_map


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
        read = rows.gather(indices, out)
        assert out is None or read is out
        np.testing.assert_array_equal(read, expected)
    assert source.fingerprint() == ArraySource([np.array(array)], [""]).fingerprint()


@pytest.mark.parametrize("mode", ["r", "c"])
@pytest.mark.parametrize("keep", [0, 200, 4096, 8000, 39_999])
def test_a_file_that_is_cut_between_batches(keep, mode, tmp_path):
    numbers = np.ones((400, 100), np.uint8)
    np.save(tmp_path / "rows.npy", numbers)
    rows = memory_map.as_memory_mapped(np.load(tmp_path / "rows.npy", mmap_mode=mode))
    np.testing.assert_array_equal(rows.gather(np.arange(399, -1, -1)), numbers)
    os.truncate(tmp_path / "rows.npy", keep)
    with pytest.raises(SourceError, match=f"rows.npy' became shorter while it was mapped\n +given: +{keep} bytes"):
        rows.gather(np.array([399, 0]))
    with pytest.raises(SourceError, match="became shorter"):
        rows.gather(np.array([0]))


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


def test_a_file_that_is_removed_and_cut(tmp_path):
    file = tmp_path / "rows"
    file.write_bytes(bytes(range(100)) * 100)
    with file.open("r+b") as opened:
        rows = memory_map.as_memory_mapped(np.memmap(opened, mode="r", shape=(99, 100), offset=100))
        file.unlink()
        assert rows.gather(np.array([98]))[0].tolist() == list(range(100))
        opened.truncate(5000)
        with pytest.raises(SourceError, match="rows' became shorter while it was mapped"):
            rows.gather(np.array([98]))


def test_a_file_that_cannot_be_looked_at_any_more(tmp_path, monkeypatch):
    class Gone:
        def size(self):
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    np.save(tmp_path / "rows.npy", np.ones((100, 100), np.uint8))
    rows = memory_map.as_memory_mapped(np.load(tmp_path / "rows.npy", mmap_mode="r"))
    monkeypatch.setattr(rows, "_memory", Gone())
    with pytest.raises(SourceError, match=r"rows.npy', which is mapped, cannot be read\n.*given: .*[Ss]tale"):
        rows.gather(np.array([5]))


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
