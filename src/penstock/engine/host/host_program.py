"""The host part of a plan, compiled to stages that compute any rows of any batch."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, cast

import numpy as np

from penstock.core import Array, Column
from penstock.core.cpu_limits import cpu_limits
from penstock.core.slice_recorder import recorded
from penstock.core.thread_clock import ThreadClock, WallClock
from penstock.engine.failures.bad_row import BadRow
from penstock.engine.host.chunk_executor import Chunk, ChunkResult
from penstock.engine.host.chunk_scheduler import ChunkScheduler
from penstock.engine.host.execution_frame import ExecutionFrame, HostStage, Registers
from penstock.engine.host.failed_rows import replace_failed_rows, run_stages
from penstock.engine.host.owned_samples import own_samples
from penstock.engine.host.run_context import RunContext
from penstock.engine.host.stages.branch_stage import BranchStage, SelectStage, full_column
from penstock.engine.host.stages.cached_stage import CachedStage
from penstock.engine.host.stages.fused_stage import FusedStage, HostDescriptionStage
from penstock.engine.host.stages.host_stages import (
    BatchStage,
    FeedStage,
    ReadStage,
    RowStage,
    SampleStage,
    WholeBatchStage,
    check_narrowing,
)
from penstock.errors import InternalError
from penstock.graph import Value, ViewKernel
from penstock.graph.ir.fusion_contract import FusibleOperator
from penstock.plan.plan import Plan
from penstock.plan.stage_grouping import Stage, StageKind, flat_stages


class HostProgram:
    """The host part of a plan. Several threads run it at the same time, so stages do not change.

    Args:
        plan: The plan.
        context: Context of the run.

    Attributes:
        scheduler: Measures the chunks and decides how to compute the next ones.
        row_independent: True if some rows of a chunk can be computed without the others.
    """

    def __init__(self, plan: Plan, context: RunContext) -> None:
        self.plan = plan
        self.context = context
        values = [value for stage in plan.stages for node in stage.all_nodes for value in node.values]
        registers = {value: number for number, value in enumerate(values)}
        targets = _buffer_targets(plan)
        kept, picked = _whole_columns(plan), _gathered_values(plan)

        def compiled(stages: Sequence[Stage]) -> list[HostStage]:
            result: list[HostStage] = []
            for stage in stages:
                if stage.way is StageKind.CACHE:
                    result.append(CachedStage(stage, compiled(stage.inner), registers, set(plan.results)))
                    continue
                # Rows that do not take the branch of a stage are not computed at all.
                one = _compile(stage, registers, targets, kept, picked, context.seed)
                result.append(one if stage.guard is None else BranchStage(one, stage, registers))
            return result

        self._stages = compiled(plan.stages)
        self.row_independent = all(stage.row_independent for stage in self._stages)
        self._num_registers = len(registers)
        self._results = [(value, registers[value]) for value in plan.results]
        ragged = {value for value in plan.graph.outputs if not value.spec.dense and value.node.guard is None}
        self._ragged_outputs = [(number, value) for number, value in enumerate(plan.results) if value in ragged]
        # `Pipeline.run` keeps the 64 bits of a column, but JAX narrows it all the same for the device program.
        self._crossing_dtypes = [
            np.dtype(f"{value.spec.dtype.kind}4") if value in plan.crossing and _narrows(value, plan) else None
            for value in plan.results
        ]
        self._targets = [
            (registers[value], number, value.spec.fixed_shape, value.spec.dtype) for value, number in targets.items()
        ]
        kinds = {stage.way for stage in flat_stages(plan.stages)}
        heads = _heads_of_chains(plan)
        samples = StageKind.SAMPLE in kinds or StageKind.CACHE in kinds
        self.scheduler = ChunkScheduler(
            by_sample=samples or any(head.runs_python_per_sample for head in heads),
            decodes=not samples,
            whole=StageKind.WHOLE_BATCH in kinds,
            expensive=samples or any(head.starts_group for head in heads),
            cpus=_sufficient_threads(plan, context),
        )

    def consecutive(self, rows: int) -> bool:
        """True if several batches of `rows` rows can be computed as one: the order of every reader is consecutive."""
        context = self.context
        # Other draws than those of the seed differ from batch to batch.
        alone = context.feeder is not None or context.draws is not None
        return not alone and all(reader.consecutive(rows) for reader in context.readers.values())

    def run_rows(self, chunk: Chunk) -> ChunkResult:
        """Compute the results of a chunk.

        Raises:
            SampleError: A sample cannot be read, decoded or computed, and its policy is "raise".
        """
        step, rows = chunk.step, len(chunk.rows)
        # NumPy warns of infinities and NaNs; XLA, which must agree, does not.
        quiet = np.errstate(all="ignore")
        with quiet, recorded("rows", epoch=step.epoch, row=step.row, samples=rows):
            clock = ThreadClock() if self.scheduler.measures_waits else WallClock()
            none: list[Any] = [None] * self._num_registers
            slots = self._register_slots(chunk.slots)
            frame = ExecutionFrame(step, chunk.rows, self.context, none, slots, fed=chunk.fed)
            done, failed = run_stages(self._stages, frame, partial(self._check_narrowing, chunk.slots))
            if failed:
                result = self._replace_failed_rows(frame, done, failed, chunk.slots)
            else:
                delivered = zip(self._results, chunk.slots, strict=True)
                columns = [_deliver(value, register, done, slot) for (value, register), slot in delivered]
                result = ChunkResult(tuple(columns), [])
            if self._ragged_outputs:
                for part in (frame, done):
                    part.clear()
                result = self._with_own_samples(result)
            seconds, cpu_seconds = clock.lap()
            self.scheduler.record(seconds, rows, cpu_seconds)
            return result

    def _with_own_samples(self, result: ChunkResult) -> ChunkResult:
        """Copy samples of ragged outputs that share memory with a data set or with each other."""
        columns = list(result.columns)
        for number, value in self._ragged_outputs:
            # The results of loops and decoders are new, and may be in memory that is recycled, which counts as shared.
            new = isinstance(value.node.operator, FusibleOperator)
            columns[number] = list(columns[number]) if new else own_samples(columns[number])
        return ChunkResult(tuple(columns), result.failed)

    def _check_narrowing(self, slots: Sequence[Array | None], frame: ExecutionFrame) -> None:
        """Drop the rows with values that do not fit the dtypes in which results are delivered or cross."""
        for (value, register), slot, crossing in zip(self._results, slots, self._crossing_dtypes, strict=True):
            dtype = crossing or (value.spec.dtype if slot is None else slot.dtype)
            if dtype != value.spec.dtype:
                check_narrowing(frame, value, full_column(value, register, frame), dtype)

    def _replace_failed_rows(
        self, frame: ExecutionFrame, done: ExecutionFrame, failed: list[BadRow], slots: Sequence[Array | None]
    ) -> ChunkResult:
        columns, failed = replace_failed_rows(
            frame,
            done,
            failed,
            lambda retry: run_stages(self._stages, retry, partial(self._check_narrowing, slots)),
            [(*output, slot) for output, slot in zip(self._results, slots, strict=True)],
            row_independent=self.row_independent,
        )
        if self.plan.valid is not None:  # rows past the end of the epoch are masked, so their failures do not count
            real = dict(zip(frame.rows_in_batch.tolist(), frame.coordinates.real.tolist(), strict=True))
            failed = [bad for bad in failed if real[bad.number]]
        return ChunkResult(columns, failed)

    def _register_slots(self, slots: Sequence[Array | None]) -> list[Array | None]:
        """Return the slot of each register: the slot of its result, in the shape of the register's value."""
        result: list[Array | None] = [None] * self._num_registers
        for register, number, shape, dtype in self._targets:
            slot = slots[number]
            if slot is not None and slot.dtype == dtype:
                result[register] = slot if slot.shape[1:] == shape else slot.reshape(len(slot), *shape)
        return result


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
            # A view of a value in the same slot, such as a reshape, has nothing to compute.
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
        case StageKind.CACHE:
            raise InternalError(f"{node} is in a stage of another cache")


