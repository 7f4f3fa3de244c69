"""Conditional branches on the host: each branch has a separate frame with the rows that take it.

Values of a branch have entries for these rows only. Stages of the branch run on its frame, for which columns from
outside are gathered. Where branches meet, `SelectStage` merges their rows.
"""

from typing import Any, cast

import numpy as np

from penstock.core import Array, Column, Indices
from penstock.engine.host.column_rows import scatter_column, select_rows
from penstock.engine.host.execution_frame import ExecutionFrame, HostStage, Registers
from penstock.graph import Node, Value
from penstock.graph.ir.branch_operators import BranchSelect
from penstock.plan.stage_grouping import Stage, StageKind


class BranchStage(HostStage):
    """Stage that runs on the rows of a branch, if there are any.

    Args:
        stage: Compiled stage.
        planned: The same stage in the plan.
        registers: Registers of the columns.
    """

    def __init__(self, stage: HostStage, planned: Stage, registers: Registers) -> None:
        guard = planned.guard
        assert guard is not None  # only stages of branches are wrapped
        super().__init__(stage.label, [value for value, _ in stage.outputs], registers)
        self.row_independent = stage.row_independent
        self._stage, self._guard, self._taken = stage, guard, registers[guard]
        # A SelectStage gathers its rows itself: its inputs are from several branches.
        nodes = () if planned.way is StageKind.SELECT else planned.nodes
        operands = dict.fromkeys(value for node in nodes for value in node.operands if value.node not in nodes)
        self._operands = [(value, registers[value]) for value in operands]

    def run(self, frame: ExecutionFrame) -> None:
        """Run the stage on the branch's frame, which the first stage of the branch creates."""
        branch = frame.branches.get(self._guard)
        if branch is None:
            outer = frame.frame_of(self._guard.node.guard)
            taken = np.flatnonzero(outer.columns[self._taken]) if outer.rows else np.arange(0)
            branch = frame.branches[self._guard] = outer.branch(taken)
        if not branch.rows:
            return
        for value, register in self._operands:
            if branch.columns[register] is None:
                branch.columns[register] = gather_rows(value, register, branch, np.arange(branch.rows))
        self._stage.run(branch)


class SelectStage(HostStage):
    """Merge of the rows of several branches.

    Args:
        node: Node of a `BranchSelect`.
        registers: Registers of the columns.
    """

    def __init__(self, node: Node, registers: Registers) -> None:
        super().__init__(node.kind, node.values, registers)
        count = cast(BranchSelect, node.operator).branches
        inputs = [(value, registers[value]) for value in node.inputs]
        self._guards, self._values = inputs[:count], inputs[count:]
        self._dense = all(value.spec.dense for value in (*node.inputs, *node.values))

    def run(self, frame: ExecutionFrame) -> None:
        """Copy each row from the first branch that it takes."""
        remain = np.ones(frame.rows, np.bool_)
        parts: list[Indices] = []
        for guard, register in self._guards:
            taken = remain & scatter_rows(guard, register, frame)[frame.to_whole_rows(np.arange(frame.rows))]
            parts.append(np.flatnonzero(taken))
            remain &= ~taken
        parts.append(np.flatnonzero(remain))
        (output,) = self.outputs
        column: Any = frame.allocate(*output) if self._dense else [None] * frame.rows
        for rows, (value, register) in zip(parts, self._values, strict=True):
            if len(rows):
                scatter_column(column, rows, gather_rows(value, register, frame, rows))
        frame.set_column(*output, column)


def gather_rows(value: Value, register: int, frame: ExecutionFrame, rows: Indices) -> Column:
    """Return the entries of a value for rows of a frame that all have one."""
    home = frame.frame_of(value.node.guard)
    column: Column = home.columns[register]
    if home.rows == len(rows):
        return column
    return select_rows(column, home.from_whole_rows(frame.to_whole_rows(rows)))


def scatter_rows(value: Value, register: int, frame: ExecutionFrame) -> Array:
    """Return a dense value for all rows of the whole frame, with zeros in rows of other branches."""
    home = frame.frame_of(value.node.guard)
    if home is frame.whole:
        return home.columns[register]
    column = np.zeros((frame.whole.rows, *value.spec.fixed_shape), value.spec.dtype)
    if home.rows:
        column[home.to_whole_rows(np.arange(home.rows))] = home.columns[register]
    return column


def full_column(value: Value, register: int, frame: ExecutionFrame) -> Column:
    """Return a result for all rows of the whole frame, with zeros or None in rows of other branches."""
    if value.node.guard is None or value.spec.dense:
        return scatter_rows(value, register, frame)
    home = frame.frame_of(value.node.guard)
    column: list[Any] = [None] * frame.whole.rows
    scatter_column(column, home.to_whole_rows(np.arange(home.rows)), home.columns[register] or [])
    return column
