"""`ProgressBar`: progress of a training on a terminal, in a notebook, or in a log file."""

import importlib.util
import sys
import time
from datetime import timedelta
from typing import Annotated, Any

import jax

from penstock.core import optional_import
from penstock.graph import Range, check_annotations
from penstock.iterate import DataIterator
from penstock.train.train_loop import Callback, TrainLoop, report

# The default of tqdm spends its width on counts of samples. Here the figures come first, and the bar gets the rest of
# the line: 80 columns hold both, and a narrow terminal cuts the bar.
_BAR_FORMAT = "{desc} |{bar}|"
_ENDLESS_FORMAT = "{desc}"


class ProgressBar(Callback):
    """Callback that shows the progress in an epoch and prints a line after it.

    It shows the epoch, the step, samples per second without compilation, the remaining time, the metrics of the last
    finished step, and the fraction of time spent waiting for data: as a bar on a terminal or in a notebook, otherwise
    as a line per interval, without control characters. The line after an epoch shows the record of the epoch, so put
    `Evaluate` before this callback. A summary follows the last epoch. In a job of several processes, process 0 prints.

    Args:
        unit: Name of a sample.
        interval: Seconds between lines where there is no bar; 0 prints a line per step.
        **bar: Further arguments of tqdm for bars, such as ``mininterval``. ``disable=True`` shows neither a bar nor
            lines within an epoch.

    Raises:
        MissingExtraError: The package tqdm is not installed.

    Example:
        >>> import numpy as np
        >>> from penstock import train
        >>> step = train.data_parallel(lambda scale, batch: (scale * 2, scale))
        >>> data = train.batches(np.ones(16), 8)
        >>> _ = train.fit(step, np.float32(1), data, epochs=1, callbacks=[ProgressBar("numbers", interval=0)])
        epoch 1/1, step 1/2: ...wait ...%
        epoch 1/1, step 2/2: ...numbers/s, wait ...%, eta 0:00:00
        epoch 1/1: loss 1.5, ... numbers/s, wait ...%
        the step waited for data ...% of the ... s
        slowest stage: ...
    """

    @check_annotations
    def __init__(self, unit: str = "samples", interval: Annotated[float, Range(0)] = 30.0, **bar: Any) -> None:
        self._tqdm = optional_import.import_extra("tqdm", "train", "train.ProgressBar").tqdm
        self._unit, self._interval, self._options = unit, interval, {"leave": False, **bar}
        self._bar: Any = None
        # Time and number of the step from which the rate of the epoch is measured.
        self._start: tuple[float, int] | None = None
        self._next_line = 0.0

    def on_step_end(self, loop: TrainLoop) -> None:
        """Advance the bar, or print a line if it is time."""
        if jax.process_index() != 0:
            return
        now = time.perf_counter()
        if self._start is None:
            # This is after the first step has compiled. It counts, as it is only dispatched.
            self._start, self._next_line = (now, loop.step - 1), now + self._interval
            if _has_bar():
                self._bar = self._make_bar(loop)
        if self._bar is not None:
            self._bar.set_description_str(self._figures(loop, now), refresh=False)
            self._bar.update(loop.batch_size or 1)
        elif now >= self._next_line and not self._options.get("disable"):
            self._next_line = now + self._interval
            report(self._figures(loop, now))

    def on_epoch_end(self, loop: TrainLoop) -> None:
        """Remove the bar and print a line."""
        if jax.process_index() != 0:
            return
        of = "" if loop.total_epochs is None else f"/{loop.total_epochs}"
        record = [f"{name} {value:.4g}" for name, value in loop.history.epochs[-1].items()]
        # Without the time that callbacks before this one took, such as an evaluation.
        rate = self._rate(loop, loop.epoch_end_time)
        self.teardown()  # a bar on the screen would share its line with the record
        report(f"epoch {loop.epoch}{of}: {', '.join([*record, *rate, f'wait {loop.watch.stall_fraction:.0%}'])}")

    def on_train_end(self, loop: TrainLoop) -> None:
        """Print the summary, unless there was nothing left to do."""
        self.teardown()
        if loop.watch.seconds:
            report(loop.summary())

    def teardown(self) -> None:
        """Remove the bar."""
        self._start = None
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def _make_bar(self, loop: TrainLoop) -> Any:
        rows, total, done = loop.batch_size or 1, None, 0
        iterator = loop.iterator
        if isinstance(iterator, DataIterator) and iterator.size > 0:
            # The batch of this step is already delivered, and `update` counts it. A resumed epoch does not start at 0.
            total, done = len(iterator) * rows, (iterator.batches_delivered - 1) * rows
        bar = _notebook_bar() or self._tqdm
        form = _BAR_FORMAT if total else _ENDLESS_FORMAT
        # Shown with the first figures, by `update`.
        return bar(total=total, initial=done, dynamic_ncols=True, bar_format=form, delay=1e-9, **self._options)

    def _figures(self, loop: TrainLoop, now: float) -> str:
        """Return a line such as ``epoch 1/5, step 12/200: loss 0.31, 512 images/s, wait 3%, eta 0:00:20``."""
        epochs = "" if loop.total_epochs is None else f"/{loop.total_epochs}"
        steps = "" if loop.total_steps is None else f"/{loop.total_steps}"
        # `latest` returns the last finished step: reading this step's metrics would wait for the devices.
        metrics = [f"{name} {value:.4g}" for name, value in loop.history.latest().items()]
        metrics.sort(key=lambda text: not text.startswith("loss "))
        if self._bar is not None:  # a bar has room for one
            del metrics[1:]
        figures = [*metrics, *self._rate(loop, now), f"wait {loop.watch.stall_fraction:.0%}", *self._eta(loop, now)]
        return f"epoch {loop.epoch + 1}{epochs}, step {loop.step}{steps}: {', '.join(figures)}"

    def _seconds_per_step(self, loop: TrainLoop, now: float) -> float:
        """Return the duration of a step, or 0 if it is not known yet."""
        began, step = self._start or (now, 0)
        return (now - began) / (loop.step - step)

    def _rate(self, loop: TrainLoop, now: float) -> list[str]:
        seconds = self._seconds_per_step(loop, now)
        unit = "steps" if loop.batch_size is None else self._unit
        return [f"{(loop.batch_size or 1) / seconds:,.0f} {unit}/s"] if seconds else []

    def _eta(self, loop: TrainLoop, now: float) -> list[str]:
        seconds = self._seconds_per_step(loop, now)
        if loop.total_steps is None or not seconds:
            return []
        return [f"eta {timedelta(seconds=round(seconds * (loop.total_steps - loop.step)))}"]


def _has_bar() -> bool:
    """Return True on a terminal and in a notebook, where a line can be written again."""
    return sys.stderr.isatty() or _in_notebook()


def _in_notebook() -> bool:
    """Return True in a kernel of Jupyter."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and type(ipython.get_ipython()).__name__ == "ZMQInteractiveShell"


def _notebook_bar() -> Any:
    """Return the bar made of widgets, or None elsewhere. Without ipywidgets, a notebook shows a bar of text."""
    if not _in_notebook() or importlib.util.find_spec("ipywidgets") is None:
        return None
    return optional_import.import_extra("tqdm.notebook", "train", "train.ProgressBar").tqdm
