"""The host's part of a plan as a program over some rows of a batch."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from penstock.core.columns import Array, Column, Indices
from penstock.engine.failures.bad_row import BadRow
from penstock.engine.host.execution_frame import ExecutionFrame
from penstock.engine.host.failed_rows import (
    ATTEMPTS,
    replacement_draws,
    replacements_exhausted_error,
    result_buffer,
    run_stage,
    without_failed_rows,
)
from penstock.engine.host.run_context import RunContext
from penstock.engine.host.stages.branch_stage import BranchStage, SelectStage, full_column
from penstock.engine.host.stages.fused_stage import FusedStage, HostDescriptionStage
from penstock.engine.host.stages.host_stages import (
    BatchStage,
    FeedStage,
    HostStage,
    ReadStage,
    RowStage,
    SampleStage,
    WholeBatchStage,
    check_narrowing,
)
from penstock.engine.host.stages.operand_binding import Registers
from penstock.engine.host.stream_feed import FedBatch
from penstock.graph.ir.fusion import FusibleOperator
from penstock.graph.ir.node import Value
from penstock.graph.ir.operator import ViewKernel
from penstock.plan.plan import Plan
from penstock.plan.stage_grouping import Stage, StageKind
from penstock.sources.order.schedule import BatchStep


class HostProgram:
    """Computes the results of a plan for any rows of any batch. Immutable, and run from several threads at once.

    Args:
        plan: the plan.
        context: of the run.
    """

    def __init__(self, plan: Plan, context: RunContext) -> None:
        self.plan = plan
        self.context = context
        values = [value for stage in plan.stages for node in stage.nodes for value in node.values]
        registers = {value: number for number, value in enumerate(values)}
        targets = _targets(plan)
        kept, picked = _kept(plan), _picked(plan)
        self._stages: list[HostStage] = []
        for stage in plan.stages:
            compiled = _compile(stage, registers, targets, kept, picked, context.seed)
            self._stages.append(compiled if stage.guard is None else BranchStage(compiled, stage, registers))
        self._by_row = all(stage.row_independent for stage in self._stages)
        self._registers = len(registers)
        self._results = [(value, registers[value]) for value in plan.results]
        self._targets = [
            (registers[value], number, value.spec.fixed_shape, value.spec.dtype) for value, number in targets.items()
        ]

    @property
    def by_sample(self) -> bool:
        """Whether Python runs for each sample."""
        chains = [stage for stage in self.plan.stages if stage.way is StageKind.CHAIN]
        decoded = any(
            isinstance(s.nodes[0].operator, FusibleOperator) and s.nodes[0].operator.starts_group for s in chains
        )
        return decoded or any(stage.way is StageKind.SAMPLE for stage in self.plan.stages)

    def consecutive(self, rows: int) -> bool:
        """Whether row number `rows` of a batch is the first row of the next one, in the order of every reader."""
        return self.context.feeder is None and all(reader.consecutive(rows) for reader in self.context.readers.values())

    def compute(
        self, step: BatchStep, numbers: Indices, slots: Sequence[Array | None], fed: FedBatch | None = None
    ) -> tuple[tuple[Column, ...], list[BadRow]]:
        """Compute the results for some rows.

        Args:
            step: the batch.
            numbers: the numbers of the rows in the batch, int64, ascending.
            slots: per result the place for these rows in a batch buffer; None for a ragged result.
            fed: what the streams gave for the batch.

        Returns:
            Per result its column, the slot itself where there is one; and the rows that failed and are tolerated, each
            as often as it did, ascending. Results hold zeros in a row that is skipped.

        Raises:
            SampleError: a sample cannot be read, decoded or brought to shape; it is named.
        """
        frame = ExecutionFrame(step, numbers, self.context, [None] * self._registers, self._placed(slots), fed=fed)
        failed: list[BadRow] = []
        done = self._through(frame, slots, failed)
        if failed:
            return self._mended(done, step, numbers, slots, failed, fed)
        results = zip(self._results, slots, strict=True)
        return tuple([_deliver(value, register, done, slot) for (value, register), slot in results]), failed

    def _through(self, frame: ExecutionFrame, slots: Sequence[Array | None], failed: list[BadRow]) -> ExecutionFrame:
        """Take a frame through all stages.

        Returns:
            The frame of the rows that did not fail, the others added to `failed`. Where rows have failed before a stage
            that needs the whole batch, it is not finished.
        """
        with np.errstate(all="ignore"):  # infinities are values, as they are for XLA
            before = time.perf_counter()
            for stage in self._stages:
                if not stage.row_independent and failed:
                    return frame
                rows = frame.rows
                frame = run_stage(stage, frame, failed)
                after = time.perf_counter()
                self.context.timers.add(stage.label, seconds=after - before, samples=rows)
                before = after
                if not frame.rows:
                    return frame
            for (value, register), slot in zip(self._results, slots, strict=True):
                if slot is not None and slot.dtype != value.spec.dtype:
                    check_narrowing(frame, value, full_column(value, register, frame), slot.dtype)
            return without_failed_rows(frame, failed)

    def _mended(
        self,
        done: ExecutionFrame,
        step: BatchStep,
        numbers: Indices,
        slots: Sequence[Array | None],
        failed: list[BadRow],
        fed: FedBatch | None,
    ) -> tuple[tuple[Column, ...], list[BadRow]]:
        """The results where rows have failed: other samples take the place of those that are to be replaced."""
        columns = [
            result_buffer(value, slot, len(numbers)) for (value, _), slot in zip(self._results, slots, strict=True)
        ]
        attempts = np.zeros(len(numbers), np.int64)
        skipped: set[int] = set()
        latest, every = failed, failed.copy()
        while True:
            if self._by_row or not latest:
                self._place(done, np.searchsorted(numbers, done.rows_in_batch), columns)
            again: set[int] = set()
            for bad in latest:
                row = int(np.searchsorted(numbers, bad.number))
                attempts[row] += 1
                (skipped if bad.policy == "skip" else again).add(row)
                if bad.policy != "skip" and attempts[row] > ATTEMPTS:
                    raise replacements_exhausted_error(bad)
            if not again:
                break
            rows = np.array(sorted(again)) if self._by_row else np.arange(len(numbers))
            empty: list[Any] = [None] * self._registers
            frame = ExecutionFrame(step, numbers[rows], self.context, empty, empty.copy(), fed=fed)
            frame.replacements = replacement_draws(self.context.seed, frame.coordinates, attempts[rows])
            latest: list[BadRow] = []
            done = self._through(frame, slots, latest)
            every += latest
        for column in columns:
            if isinstance(column, np.ndarray):
                column[sorted(skipped)] = 0
        return tuple(columns), sorted(self._counted(every, step, numbers), key=lambda bad: bad.number)

    def _counted(self, failed: list[BadRow], step: BatchStep, numbers: Indices) -> list[BadRow]:
        """The rows that count: not those past the end of an epoch that are masked anyhow."""
        if self.plan.valid is None:
            return failed
        real = ExecutionFrame(step, numbers, self.context, [], []).coordinates.real
        return [bad for bad in failed if real[np.searchsorted(numbers, bad.number)]]

    def _place(self, frame: ExecutionFrame, rows: Indices, columns: Sequence[Column]) -> None:
        """Put the results of a frame into their rows of the whole."""
        if not frame.rows:
            return
        for (value, register), column in zip(self._results, columns, strict=True):
            made = full_column(value, register, frame)
            if isinstance(column, np.ndarray):
                column[rows] = made
            else:
                for row, sample in zip(rows.tolist(), made, strict=True):
                    column[row] = sample

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
    registers: Registers,
    targets: Mapping[Value, int],
    kept: set[Value],
    picked: set[Value],
    seed: int,
) -> HostStage:
    node = stage.nodes[-1]
    match stage.way:
        case StageKind.READ:
            return ReadStage(node, registers, picked)
        case StageKind.FEED:
            return FeedStage(node, registers)
        case StageKind.ROWS:
            return RowStage(node, registers)
        case StageKind.BATCH:
            seen = [*node.values, *node.inputs]
            in_place = isinstance(node.operator, ViewKernel) and len({targets.get(value, value) for value in seen}) == 1
            return BatchStage(node, registers, seed, in_place=in_place)
        case StageKind.CHAIN:
            return FusedStage(stage.nodes, registers, seed)
        case StageKind.DESCRIBE:
            return HostDescriptionStage(node, registers, seed)
        case StageKind.SAMPLE:
            return SampleStage(stage.nodes, registers, kept, seed)
        case StageKind.WHOLE_BATCH:
            return WholeBatchStage(node, registers, seed)
        case StageKind.SELECT:
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
            shown = value.node.inputs[0] if isinstance(value.node.operator, ViewKernel) else None
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


def _picked(plan: Plan) -> set[Value]:
    """The values whose rows need not lie side by side: chains alone read them, from where they are."""
    if any(stage.guard is not None for stage in plan.stages):
        return set()
    heads = [
        s.nodes[0]
        for s in plan.stages
        if s.way is StageKind.CHAIN and not cast(FusibleOperator, s.nodes[0].operator).starts_group
    ]
    used = Counter(value for stage in plan.stages for node in stage.nodes for value in node.sources)
    chained = Counter(node.inputs[0] for node in heads)
    return {value for value, count in chained.items() if count == used[value]} - set(plan.results)


def _deliver(value: Value, register: int, frame: ExecutionFrame, slot: Array | None) -> Column:
    """A result, copied into its slot where it does not lie there yet: the slot has a narrower dtype."""
    column: Any = full_column(value, register, frame)
    if slot is None or frame.slots[register] is not None:
        return column if slot is None else slot
    np.copyto(slot, column, casting="same_kind")
    return slot
