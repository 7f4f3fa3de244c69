"""The stages of a plan, compiled: each computes the columns of its nodes for the rows of a frame."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, cast

import numpy as np

from penstock.data.bits import counters, random_bits
from penstock.data.source import Column
from penstock.errors import InternalError, PenstockError, SampleError
from penstock.graph.node import Node, Value
from penstock.graph.operator import (
    BatchContext,
    BatchKernel,
    ChainKernel,
    SampleContext,
    SampleKernel,
    View,
    WholeBatchKernel,
    Work,
)
from penstock.host.frame import Frame, unfit
from penstock.host.reading import Reading, read
from penstock.plan.described import Describe
from penstock.plan.rows import RowOperator
from penstock.plan.stages import links

Registers = Mapping[Value, int]


class HostStage(Protocol):
    """A compiled stage. Immutable: frames on several threads pass through it at once."""

    label: str

    def compute(self, frame: Frame) -> None:
        """Fill the registers of its outputs."""
        ...


class ReadStage:
    """A reader: many samples by index."""

    def __init__(self, node: Node, reading: Reading, registers: Registers) -> None:
        self.label = node.kind
        self._node, self._reading = node, reading
        self._outputs = [(value, registers[value]) for value in node.values]

    def compute(self, frame: Frame) -> None:
        """Read the samples that stand in the rows."""
        samples = frame.samples[self._node] = self._reading.samples(frame.step, frame.numbers)
        try:
            columns = read(samples, frame.rows, [frame.slots[register] for _, register in self._outputs])
        except PenstockError as error:
            error.where = error.where or self._node.where
            raise
        for (value, register), column in zip(self._outputs, columns, strict=True):
            frame.keep(value, register, column)


class RowStage:
    """A value that comes from the coordinates of the rows."""

    def __init__(self, node: Node, registers: Registers) -> None:
        self.label = node.kind
        self._operator = cast(RowOperator, node.operator)
        self._value, self._register = node.values[0], registers[node.values[0]]

    def compute(self, frame: Frame) -> None:
        """Compute it."""
        frame.keep(self._value, self._register, self._operator.compute(frame.coordinates))


class BatchStage:
    """One batch kernel on dense columns.

    Args:
        node: the node, whose operator has a batch kernel.
        registers: where columns are.
        seed: of the pipeline.
        in_place: whether it is a view of what stands in its own slot already.
    """

    def __init__(self, node: Node, registers: Registers, seed: int, *, in_place: bool) -> None:
        self.label = node.kind
        self._node, self._kernel = node, cast(BatchKernel, node.operator)
        self._call = _Call(node, registers, seed)
        self._outputs = [(value, registers[value]) for value in node.values]
        self._writes = not isinstance(node.operator, View)
        self._in_place = in_place

    def compute(self, frame: Frame) -> None:
        """Compute the batch; written straight into its slot where the kernel can do that."""
        first = self._outputs[0][1]
        if self._in_place and frame.slots[first] is not None:
            frame.columns[first] = frame.slots[first]
            return
        inputs, arguments, bits = self._call.gather(frame)
        context = BatchContext(np, frame.rows, bits, frame.slots[first] if self._writes else None)
        try:
            result = self._kernel.batch(context, *inputs, **arguments)
        except Exception as error:
            _blame(frame, self._node, self._alone, inputs, arguments, bits, self._call.varying, error)
            raise
        for (value, register), column in zip(self._outputs, _outputs(result), strict=True):
            frame.keep(value, register, column)

    def _alone(self, inputs: Sequence[Any], arguments: Mapping[str, Any], bits: Any) -> None:
        self._kernel.batch(BatchContext(np, 1, bits), *inputs, **arguments)


class ChainStage:
    """Operators of one family, in one visit to the data.

    Args:
        nodes: in the order of the chain.
        registers: where columns are.
        seed: of the pipeline.
    """

    def __init__(self, nodes: Sequence[Node], registers: Registers, seed: int) -> None:
        self._begin(nodes, registers, seed)
        self._input = registers[nodes[0].inputs[0]]
        self._register = registers[nodes[-1].values[0]]

    def _begin(self, nodes: Sequence[Node], registers: Registers, seed: int) -> None:
        self.label = " + ".join(node.kind for node in nodes)
        self._nodes = nodes
        self._value = nodes[-1].values[0]
        self._chain = cast(ChainKernel, nodes[0].operator).chain(links(nodes))
        self._calls = [_Call(node, registers, seed) for node in nodes]

    def compute(self, frame: Frame) -> None:
        """Describe, check what will come out, compute."""
        try:
            self._compute(frame)
        except PenstockError:
            raise
        except Exception as error:
            self._blame(frame, error)
            raise

    def _compute(self, frame: Frame) -> None:
        work = self._describe(frame)
        if not self._value.spec.dense:
            frame.keep(self._value, self._register, work.compute(None))
            return
        self._check_shapes(frame, work)
        out = frame.allocate(self._value, self._register)
        work.compute(out)
        frame.columns[self._register] = out

    def _describe(self, frame: Frame) -> Work:
        gathered = [call.gather(frame) for call in self._calls]
        arguments, bits = [each[1] for each in gathered], [each[2] for each in gathered]
        return self._chain.describe(self._data(frame), arguments, bits)

    def _data(self, frame: Frame) -> Column:
        return frame.columns[self._input]

    def _try(self, work: Work, *, whole: bool) -> None:
        """Do with one row of the whole chain, or of its first operators, what may fail."""
        del whole
        work.compute(None)

    def _check_shapes(self, frame: Frame, work: Work) -> None:
        odd = (work.shapes != self._nodes[-1].specs[0].sizes).any(axis=1)
        if odd.any():
            raise self._unfit(frame, int(odd.argmax()))

    def _unfit(self, frame: Frame, row: int) -> PenstockError:
        """The error for a row of another shape: of the first node whose spec it departs from."""
        gathered = [call.gather(frame) for call in self._calls]
        for count, node in enumerate(self._nodes, start=1):
            value = node.values[0]
            shape = tuple(self._alone(self._data(frame), gathered, row, count).shapes[0].tolist())
            if value.spec.dense and shape != value.spec.sizes:
                return frame.failure(node, row, unfit(value, value.spec.dtype, shape))
        return InternalError(f"{self.label} describes row {row} in another way when it is alone")

    def _blame(self, frame: Frame, error: Exception) -> None:
        """Find the first row that fails, and in which node, and raise the error that names its sample."""
        gathered = [call.gather(frame) for call in self._calls]
        data = self._data(frame)
        for row in range(frame.rows):
            for count, node in enumerate(self._nodes, start=1):
                try:
                    self._try(self._alone(data, gathered, row, count), whole=count == len(self._nodes))
                except Exception as again:  # noqa: BLE001  # whatever a third party's operator raises
                    raise frame.failure(node, row, again) from error

    def _alone(self, data: Column, gathered: Sequence[Any], row: int, count: int) -> Work:
        """What the first nodes of the chain, so many, do with one row."""
        one = slice(row, row + 1)
        arguments = [
            {name: value[one] if call.by_row(name) else value for name, value in each[1].items()}
            for call, each in zip(self._calls[:count], gathered, strict=False)
        ]
        bits = [None if each[2] is None else each[2][one] for each in gathered[:count]]
        return type(self._chain)(links(self._nodes[:count])).describe(data[one], arguments, bits)


class DescribeStage(ChainStage):
    """The numbers of a chain that the device program computes, and images of several sizes on canvases of one.

    Args:
        node: of the engine's own.
        registers: where columns are.
        seed: of the pipeline.
    """

    def __init__(self, node: Node, registers: Registers, seed: int) -> None:
        operator = cast(Describe, node.operator)
        self._begin(operator.nodes, registers, seed)
        self.label = f"describe {self.label}"
        self._canvas = operator.canvas
        self._given = None if operator.given.spec.dense else registers[operator.given]
        self._spec = operator.given.spec
        self._outputs = [(value, registers[value]) for value in node.values]

    def _compute(self, frame: Frame) -> None:
        work = self._describe(frame)
        if self._nodes[-1].specs[0].dense:
            self._check_shapes(frame, work)
        frame.keep(*self._outputs[0], self._canvas.pack(work))
        for value, register in self._outputs[1:]:
            canvas = frame.allocate(value, register)
            for row, sample in enumerate(self._data(frame)):
                for at, (extent, limit) in enumerate(zip(sample.shape, self._spec.bounds, strict=True)):
                    canvas[(row, *(slice(n) for n in sample.shape[:at]), slice(extent, limit))] = 0
                canvas[(row, *map(slice, sample.shape))] = sample
            frame.columns[register] = canvas

    def _data(self, frame: Frame) -> Column:
        if self._given is not None:
            return frame.columns[self._given]
        return np.broadcast_to(np.zeros((), self._spec.dtype), (frame.rows, *self._spec.sizes))

    def _try(self, work: Work, *, whole: bool) -> None:
        if whole:
            self._canvas.pack(work)


class DescribeStage(ChainStage):
    """The numbers of a chain that the device program computes, and images of several sizes on canvases of one.

    Args:
        node: of the engine's own.
        registers: where columns are.
        seed: of the pipeline.
    """

    def __init__(self, node: Node, registers: Registers, seed: int) -> None:
        operator = cast(Describe, node.operator)
        self._begin(operator.nodes, registers, seed)
        self.label = f"describe {self.label}"
        self._canvas = operator.canvas
        self._given = None if operator.given.spec.dense else registers[operator.given]
        self._spec = operator.given.spec
        self._outputs = [(value, registers[value]) for value in node.values]

    def _compute(self, frame: Frame) -> None:
        work = self._describe(frame)
        if self._nodes[-1].specs[0].dense:
            self._check_shapes(frame, work)
        frame.keep(*self._outputs[0], self._canvas.pack(work))
        for value, register in self._outputs[1:]:
            canvas = frame.allocate(value, register)
            for row, sample in enumerate(self._data(frame)):
                for at, (extent, limit) in enumerate(zip(sample.shape, self._spec.bounds, strict=True)):
                    canvas[(row, *(slice(n) for n in sample.shape[:at]), slice(extent, limit))] = 0
                canvas[(row, *map(slice, sample.shape))] = sample
            frame.columns[register] = canvas

    def _data(self, frame: Frame) -> Column:
        if self._given is not None:
            return frame.columns[self._given]
        return np.broadcast_to(np.zeros((), self._spec.dtype), (frame.rows, *self._spec.sizes))

    def _try(self, work: Work, *, whole: bool) -> None:
        if whole:
            self._canvas.pack(work)


class WholeBatchStage:
    """One kernel on whole columns.

    Args:
        node: the node, whose operator has a whole-batch kernel.
        registers: where columns are.
        seed: of the pipeline.
    """

    def __init__(self, node: Node, registers: Registers, seed: int) -> None:
        self.label = node.kind
        self._node = node
        self._call = _Call(node, registers, seed)
        self._value, self._register = node.values[0], registers[node.values[0]]

    def compute(self, frame: Frame) -> None:
        """Compute the batch."""
        inputs, arguments, _ = self._call.gather(frame)
        kernel = cast(WholeBatchKernel, self._node.operator)
        try:
            column = kernel.whole_batch(*inputs, **arguments)
        except Exception as error:
            said = f"{self._node} failed on a batch: {str(error) or type(error).__name__}"
            raise SampleError(said, where=self._node.where) from error
        if not self._value.spec.dense:
            for row, sample in enumerate(column):
                frame.check(self._value, row, sample)
        frame.keep(self._value, self._register, list(column))


class SampleStage:
    """Several nodes, sample by sample.

    Args:
        nodes: in topological order.
        registers: where columns are.
        kept: the values of which a later stage needs the whole column.
        seed: of the pipeline.
    """

    def __init__(self, nodes: Sequence[Node], registers: Registers, kept: set[Value], seed: int) -> None:
        self.label = " + ".join(node.kind for node in nodes)
        self._parts = [(node, _sample_kernel(node), _Call(node, registers, seed)) for node in nodes]
        self._outputs = {node: [(value, registers[value], value in kept) for value in node.values] for node in nodes}

    def compute(self, frame: Frame) -> None:
        """Take each row through all nodes."""
        steps = [(node, self._bind(node, kernel, call, frame)) for node, kernel, call in self._parts]
        node, row = self._parts[0][0], 0
        try:
            for row in range(frame.rows):
                for node, step in steps:  # noqa: B007  # the node is for the error
                    step(row)
        except Exception as error:
            raise frame.failure(node, row, error) from error

    def _bind(self, node: Node, kernel: Callable[..., Any], call: _Call, frame: Frame) -> Callable[[int], None]:
        """A function that computes one row of a node, bound to the columns it reads and writes."""
        outputs = self._outputs[node]
        columns = [_column(value, register, kept, frame) for value, register, kept in outputs]
        inputs, arguments, bits = call.gather(frame)
        varying = [(name, arguments[name]) for name in call.varying]
        constant = {name: value for name, value in arguments.items() if name not in call.varying}
        context = SampleContext()
        writes = isinstance(columns[0], np.ndarray) if columns else False

        def step(row: int) -> None:
            context.bits = None if bits is None else bits[row]
            context.out = columns[0][row, ...] if writes else None
            given = {**constant, **{name: column[row] for name, column in varying}} if varying else constant
            result = kernel(context, *[column[row] for column in inputs], **given)
            if result is context.out and result is not None and len(columns) == 1:
                return
            for (value, _, _), column, sample in zip(outputs, columns, _outputs(result), strict=True):
                if not value.spec.accepts(sample):
                    raise unfit(value, sample.dtype, sample.shape)
                column[row] = sample

        return step


class _Call:
    """How a node's inputs, arguments and random bits are gathered from a frame."""

    def __init__(self, node: Node, registers: Registers, seed: int) -> None:
        self._inputs = [registers[value] for value in node.inputs if value in registers]
        self._constants = {name: value for name, value in node.arguments.items() if not isinstance(value, Value)}
        self.varying = {name: registers[value] for name, value in node.arguments.items() if isinstance(value, Value)}
        self._node, self._schema = node, node.operator.schema
        self._bits = node.operator.random_bits
        self._key = node.key(seed)

    def gather(self, frame: Frame) -> tuple[list[Any], dict[str, Any], Any]:
        """Inputs, arguments and random bits, each with an entry per row, but for arguments that have no schema."""
        columns, rows = frame.columns, frame.rows
        arguments = {name: self._constant(name, value, rows) for name, value in self._constants.items()}
        for name, register in self.varying.items():
            arguments[name] = self._varying(name, columns[register], frame)
        bits = None
        if self._bits:
            where = frame.coordinates
            bits = random_bits(np, *self._key, counters(where.epoch, where.positions), self._bits)
        return [columns[register] for register in self._inputs], arguments, bits

    def _varying(self, name: str, column: Any, frame: Frame) -> Any:
        schema = self._schema.get(name)
        if schema is None:
            return column
        try:
            return schema.rows(np, column, frame.rows, varying=True)
        except ValueError:
            for row in range(frame.rows):
                try:
                    schema.rows(np, column[row : row + 1], 1, varying=True)
                except ValueError as error:
                    raise frame.failure(self._node, row, ValueError(f"{name}: {error}")) from None
            raise

    def _constant(self, name: str, value: Any, rows: int) -> Any:
        schema = self._schema.get(name)
        return value if schema is None else schema.rows(np, value, rows, varying=False)

    def by_row(self, name: str) -> bool:
        """Whether an argument, as it was gathered, has an entry per row."""
        return name in self.varying or name in self._schema


