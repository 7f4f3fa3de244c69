"""Values that come from nothing but the coordinates of a row: the planner adds them where they are needed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from penstock.core.call_site import CallSite
from penstock.core.columns import Indices
from penstock.core.spec import Spec
from penstock.graph.ir.fusion import CanvasProgram, FusibleOperator
from penstock.graph.ir.node import Node, Value, infer_specs
from penstock.graph.ir.operator import Operator
from penstock.numerics.random_bits import row_counters


@dataclass(frozen=True, slots=True)
class RowCoordinates:
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
    def compute(self, rows: RowCoordinates) -> np.ndarray[Any, Any]:
        """Its value for these rows."""


@dataclass(frozen=True, eq=False)
class RowCounters(RowOperator):
    """The coordinates of rows, from which the device makes random bits."""

    def infer(self) -> Spec:
        """Three numbers of 32 bits."""
        return Spec(np.dtype(np.uint32), (3,))

    def compute(self, rows: RowCoordinates) -> NDArray[np.uint32]:
        """Epoch and position."""
        return row_counters(rows.epoch, rows.positions)


@dataclass(frozen=True, eq=False)
class ValidMask(RowOperator):
    """The mask of a batch: which rows are the epoch's own, and not past its end."""

    def infer(self) -> Spec:
        """One truth value."""
        return Spec(np.dtype(np.bool_), ())

    def compute(self, rows: RowCoordinates) -> NDArray[np.bool_]:
        """Whether the row is one of the epoch's own."""
        return rows.real


def engine_node(operator: Operator, kind: str) -> Node:
    """A node for an operator of the engine's own, whose specs follow from its fields."""
    specs = infer_specs(operator, (), {})
    return Node(operator, kind, (), {}, specs, -1, 0, None, "", None, CallSite("penstock", 0, "planner"))


@dataclass(frozen=True, eq=False)
class HostDescription(Operator):
    """An operator of the engine's own: the numbers of a chain, and its input on a canvas where samples differ in size.

    Args:
        nodes: the chain.
        canvas: how the device program does its work.
    """

    nodes: tuple[Node, ...]
    canvas: CanvasProgram

    @property
    def given(self) -> Value:
        """The chain's input."""
        return self.nodes[0].inputs[0]

    def infer(self, *_sources: Spec) -> tuple[Spec, ...]:
        """A vector; and the largest size of the input, where it is ragged."""
        numbers, spec = Spec(np.dtype(np.float32), (self.canvas.size,)), self.given.spec
        return (numbers,) if spec.dense else (numbers, Spec(spec.dtype, spec.bounds, spec.layout))


def needs_host_description(node: Node) -> bool:
    """Whether the host describes a node where the device program computes it: its numbers do not come from there."""
    if not isinstance(node.operator, FusibleOperator):
        return False
    link = node.as_fused
    return not (link.input_spec.dense and link.output_spec.dense) or (
        link.varies_by_row and not node.operator.traceable
    )


def canvas_of(nodes: Sequence[Node]) -> CanvasProgram:
    """How the device program does the work of a chain.

    Raises:
        ValueError: it cannot.
    """
    chain = cast(FusibleOperator, nodes[0].operator).fusion_group([node.as_fused for node in nodes])
    return chain.canvas([{name: _typical(node, name) for name in node.arguments} for node in nodes])


def _typical(node: Node, name: str) -> Any:
    """An argument with one entry."""
    schema, given = node.operator.schema[name], node.arguments[name]
    if not isinstance(given, Value):
        return schema.broadcast_rows(np, given, 1, varying=False)
    return schema.broadcast_rows(np, np.full((1, *given.spec.fixed_shape), schema.example), 1, varying=True)


def host_description_node(nodes: tuple[Node, ...]) -> Node:
    """The node of the engine's own that describes a chain of the device program."""
    operator = HostDescription(nodes, canvas_of(nodes))
    sources = [value for node in nodes for value in node.node_arguments.values()]
    sources += [] if operator.given.spec.dense else [operator.given]
    kind, inputs = f"described {nodes[-1].kind}", tuple(dict.fromkeys(sources))
    return replace(engine_node(operator, kind), inputs=inputs, guard=nodes[-1].guard)
