"""What is fetched ahead: in which order, how much, and that nobody sees it but by the clock."""

import threading
from concurrent.futures import Future

import numpy as np
import pytest

from penstock import data_iterator, fn
from penstock.engine.host.worker_threads import ThreadExecutor
from penstock.errors import SampleError
from penstock.sources.storage import byte_range_cache as module
from penstock.sources.storage import disk_cache
from penstock.sources.storage.byte_range import ByteRange, ObjectInfo
from penstock.sources.storage.byte_range_cache import PrefetchCache
from penstock.sources.storage.range_coalescing import RangeReader

CONTENT = np.random.default_rng(1).integers(0, 256, 5 << 20, np.uint8)


@pytest.fixture
def fetched(monkeypatch):
    """Byte ranges that were fetched, from an object in memory; the one at byte 13 fails."""
    extents = []

    def fetch(extent):
        extents.append(extent)
        if extent.start == 13:
            raise OSError(5, "it is unlucky")
        return CONTENT[extent.start : extent.stop]

    monkeypatch.setattr(module, "fetch_cached", fetch)
    return extents


class ByHand:
    """Runs functions when it is told."""

    def __init__(self):
        self.begun = []

    def submit(self, function, *arguments):
        future = Future()
        self.begun.append((future, function, arguments))
        return future

    @property
    def starts(self):
        """What the functions that have begun are to fetch."""
        return [[entry.extent.start for entry in arguments[0]] for _, _, arguments in self.begun]

    def run(self, count):
        for _ in range(count):
            future, function, arguments = self.begun.pop(0)
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(function(*arguments))
                except OSError as error:
                    future.set_exception(error)


def extents(*starts):
    return [ByteRange("s3://b/a", start, start + 10) for start in starts]


def test_as_much_as_there_is_room_for_in_order(fetched):
    ahead, threads = PrefetchCache(35), ByHand()
    first = ahead.prefetch(extents(0, 10), threads.submit)
    second = ahead.prefetch(extents(10, 20, 30), threads.submit)
    assert threads.starts == [[0, 10]]
    threads.run(1)
    assert ahead.bytes_held == 20
    ahead.release(first)  # what stands at 10 is held for the second
    assert threads.starts == [[20, 30]]
    threads.run(1)
    read = ahead.read(extents(10, 20, 30, 40))
    assert [each.tobytes() for each in read] == [CONTENT[at : at + 10].tobytes() for at in (10, 20, 30, 40)]
    assert sorted(extent.start for extent in fetched) == [0, 10, 20, 30, 40]  # each once
    ahead.abandon(second)
    assert ahead.bytes_held == 0


def test_what_is_released_before_it_began_is_not_fetched(fetched):
    ahead, threads = PrefetchCache(1000), ByHand()
    ahead.release(ahead.prefetch(extents(0, 10), threads.submit))
    threads.run(1)
    assert (fetched, ahead.bytes_held) == ([], 0)


def test_short_ranges_are_fetched_in_groups(fetched):
    ahead, threads = PrefetchCache(1 << 30), ByHand()
    long = [ByteRange("s3://b/a", start, start + (1 << 20) + 1) for start in (100, 200)]
    ahead.prefetch(extents(0, 10, 13, 20, 30) + long, threads.submit)
    assert threads.starts == [[0, 10, 13, 20], [30, 100], [200]]
    threads.run(3)
    read = ahead.read(extents(0, 13, 30))
    assert [isinstance(each, OSError) for each in read] == [False, True, False]
    assert len(fetched) == 7


def test_errors_are_those_of_fetching_at_once(fetched):
    ahead, threads = PrefetchCache(1000), ByHand()
    ahead.prefetch(extents(13), threads.submit)
    threads.run(1)
    assert [str(error) for error in ahead.read(extents(13))] == ["[Errno 5] it is unlucky"]
    assert [str(error) for error in PrefetchCache(1).read(extents(13))] == ["[Errno 5] it is unlucky"]


@pytest.mark.parametrize("seed", range(20))
def test_parts_that_lie_near_each_other(seed, fetched):
    draw = np.random.default_rng(seed)
    count = int(draw.integers(1, 40))
    far = len(CONTENT) - 400_000
    starts = np.sort(draw.integers(20, [60_000, far][seed % 2], count)) if seed % 3 else draw.integers(20, far, count)
    stops = starts + draw.integers(0, [100, 300_000][seed % 2], count)
    outs = [np.empty(stop - start, np.uint8) for start, stop in zip(starts, stops, strict=True)]
    pieces = RangeReader([ObjectInfo("s3://b/a", len(CONTENT), "tag")])
    assert pieces.read(np.zeros(count, np.int64), starts, stops, outs) == {}
    for start, stop, out in zip(starts, stops, outs, strict=True):
        assert np.array_equal(out, CONTENT[start:stop])
    assert len(fetched) <= max(count, 6)


