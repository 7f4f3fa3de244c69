"""Callbacks for `fit`: evaluation, and ends of a training that a signal or NaN causes."""

import signal
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any

import jax
from jax.experimental import multihost_utils

from penstock.errors import NotFiniteError, StateError, UsageError
from penstock.graph import Range, check_annotations
from penstock.iterate import DataIterator
from penstock.train.evaluation import Metric, check_metric, evaluate
from penstock.train.history import NotFiniteMetric, flat
from penstock.train.train_loop import Callback, TrainLoop


class Evaluate(Callback):
    """Callback that evaluates after epochs and records the means in the history.

    The first evaluation is over epoch 0 of a `DataIterator`, the second over epoch 1 and so on, so a training that
    resumes evaluates on the same batches as one that was not interrupted.

    Args:
        metric: See `evaluate`.
        iterator: See `evaluate`.
        name: Name of the result if the metric is one value, otherwise the prefix of ``name_metric``.
        select_state: Function from the loop's state to the state to evaluate; by default all of it. Pass
            `unreplicate_from_pmap` if the step uses `jax.pmap`.
        every: Epochs between evaluations.

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
        every: Annotated[int, Range(1)] = 1,
    ) -> None:
        self._metric, self._iterator, self._name = metric, iterator, name
        self.record_interval = every
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
        if loop.epoch % self.record_interval:
            return
        iterator = self._iterator
        # The training continues at its own position if it has the same iterator.
        position = iterator.get_state() if isinstance(iterator, DataIterator) and iterator is loop.iterator else None
        if isinstance(iterator, DataIterator):
            _seek(iterator, loop.epoch // self.record_interval - 1)
        means = evaluate(self._metric, self._state(loop), iterator)
        if isinstance(iterator, DataIterator) and position is not None:
            with suppress(StateError):  # a source that can only continue
                iterator.set_state(position)
        named = {self._name: means} if isinstance(means, float) else flat({self._name: means}, "_")
        loop.history.epochs[-1].update(named)


def _seek(iterator: DataIterator, epoch: int) -> None:
    """Move an iterator to an epoch. One that `evaluate` refuses stays: endless, or in the middle of an epoch."""
    if iterator.size >= 0 and (iterator.at_start or iterator.at_end):
        with suppress(StateError):  # an operator with a state can only continue
            iterator.seek(epoch, 0)


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
        stopped at step 1 of 72: SIGTERM
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
