"""Callbacks for `fit`: evaluation, progress, early exit."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
from jax.experimental import multihost_utils

from penstock.core import optional_import
from penstock.errors import NotFiniteError, UsageError
from penstock.graph.arguments.argument_checks import check_annotations
from penstock.iterate import DataIterator
from penstock.train.evaluation import Metric, check_metric, evaluate
from penstock.train.history import NotFiniteMetric, flat
from penstock.train.train_loop import Callback, TrainLoop


class Evaluate(Callback):
    """Evaluates after each epoch, and records the means in the history.

    Args:
        metric: as for `evaluate`.
        iterator: likewise.
        name: what the results are called, alone where the metric is one value, else ``name_metric``.
        select_state: what to evaluate of the loop's state; None takes all of it. Pass `unreplicate_from_pmap` if the
            step uses `jax.pmap`.

    Raises:
        UsageError: as for `evaluate`. A metric that does not return one number per row of a `DataIterator` is refused
            before the first step.

    Example:
        >>> import numpy as np
        >>> from penstock import train
        >>> step = train.data_parallel(lambda scale, batch: scale * 2)
        >>> test = Evaluate(lambda scale, batch: {"sum": scale * batch["x"]}, train.batches(np.ones(9), 8), "test")
        >>> train.fit(step, np.float32(1), train.batches(np.ones(8), 8), epochs=2, callbacks=[test]).history.epochs
        [{'test_sum': 2.0}, {'test_sum': 4.0}]
    """

    @check_annotations
    def __init__(
        self,
        metric: Metric,
        iterator: Iterable[Mapping[str, Any]],
        name: str = "test",
        select_state: Callable[[Any], Any] | None = None,
    ) -> None:
        self._metric, self._iterator, self._name = metric, iterator, name
        self._take = select_state

    def _state(self, loop: TrainLoop) -> Any:
        return loop.state if self._take is None else self._take(loop.state)

    def on_train_start(self, loop: TrainLoop) -> None:
        """Check the shapes of the metric, so that a mistake does not cost an epoch of training."""
        if isinstance(self._iterator, DataIterator):
            check_metric(self._metric, self._state(loop), self._iterator.element_spec)

    def on_epoch_end(self, loop: TrainLoop) -> None:
        """Evaluate and record."""
        means = evaluate(self._metric, self._state(loop), self._iterator)
        named = {self._name: means} if isinstance(means, float) else flat({self._name: means}, "_")
        loop.history.epochs[-1].update(named)


class ProgressBar(Callback):
    """A progress bar for each epoch, and a line when it is over.

    The bar tells the rate, the metrics of the last step that is done, and the share of the time that was spent waiting
    for data. The line has the epoch's record, so `Evaluate` belongs before it. At the end comes the verdict.

    Args:
        unit: what a sample is called.
        **bar: further arguments of tqdm, such as ``mininterval`` or ``disable``.

    Raises:
        MissingExtraError: tqdm is not installed.

    Example:
        >>> import numpy as np
        >>> from penstock import train
        >>> step = train.data_parallel(lambda scale, batch: (scale * 2, scale))
        >>> data, progress = train.batches(np.ones(16), 8), ProgressBar("numbers", disable=True)
        >>> _ = train.fit(step, np.float32(1), data, epochs=1, callbacks=[progress])
        epoch 1: loss 1.5, ... numbers/s, waiting ...%
        the step waited for data ...% of the ... s; slowest stage: ...
    """

    @check_annotations
    def __init__(self, unit: str = "samples", **bar: Any) -> None:
        tqdm = optional_import.import_extra("tqdm", "train", "train.Progress").tqdm
        self._tqdm, self._unit, self._options = tqdm, unit, {"leave": False, **bar}
        self._bar: Any = None
        self._start = (0.0, 0)

    def on_step_end(self, loop: TrainLoop) -> None:
        """Move the bar."""
        iterator = loop.iterator
        known = isinstance(iterator, DataIterator)
        rows = iterator.batch_size if known else 1
        if self._bar is None:
            total, done = None, 0
            if known and iterator.size > 0:
                total, done = len(iterator) * rows, (iterator.batches_delivered - 1) * rows
            unit = self._unit if known else "steps"
            named = {"unit": f" {unit}", "desc": f"epoch {loop.epoch + 1}"}
            self._bar = self._tqdm(total=total, initial=done, **named, **self._options)
            self._start = (time.perf_counter(), loop.step - 1)
        shown = {name: f"{value:.4g}" for name, value in loop.history.latest().items()}
        self._bar.set_postfix({**shown, "waiting": f"{loop.watch.stall_fraction:.0%}"}, refresh=False)
        self._bar.update(rows)

    def on_epoch_end(self, loop: TrainLoop) -> None:
        """Take the bar away and write a line."""
        began, step = self._start
        rate = (loop.step - step) / (time.perf_counter() - began)
        unit = "steps"
        if isinstance(loop.iterator, DataIterator):
            rate, unit = rate * loop.iterator.batch_size, self._unit
        record = ", ".join(f"{name} {value:.4g}" for name, value in loop.history.epochs[-1].items())
        self.teardown()
        self._tqdm.write(f"epoch {loop.epoch}: {record}, {rate:,.0f} {unit}/s, waiting {loop.watch.stall_fraction:.0%}")

    def on_train_end(self, loop: TrainLoop) -> None:
        """Write why the training stopped, and the verdict."""
        self.teardown()
        if loop.stopped is not None:
            self._tqdm.write(f"stopped after {loop.step} steps: {loop.stopped}")
        self._tqdm.write(loop.summary())

    def teardown(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


class TerminateOnNaN(Callback):
    """Ends the training with an error when a metric is NaN or infinite, before a save of it is written.

    No step is waited for: metrics are looked at when their step is done, so that a few more steps may have been made,
    and before each save. A loss tells of the weights before its step; return the norm of the gradient as a metric, and
    a save never has weights that it spoiled.

    Args:
        names: the metrics that count, such as "loss"; None for all.

    Raises:
        NotFiniteError: while training; it names step, metric and value.

    Example:
        >>> import numpy as np
        >>> from penstock import train
        >>> step = train.data_parallel(lambda scale, batch: (scale * 2e19, scale))
        >>> train.fit(step, np.float32(1), train.batches(np.ones(64), 8), epochs=1, callbacks=[TerminateOnNaN()])
        Traceback (most recent call last):
        penstock.errors.NotFiniteError: loss is inf at step 3
        ...
    """

    @check_annotations
    def __init__(self, names: str | Sequence[str] | None = None) -> None:
        self._names = (names,) if isinstance(names, str) else names

    def on_train_start(self, loop: TrainLoop) -> None:
        """Be told of what is read."""
        loop.history.on_not_finite(self._end, self._names)

    def on_step_end(self, loop: TrainLoop) -> None:
        """Read the metrics of the steps that are done."""
        loop.history.read_done()

    def on_train_end(self, loop: TrainLoop) -> None:
        """Read the rest."""
        _ = loop.history.steps

    def _end(self, found: NotFiniteMetric) -> None:
        raise NotFiniteError(
            f"{found.name} is {found.value} at step {found.step}",
            fix="a smaller learning rate, gradients that are clipped, or jax.config.update('jax_debug_nans', True) to "
            "find the operation; the last save is from before",
        )


class StopOnSignal(Callback):
    """Ends the training after the step that is being made when a signal comes; with `Checkpoint`, nothing is lost.

    A second signal does what it does without this. In a job of several processes all stop after the same step; there it
    is SIGTERM that JAX's distributed service listens to, and `signals` is not looked at.

    Args:
        signals: which ones.

    Raises:
        UsageError: when the training starts outside the main thread, which alone gets signals.

    Example:
        >>> import numpy as np, os
        >>> from penstock import train
        >>> class Interrupt(train.Callback):
        ...     def on_step_end(self, loop):
        ...         os.kill(os.getpid(), signal.SIGTERM)
        >>> step = train.data_parallel(lambda scale, batch: scale * 2)
        >>> callbacks = [Interrupt(), StopOnSignal()]
        >>> loop = train.fit(step, np.float32(1), train.batches(np.ones(64), 8), epochs=9, callbacks=callbacks)
        >>> loop.step, loop.stopped
        (1, 'SIGTERM')
    """

    @check_annotations
    def __init__(self, signals: Sequence[signal.Signals] = (signal.SIGTERM, signal.SIGINT)) -> None:
        self._signals = tuple(signals)
        self._before: dict[signal.Signals, Any] = {}
        self._caught: str | None = None

    def on_train_start(self, loop: TrainLoop) -> None:
        """Listen."""
        self._caught = None
        if jax.process_count() > 1:
            return
        if threading.current_thread() is not threading.main_thread():
            raise UsageError("StopOnSignal works in the main thread only", fix="leave it out, and call loop.stop()")
        self._before = {number: signal.signal(number, self._catch) for number in self._signals}

    def _catch(self, number: int, frame: object) -> None:
        if self._caught is not None:
            self.teardown()
            signal.raise_signal(number)
        self._caught = signal.Signals(number).name

    def on_step_end(self, loop: TrainLoop) -> None:
        """Stop, if a signal has come."""
        if jax.process_count() > 1:
            if multihost_utils.reached_preemption_sync_point(loop.step):
                loop.stop("SIGTERM")
        elif self._caught is not None:
            loop.stop(self._caught)

    def teardown(self) -> None:
        """Give the signals back to whoever had them before."""
        while self._before:
            signal.signal(*self._before.popitem())
