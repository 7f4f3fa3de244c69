"""The stages of a plan, compiled: each computes the columns of its nodes for the rows of a frame."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Protocol, cast

import numpy as np

from penstock.core.columns import RowSelection
from penstock.engine.host.execution_frame import ExecutionFrame, Register, unfit
from penstock.engine.host.sharded_reader import read_columns
from penstock.engine.host.stages.operand_binding import OperandBinding, Registers
from penstock.errors import InternalError, PenstockError, SampleError
from penstock.graph.ir.node import Node, Value
from penstock.graph.ir.operator import (
    BatchContext,
    BatchKernel,
    SampleContext,
    SampleKernel,
    ViewKernel,
    WholeBatchKernel,
)
from penstock.plan.engine_operators import RowOperator


class HostStage(Protocol):
    """A compiled stage. Immutable: frames on several threads pass through it at once."""

    label: str
    row_independent: bool
    """Whether a row can be computed without the others."""

    @property
    def outputs(self) -> Sequence[Register]:
        """What later stages, or the consumer, may need of it."""
        ...

    def run(self, frame: ExecutionFrame) -> None:
        """Fill the registers of its outputs.

        Raises:
            SampleError: a row fails; the frame knows which. Rows that the frame tolerates are left to it instead.
        """
        ...


class ReadStage:
    """A reader: many samples by index.

    Args:
        node: the node.
        registers: where columns are.
        picked: the values that need not be copied.
    """

    row_independent = True

    def __init__(self, node: Node, registers: Registers, picked: AbstractSet[Value]) -> None:
        self.label = node.kind
        self._node = node
        self.outputs = [(value, registers[value]) for value in node.values]
        self._picked = [value in picked for value in node.values]

    def run(self, frame: ExecutionFrame) -> None:
        """Read the samples that stand in the rows."""
        slots = [frame.slots[register] for _, register in self.outputs]
        try:
            columns, errors = read_columns(frame.samples(self._node), frame.rows, slots, self._picked)
        except PenstockError as error:
            error.where = error.where or self._node.where
            raise
        for row in sorted(errors):
            frame.drop_row(frame.unreadable(self._node, row, errors[row]))
        for (value, register), column in zip(self.outputs, columns, strict=True):
            if isinstance(column, RowSelection):
                frame.columns[register] = column
            else:
                frame.set_column(value, register, column)


class FeedStage:
    """What a stream gave for the batch."""

    row_independent = True

    def __init__(self, node: Node, registers: Registers) -> None:
        self.label = node.kind
        self._node = node
        self.outputs = [(value, registers[value]) for value in node.values]

    def run(self, frame: ExecutionFrame) -> None:
        """Take the rows' part of it."""
        assert frame.fed is not None
        columns = frame.fed.of(self._node, frame.rows_in_batch)
        for (value, register), column in zip(self.outputs, columns, strict=True):
            frame.set_column(value, register, column)


class RowStage:
    """A value that comes from the coordinates of the rows."""

    row_independent = True

    def __init__(self, node: Node, registers: Registers) -> None:
        self.label = node.kind
        self._operator = cast(RowOperator, node.operator)
        self.outputs = [(node.values[0], registers[node.values[0]])]

    def run(self, frame: ExecutionFrame) -> None:
        """Compute it."""
        frame.set_column(*self.outputs[0], self._operator.compute(frame.coordinates))


