"""Tests of the stall monitor."""

import threading

import numpy as np
import pytest

from penstock import DataIterator, data_iterator, fn, train
from penstock.core.stage_timers import StageTiming, TimerSnapshot
from penstock.iterate.iterator_statistics import IteratorStatistics
from penstock.train import stall_monitor as module
from penstock.train.stall_monitor import StallMonitor, remedy, slowest_stage


class Clock:
    def __init__(self):
        self.now = 100.0

    def perf_counter(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


def simulate(clock, fetch, run, steps=10):
    """Simulate a loop with `fetch` seconds per batch, computed in sequence, and `run` seconds per step."""

    def batches():
        for _ in range(steps):
            clock.now += fetch
            yield {}

    watch = StallMonitor(batches())
    free = clock.now
    for _ in watch:
        free = max(free, clock.now) + run  # the device begins when it has both
        watch._done.append(free)
    return watch


@pytest.mark.parametrize(
    ("fetch", "run", "share"),
    [
        (1.0, 0.0, 1.0),  # the devices do nothing but wait
        (1.0, 0.5, 0.55),  # nothing is done in half of the time, and while the first batch is fetched
        (1.0, 1.0, 0.1),
        (0.0, 1.0, 0.0),
    ],
)
def test_stall_share_is_device_idle_time(clock, fetch, run, share):
    assert simulate(clock, fetch, run).stall_fraction == pytest.approx(share)


def test_without_metrics_host_wait_counts(clock):
    def batches():
        for _ in range(4):
            clock.now += 3.0
            yield {}

    with StallMonitor(batches()) as watch:
        for _ in watch:
            clock.now += 1.0
            watch.step_done(None)
    assert watch.stall_fraction == pytest.approx(0.75)


def test_the_end_of_an_epoch_counts(clock):
    class Epochs:
        def __iter__(self):
            yield from ({}, {})
            clock.now += 3.0

    watch = StallMonitor(Epochs())
    for _ in range(2):
        for _ in watch:
            clock.now += 1.0
            watch._done.append(clock.now + 1.0)  # each step ends one second after its dispatch
    assert watch.seconds == 2 * (2 * 1.0 + 3.0)
    assert watch.stall_fraction == pytest.approx(2 * 2.0 / 10.0)
    for _ in watch:
        clock.now += 1.0
        break
    assert watch.seconds == 11.0


def test_the_slowest_stage_is_named():
    before = {"read": StageTiming(1, 10, 5.0)}
    after = {
        "read": StageTiming(2, 20, 5.5),
        "decode": StageTiming(1, 10, 1.5),
        "wait for the host": StageTiming(1, 10, 9.0),
    }
    assert slowest_stage(before, after) == "slowest stage: decode, 75% of the work of the pipeline, 150000 us a sample"
    assert slowest_stage(after, after) == "the pipeline keeps no count of its stages"


@pytest.mark.parametrize(
    ("stage", "expected"),
    [
        ("readers.file", "read_threads"),
        ("decoders.image_random_crop + resize", "num_threads"),
        ("python_function + copy", "GIL"),
        ("transfer and dispatch", "uint8"),
        ("warp_affine", "more CPUs and num_threads"),
    ],
)
def test_remedy_of_a_slow_stage(stage, expected):
    assert expected in remedy(stage)


class Stages(DataIterator):
    """An iterator with prepared statistics."""

    def __init__(self, clock, fetch):
        self._clock, self._fetch, self._calls = clock, fetch, 0

    def __iter__(self):
        return self

    def __next__(self):
        if self._calls == 10:
            raise StopIteration
        self._calls += 1
        self._clock.now += self._fetch
        return {}

    def stats(self):
        calls = self._calls
        stages = {
            "python_function": StageTiming(calls, 8 * calls, 3.0 * calls),
            "readers.file": StageTiming(calls, 8 * calls, 1.0 * calls),
        }
        return IteratorStatistics(TimerSnapshot(stages, elapsed_seconds=1.0, compilation_seconds=0.0))


@pytest.mark.parametrize(("fetch", "fixed"), [(1.0, True), (0.0, False)])
def test_summary_has_a_remedy_if_the_step_waited(clock, fetch, fixed):
    watch = StallMonitor(Stages(clock, fetch))
    for _ in watch:
        clock.now += 1.0
        watch._done.append(0.0)
    assert "slowest stage: python_function, 75% of the work" in watch.summary()
    assert max(map(len, watch.summary().splitlines())) <= 80
    assert ("fix: replace the Python function, which holds the GIL" in watch.summary()) == fixed


def test_slow_operator_is_reported(monkeypatch):
    """Uses a fake clock on which each stage takes a day, because real times depend on the load."""

    class Days:
        start = 0.0

        def lap(self):
            self.start += 86400.0
            return 86400.0, 86400.0

    monkeypatch.setattr("penstock.engine.host.failed_rows.ThreadClock", Days)

    def definition():
        images = fn.readers.arrays(np.zeros((64, 8, 8, 3), np.uint8), layout="HWC", name="r")
        for _ in range(5):
            images = -images
        return images

    make = data_iterator(definition, ["x"], reader_name="r")
    step = train.data_parallel(lambda state, batch: (state, batch["x"].astype(np.float32).sum()), one_device())
    loop = train.fit(step, np.float32(0), make(batch_size=16, exec_async=False), epochs=2)
    assert "slowest stage: arithmetic.neg, 83% of the work of the pipeline" in loop.summary()
    assert not [thread for thread in threading.enumerate() if thread.name == "penstock-watch"]


def one_device():
    import jax

    return train.batch_sharding(train.data_mesh(jax.devices()[:1]))


def test_failed_device_step_does_not_hang_monitor():
    class Broken:
        def block_until_ready(self):
            raise RuntimeError

    with StallMonitor([1, 2]) as watch:
        for _ in watch:
            watch._steps.put([Broken()])
            watch.step_done(None)
    assert 0 <= watch.stall_fraction <= 1
