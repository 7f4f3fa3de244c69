"""Tests of the concurrency contract of `penstock.engine.host.host_loader`, ordered by events instead of sleeps."""

import copy
import gc
import pickle
import subprocess
import sys
import threading
import weakref
from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest
import simplejpeg
from pipeline_runs import build_pipeline

from penstock import DataIterator, Pipeline, fn, pipeline_def
from penstock.core import Spec
from penstock.core.cpu_limits import CpuLimits
from penstock.core.thread_clock import ThreadClock
from penstock.engine.host import chunk_scheduler, host_program
from penstock.engine.host.worker_threads import SerialExecutor, ThreadExecutor
from penstock.errors import ArgumentTypeError, ContextError, InternalError, SampleError
from penstock.graph import Operator, SampleKernel, apply
from penstock.operators.readers.reader_arguments import apply_reader
from penstock.sources.source import Source
from penstock.testing import ListSource


@dataclass(frozen=True, eq=False)
class Call(Operator, SampleKernel):
    """Kernel that calls a function on each sample."""

    function: object

    def infer(self, sample):
        return sample

    def sample(self, context, sample):
        return np.asarray(self.function(sample))


def pipeline(function, samples=16, batch_size=4, threads=2, **options):
    def define():
        return apply(Call(function), fn.readers.arrays(np.arange(samples), name="numbers"))

    return build_pipeline(define, batch_size=batch_size, num_threads=threads, seed=0, **options)


def alive():
    return [thread for thread in threading.enumerate() if thread.name.startswith("penstock")]


def ended():
    """Return True if all threads end."""
    for thread in alive():
        thread.join(20)
    return not alive()


def values(pipe):
    return pipe.run()[0].as_array().tolist()


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("depth", [0, 1, 5])
def test_threads_match_serial_executor(threads, depth):
    def work(sample):
        return sample * 2

    plain = pipeline(work, exec_async=False)
    threaded = pipeline(work, threads=threads, prefetch_queue_depth=depth)
    for _ in range(10):
        assert values(plain) == values(threaded)
    assert isinstance(plain.pool(), SerialExecutor)
    threaded.close()


@pytest.fixture
def never_light(monkeypatch):
    """Always compute batches on threads, never in the consumer."""
    monkeypatch.setattr(chunk_scheduler, "_LIGHT_BATCH_SECONDS", -1.0)


@pytest.fixture
def always_threads(never_light, monkeypatch):
    """Always compute batches on threads, and begin them ahead: a pair waits until both batches before it are taken."""
    monkeypatch.setattr(chunk_scheduler.ChunkScheduler, "pairs_batches", lambda *_: False)


def test_prefetching_is_limited_by_depth(always_threads):
    seen, enough = set(), threading.Event()

    def work(sample):
        seen.add(int(sample))
        if len(seen) == 12:
            enough.set()
        return sample

    pipe = pipeline(work, samples=1000, prefetch_queue_depth=2)
    assert values(pipe) == [0, 1, 2, 3]
    assert enough.wait(10)
    for chunk in pipe._start().cursor.run._loader._ahead:
        chunk.wait()
    assert seen == set(range(12))
    pipe.close()


def test_cheap_batches_are_computed_in_groups_by_consumer():
    callers, plain = set(), pipeline(lambda sample: sample * 3, samples=50, exec_async=False)

    def work(sample):
        callers.add(threading.current_thread().name)
        return sample * 3

    pipe = pipeline(work, samples=50)
    expected = [values(plain) for _ in range(40)]
    assert [values(pipe) for _ in range(20)] == expected[:20]
    callers.clear()
    assert [values(pipe) for _ in range(20)] == expected[20:]
    assert callers == {"MainThread"}
    assert pipe._start().cursor.run._loader._light(4) > 1
    pipe.close()


