"""What a training has reported, without waiting for it at each step."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, cast

import jax
import numpy as np

from penstock.errors import MissingExtraError

_UNREAD = 256
"""Steps whose metrics may stay on the devices. When there are more, the older half is read: those steps are done."""


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
        self._read: dict[str, list[float]] = {}
        self._unread: deque[dict[str, Any]] = deque()
        self._begun = 0

    def add(self, metrics: Any) -> None:
        """Record the metrics of a step: a scalar, called "loss", or a tree of scalars, called as their paths.

        Of a metric with several values, as `jax.pmap` gives one per device, it is the mean that is recorded.
        """
        named = flat(metrics)
        if named:
            self._unread.append(named)
        if len(self._unread) > _UNREAD:
            self._fetch(_UNREAD // 2)

    def end_epoch(self, more: Mapping[str, float] | None = None) -> None:
        """Close an epoch. Reads what is unread, and so waits for its steps."""
        steps = self.steps
        means = {name: float(np.mean(values[self._begun :])) for name, values in steps.items() if values[self._begun :]}
        self._begun = max(map(len, steps.values()), default=0)
        self.epochs.append({**means, **(more or {})})

    def latest(self) -> dict[str, float]:
        """The metrics of the last step that is done; waits for none."""
        for named in reversed(self._unread):
            values: list[Any] = list(named.values())
            if all(not isinstance(value, jax.Array) or cast(Any, value).is_ready() for value in values):
                return {name: float(np.mean(value)) for name, value in named.items()}
        return {name: values[-1] for name, values in self._read.items() if values}

    @property
    def steps(self) -> dict[str, list[float]]:
        """Per metric its value at each step. Reads what is unread, and so waits for the steps made so far."""
        self._fetch(len(self._unread))
        return self._read

    def _fetch(self, count: int) -> None:
        for named in jax.device_get([self._unread.popleft() for _ in range(count)]):
            for name, value in named.items():
                self._read.setdefault(name, []).append(float(np.mean(value)))

    def state(self) -> dict[str, Any]:
        """All of it as plain JSON."""
        return {"steps": self.steps, "epochs": self.epochs, "begun": self._begun}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go back to what `state` returned."""
        self._unread.clear()
        self._read = {name: list(values) for name, values in state["steps"].items()}
        self.epochs = [dict(epoch) for epoch in state["epochs"]]
        self._begun = state["begun"]

    def plot(self, path: str | PathLike[str]) -> None:
        """Draw the learning curves to a file: metrics by step, and by epoch.

        Raises:
            MissingExtraError: matplotlib is not installed.
        """
        try:
            from matplotlib.figure import Figure  # noqa: PLC0415 - an optional dependency
        except ImportError:
            raise MissingExtraError("matplotlib", "train", "History.plot") from None
        figure = Figure(figsize=(11, 4), layout="constrained")
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


def flat(metrics: Any, separator: str = ".") -> dict[str, Any]:
    """Scalars by name.

    >>> flat(2.0), flat({"loss": 1.0, "norm": {"in": 2.0}}), flat(None)
    ({'loss': 2.0}, {'loss': 1.0, 'norm.in': 2.0}, {})
    """
    if metrics is None:
        return {}
    leaves = jax.tree_util.tree_leaves_with_path(metrics)
    return {jax.tree_util.keystr(path, simple=True, separator=separator) or "loss": leaf for path, leaf in leaves}
