"""The threads of host pools: shared by all pools of a size, and gone when nobody needs them."""

import multiprocessing
import os
import threading
from concurrent.futures import CancelledError

import pytest

from penstock import Pipeline, fn
from penstock.host.pool import Threads

PATIENCE = 20


def workers():
    return [thread for thread in threading.enumerate() if thread.name.startswith("penstock")]


def test_pools_of_one_size_share_their_threads():
    pools = [Threads(2) for _ in range(50)]
    others = len(workers())
    try:
        names = {pool.submit(threading.get_ident).result(PATIENCE) for pool in pools for _ in range(3)}
        assert len(names) <= 2
        assert len(workers()) <= others + 2
    finally:
        for pool in pools:
            pool.close()
    assert len(workers()) == others


def test_closing_a_pool_leaves_the_work_of_another_alone():
    first, second, go = Threads(1), Threads(1), threading.Event()
    try:
        running = first.submit(go.wait, PATIENCE)
        given_up, kept = first.submit(int), second.submit(int)
        first.abandon()
        go.set()
        assert running.result(PATIENCE)
        assert kept.result(PATIENCE) == 0
        with pytest.raises(CancelledError):
            given_up.result(PATIENCE)
    finally:
        second.close()
    assert not workers()


def test_a_pipeline_within_a_function_of_the_users_does_not_wait_for_itself():
    inner = Pipeline(4, 1, seed=0)
    with inner:
        inner.set_outputs(fn.python_function(fn.readers.arrays([1, 2, 3, 4]), function=lambda x: x + 1))

    def total(x):
        return x + sum(int(sample) for sample in inner.run()[0].as_array())

    outer = Pipeline(1, 1, seed=0)
    with outer:
        outer.set_outputs(fn.python_function(fn.readers.arrays([10, 20]), function=total))
    assert [outer.run()[0].as_array().tolist() for _ in range(2)] == [[24], [34]]
    outer.close()
    inner.close()


@pytest.mark.filterwarnings("ignore:.*fork")  # of JAX and of Python 3.12, which think of their own threads
def test_a_fork_has_threads_of_its_own():
    pool = Threads(1)
    pool.submit(int).result(PATIENCE)
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    child = context.Process(target=lambda: theirs.send(Threads(1).submit(os.getpid).result(PATIENCE)))
    child.start()
    assert ours.poll(PATIENCE)
    assert ours.recv() == child.pid
    child.join(PATIENCE)
    pool.close()