def test_bad_sample_of_later_batch_does_not_affect_current(monkeypatch):
    # From the first batch on, so that the groups do not depend on the speed of the machine: 12 of 8 batches, one of 4.
    monkeypatch.setattr(chunk_scheduler.ChunkScheduler, "inline_batches", lambda _self, _rows, limit: limit)
    calls = Counter()

    def work(sample):
        calls[int(sample)] += 1
        if sample == 399:
            raise ValueError("the last")
        return sample

    iterator = DataIterator(pipeline(work, samples=400), ["x"], reader_name="numbers")
    for first in range(0, 396, 4):
        assert next(iterator)["x"].tolist() == list(range(first, first + 4))
    for _ in range(2):
        with pytest.raises(SampleError, match="sample 399"):
            next(iterator)
    # Batches that were computed together with the bad sample are computed once more, and not again for each batch.
    assert max(calls[number] for number in range(396)) <= 2 < calls[399]


@dataclass(frozen=True)
class Bad(Source):
    """Source of numbers, some of which cannot be read."""

    bad: tuple[int, ...]
    specs = (Spec(np.dtype(np.int64), ()),)

    def __len__(self):
        return 40

    def read(self, indices, out):
        for index in sorted({*indices.tolist()} & {*self.bad}):
            raise SampleError("gone", index=index)
        return (indices,)

    def describe(self, index):
        return f"number {index}"

    def fingerprint(self):
        return f"numbers {self.bad}"


def numbers(*bad, depth=2, **options):
    with Pipeline(4, 2, seed=0, prefetch_queue_depth=depth) as pipe:
        pipe.set_outputs(apply_reader(Bad(bad), {}, common={"name": "numbers"})[0])
    names = ["x", "valid"] if options else ["x"]
    return DataIterator(pipe, names, reader_name="numbers", prepare_first_batch=False, **options)


def places(iterator):
    """Return the positions in their pairs of prefetched batches."""
    return [batch.slice_index for batch in iterator._cursor.run._loader._ahead]


def test_batches_without_python_per_sample_are_computed_in_pairs(never_light):
    iterator, alone = numbers(), numbers(depth=0)
    for epoch in range(2):
        for number, (batch, other) in enumerate(zip(iterator, alone, strict=True)):
            assert batch["x"].tolist() == other["x"].tolist() == list(range(4 * number, 4 * number + 4))
            assert len(iterator._cursor.run._loader._ahead) <= 3
            if epoch and 0 < number < 8:  # two pairs, without the batches that are taken
                assert places(iterator) == ([1, 0, 1] if number % 2 == 0 else [0, 1])
            assert places(alone) == []


def test_ragged_results_are_not_paired(never_light):
    with Pipeline(2, 2, seed=0) as pipe:
        pipe.set_outputs(
            fn.slice(
                fn.readers.arrays(np.arange(80).reshape(8, 10)),
                start=[0],
                end=fn.random.uniform(values=[3, 4], shape=1),
                axes=[0],
            )
        )
    assert all(
        sample[0] == 10 * ((2 * number + row) % 8) for number in range(9) for row, sample in enumerate(pipe.run()[0])
    )
    pipe.close()


