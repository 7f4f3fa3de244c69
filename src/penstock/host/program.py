"""The host's part of a plan as a program over some rows of a batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from penstock.data.order import Indices
from penstock.data.schedule import Step
from penstock.data.source import Array, Column
from penstock.data.spec import Extent
from penstock.data.words import counters, words
from penstock.errors import InternalError, PenstockError, SampleError
from penstock.graph.node import Node, Value
from penstock.graph.operator import BatchContext, BatchKernel, Reader, SampleContext, SampleKernel, View
from penstock.host.reading import Reading, Samples, read
from penstock.meter import Meter
from penstock.plan.plan import Plan, dense_fix
from penstock.plan.rows import Coordinates, RowOperator
from penstock.plan.stages import BatchStage, ReadStage, RowStage, SampleStage, Stage


class _Latest(list[Any]):
    """A column of which only the current row is kept: an intermediate value of a sample stage."""

    def __getitem__(self, row: Any) -> Any:
        return super().__getitem__(0)

    def __setitem__(self, row: Any, sample: Any) -> None:
        super().__setitem__(0, sample)


@dataclass
class _Pass:
    """What one pass over some rows knows."""

    step: Step
    rows: int
    coordinates: Coordinates
    samples: dict[Node, Samples | list[tuple[Indices, Samples]]]
    columns: dict[Value, Any]
    slots: dict[Value, Array]


class HostProgram:
    """Computes the results of a plan for any rows of any batch. Immutable, and run from several threads at once.

    Args:
        plan: the plan.
        readings: how each of its readers is read.
        lead: the reading whose positions number the rows, or None where nothing is read.
        seed: what all random numbers of the definition derive from.
        meter: what the stages report to.
    """

    def __init__(
        self, plan: Plan, readings: Mapping[Node, Reading], lead: Reading | None, seed: int, meter: Meter
    ) -> None:
        self.plan = plan
        self.readings = readings
        self._lead = lead
        self._seed = seed
        self._meter = meter
        self._targets = _targets(plan)
        self._kept = _kept(plan)

    def run(self, step: Step, lanes: Indices, slots: Sequence[Array | None]) -> tuple[Column, ...]:
        """Compute the results for some rows.

        Args:
            step: the batch.
            lanes: the numbers of the rows in the batch, int64.
            slots: per result the place for these rows in a batch buffer; None for a ragged result.

        Returns:
            Per result its column; the slot itself where there is one.

        Raises:
            SampleError: a sample cannot be read, decoded or brought to shape; it is named.
        """
        work = _Pass(step, len(lanes), _coordinates(self._lead, step, lanes), {}, {}, {})
        for value, (result, shape) in self._targets.items():
            slot = slots[result]
            if slot is not None and slot.dtype == value.spec.dtype:
                work.slots[value] = slot.reshape(work.rows, *shape)
        with np.errstate(all="ignore"):  # infinities are values, as they are for XLA
            for stage in self.plan.stages:
                start = time.perf_counter()
                label = self._run_stage(stage, work, lanes)
                self._meter.add(label, seconds=time.perf_counter() - start, samples=work.rows)
        return tuple(self._deliver(value, work, slot) for value, slot in zip(self.plan.results, slots, strict=True))

    def _run_stage(self, stage: Stage, work: _Pass, lanes: Indices) -> str:
        match stage:
            case ReadStage(node):
                self._run_read(node, work, lanes)
            case RowStage(node):
                assert isinstance(node.operator, RowOperator)
                self._store(node, work, (node.operator.compute(work.coordinates),))
            case BatchStage(node):
                self._run_batch(node, work)
            case SampleStage(nodes):
                self._run_samples(nodes, work)
                return " + ".join(node.kind for node in nodes)
        return stage.node.kind

    def _run_read(self, node: Node, work: _Pass, lanes: Indices) -> None:
        samples = work.samples[node] = self.readings[node].samples(work.step, lanes)
        out = [work.slots.get(value) for value in node.values]
        try:
            columns = read(samples, work.rows, out)
        except PenstockError as error:
            error.where = error.where or node.where
            raise
        self._store(node, work, [self._joined(v, c, work) for v, c in zip(node.values, columns, strict=True)])

    def _joined(self, value: Value, column: Column, work: _Pass) -> Column:
        """A column as one array, where the source gives a list and a consumer needs one shape."""
        if isinstance(column, np.ndarray) or not value.spec.dense:
            return column
        joined = self._column(value, work)
        for row, sample in enumerate(column):
            if not value.spec.accepts(sample):
                raise self._failure(value.node, work, row, _unfit(value, sample))
            joined[row] = sample
        return joined

    def _store(self, node: Node, work: _Pass, columns: Sequence[Any]) -> None:
        for value, column in zip(node.values, columns, strict=True):
            slot = work.slots.get(value)
            if slot is not None and column is not slot:
                np.copyto(slot, column)
            work.columns[value] = column if slot is None else slot

    def _run_batch(self, node: Node, work: _Pass) -> None:
        kernel = node.operator
        assert isinstance(kernel, BatchKernel)
        inputs = [work.columns[value] for value in node.inputs]
        arguments = {n: work.columns[v] if isinstance(v, Value) else v for n, v in node.arguments.items()}
        slot = None if isinstance(kernel, View) else work.slots.get(node.values[0])
        context = BatchContext(np, work.rows, self._words(node, work), slot)
        try:
            result = kernel.batch(context, *inputs, **arguments)
        except Exception as error:
            self._blame(node, work, inputs, arguments, error)
            raise
        columns = _outputs(result)
        for value, column in zip(node.values, columns, strict=True):
            if column.shape != (work.rows, *value.spec.sizes) or column.dtype != value.spec.dtype:
                raise _broken_promise(value, column.dtype, column.shape[1:])
        if isinstance(kernel, View) and self._shares_target(node):
            work.columns[node.values[0]] = columns[0]  # the input's memory, which is in the slot
        else:
            self._store(node, work, columns)

    def _shares_target(self, view: Node) -> bool:
        shown, seen = self._targets.get(view.inputs[0]), self._targets.get(view.values[0])
        return shown is not None and seen is not None and shown[0] == seen[0]

    def _words(self, node: Node, work: _Pass) -> Any:
        count = node.operator.words
        if not count:
            return None
        rows = counters(work.coordinates.epoch, work.coordinates.positions)
        return words(np, *node.key(self._seed), rows, count)

    def _run_samples(self, nodes: Sequence[Node], work: _Pass) -> None:
        steps = [(node, self._sample_step(node, work)) for node in nodes]
        node, row = nodes[0], 0
        try:
            for row in range(work.rows):
                for node, step in steps:  # noqa: B007  # the node is for the error
                    step(row)
        except Exception as error:
            raise self._failure(node, work, row, error) from error

    def _sample_step(self, node: Node, work: _Pass) -> Callable[[int], None]:
        """A function that computes one row of a node, bound to the columns it reads and writes."""
        inputs = [work.columns[value] for value in node.inputs]
        constants = {n: v for n, v in node.arguments.items() if not isinstance(v, Value)}
        varying = {n: work.columns[v] for n, v in node.arguments.items() if isinstance(v, Value)}
        columns = [self._column(value, work) for value in node.values]
        work.columns.update(zip(node.values, columns, strict=True))
        random = self._words(node, work)
        kernel = _sample_kernel(node)
        context = SampleContext()
        first = cast(Array, columns[0]) if isinstance(columns[0], np.ndarray) else None

        def step(row: int) -> None:
            if first is not None:
                context.out = first[row]
            if random is not None:
                context.words = random[row]
            arguments = constants | {n: column[row] for n, column in varying.items()} if varying else constants
            result = kernel(context, *[column[row] for column in inputs], **arguments)
            if result is context.out and len(columns) == 1:
                return
            for value, column, sample in zip(node.values, columns, _outputs(result), strict=True):
                if not value.spec.accepts(sample):
                    raise _unfit(value, sample)
                column[row] = sample

        return step

    def _column(self, value: Value, work: _Pass) -> Any:
        if value not in self._kept:
            return _Latest([None])
        if not value.spec.dense:
            return [None] * work.rows
        slot = work.slots.get(value)
        return slot if slot is not None else np.empty((work.rows, *value.spec.sizes), value.spec.dtype)

    def _deliver(self, value: Value, work: _Pass, slot: Array | None) -> Column:
        column = work.columns[value]
        if slot is None or value in work.slots:
            return column if slot is None else slot
        if column.dtype.kind in "iu" and slot.dtype.itemsize < column.dtype.itemsize and column.size:
            limits = np.iinfo(slot.dtype)
            if column.min() < limits.min or column.max() > limits.max:
                raise SampleError(
                    f"{value} has {column.dtype} values that do not fit {slot.dtype}, which JAX delivers",
                    given=f"values from {column.min()} to {column.max()}",
                    fix="jax.config.update('jax_enable_x64', True), or make them smaller",
                )
        np.copyto(slot, column, casting="same_kind")
        return slot

    def _blame(
        self, node: Node, work: _Pass, inputs: Sequence[Any], arguments: Mapping[str, Any], error: Exception
    ) -> None:
        """Find the first row for which a batch kernel fails, and raise the error that names its sample."""
        kernel = node.operator
        assert isinstance(kernel, BatchKernel)
        random = self._words(node, work)
        for row in range(work.rows):
            one = slice(row, row + 1)
            context = BatchContext(np, 1, None if random is None else random[one])
            varying = {n: arguments[n][one] if isinstance(v, Value) else v for n, v in node.arguments.items()}
            try:
                kernel.batch(context, *[column[one] for column in inputs], **varying)
            except Exception as alone:  # noqa: BLE001  # whatever a third party's kernel raises
                raise self._failure(node, work, row, alone) from error

    def _failure(self, node: Node, work: _Pass, row: int, error: Exception) -> PenstockError:
        """The error for one row of one node: which samples went into it, and where the user wrote the node."""
        described: list[str] = []
        for reader in _upstream(node):
            samples = work.samples[reader]
            if isinstance(samples, Samples):
                source, index = samples.source, int(samples.indices[row])
            else:
                places, part = next(part for part in samples if row in part[0])
                source, index = part.source, int(part.indices[places == row][0])
            described.append(f"sample {index} ({source.describe(index)})")
        what = f"{node} failed on {' with '.join(described) or f'row {row}'}: {error}"
        failure = InternalError(what) if isinstance(error, InternalError) else SampleError(what)
        failure.where = node.where
        return failure


def _outputs(result: Any) -> tuple[Any, ...]:
    return cast(tuple[Any, ...], result) if isinstance(result, tuple) else (result,)


def _coordinates(lead: Reading | None, step: Step, lanes: Indices) -> Coordinates:
    if lead is not None:
        return lead.coordinates(step, lanes)
    return Coordinates(step.epoch, lanes + step.row, np.ones(len(lanes), np.bool_))


def _targets(plan: Plan) -> dict[Value, tuple[int, tuple[int, ...]]]:
    """Which values can be written into the batch buffer of a result, and in which shape.

    A dense result is; so is what a view shows, when nothing else looks at it.
    """
    results = set(plan.results)
    found: dict[Value, tuple[int, tuple[int, ...]]] = {}
    for number, result in enumerate(plan.results):
        value = result
        while value.spec.dense:
            found[value] = (number, value.spec.sizes)
            node = value.node
            shown = node.inputs[0] if isinstance(node.operator, View) else None
            if shown is None or shown in results or len(plan.graph.consumers[shown]) > 1:
                break
            if shown.spec.dtype != value.spec.dtype:
                break
            value = shown
    return found


def _kept(plan: Plan) -> set[Value]:
    """The values of which a whole column is needed, not one row at a time."""
    stage_of = {
        node: number
        for number, stage in enumerate(plan.stages)
        for node in (stage.nodes if isinstance(stage, SampleStage) else (stage.node,))
    }
    crossing_stages = {
        value for node, number in stage_of.items() for value in node.sources if stage_of[value.node] != number
    }
    return crossing_stages | set(plan.results)


def _sample_kernel(node: Node) -> Callable[..., Any]:
    kernel = node.operator
    if isinstance(kernel, SampleKernel):
        return kernel.sample
    if not isinstance(kernel, BatchKernel):
        raise InternalError(f"{node} has no kernel for the host")
    batch = kernel.batch

    def alone(context: SampleContext, *inputs: Array, **arguments: Any) -> Any:
        one = BatchContext(np, 1, None if context.words is None else context.words[None])
        varying = {
            name: value[None] if isinstance(node.arguments[name], Value) else value for name, value in arguments.items()
        }
        result = batch(one, *[sample[None] for sample in inputs], **varying)
        return tuple(column[0] for column in _outputs(result))

    return alone


def _upstream(node: Node) -> list[Node]:
    found: dict[Node, None] = {}
    todo = [node]
    while todo:
        source = todo.pop()
        if isinstance(source.operator, Reader):
            found[source] = None
        todo += [value.node for value in source.sources]
    return list(found)


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
        f"a kernel of {value} does not give what its spec rule says",
        given=f"{dtype}{list(shape)}",
        expected=value.spec,
    )
