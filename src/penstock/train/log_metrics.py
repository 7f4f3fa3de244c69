"""`LogMetrics`: metrics of steps and epochs for loggers."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import jax

from penstock.graph import Range, check_annotations
from penstock.train.loggers import Logger
from penstock.train.train_loop import Callback, TrainLoop


class LogMetrics(Callback):
    """Callback that passes metrics to loggers: of every few steps, and the record of each epoch.

    Besides the metrics of the step, it logs "samples_per_second" (or "steps_per_second" if the iterator does not know
    its batch size), without compilation and evaluation; "data_wait", the fraction of the time spent waiting for data;
    and "learning_rate". In the record of an epoch, the means of the step's metrics have the prefix `epoch_`.

    Metrics are logged when their step has finished, so the loop does not wait. In a job of several processes, process 0
    logs.

    Put it after `Evaluate`, which makes the record.

    Args:
        loggers: A `Logger`, or several.
        every: Steps between logged steps.
        learning_rate: Learning rate, or a function of the number of the step, counted from 0, such as a schedule of
            Optax. With None, no rate is logged.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> from penstock import train
        >>> logger = train.CSVLogger(tempfile.mkdtemp() + "/metrics.csv")
        >>> step = train.data_parallel(lambda scale, batch: (scale * 2, {"scale": scale}))
        >>> log = LogMetrics(logger, every=2, learning_rate=0.1)
        >>> _ = train.fit(step, np.float32(1), train.batches(np.ones(32), 8), epochs=1, callbacks=[log])
        >>> print(logger.path.read_text())
        step,scale,learning_rate,samples_per_second,data_wait,epoch,epoch_scale
        2,2.0,0.1,...,...,,
        4,8.0,0.1,...,...,,
        4,,,,,1,3.75
        <BLANKLINE>
    """

    @check_annotations
    def __init__(
        self,
        loggers: Logger | Sequence[Logger],
        every: Annotated[int, Range(1)] = 50,
        learning_rate: Callable[[int], Any] | float | None = None,
    ) -> None:
        self._loggers: Sequence[Logger] = list(loggers) if isinstance(loggers, Sequence) else [loggers]
        self._every, self._learning_rate = every, learning_rate
        # Time and number of the step from which the rate is measured; None after a pause, such as an evaluation.
        self._start: tuple[float, int] | None = None
        self._loop: TrainLoop | None = None

    def on_train_start(self, loop: TrainLoop) -> None:
        """Register with the history."""
        self._loop, self._start = loop, None
        loop.history.on_read(self._log_step)

    def on_resume(self, loop: TrainLoop) -> None:
        """Remove what was logged after the checkpoint."""
        if jax.process_index() == 0:
            for logger in self._loggers:
                logger.resume(loop.step)

    def on_step_end(self, loop: TrainLoop) -> None:
        """Log the steps that have finished."""
        if self._start is None:  # the first step of a run compiles, before this call
            self._start = time.perf_counter(), loop.step - 1
        loop.history.read_done()

    def on_epoch_end(self, loop: TrainLoop) -> None:
        """Log the record of the epoch."""
        steps = loop.history.steps
        record = {f"epoch_{name}" if name in steps else name: v for name, v in loop.history.epochs[-1].items()}
        self._log({"epoch": loop.epoch, **record}, loop.step)
        self._start = None

    def on_train_end(self, loop: TrainLoop) -> None:
        """Log the remaining steps."""
        _ = loop.history.steps  # reading calls `_log_step`

    def teardown(self) -> None:
        """Close the loggers."""
        self._loop = None
        for logger in self._loggers:
            logger.close()

    def _log_step(self, step: int, values: Mapping[str, float]) -> None:
        loop = self._loop
        if loop is None or step % self._every:
            return
        more: dict[str, float] = {}
        if self._learning_rate is not None:
            rate = self._learning_rate
            more["learning_rate"] = float(rate(step - 1) if callable(rate) else rate)
        now = time.perf_counter()
        if self._start is not None and step > self._start[1]:
            rows = loop.batch_size
            rate = (step - self._start[1]) * (rows or 1) / (now - self._start[0])
            more["samples_per_second" if rows else "steps_per_second"] = rate
            self._start = now, step
        self._log({**values, **more, "data_wait": loop.watch.stall_fraction}, step)

    def _log(self, values: Mapping[str, float], step: int) -> None:
        if jax.process_index() == 0:
            for logger in self._loggers:
                logger.log(values, step)
