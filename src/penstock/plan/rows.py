"""Values that come from nothing but the coordinates of a row: the planner adds them where they are needed."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.data.bits import counters
from penstock.data.order import Indices
from penstock.data.spec import Spec
from penstock.graph.node import Node, infer
from penstock.graph.operator import Operator
from penstock.where import Where


@dataclass(frozen=True, slots=True)
class Coordinates:
    """Where the rows of a batch stand.

    Args:
        epoch: its number.
        positions: int64 `(rows,)`, unbroken over the epoch: a row that FILL repeats has a position of its own.
        real: bool `(rows,)`, False for rows past the end of the epoch.
    """

    epoch: int
    positions: Indices
    real: NDArray[np.bool_]


class RowOperator(Operator):
    """An operator of the engine's own, computed on the host from the coordinates of rows."""

    @abstractmethod
    def infer(self) -> Spec:
        """The spec of its value."""

    @abstractmethod
    def compute(self, rows: Coordinates) -> np.ndarray[Any, Any]:
        """Its value for these rows."""


@dataclass(frozen=True, eq=False)
class Counters(RowOperator):
    """The coordinates of rows, from which the device makes random bits."""

    def infer(self) -> Spec:
        """Three numbers of 32 bits."""
        return Spec(np.dtype(np.uint32), (3,))

    def compute(self, rows: Coordinates) -> NDArray[np.uint32]:
        """Epoch and position."""
        return counters(rows.epoch, rows.positions)


@dataclass(frozen=True, eq=False)
class Valid(RowOperator):
    """The mask of a batch: which rows are the epoch's own, and not past its end."""

    def infer(self) -> Spec:
        """One truth value."""
        return Spec(np.dtype(np.bool_), ())

    def compute(self, rows: Coordinates) -> NDArray[np.bool_]:
        """Whether the row is one of the epoch's own."""
        return rows.real


def engine_node(operator: Operator, kind: str) -> Node:
    """A node for an operator of the engine's own, whose specs follow from its fields."""
    specs = infer(operator, (), {})
    return Node(operator, kind, (), {}, specs, -1, 0, None, "", None, Where("penstock", 0, "planner"))