class BatchStage:
    """One batch kernel on whole columns.

    Args:
        node: the node, whose operator has a batch kernel.
        registers: where columns are.
        seed: of the pipeline.
        in_place: whether it is a view of what stands in its own slot already.
    """

    row_independent = True

    def __init__(self, node: Node, registers: Registers, seed: int, *, in_place: bool) -> None:
        self.label = node.kind
        self._node, self._kernel = node, cast(BatchKernel, node.operator)
        self._call = OperandBinding(node, registers, seed)
        self.outputs = [(value, registers[value]) for value in node.values]
        self._writes = not isinstance(node.operator, ViewKernel)
        self._in_place = in_place

    def run(self, frame: ExecutionFrame) -> None:
        """Compute the batch; written straight into its slot where the kernel can do that."""
        first = self.outputs[0][1]
        if self._in_place and frame.slots[first] is not None:
            frame.columns[first] = frame.slots[first]
            return
        inputs, arguments, bits = self._call.gather(frame)
        context = BatchContext(np, frame.rows, bits, frame.slots[first] if self._writes else None)
        try:
            result = self._kernel.batch(context, *inputs, **arguments)
        except Exception:
            self._blame(frame, inputs, arguments, bits)
            raise
        for (value, register), column in zip(self.outputs, _outputs(result), strict=True):
            frame.set_column(value, register, column)

    def _blame(self, frame: ExecutionFrame, inputs: Sequence[Any], arguments: Mapping[str, Any], bits: Any) -> None:
        """Find the first row for which the kernel fails alone, and raise the error that names its sample."""
        for row in range(frame.rows):
            one = slice(row, row + 1)
            alone = {name: value[one] if name in self._call.by_row else value for name, value in arguments.items()}
            context = BatchContext(np, 1, None if bits is None else bits[one])
            try:
                self._kernel.batch(context, *[column[one] for column in inputs], **alone)
            except Exception as error:
                raise frame.failure(self._node, row, error) from error


class WholeBatchStage:
    """One kernel on whole columns.

    Args:
        node: the node, whose operator has a whole-batch kernel.
        registers: where columns are.
        seed: of the pipeline.
    """

    row_independent = False

    def __init__(self, node: Node, registers: Registers, seed: int) -> None:
        self.label = node.kind
        self._node = node
        self._call = OperandBinding(node, registers, seed)
        self.outputs = [(value, registers[value]) for value in node.values]

    def run(self, frame: ExecutionFrame) -> None:
        """Compute the batch."""
        inputs, arguments, _ = self._call.gather(frame)
        kernel = cast(WholeBatchKernel, self._node.operator)
        context = BatchContext(np, frame.rows, out=frame.slots[self.outputs[0][1]] if self.outputs else None)
        try:
            made = kernel.whole_batch(context, *inputs, **arguments)
        except Exception as error:
            said = f"{self._node} failed on a batch: {str(error) or type(error).__name__}"
            raise SampleError(said, where=self._node.where) from error
        for (value, register), column in zip(self.outputs, _outputs(made), strict=True):
            if not value.spec.dense:
                for row, sample in enumerate(column):
                    frame.check(value, row, sample)
            frame.set_column(value, register, column if value.spec.dense else list(column))


