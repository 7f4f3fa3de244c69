"""Operators that the planner adds to a graph: row counters, masks, and host descriptions of fused groups."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from penstock.core import CallSite, Column, Indices, Spec
from penstock.core.dataclass import dataclass
from penstock.graph import Operator
from penstock.graph.ir.fusion_contract import CanvasProgram, FusibleOperator
from penstock.graph.ir.node import Node, Value, infer_specs
from penstock.numerics.random_bits import row_counters


@dataclass(frozen=True, slots=True)
class RowCoordinates:
    """Coordinates of the rows of a batch.

    Args:
        epoch: The number of the epoch, from 0.
        positions: int64 `(rows,)`, consecutive over the epoch. A row that FILL repeats gets a new position.
        real: bool `(rows,)`, False for rows past the end of the epoch.
    """

    epoch: int
    positions: Indices
    real: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class RowOperator(Operator):
    """Operator of the engine, computed on the host from the coordinates of rows.

    Args:
        spec: Spec of its value.
        compute: Computes the column.
    """

    spec: Spec
    compute: Callable[[RowCoordinates], Column]

    def infer(self) -> Spec:
        """Return the spec."""
        return self.spec


# From these the device program draws random bits: epoch, low and high half of the position.
ROW_COUNTERS = RowOperator(Spec(np.dtype(np.uint32), (3,)), lambda rows: row_counters(rows.epoch, rows.positions))

# True for rows of the epoch, False for rows past its end.
VALID_MASK = RowOperator(Spec(np.dtype(np.bool_), ()), lambda rows: rows.real)


def engine_node(operator: Operator, kind: str) -> Node:
    """Return a node for an operator of the engine, whose specs follow from its fields."""
    # Without an id and a call: the node is not in the user's graph, and does not change its fingerprint.
    specs = infer_specs(operator, (), {})
    return Node(operator, kind, (), {}, specs, -1, 0, None, "", None, CallSite("penstock", 0, "planner"))


@dataclass(frozen=True, eq=False)
class HostDescription(Operator):
    """Description of a fused group for the device program: its parameters, and its input on a canvas if ragged.

    Args:
        nodes: The nodes of the group.
        canvas: The device program for the group.
    """

    nodes: tuple[Node, ...]
    canvas: CanvasProgram

    @property
    def source(self) -> Value:
        """The input of the group."""
        return self.nodes[0].inputs[0]

    def infer(self, *_sources: Spec) -> tuple[Spec, ...]:
        """Return the specs of the vector of parameters, and of the canvas if the input is ragged."""
        numbers, spec = Spec(np.dtype(np.float32), (self.canvas.size,)), self.source.spec
        return (numbers,) if spec.dense else (numbers, Spec(spec.dtype, spec.bounds, spec.layout))


def needs_host_description(node: Node) -> bool:
    """True if the device program can compute a node only with a description by the host."""
    if not isinstance(node.operator, FusibleOperator):
        return False
    link = node.as_fused
    return not (link.input_spec.dense and link.output_spec.dense) or (
        link.varies_by_row and not node.operator.traceable
    )


def canvas_of(nodes: Sequence[Node]) -> CanvasProgram:
    """Return the device program for a fused group.

    Raises:
        ValueError: the device cannot compute the group.
    """
    group = cast(FusibleOperator, nodes[0].operator).fusion_group([node.as_fused for node in nodes])
    return group.canvas([{name: _typical(node, name) for name in node.arguments} for node in nodes])


def _typical(node: Node, name: str) -> Any:
    """Return an example of an argument for one row: the size of the description does not depend on its value."""
    schema, argument = node.schema[name], node.arguments[name]
    if not isinstance(argument, Value):
        return schema.broadcast_rows(np, argument, 1, varying=False)
    return schema.broadcast_rows(np, np.full((1, *argument.spec.fixed_shape), schema.example), 1, varying=True)


def host_description_node(nodes: tuple[Node, ...]) -> Node:
    """Return the engine's node that describes a fused group of the device program."""
    operator = HostDescription(nodes, canvas_of(nodes))
    sources = [value for node in nodes for value in node.node_arguments.values()]
    sources += [] if operator.source.spec.dense else [operator.source]
    kind, inputs = f"described {nodes[-1].kind}", tuple(dict.fromkeys(sources))
    return replace(engine_node(operator, kind), inputs=inputs, guard=nodes[-1].guard)
