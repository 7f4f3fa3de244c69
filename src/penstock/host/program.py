"""The host's part of a plan as a program over some rows of a batch."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from penstock.data.order import Indices
from penstock.data.schedule import Step
from penstock.data.source import Array, Column
from penstock.errors import SampleError
from penstock.graph.node import Node, Value
from penstock.graph.operator import ChainKernel, View
from penstock.host.branches import BranchStage, SelectStage, delivered
from penstock.host.chains import ChainStage, DescribeStage
from penstock.host.feeding import Fed, Feeding
from penstock.host.frame import Frame
from penstock.host.gather import Registers
from penstock.host.reading import Reading
from penstock.host.stages import BatchStage, FeedStage, HostStage, ReadStage, RowStage, SampleStage, WholeBatchStage
from penstock.meter import Meter
from penstock.plan.plan import Plan
from penstock.plan.stages import Stage, Way


class HostProgram:
    """Computes the results of a plan for any rows of any batch. Immutable, and run from several threads at once.

    Args:
        plan: the plan.
        readings: how each of its readers is read.
        lead: the reading whose positions number the rows, or None where nothing is read.
        seed: what all random numbers of the definition derive from.
        meter: what the stages report to.
        feeding: how its streams are asked, where it has any.
    """

    def __init__(
        self,
        plan: Plan,
        readings: Mapping[Node, Reading],
        lead: Reading | None,
        seed: int,
        meter: Meter,
        feeding: Feeding | None = None,
    ) -> None:
        self.plan = plan
        self.feeding = feeding
        self._lead = lead
        self._readings = tuple(readings.values())
        self._meter = meter
        values = [value for stage in plan.stages for node in stage.nodes for value in node.values]
        registers = {value: number for number, value in enumerate(values)}
        targets = _targets(plan)
        kept = _kept(plan)
        self._stages: list[HostStage] = []
        for stage in plan.stages:
            compiled = _compile(stage, readings, registers, targets, kept, seed)
            self._stages.append(compiled if stage.guard is None else BranchStage(compiled, stage, registers))
        self._registers = len(registers)
        self._results = [(value, registers[value]) for value in plan.results]
        self._targets = [
            (registers[value], number, value.spec.sizes, value.spec.dtype) for value, number in targets.items()
        ]

    @property
    def by_sample(self) -> bool:
        """Whether Python runs for each sample."""
        chains = [stage for stage in self.plan.stages if stage.way is Way.CHAIN]
        decoded = any(isinstance(s.nodes[0].operator, ChainKernel) and s.nodes[0].operator.heads for s in chains)
        return decoded or any(stage.way is Way.SAMPLE for stage in self.plan.stages)

    @property
    def reads(self) -> bool:
        """Whether it has readers."""
        return bool(self._readings)

    def consecutive(self, rows: int) -> bool:
        """Whether row number `rows` of a batch is the first row of the next one, in the order of every reader."""
        return self.feeding is None and all(reading.consecutive(rows) for reading in self._readings)

    def compute(
        self, step: Step, numbers: Indices, slots: Sequence[Array | None], fed: Fed | None = None
    ) -> tuple[Column, ...]:
        """Compute the results for some rows.

        Args:
            step: the batch.
            numbers: the numbers of the rows in the batch, int64.
            slots: per result the place for these rows in a batch buffer; None for a ragged result.
            fed: what the streams gave for the batch.

        Returns:
            Per result its column; the slot itself where there is one.

        Raises:
            SampleError: a sample cannot be read, decoded or brought to shape; it is named.
        """
        frame = Frame(step, numbers, self._lead, [None] * self._registers, self._placed(slots), fed=fed)
        with np.errstate(all="ignore"):  # infinities are values, as they are for XLA
            before = time.perf_counter()
            for stage in self._stages:
                stage.compute(frame)
                after = time.perf_counter()
                self._meter.add(stage.label, seconds=after - before, samples=frame.rows)
                before = after
        results = zip(self._results, slots, strict=True)
        return tuple(_deliver(value, register, frame, slot) for (value, register), slot in results)

    def _placed(self, slots: Sequence[Array | None]) -> list[Array | None]:
        """Per register its slot: that of a result, seen in the shape of the register's value."""
        placed: list[Array | None] = [None] * self._registers
        for register, number, sizes, dtype in self._targets:
            slot = slots[number]
            if slot is not None and slot.dtype == dtype:
                placed[register] = slot if slot.shape[1:] == sizes else slot.reshape(len(slot), *sizes)
        return placed


def _compile(
    stage: Stage,
    readings: Mapping[Node, Reading],
    registers: Registers,
    targets: Mapping[Value, int],
    kept: set[Value],
    seed: int,
) -> HostStage:
    node = stage.nodes[-1]
    match stage.way:
        case Way.READ:
            return ReadStage(node, readings[node], registers)
        case Way.FEED:
            return FeedStage(node, registers)
        case Way.ROWS:
            return RowStage(node, registers)
        case Way.BATCH:
            seen = [*node.values, *node.inputs]
            in_place = isinstance(node.operator, View) and len({targets.get(value, value) for value in seen}) == 1
            return BatchStage(node, registers, seed, in_place=in_place)
        case Way.CHAIN:
            return ChainStage(stage.nodes, registers, seed)
        case Way.DESCRIBE:
            return DescribeStage(node, registers, seed)
        case Way.SAMPLE:
            return SampleStage(stage.nodes, registers, kept, seed)
        case Way.WHOLE_BATCH:
            return WholeBatchStage(node, registers, seed)
        case Way.SELECT:
            return SelectStage(node, registers)


def _targets(plan: Plan) -> dict[Value, int]:
    """Which values can be written into the batch buffer of which result.

    A dense result is; so is what a view shows, when nothing else looks at it.
    """
    results = set(plan.results)
    found: dict[Value, int] = {}
    for number, result in enumerate(plan.results):
        value = result
        while value.spec.dense and value.node.guard is None:
            found[value] = number
            shown = value.node.inputs[0] if isinstance(value.node.operator, View) else None
            if shown is None or shown in results or len(plan.graph.consumers[shown]) > 1:
                break
            if shown.spec.dtype != value.spec.dtype:
                break
            value = shown
    return found


def _kept(plan: Plan) -> set[Value]:
    """The values of which a whole column is needed, not one row at a time."""
    stage_of = {node: number for number, stage in enumerate(plan.stages) for node in stage.nodes}
    crossing = {value for node, number in stage_of.items() for value in node.sources if stage_of[value.node] != number}
    return crossing | set(plan.results)


def _deliver(value: Value, register: int, frame: Frame, slot: Array | None) -> Column:
    """A result, copied into its slot where it does not lie there yet: the slot has a narrower dtype."""
    column: Any = delivered(value, register, frame)
    if slot is None or frame.slots[register] is not None:
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
