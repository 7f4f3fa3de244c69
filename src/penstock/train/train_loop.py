"""`fit`: the loop around a step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any

import jax

from penstock.errors import UsageError
from penstock.graph.arguments.argument_checks import check_annotations
from penstock.graph.arguments.argument_marks import Range
from penstock.iterate import DataIterator
from penstock.train.history import History
from penstock.train.stall_monitor import StallMonitor
from penstock.train.tree_partition import returned

Step = Callable[[Any, Any], Any]


class Callback:
    """What is told how a training goes. Override what is needed; each method may look at the loop and change it.

    Example:
        >>> class Report(Callback):
        ...     def on_epoch(self, loop):
        ...         print(loop.epoch, loop.history.epochs[-1])
    """

    def on_train_start(self, loop: TrainLoop) -> None:
        """Before the first step."""

    def on_step_end(self, loop: TrainLoop) -> None:
        """After a step was dispatched; it may not be done yet."""

    def on_epoch_end(self, loop: TrainLoop) -> None:
        """After the last step of an epoch; `loop.epoch` epochs have passed."""

    def on_train_end(self, loop: TrainLoop) -> None:
        """After the last step, or after the one at which the training was stopped; not if it failed."""

    def teardown(self) -> None:
        """At the very end, also of a training that failed: give back what was taken."""


class TrainLoop:
    """A training: where it stands, and what it has reported. `fit` makes one and returns it.

    Attributes:
        state: what the step returned last.
        iterator: where the batches come from.
        step: how many steps have been made, those before a resume included.
        epoch: how many epochs have passed, likewise.
        history: the metrics.
        stopped: why the training was stopped early, or None.
        watch: who waited for whom, since this run began.
    """

    def __init__(self, state: Any, iterator: Iterable[Any]) -> None:
        self.state = state
        self.iterator = iterator
        self.step = 0
        self.epoch = 0
        self.history = History()
        self.stopped: str | None = None
        self.watch = StallMonitor(iterator)

    def stop(self, reason: str) -> None:
        """End the training after the step that is being made."""
        self.stopped = reason

    def summary(self) -> str:
        """One line: how much of the time the step waited for data, and which stage of the pipeline was the slowest."""
        return self.watch.summary()

    @property
    def epoch_ended(self) -> bool:
        """Whether the iterator stands at the end of an epoch; False where it cannot tell."""
        iterator = self.iterator
        return isinstance(iterator, DataIterator) and iterator.at_end


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
    """Make steps over an iterator's batches, and tell callbacks about it.

    This is the loop that one would write, and nothing in it is needed by a loop of one's own: what it uses (`History`,
    `StallMonitor`, `evaluate`, `Checkpoint.save`) can be used without it. Nothing is waited for between steps.

    Args:
        step: ``step(state, batch) -> state`` or ``(state, metrics)``, compiled: `data_parallel(step)`, or a jitted
            one. Metrics are a scalar, called "loss", or a tree of scalars; under `jax.pmap`, one value per device.
        state: what the first step starts from. `data_parallel` leaves the caller's as it is.
        iterator: batches; iterated over once per epoch.
        epochs: how many epochs there are in all, those before a resume included.
        steps: how many steps, likewise; epochs follow each other until then.
        callbacks: are told in this order. `Checkpoint` belongs at the end, so that it saves what the others recorded.

    Returns:
        The loop: `state`, `history`, `verdict()`.

    Raises:
        UsageError: neither or both of epochs and steps are given, they are no whole numbers; epochs of an endless
            iterator; `callbacks` has something that is no callback; there are no batches; after the first step, a
            metric is not a scalar.

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
    if epochs is not None and isinstance(iterator, DataIterator) and iterator.size < 0:
        raise UsageError(
            "an endless iterator has no epochs to count, so the training would never end",
            given=f"epochs={epochs}",
            fix="steps=..., or give the iterator reader_name or size",
        )
    loop = TrainLoop(state, iterator)
    structure = jax.tree.structure(state)
    with loop.watch:
        try:
            for callback in callbacks:
                callback.on_train_start(loop)
            while not _finished(loop, epochs, steps):
                _epoch(loop, step, structure, steps, callbacks)
            for callback in callbacks:
                callback.on_train_end(loop)
        finally:
            for callback in callbacks:
                callback.teardown()
    return loop


def _finished(loop: TrainLoop, epochs: int | None, steps: int | None) -> bool:
    return (
        loop.stopped is not None
        or (epochs is not None and loop.epoch >= epochs)
        or (steps is not None and loop.step >= steps)
    )


def _epoch(loop: TrainLoop, step: Step, structure: Any, steps: int | None, callbacks: Sequence[Callback]) -> None:
    """What is left of an epoch, or as much as there is time for."""
    before, ended = loop.step, True
    for batch in loop.watch:
        loop.state, metrics = returned(structure, step(loop.state, batch))
        loop.step += 1
        loop.history.add(metrics)
        loop.watch.step_done(metrics)
        for callback in callbacks:
            callback.on_step_end(loop)
        if _finished(loop, None, steps):
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
        loop.history.end_epoch()
        for callback in callbacks:
            callback.on_epoch_end(loop)
