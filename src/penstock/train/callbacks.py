"""Callbacks for `fit`: evaluation, progress, early exit."""

import signal
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
from jax.experimental import multihost_utils

from penstock.core import optional_import
from penstock.errors import NotFiniteError, UsageError
from penstock.graph import check_annotations
from penstock.iterate import DataIterator
from penstock.train.evaluation import Metric, check_metric, evaluate
from penstock.train.history import NotFiniteMetric, flat
from penstock.train.train_loop import Callback, TrainLoop


class Evaluate(Callback):
    """Callback that evaluates after each epoch and records the means in the history.

    Args:
        metric: See `evaluate`.
        iterator: See `evaluate`.
        name: Name of the result if the metric is one value, otherwise the prefix of ``name_metric``.
        select_state: Function from the loop's state to the state to evaluate; by default all of it. Pass
            `unreplicate_from_pmap` if the step uses `jax.pmap`.

    Raises:
        UsageError: See `evaluate`. A metric that does not return one number per row of a `DataIterator` is refused
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
        self._select_state = select_state

    def _state(self, loop: TrainLoop) -> Any:
        # The state changes with each step, so it is selected at each evaluation.
        return loop.state if self._select_state is None else self._select_state(loop.state)

    def on_train_start(self, loop: TrainLoop) -> None:
        """Check the shapes of the metric before the first epoch, not after it."""
        if isinstance(self._iterator, DataIterator):
            check_metric(self._metric, self._state(loop), self._iterator.element_spec)

    def on_epoch_end(self, loop: TrainLoop) -> None:
        """Evaluate and record the means."""
        means = evaluate(self._metric, self._state(loop), self._iterator)
        named = {self._name: means} if isinstance(means, float) else flat({self._name: means}, "_")
        loop.history.epochs[-1].update(named)


class ProgressBar(Callback):
    """Callback that shows a progress bar in each epoch and prints a line after it.

    The bar shows the rate, the metrics of the last finished step, and the fraction of time spent waiting for data. The
    line shows the record of the epoch, so put `Evaluate` before this callback. A summary follows the last epoch.

    Args:
        unit: Name of a sample.
        **bar: Further arguments of tqdm, such as ``mininterval`` or ``disable``.

    Raises:
        MissingExtraError: The package tqdm is not installed.

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
        tqdm = optional_import.import_extra("tqdm", "train", "train.ProgressBar").tqdm
        self._tqdm, self._unit, self._options = tqdm, unit, {"leave": False, **bar}
        self._bar: Any = None
        self._start = (0.0, 0)

    def _count(self, loop: TrainLoop) -> tuple[int, str]:
        """Return the number of units in a step and their name."""
        # Only a `DataIterator` knows its batch size and length. Otherwise the bar counts steps.
        return (loop.iterator.batch_size, self._unit) if isinstance(loop.iterator, DataIterator) else (1, "steps")

    def on_step_end(self, loop: TrainLoop) -> None:
        """Advance the bar."""
        rows, unit = self._count(loop)
        if self._bar is None:
            total, done = None, 0
            iterator = loop.iterator
            if isinstance(iterator, DataIterator) and iterator.size > 0:
                # The batch of this step is already delivered, and `update` below counts it. A resumed epoch does not
                # start at 0.
                total, done = len(iterator) * rows, (iterator.batches_delivered - 1) * rows
            texts = {"unit": f" {unit}", "desc": f"epoch {loop.epoch + 1}"}
            self._bar = self._tqdm(total=total, initial=done, **texts, **self._options)
            self._start = (time.perf_counter(), loop.step - 1)
        shown = {name: f"{value:.4g}" for name, value in loop.history.latest().items()}
        # `latest` returns the last finished step: reading this step's metrics would wait for the devices.
        self._bar.set_postfix({**shown, "waiting": f"{loop.watch.stall_fraction:.0%}"}, refresh=False)
        self._bar.update(rows)

    def on_epoch_end(self, loop: TrainLoop) -> None:
        """Remove the bar and print a line."""
        (began, step), (rows, unit) = self._start, self._count(loop)
        rate = rows * (loop.step - step) / (time.perf_counter() - began)
        record = ", ".join(f"{name} {value:.4g}" for name, value in loop.history.epochs[-1].items())
        # A bar on the screen would share its line with the record.
        self.teardown()
        self._tqdm.write(f"epoch {loop.epoch}: {record}, {rate:,.0f} {unit}/s, waiting {loop.watch.stall_fraction:.0%}")

    def on_train_end(self, loop: TrainLoop) -> None:
        """Print the reason of an early stop, and the summary."""
        self.teardown()
        if loop.stopped is not None:
            self._tqdm.write(f"stopped after {loop.step} steps: {loop.stopped}")
        self._tqdm.write(loop.summary())

    def teardown(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


class TerminateOnNaN(Callback):
    """Callback that ends the training with an error if a metric is NaN or infinite.

    Metrics are checked when their step has finished, so a few more steps may have run, and before each checkpoint. The
    loss of a step is computed before the update: if the gradient of the last step was NaN, a checkpoint may already
    contain NaN weights. Return the gradient norm as a metric to end the training before such a checkpoint.

    Args:
        names: Metrics to check, such as "loss"; by default all.

    Raises:
        NotFiniteError: During training, with the step, the metric and the value.

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
        """Register the check with the history."""
        loop.history.on_not_finite(self._end, self._names)

    def on_step_end(self, loop: TrainLoop) -> None:
        """Read the metrics of finished steps."""
        loop.history.read_done()

    def on_train_end(self, loop: TrainLoop) -> None:
        """Read the remaining metrics."""
        # The property reads all metrics, and reading calls `_end` for a bad one.
        _ = loop.history.steps

    def _end(self, metric: NotFiniteMetric) -> None:
        raise NotFiniteError(
            f"{metric.name} is {metric.value} at step {metric.step}",
            fix="a smaller learning rate, gradients that are clipped, or jax.config.update('jax_debug_nans', True) to "
            "find the operation; the last save is from before",
        )


class StopOnSignal(Callback):
    """Callback that ends the training after the current step when a signal arrives. `Checkpoint` then saves it.

    A second signal has its usual effect. In a job of several processes, all stop after the same step; there, JAX's
    distributed service handles SIGTERM and `signals` is ignored.

    Args:
        signals: Signals to handle.

    Raises:
        UsageError: The training starts outside the main thread, which alone receives signals.

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
        """Install the signal handlers."""
        self._caught = None
        # JAX's preemption service has its own handler of SIGTERM, which a handler of this process would replace.
        if jax.process_count() > 1:
            return
        if threading.current_thread() is not threading.main_thread():
            raise UsageError("StopOnSignal works in the main thread only", fix="leave it out, and call loop.stop()")
        self._before = {number: signal.signal(number, self._catch) for number in self._signals}

    def _catch(self, number: int, frame: object) -> None:
        # The second signal: restore the previous handler and deliver the signal to it.
        if self._caught is not None:
            self.teardown()
            signal.raise_signal(number)
        self._caught = signal.Signals(number).name

    def on_step_end(self, loop: TrainLoop) -> None:
        """Stop if a signal has arrived."""
        if jax.process_count() > 1:
            # All processes must stop after the same step, because a step is a collective operation. JAX's service
            # agrees on the step after a process has received SIGTERM.
            if multihost_utils.reached_preemption_sync_point(loop.step):
                loop.stop("SIGTERM")
        elif self._caught is not None:
            loop.stop(self._caught)

    def teardown(self) -> None:
        """Restore the previous signal handlers."""
        while self._before:
            signal.signal(*self._before.popitem())
