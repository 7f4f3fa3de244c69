"""Tests of `penstock.trace`: a file in the Trace Event Format, also on the time axis of a profile of JAX."""

import gzip
import json
import threading

import chrometrace
import jax
import numpy as np
import pytest

import penstock
from penstock import data_iterator, fn
from penstock.core.slice_recorder import CLOCK_MARKER, active_recorder
from penstock.core.thread_clock import ThreadClock, count_compilation
from penstock.errors import ContextError, UsageError


@data_iterator(output_map=["x"], reader_name="r")
def sines():
    x = fn.readers.arrays(np.arange(32, dtype=np.float64), name="r")
    return fn.python_function(x, function=lambda x: np.sort(np.sin(np.arange(20_000.0) + x))[0], dtype=float, ndim=0)


def load(path):
    """Read a trace with the parser of another library, which refuses unknown fields and phases."""
    data = path.read_bytes()
    text = gzip.decompress(data) if path.suffix == ".gz" else data
    document = json.loads(text)
    assert document["displayTimeUnit"] == "ms"
    return [chrometrace.TraceEvent.from_dict(event) for event in document["traceEvents"]]


def slices(events):
    return [event for event in events if event.event_type == chrometrace.TraceEventType.COMPLETE]


@pytest.mark.parametrize("name", ["host.json", "host.json.gz"])
def test_trace_has_a_track_per_thread_with_slices_per_step_and_stage(tmp_path, name):
    with penstock.trace(tmp_path / name), sines(num_threads=2, batch_size=8, seed=1) as iterator:
        count = len(list(iterator))
    events = load(tmp_path / name)
    metadata = [event for event in events if event.event_type == chrometrace.TraceEventType.METADATA]
    names = {event.thread_id: event.args["name"] for event in metadata if event.name == "thread_name"}
    assert threading.current_thread().name in names.values()
    assert any(thread.startswith("penstock_") for thread in names.values())
    recorded = slices(events)
    assert {event.thread_id for event in recorded} == set(names)
    batches = [event for event in recorded if event.name == "batch"]
    assert [event.args for event in batches] == [{"epoch": 0, "row": 8 * n, "samples": 8} for n in range(count)]
    assert {"rows", "readers.arrays", "python_function", "wait for the host", "transfer and dispatch"} <= {
        event.name for event in recorded
    }
    for event in recorded:
        assert event.timestamp_us >= 0
        assert event.duration_us >= 0


def test_slices_of_a_thread_nest(tmp_path):
    with penstock.trace(tmp_path / "host.json"), sines(num_threads=2, batch_size=8, seed=1) as iterator:
        list(iterator)
    # In file order, as Perfetto reads them: a slice lies in the open one, or begins after its end.
    open_slices = {}
    for event in slices(load(tmp_path / "host.json")):
        stack = open_slices.setdefault(event.thread_id, [])
        while stack and stack[-1] <= event.timestamp_us + 1e-3:
            stack.pop()
        end = event.timestamp_us + event.duration_us
        # A thousandth of a microsecond: times are floats.
        assert not stack or end <= stack[-1] + 1e-3, event
        stack.append(end)


def test_trace_is_on_the_time_axis_of_a_profile(tmp_path):
    with penstock.trace(tmp_path), jax.profiler.trace(tmp_path, create_perfetto_trace=True):
        iterator = sines(num_threads=2, batch_size=8, seed=1)
        list(iterator)
        iterator.close()
    (path,) = tmp_path.glob("plugins/profile/*/penstock_trace.json.gz")
    with gzip.open(path.parent / "perfetto_trace.json.gz", "rt") as file:
        profile = json.load(file)["traceEvents"]
    markers = [event["ts"] for event in profile if event.get("name") == CLOCK_MARKER]
    batches = [event for event in slices(load(path)) if event.name == "batch"]
    # JAX's tracer saw the same moments: each marker is in its batch, to a microsecond of rounding.
    assert len(markers) == len(batches)
    for moment, batch in zip(sorted(markers), batches, strict=True):
        assert batch.timestamp_us - 2 <= moment <= batch.timestamp_us + batch.duration_us + 2


def test_folder_without_a_profile(tmp_path):
    with penstock.trace(tmp_path / "log"), sines(num_threads=2, batch_size=8) as iterator:
        next(iterator)
    assert slices(load(tmp_path / "log" / "penstock_trace.json.gz"))


def test_compilation_is_a_slice(tmp_path):
    with penstock.trace(tmp_path / "host.json"):
        count_compilation(ThreadClock())
    assert [event.name for event in slices(load(tmp_path / "host.json"))] == ["compilation"]


def test_error_in_the_block_still_writes_the_trace(tmp_path):
    def fail():
        with penstock.trace(tmp_path / "host.json"), sines(num_threads=2, batch_size=8) as iterator:
            next(iterator)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert slices(load(tmp_path / "host.json"))
    assert active_recorder() is None


def test_misuse(tmp_path):
    with pytest.raises(UsageError, match="the file of a trace is JSON"), penstock.trace(tmp_path / "host.pb"):
        pass
    with penstock.trace(tmp_path / "host.json"):
        with pytest.raises(ContextError, match="another trace"), penstock.trace(tmp_path / "other.json"):
            pass
        assert active_recorder() is not None
    assert not (tmp_path / "other.json").exists()


def test_a_path_that_cannot_be_written_is_refused_at_the_start(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "folder.json").mkdir()
    for path in ("file/traces", "file/host.json", "folder.json"):
        with pytest.raises(UsageError, match="the trace cannot be written"), penstock.trace(tmp_path / path):
            pytest.fail("the block began")


def test_nothing_is_recorded_when_it_is_off(tmp_path):
    with penstock.trace(tmp_path / "host.json"):
        recorder = active_recorder()
    with sines(num_threads=2, batch_size=8) as iterator:
        list(iterator)
    assert recorder.slices == []
