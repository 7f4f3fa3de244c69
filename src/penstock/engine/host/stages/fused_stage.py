"""The stages of chains: operators of one family in one visit to the data, or described for the device program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from penstock.core.columns import Column, RowSelection
from penstock.engine.host.execution_frame import ExecutionFrame, Register, unfit
from penstock.engine.host.failed_rows import raise_first_failing_row
from penstock.engine.host.stages.operand_binding import OperandBinding, Registers
from penstock.errors import InternalError, PenstockError
from penstock.graph.ir.fusion import FusedWork, FusibleOperator
from penstock.graph.ir.node import Node
from penstock.plan.engine_operators import HostDescription


class FusedStage:
    """Operators of one family, in one visit to the data.

    Args:
        nodes: in the order of the chain.
        registers: where columns are.
        seed: of the pipeline.
    """

    row_independent = True

    def __init__(self, nodes: Sequence[Node], registers: Registers, seed: int) -> None:
        self._begin(nodes, registers, seed)
        self._input = registers[nodes[0].inputs[0]]
        value = nodes[-1].values[0]
        self.outputs: list[Register] = [(value, registers[value])]

    def _begin(self, nodes: Sequence[Node], registers: Registers, seed: int) -> None:
        self.label = " + ".join(node.kind for node in nodes)
        self._nodes = nodes
        self._chain = cast(FusibleOperator, nodes[0].operator).fusion_group([node.as_fused for node in nodes])
        self._calls = [OperandBinding(node, registers, seed) for node in nodes]

    def run(self, frame: ExecutionFrame) -> None:
        """Describe, check what will come out, compute."""
        try:
            self._compute(frame)
        except PenstockError:
            raise
        except Exception:
            gathered, data = [call.gather(frame) for call in self._calls], self._data(frame)

            def run_one(row: int, count: int) -> None:
                self._try(self._alone(data, gathered, row, count), whole=count == len(self._nodes))

            raise_first_failing_row(frame, self._nodes, run_one)
            raise

    def _compute(self, frame: ExecutionFrame) -> None:
        work = self._describe(frame)
        value, register = self.outputs[0]
        if not value.spec.dense:
            frame.set_column(value, register, work.compute(None))
            return
        self._check_shapes(frame, work)
        out = frame.allocate(value, register)
        work.compute(out)
        frame.columns[register] = out

    def _describe(self, frame: ExecutionFrame) -> FusedWork:
        gathered = [call.gather(frame) for call in self._calls]
        arguments, bits = [each[1] for each in gathered], [each[2] for each in gathered]
        return self._chain.describe(self._data(frame), arguments, bits)

    def _data(self, frame: ExecutionFrame) -> Column | RowSelection:
        return frame.columns[self._input]

    def _try(self, work: FusedWork, *, whole: bool) -> None:
        """Do with one row of the whole chain, or of its first operators, what may fail."""
        del whole
        work.compute(None)

    def _check_shapes(self, frame: ExecutionFrame, work: FusedWork) -> None:
        fits = work.shapes == self._nodes[-1].specs[0].fixed_shape
        if not fits.all():
            raise self._unfit(frame, int(fits.all(axis=1).argmin()))

    def _unfit(self, frame: ExecutionFrame, row: int) -> PenstockError:
        """The error for a row of another shape: of the first node whose spec it departs from."""
        gathered = [call.gather(frame) for call in self._calls]
        for count, node in enumerate(self._nodes, start=1):
            value = node.values[0]
            shape = tuple(self._alone(self._data(frame), gathered, row, count).shapes[0].tolist())
            if value.spec.dense and shape != value.spec.fixed_shape:
                return frame.failure(node, row, unfit(value, value.spec.dtype, shape))
        return InternalError(f"{self.label} describes row {row} in another way when it is alone")

    def _alone(self, data: Column | RowSelection, gathered: Sequence[Any], row: int, count: int) -> FusedWork:
        """What the first `count` nodes of the chain do with one row."""
        one = slice(row, row + 1)
        arguments = [
            {name: value[one] if name in call.by_row else value for name, value in each[1].items()}
            for call, each in zip(self._calls[:count], gathered, strict=False)
        ]
        bits = [None if each[2] is None else each[2][one] for each in gathered[:count]]
        chain = type(self._chain)([node.as_fused for node in self._nodes[:count]])
        return chain.describe(data[one], arguments, bits)


class HostDescriptionStage(FusedStage):
    """The numbers of a chain that the device program computes, and images of several sizes on canvases of one.

    Args:
        node: of the engine's own.
        registers: where columns are.
        seed: of the pipeline.
    """

    def __init__(self, node: Node, registers: Registers, seed: int) -> None:
        operator = cast(HostDescription, node.operator)
        self._begin(operator.nodes, registers, seed)
        self.label = f"describe {self.label}"
        self._canvas = operator.canvas
        self._given = None if operator.given.spec.dense else registers[operator.given]
        self._spec = operator.given.spec
        self.outputs = [(value, registers[value]) for value in node.values]

    def _compute(self, frame: ExecutionFrame) -> None:
        work = self._describe(frame)
        if self._nodes[-1].specs[0].dense:
            self._check_shapes(frame, work)
        frame.set_column(*self.outputs[0], self._canvas.pack(work))
        for value, register in self.outputs[1:]:
            canvas = frame.allocate(value, register)
            for row, sample in enumerate(self._data(frame)):
                for at, (extent, limit) in enumerate(zip(sample.shape, self._spec.bounds, strict=True)):
                    canvas[(row, *(slice(n) for n in sample.shape[:at]), slice(extent, limit))] = 0
                canvas[(row, *map(slice, sample.shape))] = sample
            frame.columns[register] = canvas

    def _data(self, frame: ExecutionFrame) -> Column:
        if self._given is not None:
            return frame.columns[self._given]
        return np.broadcast_to(np.zeros((), self._spec.dtype), (frame.rows, *self._spec.fixed_shape))

    def _try(self, work: FusedWork, *, whole: bool) -> None:
        if whole:
            self._canvas.pack(work)
