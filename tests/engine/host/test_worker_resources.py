"""Worker processes at the limits of the system: an error that names the limit, no lost batch, no descriptor left."""

import errno
import gc
import mmap
import os
import resource
import socket
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import numpy as np
import psutil
import pytest
import worker_sources as sources

from penstock import Pipeline, fn
from penstock.engine.host import shared_buffers
from penstock.errors import ResourceError
from penstock.sources.external.processes import shared_memory, worker_processes
from penstock.sources.external.processes.socket_channel import Channel
from penstock.sources.external.processes.worker_processes import WorkerPool

REFUSED = r"refuses memory that worker processes(.|\n)*given: (.|\n)*expected: (.|\n)*fix: "


@contextmanager
def room_for(files):
    """Let this process, and those that it starts, open only so many more files."""
    limits, holes = resource.getrlimit(resource.RLIMIT_NOFILE), []
    try:
        highest = max(int(entry.name) for entry in Path("/proc/self/fd").iterdir())
        # The limit is one of numbers, and the system takes the lowest free one.
        while (number := os.open(os.devnull, os.O_RDONLY)) < highest:
            holes.append(number)
        os.close(number)
        resource.setrlimit(resource.RLIMIT_NOFILE, (number + files, limits[1]))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for number in holes:
            os.close(number)


def open_files():
    gc.collect()  # so that files of other tests are closed before
    return psutil.Process().num_fds()


def numbers(processes, *, ragged=False, values=64):
    """Multiples of three, as scalars or as arrays of that length."""
    pipeline = Pipeline(batch_size=8, seed=3, num_processes=processes)
    with pipeline:
        read = fn.readers.arrays(np.arange(values, dtype=np.int64), random_shuffle=True)
        function, axes = ((lambda x: np.full(3 * x, x)), 1) if ragged else ((lambda x: 3 * x), 0)
        pipeline.set_outputs(fn.python_function(read, function=function, dtype=np.int64, ndim=axes), read)
    return pipeline


def called(workers):
    """Samples of a function that worker processes call."""
    with Pipeline(8, 2, seed=0, py_num_workers=workers) as pipeline:
        pipeline.set_outputs(fn.external_source(sources.counted, parallel=True, batch=False))
    return pipeline


def rows(outputs):
    return [np.asarray(sample).tolist() for output in outputs for sample in output]


def executor(pipeline):
    return pipeline._start().cursor.run._context.executor


@pytest.mark.slow
def test_a_program_that_holds_all_batches():
    plain, pipeline = numbers(0, values=2000), numbers(2, values=2000)
    with room_for(60):
        held = [pipeline.run() for _ in range(250)]
    assert all(rows(outputs) == rows(plain.run()) for outputs in held)
    pipeline.close()


@pytest.mark.slow
@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
@pytest.mark.parametrize("call", ["memfd_create", "ftruncate"])
def test_memory_that_the_system_refuses(call, number, monkeypatch):
    plain, pipeline = numbers(0), numbers(1)
    executor(pipeline)
    before = open_files()

    def refuses(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, call, refuses)
    for _ in range(2):
        with pytest.raises(ResourceError, match=REFUSED) as caught:
            pipeline.run()
        assert os.strerror(number) in str(caught.value)
    assert open_files() == before
    monkeypatch.undo()
    for _ in range(9):
        assert rows(pipeline.run()) == rows(plain.run())
    pipeline.close()


@pytest.mark.parametrize("failing", [1, 2])
def test_a_segment_that_cannot_be_mapped_keeps_no_descriptor(failing, monkeypatch):
    before, calls, mapped = open_files(), count(1), mmap.mmap

    def maps(*arguments):
        if next(calls) == failing:
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
        return mapped(*arguments)

    monkeypatch.setattr(mmap, "mmap", maps)
    with pytest.raises(ResourceError, match=REFUSED):
        shared_memory.opened(shared_memory.new_memory(100)[0])
    assert open_files() == before


def test_a_descriptor_that_the_kernel_drops():
    ends = socket.socketpair()
    here, there = map(Channel, ends)
    with open(os.devnull, "rb") as file:  # noqa: PTH123  # a descriptor to send
        here.send("lost", file.fileno())
        here.send("next", file.fileno())
        with room_for(0), pytest.raises(ResourceError, match=r"(?s)Too many open files.*fewer than \d+ open files"):
            there.receive()
        message, descriptor = there.receive()
    os.close(descriptor)
    assert message == "next"
    here.hang_up()
    there.hang_up()


@pytest.mark.slow
def test_workers_at_their_limit(monkeypatch):
    monkeypatch.setattr(shared_buffers, "_SMALLEST", 1)  # a segment per column
    plain, pipeline = numbers(0), numbers(2)
    held = [pipeline.run()]
    pids = executor(pipeline).pids
    for pid in pids:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, 3))
    while True:
        try:
            held.append(pipeline.run())
        except ResourceError as error:
            message = str(error)
            break
    assert "Too many open files" in message
    held.extend(pipeline.run() for _ in range(9))
    assert not set(pids) & set(executor(pipeline).pids), "other workers, which have no such limit, took over"
    assert all(rows(outputs) == rows(plain.run()) for outputs in held)
    pipeline.close()


@pytest.mark.slow
@pytest.mark.parametrize("make", [lambda workers: numbers(workers, ragged=True), called])
def test_responses_that_this_process_cannot_map(make, monkeypatch):
    plain, pipeline, failures = make(0), make(1), iter([True, False, True])
    opened = worker_processes.opened

    def opens(descriptor):
        if next(failures, False):
            os.close(descriptor)
            raise shared_memory.refused_memory(OSError(errno.EMFILE, os.strerror(errno.EMFILE)))
        return opened(descriptor)

    monkeypatch.setattr(worker_processes, "opened", opens)
    taken, refused = [], 0
    while len(taken) < 12:
        try:
            taken.append(rows(pipeline.run()))
        except ResourceError:
            refused += 1
    assert refused
    assert taken == [rows(plain.run()) for _ in range(12)]
    pipeline.close()


@pytest.mark.slow
def test_processes_that_cannot_be_started():
    pool, before = WorkerPool(1), open_files()
    for files in range(5):
        with room_for(files), pytest.raises(ResourceError, match=r"cannot be started(.|\n)*open files"):
            pool.borrow(0)
        assert (pool.pids, open_files()) == ((), before)
    pool.give_back(pool.borrow(0))
    pool.close()


@pytest.mark.slow
def test_the_memory_of_a_worker_that_is_refused():
    before, plain, pipeline = psutil.Process().children(), called(0), called(1)
    assert rows(pipeline.run()) == rows(plain.run())
    (worker,) = [child for child in psutil.Process().children() if child not in before]
    limits = worker.rlimit(psutil.RLIMIT_NOFILE)
    worker.rlimit(psutil.RLIMIT_NOFILE, (3, limits[1]))
    taken = []
    with pytest.raises(ResourceError, match=REFUSED):
        taken.extend(rows(pipeline.run()) for _ in range(9))
    worker.rlimit(psutil.RLIMIT_NOFILE, limits)
    while len(taken) < 12:
        with suppress(ResourceError):  # of the batches that were requested in advance
            taken.append(rows(pipeline.run()))
    assert worker.is_running()
    assert taken == [rows(plain.run()) for _ in taken]
    pipeline.close()
