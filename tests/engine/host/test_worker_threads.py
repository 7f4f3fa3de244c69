"""Tests of worker threads: shared by all pools of a size, and ended with the last pool."""

import gc
import multiprocessing
import os
import subprocess
import sys
import threading
from concurrent.futures import CancelledError
from types import SimpleNamespace

import numpy as np
import pytest

from penstock import Pipeline, fn
from penstock.engine.host import worker_threads
from penstock.engine.host.worker_threads import ThreadExecutor
from penstock.errors import ContextError

PATIENCE = 20


def workers():
    return [thread for thread in threading.enumerate() if thread.name.startswith("penstock")]


@pytest.fixture(autouse=True)
def no_worker_of_an_earlier_test():
    """Tests of other modules, and examples in docstrings, drop iterators whose threads end a little later."""
    gc.collect()
    for thread in workers():
        thread.join(PATIENCE)
    assert not workers()


def test_pools_of_one_size_share_their_threads():
    pools = [ThreadExecutor(2) for _ in range(50)]
    others = len(workers())
    try:
        names = {pool.submit(threading.get_ident).result(PATIENCE) for pool in pools for _ in range(3)}
        assert len(names) <= 2
        assert len(workers()) <= others + 2
    finally:
        for pool in pools:
            pool.close()
    assert len(workers()) == others


@pytest.mark.parametrize("cheap", [True, False])
def test_one_thread_computes_chunks_of_cheap_samples(cheap):
    pool, both = ThreadExecutor(2), threading.Barrier(2)

    def run_rows(chunk):
        del chunk
        if not cheap:
            both.wait(PATIENCE)  # one thread alone would wait in vain
        return threading.get_ident()

    program = SimpleNamespace(scheduler=SimpleNamespace(cheap=cheap, workers=lambda most: most), run_rows=run_rows)
    try:
        threads = {future.result(PATIENCE) for future in [pool.compute(program, None) for _ in range(8)]}
        assert len(threads) == (1 if cheap else 2)
    finally:
        pool.close()
    assert not workers()


def test_closing_a_pool_does_not_affect_another():
    first, second, begun, go = ThreadExecutor(1), ThreadExecutor(1), threading.Event(), threading.Event()
    try:
        running = first.submit(lambda: (begun.set(), go.wait(PATIENCE)))
        assert begun.wait(PATIENCE)
        given_up, kept = first.submit(int), second.submit(int)
        first.shutdown_nowait()
        go.set()
        assert running.result(PATIENCE)
        assert kept.result(PATIENCE) == 0
        with pytest.raises(CancelledError):
            given_up.result(PATIENCE)
    finally:
        second.close()
    assert not workers()


def test_pipeline_inside_user_function_does_not_deadlock():
    with Pipeline(4, 1, seed=0) as inner:
        inner.set_outputs(fn.python_function(fn.readers.arrays([1, 2, 3, 4]), function=lambda x: x + 1))

    def total(x):
        return x + sum(int(sample) for sample in inner.run()[0].as_array())

    with Pipeline(1, 1, seed=0) as outer:
        outer.set_outputs(fn.python_function(fn.readers.arrays([10, 20]), function=total))
    assert [outer.run()[0].as_array().tolist() for _ in range(2)] == [[24], [34]]
    outer.close()
    inner.close()


def spin(go):
    while not go.is_set():
        pass


@pytest.mark.parametrize("stuck", [threading.Event.wait, spin], ids=["waits", "runs"])
def test_hanging_function_is_abandoned_and_logged(monkeypatch, caplog, stuck):
    monkeypatch.setattr(worker_threads, "CLOSE_TIMEOUT_SECONDS", 0.01)
    first, second, begun, go = ThreadExecutor(1), ThreadExecutor(1), threading.Event(), threading.Event()
    second.submit(int).result(PATIENCE)
    first.submit(lambda: (begun.set(), stuck(go)))
    try:
        assert begun.wait(PATIENCE)
        (left,) = workers()
        first.close()
        assert "has not returned" in caplog.text
        assert "line" in caplog.text
        assert second.submit(threading.current_thread).result(PATIENCE) is not left
    finally:
        go.set()  # otherwise tests after a failure would wait for the thread
    left.join(PATIENCE)
    assert not left.is_alive()
    second.close()
    assert not workers()


STUCK = """
import threading
import numpy as np
from penstock import DataIterator, Pipeline, fn
from penstock.engine.host import worker_threads

worker_threads.CLOSE_TIMEOUT_SECONDS, begun = 0.1, threading.Event()

def stuck(sample):
    if sample >= 8:
        begun.set()
        {how}
    sum(range(300_000))  # costs enough for a thread of its own
    return sample

with Pipeline(2, 1, seed=0) as pipeline:
    pipeline.set_outputs(fn.python_function(fn.readers.arrays(np.arange(20.0)), function=stuck))
iterator = DataIterator(pipeline, ["x"])
for _ in range(3):
    next(iterator)
assert begun.wait(30)
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["begun.__class__().wait()", "while True: pass"], ids=["waits", "runs"])
@pytest.mark.parametrize("end", ["", "iterator.close()"], ids=["the program ends", "close"])
def test_program_ends_despite_hanging_functions(how, end):
    done = subprocess.run(
        [sys.executable, "-c", STUCK.format(how=how) + end], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "has not returned" in done.stderr
    assert 'File "<string>", line 12, in stuck' in done.stderr


def test_close_does_not_wait_for_source_called_by_another_thread():
    begun, go, refused = threading.Event(), threading.Event(), []

    def source():
        begun.set()
        go.wait(PATIENCE)
        return np.zeros((2, 3), np.float32)

    with Pipeline(2, 1) as pipeline:
        pipeline.set_outputs(fn.external_source(source, dtype=np.float32, ndim=1))

    def consume():
        try:
            pipeline.run()
        except ContextError as error:
            refused.append(error)  # it was closed meanwhile

    thread = threading.Thread(target=consume)
    thread.start()
    assert begun.wait(PATIENCE)
    pipeline.close()
    assert thread.is_alive()
    go.set()
    thread.join(PATIENCE)
    assert not thread.is_alive()


@pytest.mark.filterwarnings("ignore:.*fork")  # of JAX and of Python 3.12, which think of their own threads
def test_fork_creates_new_threads():
    pool = ThreadExecutor(1)
    pool.submit(int).result(PATIENCE)
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    child = context.Process(target=lambda: theirs.send(ThreadExecutor(1).submit(os.getpid).result(PATIENCE)))
    child.start()
    assert ours.poll(PATIENCE)
    assert ours.recv() == child.pid
    child.join(PATIENCE)
    pool.close()
