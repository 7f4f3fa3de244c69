"""The stages of a plan, compiled: each computes the columns of its nodes for the rows of a frame."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol, cast

import numpy as np

from penstock.data.bits import counters, words
from penstock.data.source import Array, Column
from penstock.data.spec import Extent
from penstock.errors import InternalError, PenstockError, SampleError
from penstock.graph.node import Node, Value
from penstock.graph.operator import (
    BatchContext,
    BatchKernel,
    LazyKernel,
    SampleContext,
    SampleKernel,
    Scratch,
    View,
    WholeBatchKernel,
)
from penstock.host.frame import Frame
from penstock.host.reading import Reading, read
from penstock.plan.plan import dense_fix
from penstock.plan.rows import RowOperator

Registers = Mapping[Value, int]


class HostStep(Protocol):
    """A compiled stage. Immutable: frames on several threads go through it at once."""

    label: str

    def run(self, frame: Frame) -> None:
        """Fill the registers of its outputs."""
        ...


class ReadStep:
    """A reader: whole batches by index."""

    def __init__(self, node: Node, reading: Reading, registers: Registers) -> None:
        self.label = node.kind
        self._node, self._reading = node, reading
        self._outputs = [(value, registers[value]) for value in node.values]

    def run(self, frame: Frame) -> None:
        """Read the samples that stand in the rows."""
        samples = frame.samples[self._node] = self._reading.samples(frame.step, frame.lanes)
        try:
            columns = read(samples, frame.rows, [frame.slots[register] for _, register in self._outputs])
        except PenstockError as error:
            error.where = error.where or self._node.where
            raise
        for (value, register), column in zip(self._outputs, columns, strict=True):
            _store(frame, register, self._joined(value, register, column, frame))

    def _joined(self, value: Value, register: int, column: Column, frame: Frame) -> Column:
        """A column as one array, where the source gives a list and a consumer needs one shape."""
        if isinstance(column, np.ndarray) or not value.spec.dense:
            return column
        joined = _dense_column(value, register, frame)
        for row, sample in enumerate(column):
            if not value.spec.accepts(sample):
                raise frame.failure(self._node, row, _unfit(value, sample))
            joined[row] = sample
        return joined


class RowStep:
    """A value that comes from the coordinates of the rows."""

    def __init__(self, node: Node, operator: RowOperator, registers: Registers) -> None:
        self.label = node.kind
        self._operator, self._register = operator, registers[node.values[0]]

    def run(self, frame: Frame) -> None:
        """Compute it."""
        _store(frame, self._register, self._operator.compute(frame.coordinates))


class BatchStep:
    """One batch kernel on dense columns.

    Args:
        node: the node, whose operator has a batch kernel.
        registers: where columns are.
        seed: of the pipeline.
        in_place: whether it is a view of what stands in its own slot already.
    """

    def __init__(self, node: Node, registers: Registers, seed: int, *, in_place: bool) -> None:
        kernel = node.operator
        if not isinstance(kernel, BatchKernel):
            raise InternalError(f"{node} has no batch kernel")
        self.label = node.kind
        self._node, self._kernel = node, kernel
        self._call = _Call(node, registers, seed)
        self._outputs = [(value, registers[value], value.spec.sizes, value.spec.dtype) for value in node.values]
        self._writes = not isinstance(kernel, View)
        self._in_place = in_place

    def run(self, frame: Frame) -> None:
        """Compute the batch; written straight into its slot where the kernel can do that."""
        first = self._outputs[0][1]
        if self._in_place and frame.slots[first] is not None:
            frame.columns[first] = frame.slots[first]
            return
        inputs, arguments, random = self._call.of_batch(frame)
        context = BatchContext(np, frame.rows, random, frame.slots[first] if self._writes else None)
        try:
            result = self._kernel.batch(context, *inputs, **arguments)
        except Exception as error:
            self._blame(frame, inputs, arguments, random, error)
            raise
        for (value, register, sizes, dtype), column in zip(self._outputs, _outputs(result), strict=True):
            if column.shape[1:] != sizes or column.dtype != dtype or len(column) != frame.rows:
                raise _broken_promise(value, column.dtype, column.shape[1:])
            _store(frame, register, column)

    def _blame(
        self, frame: Frame, inputs: Sequence[Any], arguments: Mapping[str, Any], random: Any, error: Exception
    ) -> None:
        """Find the first row for which the kernel fails, and raise the error that names its sample."""
        varying = self._call.varying
        for row in range(frame.rows):
            one = slice(row, row + 1)
            context = BatchContext(np, 1, None if random is None else random[one])
            alone = {name: value[one] if name in varying else value for name, value in arguments.items()}
            try:
                self._kernel.batch(context, *[column[one] for column in inputs], **alone)
            except Exception as again:  # noqa: BLE001  # whatever a third party's kernel raises
                raise frame.failure(self._node, row, again) from error


class WholeBatchStep:
    """One kernel on whole columns.

    Args:
        node: the node, whose operator has a column kernel.
        registers: where columns are.
        seed: of the pipeline.
    """

    def __init__(self, node: Node, registers: Registers, seed: int) -> None:
        self.label = node.kind
        self._node = node
        self._call = _Call(node, registers, seed)
        self._value, self._register = node.values[0], registers[node.values[0]]

    def run(self, frame: Frame) -> None:
        """Compute the batch."""
        inputs, arguments, _ = self._call.of_batch(frame)
        kernel = cast(WholeBatchKernel, self._node.operator)
        try:
            column = kernel.column(*inputs, **arguments)
        except Exception as error:
            raise frame.failure(self._node, 0, error) from error
        target = _new_column(self._value, self._register, True, frame)
        for row, sample in enumerate(column):
            if not self._value.spec.accepts(sample):
                raise frame.failure(self._node, row, _unfit(self._value, sample))
            target[row] = sample


class SampleStep:
    """Several nodes, sample by sample.

    Args:
        nodes: in topological order.
        registers: where columns are.
        kept: the values of which a later stage needs the whole column.
        seed: of the pipeline.
        lazy: the values that stay unfinished until their consumer computes them.
    """

    def __init__(
        self, nodes: Sequence[Node], registers: Registers, kept: set[Value], seed: int, lazy: Collection[Value]
    ) -> None:
        self.label = " + ".join(node.kind for node in nodes)
        self._lazy = {value.node for value in lazy}
        self._parts = [(node, self._kernel(node), _Call(node, registers, seed)) for node in nodes]
        self._memory = _Memory()
        self._outputs = {node: [(value, registers[value], value in kept) for value in node.values] for node in nodes}

    def run(self, frame: Frame) -> None:
        """Take each row through all nodes."""
        steps = [(node, self._bind(node, kernel, call, frame)) for node, kernel, call in self._parts]
        node, row = self._parts[0][0], 0
        try:
            for row in range(frame.rows):
                for node, step in steps:  # noqa: B007  # the node is for the error
                    step(row)
        except Exception as error:
            raise frame.failure(node, row, error) from error

    def _kernel(self, node: Node) -> Callable[..., Any]:
        if node in self._lazy:
            return cast(LazyKernel, node.operator).defer
        return _sample_kernel(node)

    def _scratch(self, node: Node) -> Scratch:
        """The memory of a node on this thread."""
        return self._memory.of[node]

    def _bind(self, node: Node, kernel: Callable[..., Any], call: _Call, frame: Frame) -> Callable[[int], None]:
        """A function that computes one row of a node, bound to the columns it reads and writes."""
        inputs, arguments, random = call.of_batch(frame)
        constants = {name: value for name, value in arguments.items() if name not in call.varying}
        varying = {name: arguments[name] for name in call.varying}
        outputs = self._outputs[node]
        columns = [_new_column(value, register, kept, frame) for value, register, kept in outputs]
        context = SampleContext(scratch=self._scratch(node))
        lazy = node in self._lazy
        first = cast(Array, columns[0]) if columns and isinstance(columns[0], np.ndarray) else None

        def step(row: int) -> None:
            if first is not None:
                context.out = first[row]
            if random is not None:
                context.words = random[row]
            given = constants | {name: column[row] for name, column in varying.items()} if varying else constants
            result = kernel(context, *[column[row] for column in inputs], **given)
            if lazy:
                columns[0][row] = result
                return
            if result is context.out and len(columns) == 1:
                return
            for (value, _, _), column, sample in zip(outputs, columns, _outputs(result), strict=True):
                if not value.spec.accepts(sample):
                    raise _unfit(value, sample)
                column[row] = sample

        return step


class _Call:
    """How a node's inputs, arguments and random words are gathered from a frame."""

    def __init__(self, node: Node, registers: Registers, seed: int) -> None:
        self._inputs = [registers[value] for value in node.inputs]
        self._constants = {name: value for name, value in node.arguments.items() if not isinstance(value, Value)}
        self.varying = {name: registers[value] for name, value in node.arguments.items() if isinstance(value, Value)}
        self._words = node.operator.words
        self._key = node.key(seed)

    def of_batch(self, frame: Frame) -> tuple[list[Any], dict[str, Any], Any]:
        columns = frame.columns
        arguments = self._constants
        if self.varying:
            arguments = arguments | {name: columns[register] for name, register in self.varying.items()}
        random = None
        if self._words:
            where = frame.coordinates
            random = words(np, *self._key, counters(where.epoch, where.positions), self._words)
        return [columns[register] for register in self._inputs], arguments, random