class _Latest(list[Any]):
    """A column of which only the current row is kept: an intermediate value of a sample stage."""

    def __getitem__(self, row: Any) -> Any:
        return super().__getitem__(0)

    def __setitem__(self, row: Any, sample: Any) -> None:
        super().__setitem__(0, sample)


def _column(value: Value, register: int, kept: bool, frame: Frame) -> Any:
    """The column that a sample stage fills row by row."""
    if not kept:
        column: Any = _Latest([None])
    elif value.spec.dense:
        column = frame.allocate(value, register)
    else:
        column = [None] * frame.rows
    frame.columns[register] = column
    return column


def _blame(
    frame: Frame,
    node: Node,
    compute: Callable[..., None],
    inputs: Sequence[Any],
    arguments: Mapping[str, Any],
    bits: Any,
    varying: Mapping[str, int],
    error: Exception,
) -> None:
    """Find the first row for which a kernel fails, and raise the error that names its sample."""
    for row in range(frame.rows):
        one = slice(row, row + 1)
        alone = {name: value[one] if name in varying else value for name, value in arguments.items()}
        try:
            compute([column[one] for column in inputs], alone, None if bits is None else bits[one])
        except Exception as again:  # noqa: BLE001  # whatever a third party's kernel raises
            raise frame.failure(node, row, again) from error


def _outputs(result: Any) -> tuple[Any, ...]:
    return cast(tuple[Any, ...], result) if isinstance(result, tuple) else (result,)


def _sample_kernel(node: Node) -> Callable[..., Any]:
    """A node's sample kernel, or its batch kernel on batches of one."""
    kernel = node.operator
    if isinstance(kernel, SampleKernel):
        return kernel.sample
    if not isinstance(kernel, BatchKernel):
        raise InternalError(f"{node} has no kernel for the host")
    batch = kernel.batch
    varying = {name for name, value in node.arguments.items() if isinstance(value, Value)}

    def alone(context: SampleContext, *inputs: Any, **arguments: Any) -> Any:
        one = BatchContext(np, 1, None if context.bits is None else context.bits[None])
        given = {name: np.asarray(value)[None] if name in varying else value for name, value in arguments.items()}
        result = batch(one, *[np.asarray(sample)[None] for sample in inputs], **given)
        return tuple(column[0] for column in _outputs(result))

    return alone