def training(root, on_error="raise", named=False, **options):
    where = {"files": [f"{root}/{number:02}/a.jpg" for number in range(20)]} if named else {"file_root": root}

    @data_iterator(output_map=["bytes", "label"], reader_name="reader", on_error=on_error)
    def definition():
        data, label = fn.readers.file(**where, random_shuffle=True, name="reader")
        return fn.pad(data, fill_value=0, shape=[20]), label

    return definition(batch_size=6, seed=3, num_threads=2, **options)


def numbers(iterator, epochs=2):
    return [[np.asarray(batch["label"]).tolist() for batch in iterator] for _ in range(epochs)]


@pytest.fixture
def folder(tmp_path, s3):
    for number in range(20):
        (tmp_path / f"{number:02}").mkdir()
        (tmp_path / f"{number:02}" / "a.jpg").write_bytes(bytes([number]) * (1 + number % 5))
        s3.put(f"{number:02}/a.jpg", bytes([number]) * (1 + number % 5))
    return tmp_path


@pytest.mark.parametrize("on_error", ["replace", "raise"])
def test_folders_are_read_ahead_where_read_threads_are_given(on_error, tmp_path, monkeypatch):
    for number in range(20):
        (tmp_path / f"{number:02}").mkdir()
        (tmp_path / f"{number:02}" / "a.jpg").write_bytes(bytes([number]) * (1 + number % 5))
    readers, content = set(), disk_cache.read_file
    monkeypatch.setattr(
        disk_cache, "read_file", lambda *path: readers.add(threading.current_thread().name) or content(*path)
    )
    plain, ahead = training(tmp_path, on_error), training(tmp_path, on_error, read_threads=3)
    assert numbers(plain) == numbers(ahead)
    assert {name.partition("_")[0] for name in readers} >= {"penstock-read"}
    plain.close()  # what is read already is forgotten
    ahead.close()
    (tmp_path / "07" / "a.jpg").unlink()
    if on_error == "raise":
        for iterator in (plain, ahead):
            with pytest.raises(SampleError, match="No such file") as caught:
                numbers(iterator)
            assert caught.value.index == 7
    else:
        assert numbers(plain) == numbers(ahead)
        assert plain.stats()["bad samples"] == ahead.stats()["bad samples"]
    plain.close()
    ahead.close()
    assert module.ahead.bytes_held == 0


def reading_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("penstock-read")]


def test_batches_and_resume_are_those_of_local_files(folder, s3):
    near, far = training(str(folder)), training(s3.url)
    s3.proxy.fail("503", "reset", "truncate", at="jpg")
    assert numbers(near) == numbers(far)
    next(iter(near)), next(iter(far))
    state = far.get_state()
    expected = numbers(near, 1)
    assert "of an object store" in far.explain()
    assert reading_threads()
    far.close()
    assert not reading_threads()
    assert module.ahead.bytes_held == 0
    other = training(s3.url)
    other.set_state(state)
    assert numbers(other, 1) == expected
    other.close()
    near.close()


def test_closing_while_objects_are_fetched(s3):
    begun = threading.Event()

    class Gate(threading.Event):
        def wait(self, timeout=None):
            begun.set()
            return super().wait(timeout)

    s3.put("a.jpg", b"a")
    gate, cache, pool = Gate(), PrefetchCache(1000), ThreadExecutor(2)
    s3.proxy.fail(gate, at="a.jpg")
    request = cache.prefetch([ByteRange(f"{s3.url}/a.jpg")], pool.submit)
    assert begun.wait(20)
    cache.release(request)
    closing = threading.Thread(target=pool.close)
    closing.start()
    gate.set()
    closing.join()
    assert (cache.bytes_held, cache.is_active) == (0, False)


@pytest.mark.parametrize("on_error", ["replace", "raise"])
def test_bad_objects_are_those_of_local_files(on_error, folder, s3):
    (folder / "07" / "a.jpg").unlink()
    s3.delete("07/a.jpg")
    near, far = training(str(folder), on_error, named=True), training(s3.url, on_error, named=True)
    found = []
    for iterator in (near, far):
        try:
            found.append(numbers(iterator))
        except SampleError as error:
            found.append(error.index)
        iterator.close()
    assert found[0] == found[1]
    assert (found[0] == 7) == (on_error == "raise")
    assert not reading_threads()