class _Memory(threading.local):
    """The scratch memory of nodes, per thread."""

    def __init__(self) -> None:
        self.of: defaultdict[Node, Scratch] = defaultdict(Scratch)


class _Latest(list[Any]):
    """A column of which only the current row is kept: an intermediate value of a sample stage."""

    def __getitem__(self, row: Any) -> Any:
        return super().__getitem__(0)

    def __setitem__(self, row: Any, sample: Any) -> None:
        super().__setitem__(0, sample)


def _store(frame: Frame, register: int, column: Any) -> None:
    slot = frame.slots[register]
    if slot is not None and column is not slot:
        np.copyto(slot, column)
    frame.columns[register] = column if slot is None else slot


def _dense_column(value: Value, register: int, frame: Frame) -> Array:
    slot = frame.slots[register]
    return slot if slot is not None else np.empty((frame.rows, *value.spec.sizes), value.spec.dtype)


def _new_column(value: Value, register: int, kept: bool, frame: Frame) -> Any:
    if not kept:
        column: Any = _Latest([None])
    elif value.spec.dense:
        column = _dense_column(value, register, frame)
    else:
        column = [None] * frame.rows
    frame.columns[register] = column
    return column


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
        one = BatchContext(np, 1, None if context.words is None else context.words[None])
        given = {name: np.asarray(value)[None] if name in varying else value for name, value in arguments.items()}
        result = batch(one, *[np.asarray(sample)[None] for sample in inputs], **given)
        return tuple(column[0] for column in _outputs(result))

    return alone


def _unfit(value: Value, sample: Array) -> PenstockError:
    spec = value.spec
    if sample.dtype != spec.dtype or sample.ndim != len(spec.shape) or spec.extent is not Extent.SAME:
        return _broken_promise(value, sample.dtype, sample.shape)
    return SampleError(
        "its shape differs from that of sample 0, and what follows needs one shape",
        given=sample.shape,
        expected=spec.shape,
        fix=dense_fix(value),
    )


def _broken_promise(value: Value, dtype: Any, shape: tuple[int, ...]) -> InternalError:
    return InternalError(
        f"a kernel of {value} does not give what its spec rule says", given=f"{dtype}{list(shape)}", expected=value.spec
    )