@pytest.mark.parametrize("bad", [12, 16])
def test_bad_sample_in_pair_fails_only_its_batch(never_light, bad):
    iterator = numbers(bad)
    for number in range(bad // 4):
        assert next(iterator)["x"].tolist() == list(range(4 * number, 4 * number + 4))
    for _ in range(2):
        with pytest.raises(SampleError, match="gone"):
            next(iterator)


def test_skipped_rows_in_pair_count_for_their_batch(never_light):
    batches = list(numbers(9, 18, 19, 20, on_error="skip"))
    lost = [4 * n + row for n, batch in enumerate(batches) for row in np.flatnonzero(~np.asarray(batch["valid"]))]
    assert lost == [9, 18, 19, 20]


def test_chunks_of_a_batch_run_concurrently():
    """Two chunks meet at a barrier, which neither could pass if they ran in sequence."""
    barrier = threading.Barrier(2, timeout=20)

    def work(sample):
        if sample in (0, 4):
            barrier.wait()
        return sample

    pipe = pipeline(work, batch_size=8, threads=2, prefetch_queue_depth=0)
    assert values(pipe) == list(range(8))
    pipe.close()


def test_failure_ends_threads_and_names_sample():
    def work(sample):
        if sample == 9:
            raise ValueError("nine is bad")
        return sample

    pipe = pipeline(work)
    assert [values(pipe), values(pipe)] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    for _ in range(2):  # the same step again fails again: nothing was skipped
        with pytest.raises(SampleError, match="nine is bad") as caught:
            values(pipe)
        assert "sample 9 (row 9 of arrays)" in str(caught.value)
        assert __file__ in str(caught.value)
        assert isinstance(caught.value.__cause__, ValueError)
        assert ended()


def test_first_failure_in_row_order_is_raised(always_threads):
    released = threading.Event()

    def work(sample):
        if sample == 7:
            released.set()
            raise ValueError("the last row")
        if sample == 0:
            released.wait(20)
            raise ValueError("the first row")
        return sample

    pipe = pipeline(work, batch_size=8, threads=2, prefetch_queue_depth=0)
    with pytest.raises(SampleError, match="the first row"):
        values(pipe)


def test_pending_chunks_are_dropped_after_failure(always_threads):
    begun = []

    def work(sample):
        begun.append(int(sample))
        if sample == 1:
            raise ValueError
        return sample

    pipe = pipeline(work, samples=1000, batch_size=1, threads=1, prefetch_queue_depth=8)
    values(pipe)
    with pytest.raises(SampleError):
        values(pipe)
    count = len(begun)
    assert count <= 11
    assert ended()
    assert len(begun) == count


def test_dropping_an_iterator_ends_its_threads():
    iterator = DataIterator(pipeline(lambda sample: sample), ["x"], reader_name="numbers")
    next(iterator)
    assert alive()
    reference = weakref.ref(iterator)
    del iterator
    assert reference() is None  # nothing else holds it, no cycle either
    assert ended()


def test_dropping_a_pipeline_whose_source_has_ended_ends_its_threads():
    """The source keeps the exception of its end, whose traceback holds the frame that prepared the batch ahead."""

    @pipeline_def(batch_size=2, num_threads=1)
    def mirrored():
        return fn.flip(fn.external_source([np.full((1, 2, 1), number, np.uint8) for number in range(4)], batch=False))

    dropped = mirrored()
    for _ in range(2):  # the second call finds the end while it prepares the third batch
        dropped.run()
    assert alive()
    reference = weakref.ref(dropped)
    del dropped
    gc.collect()
    assert reference() is None
    assert ended()


def test_leaving_a_loop_ends_its_threads():
    def by_break():
        for _ in DataIterator(pipeline(lambda sample: sample), ["x"], reader_name="numbers"):
            break

    def by_exception():
        for _ in DataIterator(pipeline(lambda sample: sample), ["x"], reader_name="numbers"):
            raise KeyError("the user's own")

    by_break()
    assert ended()
    with pytest.raises(KeyError):
        by_exception()
    assert ended()


def test_dropping_iterator_does_not_wait_for_running_chunk(always_threads):
    """A finalizer must not wait: the garbage collector may run in a thread that holds a lock that others need."""
    begun, release = threading.Event(), threading.Event()

    def work(sample):
        if sample >= 4:
            begun.set()
            release.wait(20)
        return sample

    pipe = pipeline(work)
    values(pipe)
    assert begun.wait(20)
    del pipe
    assert alive()
    release.set()
    assert ended()


def test_iterator_continues_after_close():
    pipe = pipeline(lambda sample: sample)
    assert values(pipe) == [0, 1, 2, 3]
    pipe.close()
    assert ended()
    assert values(pipe) == [4, 5, 6, 7]
    pipe.reset()  # of no epoch's end
    assert values(pipe) == [8, 9, 10, 11]
    pipe.close()


def test_delivered_batches_are_not_overwritten():
    with Pipeline(4, 2, seed=0) as pipe:
        pipe.set_outputs(fn.readers.arrays(np.arange(64).reshape(16, 4)) * 1)
    held = [pipe.run()[0].as_array() for _ in range(12)]
    for number, batch in enumerate(held):
        assert batch.ravel().tolist() == [(number * 16 + i) % 64 for i in range(16)]
    addresses = {batch.ctypes.data for batch in held}
    assert len(addresses) == 12
    assert all(address % 64 == 0 for address in addresses)
    pipe.close()


def test_sample_of_other_shape_is_named():
    with Pipeline(2, 1, seed=0) as pipe:
        images = apply_reader(ListSource([[np.zeros((n, 3)) for n in (2, 2, 2, 5)]]), {})[0]
        pipe.set_outputs(fn.reshape(images, shape=[6]))
    pipe.run()
    with pytest.raises(SampleError, match="sample 3") as caught:
        pipe.run()
    assert "(5, 3)" in str(caught.value)
    assert "fn.resize" in str(caught.value) or "fn.pad" in str(caught.value)


def test_kernel_violating_its_spec_is_internal_error():
    pipe = pipeline(lambda sample: np.float32(sample))
    with pytest.raises(InternalError, match="does not give what its spec rule says"):
        pipe.run()


class Broken(Source):
    """Source that fails on sample 2 with a custom error."""

    specs = (Spec(np.dtype(np.int64), ()),)

    def __len__(self):
        return 4

    def read(self, indices, out):
        if 2 in indices:
            raise OSError("the disk is gone")
        return (indices,)

    def describe(self, index):
        return f"broken {index}"

    def fingerprint(self):
        return "broken"


def test_failing_source_ends_run_with_its_error():
    with Pipeline(2, 2, seed=0) as pipe:
        pipe.set_outputs(apply_reader(Broken(), {})[0])
    pipe.run()
    with pytest.raises(OSError, match="the disk is gone"):
        pipe.run()
    assert ended()


def test_pool_can_be_closed_from_its_own_thread():
    pool = ThreadExecutor(1)
    assert pool.submit(pool.close).result(timeout=20) is None


def test_cheap_samples_are_serialized(always_threads):
    running, most, lock = [0], [0], threading.Lock()

    def work(sample):
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        with lock:
            running[0] -= 1
        return sample

    pipe = pipeline(work, samples=4000, batch_size=400, threads=4)
    for _ in range(3):
        pipe.run()
    assert pipe._start().cursor.run._loader._program.scheduler.cheap
    for batch in list(pipe._start().cursor.run._loader._ahead):
        batch.wait()
    most[0] = 0
    for _ in range(10):
        pipe.run()
    assert most[0] == 1
    pipe.close()


class Slow(ListSource):
    """Source whose reads advance a fake clock by a given time, and that records the calling threads."""

    def __init__(self, samples, seconds, monkeypatch):
        super().__init__([samples])
        self.now, self.readers, self._seconds = 0.0, [], seconds
        monkeypatch.setattr("time.perf_counter", lambda: self.now)

    def read(self, indices, out):
        self.now += self._seconds
        self.readers.append(threading.current_thread().name)
        return super().read(indices, out)


@pytest.mark.parametrize(("seconds", "light"), [(0.01, False), (1e-5, True)])
def test_waiting_counts_as_work(seconds, light, monkeypatch):
    source = Slow(list(np.arange(400)), seconds, monkeypatch)
    with Pipeline(2, 1, seed=0, prefetch_queue_depth=1) as pipe:
        pipe.set_outputs(apply_reader(source, {})[0])
    expected = [[number, number + 1] for number in range(0, 24, 2)]
    assert [[int(sample) for sample in pipe.run()[0]] for _ in range(6)] == expected[:6]
    source.readers.clear()
    assert [[int(sample) for sample in pipe.run()[0]] for _ in range(6)] == expected[6:]
    assert source.readers
    assert all((name == "MainThread") == light for name in source.readers)
    pipe.close()


def test_close_from_another_thread_raises_in_waiting_thread(always_threads):
    pipe = pipeline(lambda sample: sample, threads=1)
    loader, busy, submitted, raised = pipe._start().cursor.run._loader, threading.Event(), threading.Event(), []
    loader._context.executor.submit(busy.wait, 20)
    begin = loader._submit_chunks

    def begun(step):
        made = begin(step)
        if len(loader._ahead) == 2:  # the last that is begun ahead
            submitted.set()
        return made

    loader._submit_chunks = begun

    def consume():
        with pytest.raises(ContextError, match="closed while this thread waited") as error:
            pipe.run()
        raised.append(error)

    consumer, closer = threading.Thread(target=consume), threading.Thread(target=pipe.close)
    consumer.start()
    assert submitted.wait(20)
    closer.start()
    consumer.join(20)
    busy.set()
    closer.join(20)
    assert raised
    assert ended()


PROGRAM = """
import os, sys, threading, warnings
import numpy as np
from penstock import Pipeline, fn
from penstock.errors import ContextError
from penstock.engine.host import chunk_scheduler as pace

pace._LIGHT_BATCH_SECONDS = -1.0  # every batch goes to threads
warnings.simplefilter("ignore")  # JAX and Python warn of forks
with Pipeline(2, 2, seed=0) as pipeline:
    pipeline.set_outputs(fn.readers.arrays(np.arange(16)))
pipeline.run()

def refused(words):
    try:
        pipeline.run()
    except ContextError as error:
        assert words in str(error), error
        print("refused", flush=True)
"""

FORK = """
child = os.fork()
if child == 0:
    refused("spawn")
    os._exit(0)
os.waitpid(child, 0)
pipeline.run()
"""

END = """
pipeline.close()
main = threading.main_thread()
threading.Thread(target=lambda: (main.join(), pipeline.run(), print("run"))).start()
"""


@pytest.mark.parametrize(("how", "said"), [(FORK, "refused\n"), (END, "run\n")], ids=["fork", "the main thread ends"])
def test_fork_is_refused_and_other_threads_are_supported(how, said):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM + how], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.returncode) == (said, 0), done.stderr