class SampleStage:
    """Several nodes, sample by sample.

    Args:
        nodes: in topological order.
        registers: where columns are.
        kept: the values of which a later stage needs the whole column.
        seed: of the pipeline.
    """

    row_independent = True

    def __init__(self, nodes: Sequence[Node], registers: Registers, kept: set[Value], seed: int) -> None:
        self.label = " + ".join(node.kind for node in nodes)
        calls = [(node, OperandBinding(node, registers, seed, nodes)) for node in nodes]
        self._parts = [(node, _sample_kernel(node, call), call) for node, call in calls]
        self._filled = {node: [(value, registers[value], value in kept) for value in node.values] for node in nodes}
        self.outputs = [(value, registers[value]) for node in nodes for value in node.values if value in kept]

    def run(self, frame: ExecutionFrame) -> None:
        """Take each row through all nodes."""
        steps = [(node, self._bind(node, kernel, call, frame)) for node, kernel, call in self._parts]
        node, row = self._parts[0][0], 0
        rows = iter(range(frame.rows))
        todo = True
        while todo:
            try:
                for row in rows:
                    for node, step in steps:  # noqa: B007  # the node is for the error
                        step(row)
                todo = False
            except Exception as error:  # noqa: BLE001  # whatever a user's function raises
                failure = frame.failure(node, row, error)
                failure.__cause__ = error
                frame.drop_row(failure)

    def _bind(
        self, node: Node, kernel: Callable[..., Any], call: OperandBinding, frame: ExecutionFrame
    ) -> Callable[[int], None]:
        """A function that computes one row of a node, bound to the columns it reads and writes."""
        outputs = self._filled[node]
        columns = [_column(value, register, kept, frame) for value, register, kept in outputs]
        inputs, arguments, bits = call.gather(frame)
        varying = [(name, arguments[name]) for name in call.by_row]
        constant = {name: value for name, value in arguments.items() if name not in call.by_row}
        context = SampleContext()
        writes = isinstance(columns[0], np.ndarray) if columns else False

        def step(row: int) -> None:
            context.bits = None if bits is None else bits[row]
            context.out = columns[0][row, ...] if writes else None
            given = {**constant, **{name: column[row] for name, column in varying}} if varying else constant
            for name, schema in call.deferred.items():
                given[name] = schema.broadcast_rows(np, [given[name]], 1, varying=True)[0]
            result = kernel(context, *[column[row] for column in inputs], **given)
            if result is context.out and result is not None and len(columns) == 1:
                return
            for (value, _, _), column, sample in zip(outputs, columns, _outputs(result), strict=True):
                if not value.spec.accepts(sample):
                    raise unfit(value, sample.dtype, sample.shape)
                column[row] = sample

        return step


class _Latest(list[Any]):
    """A column of which only the current row is kept: an intermediate value of a sample stage."""

    def __getitem__(self, row: Any) -> Any:
        return super().__getitem__(0)

    def __setitem__(self, row: Any, sample: Any) -> None:
        super().__setitem__(0, sample)


def _column(value: Value, register: int, kept: bool, frame: ExecutionFrame) -> Any:
    """The column that a sample stage fills row by row."""
    if not kept:
        column: Any = _Latest([None])
    elif value.spec.dense:
        column = frame.allocate(value, register)
    else:
        column = [None] * frame.rows
    frame.columns[register] = column
    return column


def check_narrowing(frame: ExecutionFrame, value: Value, column: Any, dtype: np.dtype[Any]) -> None:
    """Check that the integers of a value fit the narrower dtype in which JAX delivers them; rows may fail."""
    if column.dtype.kind not in "iu" or dtype.itemsize >= column.dtype.itemsize or not column.size:
        return
    limits = np.iinfo(dtype)
    if column.min() >= limits.min and column.max() <= limits.max:
        return
    by_row = column.reshape(frame.rows, -1)
    for row in np.flatnonzero(((by_row < limits.min) | (by_row > limits.max)).any(axis=1)).tolist():
        error = SampleError(
            f"it has {column.dtype} values that do not fit {dtype}, which JAX delivers",
            given=f"values from {by_row[row].min()} to {by_row[row].max()}",
            fix="jax.config.update('jax_enable_x64', True), or make them smaller",
        )
        frame.drop_row(frame.failure(value.node, row, error))


def _outputs(result: Any) -> tuple[Any, ...]:
    return cast(tuple[Any, ...], result) if isinstance(result, tuple) else (result,)


def _sample_kernel(node: Node, call: OperandBinding) -> Callable[..., Any]:
    """A node's sample kernel, or its batch kernel on batches of one."""
    kernel = node.operator
    if isinstance(kernel, SampleKernel):
        return kernel.sample
    if not isinstance(kernel, BatchKernel):
        raise InternalError(f"{node} has no kernel for the host")
    batch = kernel.batch

    def alone(context: SampleContext, *inputs: Any, **arguments: Any) -> Any:
        one = BatchContext(np, 1, None if context.bits is None else context.bits[None])
        given = {name: np.asarray(value)[None] if name in call.by_row else value for name, value in arguments.items()}
        result = batch(one, *[np.asarray(sample)[None] for sample in inputs], **given)
        return tuple(column[0] for column in _outputs(result))

    return alone
