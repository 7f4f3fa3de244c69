"""Check of executors: what computes the host part of a plan does not change it."""

from collections.abc import Callable
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from penstock import fn
from penstock.core.stage_timers import IDLE, StageTimers
from penstock.engine.executable import Executable
from penstock.engine.host.chunk_executor import ChunkExecutor
from penstock.engine.host.worker_threads import SerialExecutor
from penstock.engine.run import Run
from penstock.engine.transfer.batch_layout import SingleDevice
from penstock.errors import SampleError
from penstock.pipeline.pipeline import Pipeline
from penstock.sources.order.schedule import Schedule
from penstock.testing.small_data import write_photographs
from penstock.types import OnError

_Definition = Callable[[str], list[Any]]

_ROWS = 7
_BATCHES = 9


def check_executor(make: Callable[[], ChunkExecutor]) -> None:
    """Check the contract of an executor of the host part: batches are those of `SerialExecutor`, bit for bit.

    The definitions decode images of several sizes, shuffle, read two data sets, draw random numbers, skip and replace
    bad samples, and fail. The check compares columns, bad samples, errors and the number of samples in statistics. It
    also changes the position, and uses an executor again after an error has closed it.

    Args:
        make: Returns a new executor, which computes one program.

    Raises:
        AssertionError: The executor violates the contract.

    Example:
        >>> from penstock.engine.host.worker_threads import ThreadExecutor
        >>> check_executor(lambda: ThreadExecutor(2))
    """
    with TemporaryDirectory() as folder:
        photographs = write_photographs(folder, samples_per_class=8)
        cases: tuple[tuple[_Definition, OnError], ...] = (
            (_decoded, "raise"),
            (_paired, "raise"),
            (_called, "skip"),
            (_called, "replace"),
        )
        for define, policy in cases:
            _check_same(make, lambda define=define: define(str(photographs)), policy)
    _check_error(make)


@dataclass(frozen=True)
class _Batch:
    """Columns of a batch as lists of arrays, and its bad samples: row, index, reason and policy."""

    columns: list[list[np.ndarray[Any, Any]]]
    failed: list[tuple[Any, ...]]


def _check_same(make: Callable[[], ChunkExecutor], define: Callable[[], list[Any]], policy: OnError) -> None:
    expected, counts = _batches(SerialExecutor(), define, policy)
    delivered, other_counts = _batches(make(), define, policy)
    for number, (one, other) in enumerate(zip(expected, delivered, strict=True)):
        assert one.failed == other.failed, f"batch {number}: the bad samples differ"
        for left, right in zip(one.columns, other.columns, strict=True):
            assert all(map(_same, left, right)), f"batch {number}: the samples differ"
    assert counts == other_counts, "the statistics count other samples"


def _same(left: np.ndarray[Any, Any], right: np.ndarray[Any, Any]) -> bool:
    return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()


def _batches(
    executor: ChunkExecutor, define: Callable[[], list[Any]], policy: OnError
) -> tuple[list[_Batch], dict[str, int]]:
    run, schedule, timers = _started(executor, define, policy)
    step = schedule.first()
    steps = [step] + [step := schedule.next_step(step) for _ in range(_BATCHES)]
    counted = [run.outputs(step) for step in steps]
    samples = {stage: t.samples for stage, t in timers.snapshot().stages.items() if stage not in IDLE}
    moved = [run.outputs(steps[3])]
    run.close()
    # Compared at the end: no buffer may be written while its batch is in use.
    batches = [
        _Batch(
            [list(map(np.asarray, column)) for column in outputs],
            [(bad.number, bad.samples[0].index, bad.reason, bad.policy) for bad in failed],
        )
        for outputs, failed in [*counted, *moved]
    ]
    # Batches that were begun ahead count, too, so the numbers agree only up to those.
    begun = min(samples.values(), default=0)
    return batches, {stage: min(count, begun, _ROWS * (_BATCHES + 1)) for stage, count in samples.items()}


def _check_error(make: Callable[[], ChunkExecutor]) -> None:
    """Check that the first bad sample, in row order, raises the same error each time."""
    messages: list[str] = []
    for executor in (SerialExecutor(), make()):
        run, schedule, _ = _started(executor, lambda: _called(""), "raise")
        for _ in range(2):
            try:
                run.outputs(schedule.first())
            except SampleError as error:  # which closes the executor, so the second time uses it again
                messages.append(f"{error.index} {str(error.args[0]).splitlines()[0]} {error.where}")
        run.close()
    assert len(messages) == 4, "a bad sample raises an error, each time"
    assert len(set(messages)) == 1, f"the errors differ: {messages}"


def _started(
    executor: ChunkExecutor, define: Callable[[], list[Any]], policy: OnError
) -> tuple[Run, Schedule, StageTimers]:
    pipeline = Pipeline(batch_size=_ROWS, seed=5)
    with pipeline:
        pipeline.set_outputs(*define())
    executable = Executable.build([pipeline.graph], SingleDevice(), "host", dense_outputs=False, on_error=policy)
    readings = executable.readings(pipeline.order_seed, None, _ROWS)
    strides = tuple(reading.stride(_ROWS) for reading in readings.values())
    schedule, timers = Schedule(_ROWS, None, strides[0], strides), StageTimers()
    return executable.start(readings, 11, executor, 2, schedule, timers, narrow=False), schedule, timers


def _decoded(folder: str) -> list[Any]:
    files, labels = fn.readers.file(file_root=folder, random_shuffle=True)
    images = fn.resize(fn.decoders.image_random_crop(files), size=[16, 16])
    images = fn.crop_mirror_normalize(images, mirror=fn.random.coin_flip())
    return [images, fn.decoders.image(files), labels, fn.random.uniform(range=[0.0, 1.0])]


def _paired(folder: str) -> list[Any]:
    del folder
    first = fn.readers.arrays(np.arange(40), name="first", random_shuffle=True)
    second = fn.readers.arrays(-np.arange(30), name="second", random_shuffle=True)

    def add(one: Any, other: Any, rng: np.random.Generator) -> Any:
        return np.asarray(one + other + rng.integers(100))

    return [fn.python_function(first, second, function=add), first]


def _called(folder: str) -> list[Any]:
    del folder
    numbers = fn.readers.arrays(np.arange(1, 50), random_shuffle=True)

    # Inside of the definition, because workers would import this module, and with it JAX, for a function of a module.
    def refuse(number: Any) -> Any:
        if number % 5 == 0:
            # Not a ValueError: messages name the type of a user's error, and this function is not a user's.
            raise SampleError("a multiple of five")
        return np.asarray(number * 2)

    return [fn.python_function(numbers, function=refuse), numbers]
