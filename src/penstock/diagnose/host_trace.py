"""Host trace: the stages of all threads as a file for Perfetto, beside a profile of JAX."""

import gzip
import json
import os
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from penstock.core.atomic_files import write_atomically
from penstock.core.slice_recorder import CLOCK_MARKER, SliceRecorder, recording
from penstock.errors import ContextError, UsageError
from penstock.graph import check_annotations

# JAX names its files <host>.trace.json.gz and perfetto_trace.json.gz.
_FILE = "penstock_trace.json.gz"


@contextmanager
@check_annotations
def trace(path: str | os.PathLike[str]) -> Generator[None]:
    """Write what the threads of all iterators do to a file for https://ui.perfetto.dev.

    Each thread is a track. A slice is a batch, the rows of a batch that a thread computes, a stage of them, a request
    to a store, or a compilation. The file is in Chrome's Trace Event Format.

    To see the host part next to JAX's, put this statement around `jax.profiler.trace`, with the same folder. The file
    is then written beside the profile, on the same time axis: select both in "Open multiple trace files".

    Args:
        path: A file whose name ends in `.json` or `.json.gz`; or the log folder of `jax.profiler.trace`.

    Raises:
        UsageError: The path is neither, or cannot be written.
        ContextError: Another trace is being recorded.

    Example:
        >>> import tempfile
        >>> import penstock
        >>> from penstock import data_iterator, fn
        >>> @data_iterator(output_map=["x"], reader_name="r")
        ... def numbers():
        ...     return fn.readers.arrays([0, 1, 2, 3], name="r")
        >>> path = f"{tempfile.mkdtemp()}/host.json"
        >>> with penstock.trace(path):
        ...     batches = list(numbers(batch_size=2))
        >>> events = json.loads(Path(path).read_text())["traceEvents"]
        >>> sum(event["name"] == "batch" for event in events)
        2
    """
    target = Path(path)
    named = target.name.endswith((".json", ".json.gz"))
    if not named and (target.suffix or target.is_file()):
        raise UsageError("the file of a trace is JSON", given=str(path), expected="a folder, or .json or .json.gz")
    _check_writable(target, target.parent if named else target)
    recorder, began = SliceRecorder(), time.time()
    start = time.perf_counter()
    with recording(recorder) as starts:
        if not starts:
            raise ContextError("another trace is being recorded", fix="one penstock.trace at a time")
        try:
            yield
        finally:
            # An error in the block is the reason to look at the trace, so the file is written, too.
            profile = None if named else _newest_profile(target, began)
            origin = start if profile is None else _origin_of(profile, start)
            folder = target if profile is None else profile.parent
            _write(target if named else folder / _FILE, trace_events(recorder, origin))


def trace_events(recorder: SliceRecorder, origin: float) -> list[dict[str, Any]]:
    """Return the slices as events of the Trace Event Format.

    Args:
        recorder: The slices.
        origin: Time zero of the events, in seconds of `time.perf_counter`.
    """
    process = os.getpid()
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "ts": 0, "args": {"name": "penstock"}}
    ]
    events += [
        {"ph": "M", "name": "thread_name", "pid": process, "tid": thread, "ts": 0, "args": {"name": name}}
        for thread, name in list(recorder.threads.items())
    ]
    # Perfetto nests slices of a thread by their times. Of two that begin together, the longer one comes first.
    for item in sorted(recorder.slices, key=lambda item: (item.start, -item.end)):
        events.append(
            {
                "ph": "X",
                "name": item.name,
                "cat": "penstock",
                "pid": process,
                "tid": item.thread,
                "ts": (item.start - origin) * 1e6,
                "dur": (item.end - item.start) * 1e6,
                "args": item.args,
            }
        )
    return events


def _check_writable(target: Path, folder: Path) -> None:
    """Create the folder of a trace and check it, because the file is written only after the work that it records.

    Raises:
        UsageError: The file cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            problem = "it is a folder" if target != folder and target.is_dir() else None
    except OSError as error:
        problem = error.strerror or str(error)
    if problem:
        raise UsageError(
            f"the trace cannot be written: {problem}", given=str(target), fix="a path with write permission"
        )


def _newest_profile(folder: Path, began: float) -> Path | None:
    """Return the events of the profile that JAX has written since a time of the system clock, or None."""
    files = [file for file in folder.glob("plugins/profile/*/*.trace.json.gz") if file.stat().st_mtime >= began]
    return max(files, key=lambda file: file.stat().st_mtime, default=None)


def _origin_of(profile: Path, start: float) -> float:
    """Return time zero of a profile in seconds of `time.perf_counter`; `start` if no batch was taken in it."""
    with gzip.open(profile, "rt", encoding="utf-8") as file:
        events: Sequence[dict[str, Any]] = json.load(file)["traceEvents"]
    origins = [
        int(event["args"]["perf_counter_ns"]) / 1e9 - event["ts"] / 1e6
        for event in events
        if event.get("name") == CLOCK_MARKER
    ]
    # The clock is read before the event begins, so the event with the shortest delay has the latest origin.
    return max(origins, default=start)


def _write(path: Path, events: Sequence[dict[str, Any]]) -> None:
    data = json.dumps({"displayTimeUnit": "ms", "traceEvents": events}).encode()
    write_atomically(path, [gzip.compress(data, 6) if path.suffix == ".gz" else data])
