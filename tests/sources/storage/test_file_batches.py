"""Files that are read together equal files that are read alone, and so do their errors."""

import contextlib
import os

import numpy as np
import pytest

from penstock.errors import PenstockError
from penstock.native.argument_block import address
from penstock.sources.files.file_source import FileSource
from penstock.sources.storage import file_batches, file_loop
from penstock.sources.storage.random_access_file import LocalFile

pytestmark = pytest.mark.skipif(not file_loop.is_supported(), reason="files are read alone here")

# Regular, but shorter than its size.
SHORT = "/sys/kernel/mm/transparent_hugepage/enabled"


@pytest.fixture
def names(tmp_path):
    """Write files, and return their names and those of other things."""
    draw = np.random.default_rng(0)
    names = []
    for number, size in enumerate([1, 15, 16, 17, 4096, 5_000_000, 4_000_000, 3, *range(100, 150), (1 << 23) + 1]):
        names.append(f"{number:0{number + 1}}.bin")
        (tmp_path / names[-1]).write_bytes(draw.bytes(size))
    (tmp_path / "link").symlink_to(names[4])
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "empty").touch()
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    unreadable = tmp_path / "unreadable"
    unreadable.write_bytes(b"secret")
    unreadable.chmod(0)
    others = ["link", "loop", "empty", "folder", "folder/", "pipe", "unreadable", "missing", "folder/missing"]
    others += ["a" * 300, str(tmp_path / names[3]), "/dev/zero", SHORT, f"../{tmp_path.name}/{names[0]}"]
    # A name that ends within the path of another file, and no name.
    others += [f"{names[0]}\0{names[1]}", ""]
    return [*names[:20], *others, *names[20:]]


def as_result(data):
    """Return bytes, or the type and text of an error."""
    return (type(data), str(data)) if isinstance(data, OSError) else data.tobytes()


def test_files_and_errors_equal_those_of_files_that_are_read_alone(names, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for root in ("", str(tmp_path), f"{tmp_path}/"):
        source = FileSource(root, [os.fsencode(name) for name in names], [0] * len(names))
        together = [as_result(data) for data in source.attempts(np.arange(len(names)))]
        assert together == [as_result(source._local(index)) for index in range(len(names))]


def test_a_file_of_too_many_bytes_is_refused_as_if_it_were_read_alone(names, tmp_path, monkeypatch):
    names = [os.fsencode(name) for name in names[:20]] * 4
    source = FileSource(str(tmp_path), names, [0] * len(names))
    monkeypatch.setenv("PENSTOCK_MAX_SAMPLE_SIZE", "4500000")
    with pytest.raises(PenstockError) as together:
        source.contents(np.arange(len(names)))
    assert as_result(together.value) == as_result(source._local(5))


def test_contents_are_read_only_and_not_overwritten(names, tmp_path):
    reader = file_batches.FileBatchReader(os.fsencode(tmp_path))
    files = np.array([os.fsencode(name) for name in names[:20]])
    first = reader.read(files)
    contents = [data.tobytes() for data in first]
    second = reader.read(files[::-1])
    assert [data.tobytes() for data in first] == contents == [data.tobytes() for data in second[::-1]]
    assert not any(data.flags.writeable for data in first)


def test_the_loop_equals_its_python_function(names, tmp_path):
    names = np.array([os.fsencode(name) for name in names])
    text = names.view(np.uint8).reshape(len(names), -1)
    root = np.frombuffer(os.fsencode(tmp_path) + b"/", np.uint8)
    results = []
    for loop in (file_loop.read_files, file_loop.read_files.python_function):
        path, status = np.zeros(root.size + text.shape[1] + 2, np.uint8), np.zeros(file_loop.STATUS_WORDS, np.int64)
        places, memory = np.full((len(names), 2), file_loop.UNREAD), np.zeros(5_500_000, np.uint8)
        addresses = address(path), status, address(status), address(memory), len(memory)
        loop(root, text, path, *addresses, 4_500_000, places)
        results.append((places.tolist(), memory.tobytes()))
    assert results[0] == results[1]
    places = results[0][0]
    assert places[5][0] == file_loop.FAILED  # larger than the limit
    assert places[-1] == [file_loop.FAILED] * 2


def test_memory_of_one_file_after_the_other(names, tmp_path, monkeypatch):
    """Read files that do not fit into the memory together."""
    monkeypatch.setattr(file_batches, "_MIN_MEMORY", 64)
    reader = file_batches.FileBatchReader(os.fsencode(tmp_path))
    reader._mean = 1
    read = reader.read(np.array([os.fsencode(name) for name in names[:20]]))
    assert [data.tobytes() for data in read] == [(tmp_path / name).read_bytes() for name in names[:20]]


def test_ranges_of_a_file(tmp_path):
    content = np.random.default_rng(0).bytes(1000)
    (tmp_path / "file").write_bytes(content)
    starts, sizes = np.array([990, 0, 5, 5, 40]), np.array([10, 3, 0, 20, 1])
    places = np.array([10, 0, 3, 24, 44])
    expected = bytearray(b"." * 50)
    for start, size, place in zip(starts.tolist(), sizes.tolist(), places.tolist(), strict=True):
        expected[place : place + size] = content[start : start + size]
    with contextlib.closing(LocalFile(str(tmp_path / "file"))) as file:
        for native in (True, False):
            data, failed = np.full(50, ord("."), np.uint8), np.zeros(1, np.int64)
            if native:
                file.advise(starts, sizes)
                assert file.read_ranges(starts, sizes, places, data)
            else:
                file_loop.advise_ranges.python_function(file._descriptor, starts, sizes)
                file_loop.read_ranges.python_function(file._descriptor, starts, sizes, places, address(data), failed)
            assert (data.tobytes(), failed[0]) == (expected, 0)
        assert not file.read_ranges(starts, sizes + 1, places, data)  # the first range ends behind the file
