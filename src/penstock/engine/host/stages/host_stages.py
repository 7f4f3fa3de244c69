"""Stages of the host: readers, streams, kernels that run on whole columns, and kernels that run sample by sample."""

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, cast

import numpy as np

from penstock.core import RowSelection
from penstock.core.tracebacks import cause_text
from penstock.engine.host.execution_frame import ExecutionFrame, HostStage, Registers, unfit
from penstock.engine.host.failed_rows import raise_first_failing_row
from penstock.engine.host.sharded_reader import read_columns
from penstock.engine.host.stages.operand_binding import OperandBinding
from penstock.errors import InternalError, PenstockError, SampleError
from penstock.graph import (
    BatchContext,
    BatchKernel,
    Node,
    SampleContext,
    SampleKernel,
    Value,
    ViewKernel,
    WholeBatchKernel,
)
from penstock.plan.engine_operators import RowOperator


class _NodeStage(HostStage):
    """Stage of one node."""

    def __init__(self, node: Node, registers: Registers) -> None:
        super().__init__(node.kind, node.values, registers)
        self._node = node


class ReadStage(_NodeStage):
    """Stage that reads the samples of a reader, all rows in one call.

    Args:
        node: The reader.
        registers: Register of each value.
        picked: Values that a source in memory may pass on as indices, without a copy.
    """

    def __init__(self, node: Node, registers: Registers, picked: AbstractSet[Value]) -> None:
        super().__init__(node, registers)
        self._picked = [value in picked for value in node.values]

    def run(self, frame: ExecutionFrame) -> None:
        """Read the samples of the frame's rows; drop those that cannot be read."""
        slots = [frame.slots[register] for _, register in self.outputs]
        try:
            columns, errors = read_columns(frame.samples(self._node), frame.rows, slots, self._picked)
        except PenstockError as error:
            error.where = error.where or self._node.where
            raise
        # In row order, so that the error raised does not depend on the order in which the source read.
        for row in sorted(errors):
            frame.drop_row(frame.unreadable(self._node, row, errors[row]))
        for (value, register), column in zip(self.outputs, columns, strict=True):
            # Indices into a source in memory; the fused stage that follows reads the rows from there.
            if isinstance(column, RowSelection):
                frame.columns[register] = column
            else:
                frame.set_column(value, register, column)


class FeedStage(_NodeStage):
    """Stage that takes the frame's rows from the data that a stream gave for the batch."""

    def run(self, frame: ExecutionFrame) -> None:
        """Select the rows."""
        assert frame.fed is not None
        columns = frame.fed.of(self._node, frame.rows_in_batch)
        for (value, register), column in zip(self.outputs, columns, strict=True):
            frame.set_column(value, register, column)


class RowStage(_NodeStage):
    """Stage of an operator that computes a value from the coordinates of the rows alone."""

    def run(self, frame: ExecutionFrame) -> None:
        """Compute the value."""
        frame.set_column(*self.outputs[0], cast(RowOperator, self._node.operator).compute(frame.coordinates))


class BatchStage(_NodeStage):
    """Stage that runs a batch kernel on whole columns.

    Args:
        node: The node, whose operator has a batch kernel.
        registers: Register of each value.
        seed: Seed of the pipeline.
        in_place: True if the node is a view of its input, and both are in the same slot of the batch buffer.
    """

    def __init__(self, node: Node, registers: Registers, seed: int, *, in_place: bool) -> None:
        super().__init__(node, registers)
        self._kernel = cast(BatchKernel, node.operator)
        self._call = OperandBinding(node, registers, seed)
        self._writes = not isinstance(node.operator, ViewKernel)
        self._in_place = in_place

    def run(self, frame: ExecutionFrame) -> None:
        """Run the kernel. It may write directly into the slot of the batch buffer."""
        first = self.outputs[0][1]
        if self._in_place and frame.slots[first] is not None:
            frame.columns[first] = frame.slots[first]
            return
        inputs, arguments, bits = self._call.gather(frame)
        context = BatchContext(np, frame.rows, bits, frame.slots[first] if self._writes else None)
        try:
            result = self._kernel.batch(context, *inputs, **arguments)
        except Exception:

            def run_one(row: int, count: int) -> None:
                del count  # the stage has one node
                # Slices keep the batch axis, which the kernel expects.
                one = slice(row, row + 1)
                alone = {name: value[one] if name in self._call.by_row else value for name, value in arguments.items()}
                context = BatchContext(np, 1, None if bits is None else bits[one])
                self._kernel.batch(context, *[column[one] for column in inputs], **alone)

            raise_first_failing_row(frame, [self._node], run_one)
            raise
        for (value, register), column in zip(self.outputs, _outputs(result), strict=True):
            frame.set_column(value, register, column)


class WholeBatchStage(_NodeStage):
    """Stage that runs a kernel which needs all rows of the batch.

    Args:
        node: The node, whose operator has a whole-batch kernel.
        registers: Register of each value.
        seed: Seed of the pipeline.
    """

    row_independent = False

    def __init__(self, node: Node, registers: Registers, seed: int) -> None:
        super().__init__(node, registers)
        self._call = OperandBinding(node, registers, seed)

    def run(self, frame: ExecutionFrame) -> None:
        """Run the kernel."""
        inputs, arguments, bits = self._call.gather(frame)
        kernel = cast(WholeBatchKernel, self._node.operator)
        context = BatchContext(np, frame.rows, bits, frame.slots[self.outputs[0][1]] if self.outputs else None)
        try:
            result = kernel.whole_batch(context, *inputs, **arguments)
        except Exception as error:
            # A kernel that mixes rows cannot name the sample that caused the failure.
            message = f"{self._node} failed on a batch: {cause_text(error)}"
            raise SampleError(message, where=self._node.where) from error
        for (value, register), column in zip(self.outputs, _outputs(result), strict=True):
            if not value.spec.dense:
                for row, sample in enumerate(column):
                    frame.check(value, row, sample)
            frame.set_column(value, register, column if value.spec.dense else list(column))


