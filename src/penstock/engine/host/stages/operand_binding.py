"""Operand binding: gathers the inputs, arguments and random bits of a node from a frame."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from penstock.engine.host.execution_frame import ExecutionFrame, Registers
from penstock.engine.host.failed_rows import raise_first_failing_row
from penstock.graph import Node
from penstock.numerics.random_bits import random_bits


class OperandBinding:
    """Gathers the inputs, arguments and random bits of a node from a frame.

    Attributes:
        varying: Arguments that are values of the graph, with the registers of their columns.
        by_row: Arguments with an entry per row: the varying ones, and constants that the operator's schema names.
        deferred: Arguments of the schema that are computed in the same stage. They are gathered unchecked and without
            broadcasting, because their columns are still empty.

    Args:
        node: The node.
        registers: Register of each value.
        seed: Seed of the pipeline.
        beside: Nodes that the same stage computes, row by row.
    """

    def __init__(self, node: Node, registers: Registers, seed: int, beside: Sequence[Node] = ()) -> None:
        self._inputs = [registers[value] for value in node.inputs if value in registers]
        self._constants = node.constants
        self.varying = {name: registers[value] for name, value in node.node_arguments.items()}
        self._node, self._schema = node, node.schema
        self.by_row = frozenset(name for name in node.arguments if name in self.varying or name in self._schema)
        computed = [name for name, value in node.node_arguments.items() if value.node in beside]
        self.deferred = {name: self._schema[name] for name in computed if name in self._schema}
        self._bits = node.operator.random_bits
        self._key = node.key(seed)
        self._last: tuple[int, dict[str, Any]] = -1, {}

    def gather(self, frame: ExecutionFrame) -> tuple[list[Any], dict[str, Any], Any]:
        """Return inputs, arguments and random bits, with an entry per row except for constants without a schema.

        For an operator that draws on demand, the entries of the bits are functions; see `SampleContext`.
        """
        columns = frame.columns
        arguments = dict(self._constant(frame.rows))
        for name, register in self.varying.items():
            arguments[name] = self._varying(name, columns[register], frame)
        bits: Any = None
        if self._node.operator.draws_on_demand:
            bits = [partial(self._draw_row, frame, row) for row in range(frame.rows)]
        elif self._bits:
            bits = self._draw(frame, slice(None), self._bits)
        return [columns[register] for register in self._inputs], arguments, bits

    def _draw(self, frame: ExecutionFrame, rows: slice, count: int) -> Any:
        """Return random words for some rows."""
        draws = frame.context.draws
        if draws is None:
            # A pure function of key and position, so that chunks and threads do not change the numbers.
            return random_bits(np, *self._key, frame.counters[rows], count)
        return draws.bits(self._node.stream, frame.step, frame.rows_in_batch[rows], count)

    def _draw_row(self, frame: ExecutionFrame, row: int, count: int) -> Any:
        return self._draw(frame, slice(row, row + 1), count)[0]

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
            # Every row is valid alone, so the shapes of two rows must differ.
            shapes = [np.shape(value) for value in column]
            row = next(row for row, shape in enumerate(shapes) if shape != shapes[0])
            text = f"{name}: the values of a batch must have one shape, but have {shapes[row]} and {shapes[0]}"
            raise frame.failure(self._node, row, ValueError(text)) from None

    def _constant(self, rows: int) -> dict[str, Any]:
        """Return the constants, cached for frames of the same number of rows."""
        known, arguments = self._last
        if known != rows:
            schemas = [(name, value, self._schema.get(name)) for name, value in self._constants.items()]
            arguments = {
                name: s.broadcast_rows(np, value, rows, varying=False) if s else value for name, value, s in schemas
            }
            self._last = rows, arguments  # one assignment, because several threads may execute it
        return arguments