@pytest.mark.parametrize("how", [pickle.dumps, copy.copy, copy.deepcopy])
def test_pickling_error_explains_alternative(how):
    pipe = pipeline(lambda sample: sample)
    for made in (pipe, DataIterator(pipe, ["x"], reader_name="numbers")):
        with pytest.raises(ArgumentTypeError, match="set_state"):
            how(made)


def test_threads_share_small_images_if_the_switch_interval_is_short(never_light, monkeypatch, jpeg):
    files = [np.frombuffer(jpeg(np.full((16, 12, 3), number, np.uint8)), np.uint8) for number in range(64)]
    threads, decode = set(), simplejpeg.decode_jpeg

    def noted(*arguments, **options):
        threads.add(threading.current_thread().name)
        return decode(*arguments, **options)

    def decoded():
        with Pipeline(batch_size=8, num_threads=2, seed=0) as pipe:
            pipe.set_outputs(fn.decoders.image(fn.readers.items(files)))
        for _ in range(8):  # until the cost of samples is known
            pipe.run()
        threads.clear()
        batches = [np.stack(pipe.run()[0].as_array()) for _ in range(8)]
        pipe.close()
        return batches, {*threads}

    monkeypatch.setattr(simplejpeg, "decode_jpeg", noted)
    monkeypatch.setattr(chunk_scheduler, "_CHEAP_SAMPLE_SECONDS", 60.0)
    plain, single = decoded()
    monkeypatch.setattr(sys, "getswitchinterval", lambda: 2e-4)
    shared, several = decoded()
    assert {name.rpartition("_")[0] for name in single} == {"penstock-single"}
    assert {name.rpartition("_")[0] for name in several} == {"penstock"}
    assert [batch.tolist() for batch in shared] == [batch.tolist() for batch in plain]