class SampleStage(HostStage):
    """Stage that takes one sample after the other through several nodes, while it is in the cache.

    Args:
        nodes: The nodes, in topological order.
        registers: Register of each value.
        kept: Values whose columns are needed after the stage.
        seed: Seed of the pipeline.
    """

    def __init__(self, nodes: Sequence[Node], registers: Registers, kept: set[Value], seed: int) -> None:
        values = [value for node in nodes for value in node.values if value in kept]
        super().__init__(" + ".join(node.kind for node in nodes), values, registers)
        calls = [(node, OperandBinding(node, registers, seed, nodes)) for node in nodes]
        self._steps = [(node, _sample_kernel(node, call), call) for node, call in calls]
        self._filled = {node: [(value, registers[value], value in kept) for value in node.values] for node in nodes}

    def run(self, frame: ExecutionFrame) -> None:
        """Take each row through all nodes; drop the rows that fail."""
        steps = [(node, self._bind(node, kernel, call, frame)) for node, kernel, call in self._steps]
        node, row = self._steps[0][0], 0
        # One iterator over all attempts: after a failure, the loop continues with the row after the failed one.
        rows = iter(range(frame.rows))
        while True:
            try:
                for row in rows:
                    for node, step in steps:  # noqa: B007  # the error names the node
                        step(row)
            except Exception as error:  # noqa: BLE001  # a user's function may raise anything
                failure = frame.failure(node, row, error)
                failure.__cause__ = error
                frame.drop_row(failure)
            else:
                return

    def _bind(
        self, node: Node, kernel: Callable[..., Any], call: OperandBinding, frame: ExecutionFrame
    ) -> Callable[[int], None]:
        """Return a function that computes one row of a node. It is bound to columns once, not in each row."""
        outputs = self._filled[node]
        for value, register, kept in outputs:
            frame.columns[register] = frame.allocate(value, register) if kept else _Latest([None])
        columns = [frame.columns[register] for _, register, _ in outputs]
        inputs, arguments, bits = call.gather(frame)
        varying = [(name, arguments[name]) for name in call.by_row]
        constant = {name: value for name, value in arguments.items() if name not in call.by_row}
        # One context for all rows, because creating an object per row would slow cheap kernels down.
        context = SampleContext()
        writes = isinstance(columns[0], np.ndarray) if columns else False

        def step(row: int) -> None:
            context.bits = None if bits is None else bits[row]
            context.out = columns[0][row, ...] if writes else None
            values = {**constant, **{name: column[row] for name, column in varying}} if varying else constant
            for name, schema in call.deferred.items():
                values[name] = schema.broadcast_rows(np, [values[name]], 1, varying=True)[0]
            result = kernel(context, *[column[row] for column in inputs], **values)
            # The kernel wrote into the column itself.
            if result is context.out and result is not None and len(columns) == 1:
                return
            for (value, _, _), column, sample in zip(outputs, columns, _outputs(result), strict=True):
                if not value.spec.accepts(sample):
                    raise unfit(value, sample.dtype, sample.shape)
                column[row] = sample

        return step


class _Latest(list[Any]):
    """Column of an intermediate value of a sample stage. Holds only the current row, which saves memory."""

    def __getitem__(self, row: Any) -> Any:
        return super().__getitem__(0)

    def __setitem__(self, row: Any, sample: Any) -> None:
        super().__setitem__(0, sample)


def check_narrowing(frame: ExecutionFrame, value: Value, column: Any, dtype: np.dtype[Any]) -> None:
    """Drop the rows of an integer column whose values do not fit the narrower dtype that JAX delivers."""
    # Without jax_enable_x64, JAX converts 64-bit integers to 32 bits and wraps large values silently.
    if column.dtype.kind not in "iu" or dtype.itemsize >= column.dtype.itemsize or not column.size:
        return
    limits = np.iinfo(dtype)
    if column.min() >= limits.min and column.max() <= limits.max:
        return
    # Checked per row only if some value is too large, which is rare.
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
    """Return the sample kernel of a node, or its batch kernel as a function of one sample."""
    kernel = node.operator
    if isinstance(kernel, SampleKernel):
        return kernel.sample
    if not isinstance(kernel, BatchKernel):
        raise InternalError(f"{node} cannot run on the host: it has neither a sample kernel nor a batch kernel")
    batch = kernel.batch

    def alone(context: SampleContext, *inputs: Any, **arguments: Any) -> Any:
        one = BatchContext(np, 1, None if context.bits is None else context.bits[None])
        rows = {name: np.asarray(value)[None] if name in call.by_row else value for name, value in arguments.items()}
        result = batch(one, *[np.asarray(sample)[None] for sample in inputs], **rows)
        return tuple(column[0] for column in _outputs(result))

    return alone
