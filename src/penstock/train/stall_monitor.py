"""Stall monitoring: time spent waiting for data, and the slowest stage of the pipeline."""

import queue
import textwrap
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self

import jax

from penstock.core.stage_timers import DEVICES_WAIT, HOST_WAIT, StageTiming
from penstock.graph import check_annotations
from penstock.iterate import DataIterator

# Remedies of a slow stage, by a part of its name; the first that matches counts. Fused stages contain the names of all
# their operators.
_REMEDIES = {
    "python_function": "replace the Python function, which holds the GIL, by operators or by fn.numba_function",
    "external_source": "external_source(parallel=True) with more py_num_workers",
    "transfer and dispatch": 'return uint8 and convert on the device with placement="device"',
    "decoders.image": "more CPUs and num_threads, smaller files, or reduced=True",
    "readers.": "read_threads= reads ahead; `penstock doctor PATH` measures the storage",
}
_MORE_CPUS = "more CPUs and num_threads"
_MORE_HOSTS = "more input hosts, or more CPUs on them"

# Share of the time below which waiting for data is not worth a remedy.
_NEGLIGIBLE = 0.05


class StallMonitor:
    """Iterator wrapper that measures the time in which the devices wait for data.

    Iterate over it instead of the iterator, and pass the output of each step to `step_done`. JAX dispatches steps
    asynchronously, so a thread waits for the steps' metrics to learn when the devices became idle. For steps without
    metrics, the monitor counts the time that the loop waited for batches, an upper bound.

    Args:
        iterator: Iterator of batches.

    Attributes:
        seconds: Time spent in loops over it, from the request of the first batch to the end of the epoch or the
            `break`.

    Example:
        >>> import numpy as np
        >>> from penstock import train
        >>> watch = StallMonitor(train.batches(np.arange(64.0), batch_size=16))
        >>> with watch:
        ...     for batch in watch:
        ...         watch.step_done(batch["x"].sum())
        >>> print(watch.summary())
        the step waited for data ...% of the ... s
        slowest stage: ...
    """

    @check_annotations
    def __init__(self, iterator: Iterable[Any]) -> None:
        self._iterator = iterator
        self._before = _stages(iterator)
        # Times at which a batch was requested and received, and True; or the end of an epoch instead, and False.
        self._waits: deque[tuple[float, float, bool]] = deque()
        self._done = deque([0.0])  # times at which the previous step finished; 0 if unknown
        self._idle = 0.0
        self._steps: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self.seconds = 0.0

    def __iter__(self) -> Iterator[Any]:
        batches = iter(self._iterator)
        while True:
            requested = time.perf_counter()
            try:  # also at the end of the epoch, and at a `break` of the loop
                batch = next(batches, self)
                self._waits.append((requested, time.perf_counter(), batch is not self))
                if batch is self:
                    return
                yield batch
            finally:
                self.seconds += time.perf_counter() - requested
                self._settle()

    def step_done(self, output: Any) -> None:
        """Record the output of the last step, except the state, which the next step may donate."""
        # One array is enough to learn when the step has finished.
        arrays = [leaf for leaf in jax.tree.leaves(output) if isinstance(leaf, jax.Array)][:1]
        self._steps.put(arrays)
        if self._thread is None:
            self._thread = threading.Thread(
                target=_wait, args=(self._steps, self._done), name="penstock-watch", daemon=True
            )
            self._thread.start()

    def close(self) -> None:
        """Wait for the steps and end the thread."""
        if self._thread is not None:
            self._steps.put(None)
            self._thread.join()
            self._thread = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def stall_fraction(self) -> float:
        """Fraction of the time in which the devices waited for a batch, from 0 to 1."""
        self._settle()
        return min(self._idle / self.seconds, 1.0) if self.seconds > 0 else 0.0

    def _settle(self) -> None:
        """Add the idle time before each batch whose previous step has a known end."""
        while self._waits and self._done:
            requested, received, is_batch = self._waits.popleft()
            # The devices are idle from the end of the previous step, or from the request if that is later, until the
            # batch arrives. No step follows the end of an epoch, so the same step precedes the next batch.
            self._idle += max(0.0, received - max(requested, self._done.popleft() if is_batch else self._done[0]))

    def summary(self) -> str:
        """Return the fraction of time spent waiting for data, the slowest stage, and its remedy, as lines.

        There is no remedy if the step hardly waited. Lines have at most 80 columns.
        """
        after = _stages(self._iterator)
        lines = [
            f"the step waited for data {self.stall_fraction:.0%} of the {self.seconds:.1f} s",
            slowest_stage(self._before, after),
        ]
        worked = _work(self._before, after)
        if self.stall_fraction >= _NEGLIGIBLE and any(seconds for seconds, _ in worked.values()):
            workers = self._iterator.stats().workers if isinstance(self._iterator, DataIterator) else ""
            if "input host" in workers:
                # Their CPUs compute the stages of the host part, whichever is the slowest.
                lines += [f"the host part runs in {workers}", f"fix: {_MORE_HOSTS}"]
            else:
                lines.append(f"fix: {remedy(max(worked, key=lambda stage: worked[stage][0]))}")
        wrap = textwrap.TextWrapper(width=80, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        return "\n".join(map(wrap.fill, lines))


def slowest_stage(before: Mapping[str, StageTiming], after: Mapping[str, StageTiming]) -> str:
    """Return a description of the stage that took the most time between two results of `stats`.

    >>> slowest_stage({}, {"read": StageTiming(2, 100, 0.1), "decode": StageTiming(2, 100, 0.3)})
    'slowest stage: decode, 75% of the work of the pipeline, 3000 us a sample'
    """
    worked = _work(before, after)
    total = sum(seconds for seconds, _ in worked.values())
    if not total:
        return "the pipeline keeps no count of its stages"
    stage = max(worked, key=lambda stage: worked[stage][0])
    seconds, samples = worked[stage]
    share = f"slowest stage: {stage}, {seconds / total:.0%} of the work of the pipeline"
    return f"{share}, {seconds / samples * 1e6:.0f} us a sample" if samples else share


def remedy(stage: str) -> str:
    """Return how to make a stage faster.

    >>> remedy("decoders.image + resize")
    'more CPUs and num_threads, smaller files, or reduced=True'
    """
    return next((text for part, text in _REMEDIES.items() if part in stage), _MORE_CPUS)


def _work(before: Mapping[str, StageTiming], after: Mapping[str, StageTiming]) -> dict[str, tuple[float, int]]:
    """Return the seconds and samples of each stage that works, between two results of `stats`."""
    worked: dict[str, tuple[float, int]] = {}
    for stage in after.keys() - {HOST_WAIT, DEVICES_WAIT}:
        now, then = after[stage], before.get(stage, StageTiming())
        worked[stage] = now.seconds - then.seconds, now.samples - then.samples
    return worked


def _stages(iterator: Any) -> Mapping[str, StageTiming]:
    stats = iterator.stats() if isinstance(iterator, DataIterator) else {}
    return {stage: timing for stage, timing in stats.items() if isinstance(timing, StageTiming)}


def _wait(steps: queue.SimpleQueue[Any], done: deque[float]) -> None:
    while (arrays := steps.get()) is not None:
        try:
            jax.block_until_ready(arrays)
        except Exception:  # noqa: BLE001  # the reader of the metrics raises it; here the step has only finished
            arrays = None
        done.append(time.perf_counter() if arrays else 0.0)