@pytest.mark.parametrize(
    ("waits", "function", "threads"),
    [(False, None, 2), (True, None, 7), (False, np.negative, 7)],
    ids=["computes", "waits", "function of the user"],
)
def test_more_threads_than_cpus_start_only_if_they_can_wait(
    always_threads, monkeypatch, jpeg, waits, function, threads
):
    monkeypatch.setattr(host_program, "cpu_limits", lambda: CpuLimits(8, 2, None))
    monkeypatch.setattr(chunk_scheduler, "_CHEAP_SAMPLE_SECONDS", 0.0)
    monkeypatch.setattr(ThreadClock, "lap", lambda clock: (1.0, 0.0 if waits else 1.0))
    files = [np.frombuffer(jpeg(np.full((16, 12, 3), number, np.uint8)), np.uint8) for number in range(64)]

    def run(count):
        with Pipeline(batch_size=8, num_threads=count, seed=0) as pipe:
            images = fn.resize(fn.decoders.image(fn.readers.items(files)), size=(8, 8))
            pipe.set_outputs(images if function is None else apply(Call(function), images))
        batches = [pipe.run()[0].as_array() for _ in range(16)]
        started = sum(thread.name.startswith("penstock_") for thread in alive())
        pipe.close()
        return np.stack(batches), started

    plain, _ = run(1)
    batches, started = run(7)
    assert started == threads
    np.testing.assert_array_equal(batches, plain)
