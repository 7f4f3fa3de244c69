"""What a training has reported, without waiting for it at each step."""

from __future__ import annotations

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
from penstock.graph.arguments.argument_checks import check_annotations

_log = logging.getLogger("penstock")

FLATTEN = (
    "if labels of shape (N, 1) are compared with predictions of shape (N,), flatten the labels: "
    "fn.squeeze(labels, axes=[0]) in the definition, or labels[:, 0]"
)
"""How to mend an array of shape (N, N). Readers of files give such labels, and broadcasting compares all with all."""

_UNREAD = 256
"""Steps whose metrics may stay on the devices. When there are more, the older half is read: those steps are done."""


class NotFiniteMetric(NamedTuple):
    """A value that is NaN or infinite: of which step, counted from 1, and which metric."""

    step: int
    name: str
    value: float


def _warn_of(found: NotFiniteMetric) -> None:
    _log.warning("%s is %s at step %d; train.TerminateOnNaN ends a training there", found.name, found.value, found.step)


class History:
    """The metrics of every step, and what was reported at the end of each epoch.

    Metrics of steps stay on the devices until they are asked for or are many, so that recording them waits for nothing.

    Attributes:
        epochs: a dictionary per epoch: the mean of each metric over the epoch's steps, and what callbacks recorded.

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
        self._guard: Callable[[NotFiniteMetric], None] = _warn_of
        self._guarded: Sequence[str] | None = None
        self._read: dict[str, list[float]] = {}
        self._unread: deque[tuple[int, dict[str, Any]]] = deque()
        self._count = 0
        self._begun: dict[str, int] = {}
        self._told = False

    def on_not_finite(self, tell: Callable[[NotFiniteMetric], None], names: Sequence[str] | None = None) -> None:
        """Call a function with the first value that is read and not finite, in place of a warning.

        Args:
            tell: the function; what it raises comes out of the method that read the value.
            names: the metrics that count; None for all.
        """
        self._guard, self._guarded = tell, names

    def add(self, metrics: Any) -> None:
        """Record the metrics of a step: a scalar, called "loss", or a tree of scalars, called as their paths.

        Of the values that `jax.pmap` returns, one per device, the mean is recorded.

        Raises:
            UsageError: a metric has other values, such as one per row.
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
        if len(self._unread) > _UNREAD:
            self._fetch(_UNREAD // 2)

    def end_epoch(self, more: Mapping[str, float] | None = None) -> None:
        """Close an epoch. Reads what is unread, and so waits for its steps."""
        recent = {name: values[self._begun.get(name, 0) :] for name, values in self.steps.items()}
        means = {name: float(np.mean(values)) for name, values in recent.items() if values}
        self._begun = {name: len(values) for name, values in self._read.items()}
        self.epochs.append({**means, **(more or {})})

    def latest(self) -> dict[str, float]:
        """The metrics of the last step that is done; waits for none."""
        for _, named in reversed(self._unread):
            if _done(named):
                return {name: float(np.mean(value)) for name, value in named.items()}
        return {name: values[-1] for name, values in self._read.items() if values}

    @property
    def steps(self) -> dict[str, list[float]]:
        """Per metric its value at each step. Reads what is unread, and so waits for the steps made so far."""
        self._fetch(len(self._unread))
        return self._read

    def read_done(self) -> None:
        """Read the metrics of the steps that are done; waits for none."""
        self._fetch(sum(1 for _ in takewhile(_done, (named for _, named in self._unread))))

    def _fetch(self, count: int) -> None:
        if not count:
            return
        numbers, metrics = zip(*(self._unread.popleft() for _ in range(count)), strict=True)
        found: NotFiniteMetric | None = None
        for number, named in zip(numbers, jax.device_get(list(metrics)), strict=True):
            for name, each in named.items():
                value = float(np.mean(each))
                self._read.setdefault(name, []).append(value)
                if found is None and not math.isfinite(value) and (self._guarded is None or name in self._guarded):
                    found = NotFiniteMetric(number, name, value)
        if found is not None and not self._told:
            self._told = True  # what follows a NaN is NaN
            self._guard(found)

    def position(self) -> dict[str, Any]:
        """How far it goes, for `state`. The last epoch may still be added to, so it does not count."""
        return {
            "steps": {name: len(values) for name, values in self.steps.items()},
            "epochs": max(len(self.epochs) - 1, 0),
        }

    def state(self, since: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """All of it as plain JSON, or what came after a `mark`."""
        since = since or {"steps": {}, "epochs": 0}
        first = {name: since["steps"].get(name, 0) for name in self.steps}
        return {
            "steps": {name: values[first[name] :] for name, values in self._read.items() if values[first[name] :]},
            "epochs": [since["epochs"], self.epochs[since["epochs"] :]],
            "begun": self._begun,
            "count": self._count,
        }

    def restore(self, *states: Mapping[str, Any]) -> None:
        """Go back to what `state` returned, in as many parts as it was asked for."""
        self._unread.clear()
        self._read, self.epochs = {}, []
        for state in states:
            for name, values in state["steps"].items():
                self._read.setdefault(name, []).extend(values)
            first, epochs = state["epochs"]
            self.epochs[first:] = [dict(epoch) for epoch in epochs]
            self._begun, self._count = dict(state["begun"]), state["count"]

    @check_annotations
    def plot(self, path: str | PathLike[str]) -> None:
        """Draw the learning curves to a file: metrics by step, and by epoch.

        Raises:
            MissingExtraError: matplotlib is not installed.
        """
        figure = optional_import.import_extra("matplotlib.figure", "train", "History.plot").Figure(
            figsize=(11, 4), layout="constrained"
        )
        by_step, by_epoch = figure.subplots(1, 2)
        for name, values in self.steps.items():
            by_step.plot(range(1, len(values) + 1), values, label=name, linewidth=1)
            if min(values) > 0:
                by_step.set_yscale("log")
        for name in dict.fromkeys(name for epoch in self.epochs for name in epoch):
            points = [(number, epoch[name]) for number, epoch in enumerate(self.epochs, 1) if name in epoch]
            by_epoch.plot(*zip(*points, strict=True), marker="o", label=name)
        for axes, label in ((by_step, "step"), (by_epoch, "epoch")):
            axes.set_xlabel(label)
            if axes.lines:
                axes.legend()
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=120)


def _is_scalar(value: Any) -> bool:
    """Whether a metric is one value, or one per device in the layout of `jax.pmap`."""
    shape = np.shape(value)
    if math.prod(shape) == 1:
        return True
    if len(shape) != 1 or not isinstance(value, jax.Array):
        return False
    return value.sharding.shard_shape(shape) == (1,) and len(value.sharding.device_set) == shape[0]


def _done(named: Mapping[str, Any]) -> bool:
    """Whether the step of these metrics is done."""
    return all(not isinstance(value, jax.Array) or cast(Any, value).is_ready() for value in named.values())


def flat(metrics: Any, separator: str = ".") -> dict[str, Any]:
    """Scalars by name.

    >>> flat(2.0), flat({"loss": 1.0, "norm": {"in": 2.0}}), flat(None)
    ({'loss': 2.0}, {'loss': 1.0, 'norm.in': 2.0}, {})
    """
    if metrics is None:
        return {}
    leaves = jax.tree_util.tree_leaves_with_path(metrics)
    return {jax.tree_util.keystr(path, simple=True, separator=separator) or "loss": leaf for path, leaf in leaves}
