"""`fit`: the loop around a step."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import Annotated, Any

import jax

from penstock.errors import UsageError
from penstock.graph import Range, check_annotations
from penstock.iterate import DataIterator
from penstock.train.history import History
from penstock.train.stall_monitor import StallMonitor
from penstock.train.tree_partition import returned

Step = Callable[[Any, Any], Any]


class Callback:
    """Base class of callbacks. Override the methods you need; each one may read and change the loop.

    In a job of several processes, every process calls its callbacks. An exception ends the job, also if only one
    process raises it.

    Attributes:
        record_interval: Epochs between the values that the callback adds to the record of an epoch.

    Example:
        >>> class Report(Callback):
        ...     def on_epoch_end(self, loop):
        ...         print(loop.epoch, loop.history.epochs[-1])
    """

    record_interval = 1

    def on_train_start(self, loop: TrainLoop) -> None:
        """Called before the first step."""

    def on_resume(self, loop: TrainLoop) -> None:
        """Called after `on_train_start` of all callbacks, if one of them has restored a checkpoint."""

    def on_step_end(self, loop: TrainLoop) -> None:
        """Called after a step is dispatched, which may not have finished."""

    def on_epoch_end(self, loop: TrainLoop) -> None:
        """Called after the last step of an epoch, when `loop.epoch` is incremented."""

    def on_train_end(self, loop: TrainLoop) -> None:
        """Called after the last step, also of a stopped training, but not after an error."""

    def teardown(self) -> None:
        """Called at the end, also after an error. Release resources here."""


class TrainLoop:
    """State and history of a training. `fit` returns it.

    Attributes:
        state: State that the last step returned.
        iterator: Source of the batches.
        callbacks: Callbacks of `fit`.
        total_epochs: Number of epochs to train, or None if `steps` counts.
        total_steps: Number of steps to train, or None if it is not known: the iterator does not know its length.
        step: Number of steps, including those before a resume.
        epoch: Number of finished epochs, including those before a resume.
        history: Metrics.
        stopped: Reason of an early stop, or None.
        epoch_end_time: Time at which the steps of the last epoch had finished, in seconds of `time.perf_counter`.
        watch: Monitor of the time spent waiting for data, since this run started.
    """

    def __init__(
        self,
        state: Any,
        iterator: Iterable[Any],
        callbacks: Sequence[Callback] = (),
        *,
        epochs: int | None = None,
        steps: int | None = None,
    ) -> None:
        self.state = state
        self.iterator = iterator
        self.callbacks = callbacks
        self.total_epochs = epochs
        self.total_steps = steps
        if epochs is not None and isinstance(iterator, DataIterator) and iterator.size > 0:
            self.total_steps = epochs * len(iterator)
        self.step = 0
        self.epoch = 0
        self.history = History()
        self.stopped: str | None = None
        self.epoch_end_time = 0.0
        self.watch = StallMonitor(iterator)

    def __repr__(self) -> str:
        stopped = "" if self.stopped is None else f", stopped={self.stopped!r}"
        return f"TrainLoop(step={self.step}, epoch={self.epoch}{stopped})"

    def stop(self, reason: str) -> None:
        """End the training after the current step. `fit` prints the reason, and `stopped` keeps it.

        In a job of several processes, all of them must call it after the same step.

        Args:
            reason: Reason in a few words, such as "the loss is small enough".
        """
        self.stopped = reason

    @property
    def batch_size(self) -> int | None:
        """Number of rows in a batch, over all devices, or None if the iterator does not know it."""
        return self.iterator.batch_size if isinstance(self.iterator, DataIterator) else None

    def recorded(self, name: str) -> float | None:
        """Return a value of the last epoch's record, or None if other epochs alone have it.

        Args:
            name: Name of the value, such as "loss" or "val_accuracy".

        Raises:
            UsageError: No epoch has it, although every callback has had the epochs that it needs.
        """
        records = self.history.epochs
        # Callbacks that record a value every few epochs may not have had their turn.
        interval = max((callback.record_interval for callback in self.callbacks), default=1)
        if self.epoch >= interval and not any(name in record for record in records):
            raise UsageError(
                "the monitored value is not in the record of the epoch",
                given=name,
                expected=", ".join({name: None for record in records for name in record}) or "a metric of the step",
                fix="one of these names; put Evaluate before the callback that monitors its result",
            )
        return records[-1].get(name)

    def summary(self) -> str:
        """Return the fraction of time spent waiting for data and the slowest stage of the pipeline as lines."""
        return self.watch.summary()

    @property
    def epoch_ended(self) -> bool:
        """True if the iterator is at the end of an epoch; False for iterators that do not know."""
        iterator = self.iterator
        return isinstance(iterator, DataIterator) and iterator.ends_here()


@check_annotations
def fit(
    step: Step,
    state: Any,
    iterator: Iterable[Any],
    *,
    epochs: Annotated[int | None, Range(0)] = None,
    steps: Annotated[int | None, Range(0)] = None,
    callbacks: Sequence[Callback] = (),
) -> TrainLoop:
    """Run steps over the batches of an iterator and call callbacks.

    A line tells that the training resumes, that nothing is left to do, or why it stopped early; in a job of several
    processes, process 0 prints it.

    Your own loop can use its parts (`History`, `StallMonitor`, `evaluate`, `Checkpoint.save`) without it. The loop does
    not wait for the devices between steps.

    Args:
        step: Function ``step(state, batch) -> state`` or ``(state, metrics)``, compiled: `data_parallel(step)`, or a
            jitted one. Metrics are a scalar, called "loss", or a tree of scalars; under `jax.pmap`, one value per
            device.
        state: Initial state. `data_parallel` copies a state of NumPy arrays, or one that is on other devices, and
            donates one that is already on the devices, so read `loop.state` afterwards.
        iterator: Batches; one loop over it per epoch.
        epochs: Total number of epochs, including those before a resume.
        steps: Total number of steps, including those before a resume, over as many epochs as necessary.
        callbacks: Called in this order. Put `Checkpoint` last, so that it saves what the others recorded.

    Returns:
        The loop, with `state`, `history` and `summary()`.

    Raises:
        UsageError: Neither or both of `epochs` and `steps` are given; an endless iterator has no epochs; there are no
            batches; a metric is not a scalar.

    Example:
        >>> import numpy as np
        >>> from penstock import train
        >>> @train.data_parallel
        ... def step(mean, batch):
        ...     return mean + 0.5 * (batch["x"].mean() - mean), {"error": abs(batch["x"].mean() - mean)}
        >>> loop = fit(step, np.float32(0), train.batches(np.full(64, 3.0), 16), epochs=2)
        >>> loop.step, loop.history.steps["error"][:3], [epoch["error"] for epoch in loop.history.epochs]
        (8, [3.0, 1.5, 0.75], [1.40625, 0.087890625])
    """
    if (epochs is None) == (steps is None):
        raise UsageError("fit needs the number of epochs or of steps", given=f"epochs={epochs}, steps={steps}")
    if epochs is not None and isinstance(iterator, DataIterator) and iterator.is_endless:
        raise UsageError(
            "an endless iterator has no epochs to count, so the training would never end",
            given=f"epochs={epochs}",
            fix="steps=..., or give the iterator reader_name or size",
        )
    loop = TrainLoop(state, iterator, callbacks, epochs=epochs, steps=steps)
    structure = jax.tree.structure(state)
    with loop.watch, ExitStack() as ending:
        # Also after an error, and after one of another callback: they restore signal handlers and close files.
        for callback in reversed(callbacks):
            ending.callback(callback.teardown)
        for callback in callbacks:
            callback.on_train_start(loop)
        if loop.step:
            for callback in callbacks:
                callback.on_resume(loop)
            _report_start(loop)
        while not _finished(loop, epochs, steps):
            _epoch(loop, step, structure, steps, callbacks)
        for callback in callbacks:
            callback.on_train_end(loop)
        if loop.stopped is not None:
            report(f"stopped at step {_step_of(loop)}: {loop.stopped}")
    return loop


def report(line: str) -> None:
    """Print a line for the user, on process 0 of a job."""
    if jax.process_index() == 0:
        print(line, flush=True)  # noqa: T201  # the one place that prints


def _report_start(loop: TrainLoop) -> None:
    step = _step_of(loop)
    epochs = "" if loop.total_epochs is None else f" ({loop.epoch} of {loop.total_epochs} epochs are complete)"
    if loop.stopped is None and _finished(loop, loop.total_epochs, loop.total_steps):
        report(f"nothing is left to do: resumed at step {step}{epochs}")
    else:
        report(f"resumed at step {step}{epochs}")


def _step_of(loop: TrainLoop) -> str:
    return f"{loop.step}" if loop.total_steps is None else f"{loop.step} of {loop.total_steps}"


def _finished(loop: TrainLoop, epochs: int | None, steps: int | None) -> bool:
    return (
        loop.stopped is not None
        or (epochs is not None and loop.epoch >= epochs)
        or (steps is not None and loop.step >= steps)
    )


def _epoch(loop: TrainLoop, step: Step, structure: Any, steps: int | None, callbacks: Sequence[Callback]) -> None:
    """Run the rest of an epoch, or the remaining steps."""
    before, ended = loop.step, True
    for batch in loop.watch:
        loop.state, metrics = returned(structure, step(loop.state, batch))
        loop.step += 1
        loop.history.add(metrics)
        loop.watch.step_done(metrics)
        for callback in callbacks:
            callback.on_step_end(loop)
        if _finished(loop, None, steps):
            # The last step may also be the last of its epoch, which must then be counted before the return.
            ended = loop.epoch_ended
            break
    if loop.step == before:
        raise UsageError(
            "there are no batches left",
            given=f"{loop.step} steps, {loop.epoch} epochs",
            fix="an iterator, not a generator",
        )
    if ended:
        loop.epoch += 1
        loop.history.end_epoch()  # waits for the steps
        loop.epoch_end_time = time.perf_counter()
        for callback in callbacks:
            callback.on_epoch_end(loop)
