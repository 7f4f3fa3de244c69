"""Tests of `stats()`: a mapping that prints as a table, in wall and CPU time, without compilation."""

import itertools
import re
import sys
import time
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest

from penstock import data_iterator, fn
from penstock.core.stage_timers import HOST_WAIT, StageTimers, StageTiming, TimerSnapshot
from penstock.core.thread_clock import ThreadClock, count_compilation
from penstock.errors import UsageError
from penstock.iterate.iterator_statistics import IteratorStatistics
from penstock.native.compiled import Compiled

SNAPSHOT = TimerSnapshot(
    {
        HOST_WAIT: StageTiming(2, 8, 0.25, 0.0),
        "readers.file": StageTiming(2, 8, 0.5, 0.125),
        "decoders.image <b>": StageTiming(4, 8, 2.0, 1.5),
    },
    elapsed_seconds=2.0,
    compilation_seconds=3.0,
)


def test_table_and_its_html_have_every_stage_with_units():
    stats = IteratorStatistics(SNAPSHOT, {"readers.file 'r'": 3})
    lines = repr(stats).splitlines()
    assert str(stats) == repr(stats)
    assert lines[0].split("  ")[0] == "stage"
    assert [re.split(r"  +", line) for line in lines[1:3]] == [
        ["readers.file", "2", "8", "0.50", "0.12", "62500.0", "0.06"],
        ["decoders.image <b>", "4", "8", "2.00", "1.50", "250000.0", "0.75"],
    ]
    # A wait is not work of a core, and comes last.
    assert re.split(r"  +", lines[3]) == [HOST_WAIT, "2", "8", "0.25", "0.00", "31250.0"]
    assert re.fullmatch(r"0.81 of \d+ CPUs busy in 2.00 s; 3.00 s of compilation are not counted", lines[4])
    assert lines[5] == "bad samples: readers.file 'r' 3"
    text = stats._repr_html_()
    assert text.count("<tr>") == 4
    assert "decoders.image &lt;b&gt;" in text
    assert "<b>" not in text


def test_statistics_are_a_mapping():
    stats = IteratorStatistics(SNAPSHOT)
    assert list(stats) == list(SNAPSHOT.stages)
    assert dict(stats) == SNAPSHOT.stages
    assert "bad samples" not in stats
    assert IteratorStatistics(SNAPSHOT, {})["bad samples"] == {}
    assert list(stats.working_stages) == ["readers.file", "decoders.image <b>"]
    assert repr(IteratorStatistics(TimerSnapshot({}, 0.0, 0.0))).startswith("stage  calls")


def test_difference_of_two_results():
    later = TimerSnapshot(
        {**SNAPSHOT.stages, "readers.file": StageTiming(3, 12, 0.75, 0.25)},
        elapsed_seconds=2.5,
        compilation_seconds=3.0,
    )
    stats = IteratorStatistics(later).since(IteratorStatistics(SNAPSHOT))
    assert dict(stats) == {"readers.file": StageTiming(1, 4, 0.25, 0.125)}
    assert (stats.elapsed_seconds, stats.compilation_seconds, stats.cores("readers.file")) == (0.5, 0.0, 0.25)


def test_nested_compilation_is_counted_once():
    timers, clock = StageTimers(), ThreadClock()
    start = clock.start
    outer = ThreadClock()
    inner = ThreadClock()
    _ = sum(range(200_000))
    count_compilation(inner)
    _ = sum(range(200_000))
    count_compilation(outer)
    timers.add("decode", clock)
    snapshot = timers.snapshot()
    # Wall time is either work of the stage or compilation.
    assert snapshot.stages["decode"].seconds + snapshot.compilation_seconds == pytest.approx(clock.start - start)
    assert snapshot.compilation_seconds > snapshot.stages["decode"].seconds


@pytest.mark.parametrize("seconds", [1e-6, 1.0])
def test_waiting_takes_no_cpu_time_unless_it_is_too_short_to_tell(monkeypatch, seconds):
    walls = itertools.count(step=seconds)
    clock = SimpleNamespace(perf_counter=lambda: next(walls), thread_time=lambda: 0.0)
    monkeypatch.setattr("penstock.core.thread_clock.time", clock)
    timers, laps = StageTimers(), ThreadClock()
    timers.add("read", laps)
    timing = timers.snapshot().stages["read"]
    assert timing.seconds == pytest.approx(seconds)
    assert timing.cpu_seconds == pytest.approx(seconds if seconds < 1e-3 else 0.0)


def test_compilation_of_loops_is_kept_apart(monkeypatch):
    loads = []

    def load_slowly(self, kinds):
        loads.append(kinds)
        start = time.perf_counter()
        while time.perf_counter() - start < 0.2:
            pass
        return load(self, kinds)

    @data_iterator(output_map=["x"], reader_name="r", prepare_first_batch=False)
    def images():
        x = fn.readers.arrays(np.zeros((8, 6, 6, 3), np.uint8), layout="HWC", name="r")
        return fn.crop_mirror_normalize(x, mirror=fn.random.coin_flip(), crop=(4, 4))

    iterator = images(batch_size=4, seed=1)
    load = Compiled._load_cached
    monkeypatch.setattr(Compiled, "_load_cached", load_slowly)
    modules = [module for name, module in sys.modules.items() if name.startswith("penstock.")]
    for loop in {item for module in modules for item in vars(module).values() if isinstance(item, Compiled)}:
        monkeypatch.setattr(loop, "_native", {})
    list(iterator)
    stats = iterator.stats()
    assert loads
    assert stats.compilation_seconds >= 0.2 * len(loads)
    # Two batches of four rows: without the loads, the stages take far less than one of them.
    assert sum(stage.seconds for stage in stats.working_stages.values()) < stats.compilation_seconds


def test_compilation_of_device_programs_is_kept_apart():
    @data_iterator(output_map=["x"], reader_name="r")
    def sines():
        return fn.jax_function(jnp.sin)(fn.readers.arrays(np.arange(8, dtype=np.float32), name="r"))

    iterator = sines(batch_size=4)
    next(iterator)
    first = iterator.stats()
    next(iterator)
    second = iterator.stats()
    with pytest.raises(UsageError, match="earlier has the wrong type"):
        second.since(None)
    assert first.compilation_seconds > 0
    assert second.compilation_seconds == first.compilation_seconds
    # Tracing and compiling takes far longer than a transfer of four numbers.
    assert first["transfer and dispatch"].seconds < first.compilation_seconds


def test_iterator_counts_wall_and_cpu_time_of_every_thread():
    def busy(x):
        return np.sort(np.sin(np.arange(20_000.0) + x))[0]

    @data_iterator(output_map=["x"], reader_name="r")
    def slow():
        x = fn.readers.arrays(np.arange(8, dtype=np.float64), name="r")
        return fn.python_function(x, function=busy, dtype=np.float64, ndim=0)

    iterator = slow(batch_size=4)
    list(iterator)
    stats = iterator.stats()
    timing = stats["python_function"]
    assert timing.samples >= 8  # of prefetched batches, too
    assert 0 < timing.cpu_seconds <= timing.seconds * 1.01
    assert 0 < stats.cores("python_function") <= 1.01 * timing.seconds / stats.elapsed_seconds
