"""Stages of fused operators: computed in one visit to the data, or described for the device program."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from penstock.core import Column, RowSelection
from penstock.engine.host.execution_frame import ExecutionFrame, HostStage, Registers, unfit
from penstock.engine.host.failed_rows import raise_first_failing_row
from penstock.engine.host.stages.operand_binding import OperandBinding
from penstock.errors import InternalError, PenstockError
from penstock.graph import Node
from penstock.graph.ir.fusion_contract import FusibleOperator, FusionGroup, Passes
from penstock.plan.engine_operators import HostDescription


class FusedStage(HostStage):
    """Operators of one fusion group, computed in one visit to the data.

    Args:
        nodes: Nodes of the group, in order.
        registers: Registers of the columns.
        seed: Seed of the pipeline.
    """

    def __init__(self, nodes: Sequence[Node], registers: Registers, seed: int) -> None:
        self._nodes = FusedNodes(nodes, registers, seed)
        super().__init__(self._nodes.label, nodes[-1].values, registers)
        self._input = registers[nodes[0].inputs[0]]

    def run(self, frame: ExecutionFrame) -> None:
        """Describe the rows, check the shapes of the results, and execute the passes into the batch slot."""
        data = frame.columns[self._input]
        ((value, register),) = self.outputs
        try:
            passes = self._nodes.describe(frame, data)
            if value.spec.dense:
                out = frame.allocate(value, register)
                frame.columns[register] = self._nodes.group.execute(passes, data, out)
            else:
                frame.set_column(value, register, self._nodes.group.execute(passes, data, None))
        except PenstockError:
            raise
        except Exception:
            self._nodes.raise_first_failure(frame, data, lambda row: row.group.execute(row.passes, row.data, None))
            raise


class HostDescriptionStage(HostStage):
    """Description of a fusion group that the device program computes: its numbers, and ragged images on a canvas.

    Args:
        node: Node of a `HostDescription`.
        registers: Registers of the columns.
        seed: Seed of the pipeline.
    """

    def __init__(self, node: Node, registers: Registers, seed: int) -> None:
        operator = cast(HostDescription, node.operator)
        self._nodes = FusedNodes(operator.nodes, registers, seed)
        super().__init__(f"describe {self._nodes.label}", node.values, registers)
        self._canvas = operator.canvas
        self._spec = operator.source.spec
        self._input = None if self._spec.dense else registers[operator.source]

    def run(self, frame: ExecutionFrame) -> None:
        """Describe the rows, check the shapes of the results, and pack the numbers and the images."""
        if self._input is None:
            # Dense images are on the device. Only their shape is described, so a view of one element stands for them.
            data: Column = np.broadcast_to(np.zeros((), self._spec.dtype), (frame.rows, *self._spec.fixed_shape))
        else:
            data = frame.columns[self._input]
        try:
            numbers, *canvases = self.outputs
            frame.set_column(*numbers, self._canvas.pack(self._nodes.describe(frame, data)))
            for value, register in canvases:
                canvas = frame.allocate(value, register)
                for row, sample in enumerate(data):
                    for axis, (extent, limit) in enumerate(zip(sample.shape, self._spec.bounds, strict=True)):
                        canvas[(row, *(slice(n) for n in sample.shape[:axis]), slice(extent, limit))] = 0
                    canvas[(row, *map(slice, sample.shape))] = sample
                frame.columns[register] = canvas
        except PenstockError:
            raise
        except Exception:
            # Numbers are packed for the whole group only; the first nodes alone can only fail to be described.
            self._nodes.raise_first_failure(frame, data, lambda row: row.whole and self._canvas.pack(row.passes))
            raise


class SingleRow(NamedTuple):
    """One row of a frame, described for the first nodes of a group.

    Args:
        group: These nodes.
        data: Input of the first node.
        passes: Description of the row.
        whole: True if these are all nodes of the group.
    """

    group: FusionGroup
    data: Column | RowSelection
    passes: Passes
    whole: bool


class FusedNodes:
    """Nodes of a fusion group, with what it takes to describe them.

    Args:
        nodes: Nodes, in order.
        registers: Registers of the columns.
        seed: Seed of the pipeline.
    """

    def __init__(self, nodes: Sequence[Node], registers: Registers, seed: int) -> None:
        # A call may make several nodes. Worker processes have the lines of calls, but not the calls.
        self.label = " + ".join(kind for kind, _ in dict.fromkeys((node.kind, node.where) for node in nodes))
        self.group = cast(FusibleOperator, nodes[0].operator).fusion_group([node.as_fused for node in nodes])
        self._nodes = nodes
        self._bindings = [OperandBinding(node, registers, seed) for node in nodes]

    def describe(self, frame: ExecutionFrame, data: Column | RowSelection) -> Passes:
        """Describe all rows.

        Raises:
            PenstockError: The result is dense, and a row has another shape than its spec.
        """
        _, arguments, bits = zip(*[binding.gather(frame) for binding in self._bindings], strict=True)
        passes = self.group.describe(data, arguments, bits)
        spec = self._nodes[-1].specs[0]
        if spec.dense:
            fits = passes.shapes == spec.fixed_shape
            if not fits.all():
                raise self._shape_error(frame, data, int(fits.all(axis=1).argmin()))
        return passes

    def raise_first_failure(
        self, frame: ExecutionFrame, data: Column | RowSelection, execute: Callable[[SingleRow], object]
    ) -> None:
        """Find the first row that fails, and raise the error that names its sample and the failing node.

        Args:
            frame: Frame of the rows.
            data: Input of the first node.
            execute: Does for one row what failed after the description.
        """
        gathered = [binding.gather(frame) for binding in self._bindings]
        raise_first_failing_row(
            frame, self._nodes, lambda row, count: execute(self._describe_alone(data, gathered, row, count))
        )

    def _shape_error(self, frame: ExecutionFrame, data: Column | RowSelection, row: int) -> PenstockError:
        """Return the error for the first node that gives a row another shape than its spec."""
        gathered = [binding.gather(frame) for binding in self._bindings]
        for count, node in enumerate(self._nodes, start=1):
            value = node.values[0]
            shape = tuple(self._describe_alone(data, gathered, row, count).passes.shapes[0].tolist())
            if value.spec.dense and shape != value.spec.fixed_shape:
                return frame.failure(node, row, unfit(value, value.spec.dtype, shape))
        return InternalError(f"{self.label} describes row {row} differently when it is alone")

    def _describe_alone(self, data: Column | RowSelection, gathered: Sequence[Any], row: int, count: int) -> SingleRow:
        """Describe one row for the first `count` nodes."""
        one = slice(row, row + 1)
        operands = list(zip(self._bindings[:count], gathered, strict=False))
        arguments = [
            {name: value[one] if name in binding.by_row else value for name, value in values.items()}
            for binding, (_, values, _) in operands
        ]
        bits = [None if words is None else words[one] for _, (_, _, words) in operands]
        group = type(self.group)([node.as_fused for node in self._nodes[:count]])
        return SingleRow(group, data[one], group.describe(data[one], arguments, bits), count == len(self._nodes))
