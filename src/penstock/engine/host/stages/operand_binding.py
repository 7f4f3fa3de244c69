"""How the inputs, arguments and random bits of a node are gathered from a frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from penstock.engine.host.execution_frame import ExecutionFrame
from penstock.engine.host.failed_rows import raise_first_failing_row
from penstock.graph.ir.node import Node, Value
from penstock.numerics.random_bits import random_bits

Registers = Mapping[Value, int]
"""Per value the register that holds its column."""


class OperandBinding:
    """How a node's inputs, arguments and random bits are gathered from a frame.

    Attributes:
        varying: the arguments that are values of the graph, each with the register of its column.
        by_row: the arguments that are gathered with an entry per row: these, and constants of the operator's schema.
        deferred: those of the schema that are not there yet when the others are gathered, and are given as they are.

    Args:
        node: the node.
        registers: where columns are.
        seed: of the pipeline.
        beside: the nodes that are computed together with it, row by row.
    """

    def __init__(self, node: Node, registers: Registers, seed: int, beside: Sequence[Node] = ()) -> None:
        self._inputs = [registers[value] for value in node.inputs if value in registers]
        self._constants = node.constants
        self.varying = {name: registers[value] for name, value in node.node_arguments.items()}
        self._node, self._schema = node, node.operator.schema
        self.by_row = frozenset(name for name in node.arguments if name in self.varying or name in self._schema)
        made = [name for name, value in node.node_arguments.items() if value.node in beside]
        self.deferred = {name: self._schema[name] for name in made if name in self._schema}
        self._bits = node.operator.random_bits
        self._key = node.key(seed)
        self._last: tuple[int, dict[str, Any]] = -1, {}

    def gather(self, frame: ExecutionFrame) -> tuple[list[Any], dict[str, Any], Any]:
        """Inputs, arguments and random bits, each with an entry per row, but for arguments that have no schema."""
        columns = frame.columns
        arguments = dict(self._constant(frame.rows))
        for name, register in self.varying.items():
            arguments[name] = self._varying(name, columns[register], frame)
        bits = None
        if self._bits:
            bits = random_bits(np, *self._key, frame.counters, self._bits)
        return [columns[register] for register in self._inputs], arguments, bits

    def _varying(self, name: str, column: Any, frame: ExecutionFrame) -> Any:
        schema = self._schema.get(name)
        if schema is None or name in self.deferred:
            return column
        try:
            return schema.broadcast_rows(np, column, frame.rows, varying=True)
        except ValueError:

            def check(row: int, count: int) -> None:
                del count  # there is one node
                try:
                    schema.broadcast_rows(np, column[row : row + 1], 1, varying=True)
                except ValueError as error:
                    raise ValueError(f"{name}: {error}") from None

            raise_first_failing_row(frame, [self._node], check)
            shapes = [np.shape(each) for each in column]
            row = next(row for row, shape in enumerate(shapes) if shape != shapes[0])
            text = f"{name}: one has shape {shapes[row]} and another {shapes[0]}; those of a batch have one shape"
            raise frame.failure(self._node, row, ValueError(text)) from None

    def _constant(self, rows: int) -> dict[str, Any]:
        """The constants, which are the same for every frame of as many rows."""
        known, arguments = self._last
        if known != rows:
            schemas = [(name, value, self._schema.get(name)) for name, value in self._constants.items()]
            arguments = {
                name: s.broadcast_rows(np, value, rows, varying=False) if s else value for name, value, s in schemas
            }
            self._last = rows, arguments  # by one assignment, since several threads may do so
        return arguments
