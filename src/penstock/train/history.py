"""History of a training's metrics, recorded without waiting for the devices."""

import logging
import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, cast

import jax
import numpy as np

from penstock.core import optional_import
from penstock.errors import UsageError
from penstock.graph import check_annotations
from penstock.pictures.notebook_figure import notebook_figure

_log = logging.getLogger("penstock")

# Fix for an array of shape (N, N): file readers return labels of shape (N, 1), and broadcasting compares all pairs.
FLATTEN = (
    "if labels of shape (N, 1) are compared with predictions of shape (N,), flatten the labels: "
    "flat_labels=True of the reader, fn.squeeze(labels, axes=[0]) in the definition, or labels[:, 0]"
)

# Steps whose metrics may stay on the devices. Beyond it, the older half is read: those steps have finished long ago.
_UNREAD = 256


class NotFiniteMetric(NamedTuple):
    """NaN or infinite value of a metric, with its step, counted from 1."""

    step: int
    name: str
    value: float


def _warn(metric: NotFiniteMetric) -> None:
    _log.warning(
        "%s is %s at step %d; train.TerminateOnNaN ends a training there", metric.name, metric.value, metric.step
    )


class History:
    """Metrics of every step, and a record of each epoch.

    Metrics stay on the devices until they are read or become many, so recording does not wait for a step.

    Attributes:
        epochs: Dictionary per epoch: the mean of each metric over its steps, and values from callbacks.

    Example:
        >>> history = History()
        >>> history.add({"loss": np.float32(2)}), history.add({"loss": np.float32(1)})
        (None, None)
        >>> history.end_epoch({"test_accuracy": 0.5})
        >>> history.steps, history.epochs
        ({'loss': [2.0, 1.0]}, [{'loss': 1.5, 'test_accuracy': 0.5}])
    """

    def __init__(self) -> None:
        self.epochs: list[dict[str, float]] = []
        self._guard: Callable[[NotFiniteMetric], None] = _warn
        self._guarded: Sequence[str] | None = None
        self._listeners: list[Callable[[int, Mapping[str, float]], None]] = []
        self._read: dict[str, list[float]] = {}
        self._unread: deque[tuple[int, dict[str, Any]]] = deque()
        self._count = 0
        self._begun: dict[str, int] = {}
        self._reported = False

    def on_not_finite(self, tell: Callable[[NotFiniteMetric], None], names: Sequence[str] | None = None) -> None:
        """Call a function with the first NaN or infinite value, instead of logging a warning.

        Args:
            tell: Function to call. Its exceptions propagate from the method that reads the value.
            names: Metrics to check; by default all.
        """
        self._guard, self._guarded = tell, names

    def on_read(self, tell: Callable[[int, Mapping[str, float]], None]) -> None:
        """Call a function with the number and the metrics of each step when they are read, in the order of the steps.

        Args:
            tell: Function to call, before a NaN or infinite value ends the training.
        """
        self._listeners.append(tell)

    def add(self, metrics: Any) -> None:
        """Record the metrics of a step: a scalar, named "loss", or a tree of scalars, named by their paths.

        For `jax.pmap`, which returns one value per device, the mean is recorded.

        Raises:
            UsageError: A metric is not a scalar, for example one value per row.
        """
        named = flat(metrics)
        for name, value in named.items():
            if not _is_scalar(value):
                raise UsageError(
                    "a metric of a step is a scalar",
                    given=f"{name} of shape {np.shape(value)}",
                    expected="shape (), or one value per device, as jax.pmap returns",
                    fix=f"reduce it in the step, for example with .mean(); {FLATTEN}",
                )
        self._count += 1
        if named:
            self._unread.append((self._count, named))
        # Without a limit, a long epoch would keep the metrics of all its steps in device memory.
        if len(self._unread) > _UNREAD:
            self._fetch(_UNREAD // 2)

    def end_epoch(self, more: Mapping[str, float] | None = None) -> None:
        """End an epoch. Reads all metrics and therefore waits for the steps."""
        recent = {name: values[self._begun.get(name, 0) :] for name, values in self.steps.items()}
        means = {name: float(np.mean(values)) for name, values in recent.items() if values}
        self._begun = {name: len(values) for name, values in self._read.items()}
        self.epochs.append({**means, **(more or {})})

    def latest(self) -> dict[str, float]:
        """Return the metrics of the last finished step, without waiting."""
        for _, named in reversed(self._unread):
            if _done(named):
                return {name: float(np.mean(value)) for name, value in named.items()}
        return {name: values[-1] for name, values in self._read.items() if values}

    @property
    def steps(self) -> dict[str, list[float]]:
        """Values of each metric by step. Reads all metrics and therefore waits for the steps."""
        self._fetch(len(self._unread))
        return self._read

    def read_done(self) -> None:
        """Read the metrics of finished steps, without waiting."""
        self._fetch(sum(1 for _ in takewhile(_done, (named for _, named in self._unread))))

    def _fetch(self, count: int) -> None:
        if not count:
            return
        # One `device_get` for all arrays starts their copies together.
        numbers, metrics = zip(*(self._unread.popleft() for _ in range(count)), strict=True)
        bad: NotFiniteMetric | None = None
        for number, named in zip(numbers, jax.device_get(list(metrics)), strict=True):
            values = {name: float(np.mean(array)) for name, array in named.items()}
            for tell in self._listeners:
                tell(number, values)
            for name, value in values.items():
                self._read.setdefault(name, []).append(value)
                if bad is None and not math.isfinite(value) and (self._guarded is None or name in self._guarded):
                    bad = NotFiniteMetric(number, name, value)
        if bad is not None and not self._reported:
            self._reported = True  # later values of a NaN run are NaN as well
            self._guard(bad)

    def position(self) -> dict[str, Any]:
        """Return the current position, for `state`. The last epoch may still change and is not included."""
        return {
            "steps": {name: len(values) for name, values in self.steps.items()},
            "epochs": max(len(self.epochs) - 1, 0),
        }

    def state(self, since: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the history as JSON values, or the part after a `position`."""
        since = since or {"steps": {}, "epochs": 0}
        first = {name: since["steps"].get(name, 0) for name in self.steps}
        return {
            "steps": {name: values[first[name] :] for name, values in self._read.items() if values[first[name] :]},
            "epochs": [since["epochs"], self.epochs[since["epochs"] :]],
            "begun": self._begun,
            "count": self._count,
        }

    def restore(self, *states: Mapping[str, Any]) -> None:
        """Restore the history from the results of `state`, in order."""
        self._unread.clear()
        self._read, self.epochs = {}, []
        for state in states:
            for name, values in state["steps"].items():
                self._read.setdefault(name, []).extend(values)
            first, epochs = state["epochs"]
            self.epochs[first:] = [dict(epoch) for epoch in epochs]
            self._begun, self._count = dict(state["begun"]), state["count"]

    @check_annotations
    def plot(self, path: str | PathLike[str] | None = None) -> Any:
        """Plot metrics by step and by epoch. A notebook displays the figure.

        Args:
            path: File to write; None writes nothing.

        Returns:
            A `matplotlib.figure.Figure`.

        Raises:
            MissingExtraError: Matplotlib is not installed.
        """
        figures = optional_import.import_extra("matplotlib.figure", "train", "History.plot")
        figure = notebook_figure(figures.Figure)(figsize=(11, 4), layout="constrained")
        by_step, by_epoch = figure.subplots(1, 2)
        for name, values in self.steps.items():
            by_step.plot(range(1, len(values) + 1), values, label=name, linewidth=1)
            # A logarithmic axis cannot show zero or negative values.
            if min(values) > 0:
                by_step.set_yscale("log")
        for name in dict.fromkeys(name for epoch in self.epochs for name in epoch):
            points = [(number, epoch[name]) for number, epoch in enumerate(self.epochs, 1) if name in epoch]
            by_epoch.plot(*zip(*points, strict=True), marker="o", label=name)
        for axes, label in ((by_step, "step"), (by_epoch, "epoch")):
            axes.set_xlabel(label)
            if axes.lines:
                axes.legend()
        if path is not None:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            figure.savefig(path, dpi=120)
        return figure


def _is_scalar(value: Any) -> bool:
    """Return True for one value, or one per device in the layout of `jax.pmap`."""
    shape = np.shape(value)
    if math.prod(shape) == 1:
        return True
    if len(shape) != 1 or not isinstance(value, jax.Array):
        return False
    return value.sharding.shard_shape(shape) == (1,) and len(value.sharding.device_set) == shape[0]


def _done(named: Mapping[str, Any]) -> bool:
    """Return True if the step of these metrics has finished."""
    return all(not isinstance(value, jax.Array) or cast(Any, value).is_ready() for value in named.values())


def flat(metrics: Any, separator: str = ".") -> dict[str, Any]:
    """Return the leaves of a tree of metrics by name.

    >>> flat(2.0), flat({"loss": 1.0, "norm": {"in": 2.0}}), flat(None)
    ({'loss': 2.0}, {'loss': 1.0, 'norm.in': 2.0}, {})
    """
    if metrics is None:
        return {}
    leaves = jax.tree_util.tree_leaves_with_path(metrics)
    return {jax.tree_util.keystr(path, simple=True, separator=separator) or "loss": leaf for path, leaf in leaves}