def _narrows(value: Value, plan: Plan) -> bool:
    """True if JAX narrows the integers of a dense value."""
    dtype = value.spec.dtype
    return value.spec.dense and not plan.target.wide and dtype.kind in "iu" and dtype.itemsize == 8


def _heads_of_chains(plan: Plan) -> list[FusibleOperator]:
    """Return the first operator of each chain, which may decode files."""
    heads = [stage.nodes[0].operator for stage in flat_stages(plan.stages) if stage.way is StageKind.CHAIN]
    return [operator for operator in heads if isinstance(operator, FusibleOperator)]


def _sufficient_threads(plan: Plan, context: RunContext) -> int | None:
    """Return the number of threads that keep all CPUs busy, if it is less than the executor has.

    None if functions or sources of the user run, whose threads may wait for each other.
    """
    if not context.executor.in_process or context.executor.workers == 1:
        return None
    if not all(node.operator.is_self_contained for stage in plan.stages for node in stage.all_nodes):
        return None
    sources = [reader.source for sharded in context.readers.values() for reader in sharded.readers]
    if not all(type(source).__module__.startswith("penstock.") for source in sources):
        return None
    usable = cpu_limits().usable
    return usable if usable < context.executor.workers else None


def _buffer_targets(plan: Plan) -> dict[Value, int]:
    """Return the values that are computed in the batch buffer of a result, with the result's number.

    These are dense results, and inputs of views that end in a result, if nothing else reads them.
    """
    results = set(plan.results)
    targets: dict[Value, int] = {}
    for number, result in enumerate(plan.results):
        value = result
        while value.spec.dense and value.node.guard is None:
            targets[value] = number
            viewed = value.node.inputs[0] if isinstance(value.node.operator, ViewKernel) else None
            # The slot belongs to the consumer, so nothing else may read the value that is computed there.
            if viewed is None or viewed in results or len(plan.graph.consumers[viewed]) > 1:
                break
            # A view may reinterpret bytes. Slots have the dtype of the result, and JAX may narrow it.
            if viewed.spec.dtype != value.spec.dtype:
                break
            value = viewed
    return targets


def _whole_columns(plan: Plan) -> set[Value]:
    """Return the values whose columns outlive their stage. Sample stages keep only one row of all others."""
    stages = list(flat_stages(plan.stages))
    stage_of = {node: number for number, stage in enumerate(stages) for node in stage.nodes}
    crossing = {value for node, number in stage_of.items() for value in node.sources if stage_of[value.node] != number}
    return crossing.union(plan.results, *[stage.stored for stage in stages])


def _gathered_values(plan: Plan) -> set[Value]:
    """Return the values that need no copy from a source in memory: only fused stages read them, by index."""
    # Branches select rows of columns, and caches store them, so they need columns, not indices.
    if any(stage.guard is not None or stage.way is StageKind.CACHE for stage in plan.stages):
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
    """Return the column of a result, copied to its slot if it was computed elsewhere."""
    column: Any = full_column(value, register, frame)
    if slot is None or frame.slots[register] is not None:
        return column if slot is None else slot
    np.copyto(slot, column, casting="same_kind")  # the slot has the narrower dtype that JAX delivers
    return slot
