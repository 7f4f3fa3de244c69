"""Measured pipeline: the definition of an iterator, run for some seconds with any number of threads."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import jax

from penstock.core import optional_import
from penstock.core.stage_timers import StageTimers
from penstock.engine.executable import Executable
from penstock.engine.graph_program import GivenColumn
from penstock.engine.host.sharded_reader import ShardedReader
from penstock.engine.run import Run
from penstock.errors import UsageError
from penstock.graph import Graph, Node, StreamInput, Value
from penstock.iterate import DataIterator
from penstock.iterate.iterator_statistics import IteratorStatistics
from penstock.pipeline.pipeline import Pipeline
from penstock.plan.engine_operators import engine_node
from penstock.plan.placement import TargetMachine
from penstock.plan.plan import make_plan
from penstock.sources.order.schedule import BatchStep, Schedule
from penstock.sources.stream import EndOfStreamError, Stream

# Batches before a measurement: the first one compiles, and with the second one the prefetched ones exist.
_WARM_UP_BATCHES = 2

# How often the sampler tries to take the GIL. gilknocker's own default, 1 ms, misses the short turns of small images.
_GIL_POLL_MICROSECONDS = 500


@dataclass(frozen=True)
class Measurement:
    """A run of a pipeline.

    Args:
        num_threads: Number of threads.
        prefetch_queue_depth: Number of batches prepared ahead.
        samples_per_second: Samples delivered per second of wall time.
        busy_cpus: CPU time of the process per second of wall time.
        gil_percent: Contention for the GIL: share of the time in which a thread that asks for it has to wait.
        peak_rss_megabytes: Largest resident memory of the process.
        stats: Statistics of the stages.
    """

    num_threads: int
    prefetch_queue_depth: int
    samples_per_second: float
    busy_cpus: float
    gil_percent: float
    peak_rss_megabytes: float
    stats: IteratorStatistics


@dataclass(frozen=True)
class MeasuredPipeline:
    """The definition of an iterator, planned for its devices.

    Runs of it do not move the iterator.

    Args:
        pipeline: Options of the execution.
        executable: The plan.
        readers: Readers of the plan.
        schedule: The batches.
        seed: Seed of the random numbers.
    """

    pipeline: Pipeline
    executable: Executable
    readers: dict[Node, ShardedReader]
    schedule: Schedule
    seed: int

    @classmethod
    def of(cls, iterator: DataIterator) -> Self:
        """Return the pipeline of an iterator.

        Raises:
            UsageError: Other processes compute a part of its batches.
        """
        # The iterator has no public access to its plan, because nothing else may run it.
        parts = vars(iterator)
        executable: Executable = parts["_executable"]
        if executable.layout.processes > 1:
            raise UsageError("penstock bench runs one process", fix="a sharding of local devices")
        readers = parts["_readings"](parts["_order_seed"])
        return cls(parts["_pipeline"], executable, readers, parts["_schedule"], parts["_seed"])

    @property
    def graph(self) -> Graph:
        """The definition."""
        return self.executable.plan.graph

    @property
    def rewinds(self) -> bool:
        """True if a run can begin at the first batch again: no source can only continue."""
        return not self.executable.obstacles

    def measure(self, num_threads: int | None, prefetch_queue_depth: int, seconds: float) -> Measurement:
        """Run the pipeline.

        Args:
            num_threads: Number of threads; None leaves the choice to the pipeline.
            prefetch_queue_depth: Number of batches prepared ahead.
            seconds: Duration, after two batches to warm up.

        Raises:
            MissingExtraError: The extra `bench` is not installed.
            PenstockError: A batch cannot be computed.
        """
        sampler: Any = optional_import.import_extra("gilknocker", "bench", "penstock bench")
        process = optional_import.import_extra("psutil", "bench", "penstock bench").Process()
        timers = StageTimers()
        run = self._start(self.executable, num_threads, prefetch_queue_depth, timers)
        batches = _Batches(self.schedule, lambda step: jax.block_until_ready(run.next_batch(step)[0]))
        try:
            batches.take(_WARM_UP_BATCHES)
            before = IteratorStatistics(timers.snapshot())
            gil = sampler.KnockKnock(_GIL_POLL_MICROSECONDS)
            gil.start()
            start, cpu, samples, peak = time.perf_counter(), time.process_time(), 0, 0
            while samples == 0 or time.perf_counter() - start < seconds:
                samples += batches.take(1)
                peak = max(peak, process.memory_info().rss)
            elapsed, cpu = time.perf_counter() - start, time.process_time() - cpu
            contention = gil.contention_metric
            gil.stop()
        finally:
            run.close()
        return Measurement(
            num_threads or self.pipeline.num_threads,
            prefetch_queue_depth,
            samples / elapsed,
            cpu / elapsed,
            100 * contention,
            peak / 1e6,
            IteratorStatistics(timers.snapshot()).since(before),
        )

    def read_rate(self, seconds: float) -> float | None:
        """Return the samples per second of the readers alone, with the pipeline's threads; None without a reader."""
        values = [value for node in self.graph.readers for value in node.values]
        return self._host_rate(self._host_part(values), seconds) if values else None

    def decode_rate(self, seconds: float) -> float | None:
        """Return the samples per second of the decoders alone, on the encoded samples of one batch in memory.

        None without a decoder that depends on data only.
        """
        decoders = [
            node
            for node in self.graph.nodes
            if node.kind.startswith("decoders.") and not node.node_arguments and node.guard is None
        ]
        if not decoders:
            return None
        encoded = self._host_part([node.inputs[0] for node in decoders])
        run = self._start(encoded, None, 0, StageTimers())
        try:
            columns = run.outputs(self.schedule.first())[0]
        finally:
            run.close()
        outputs: list[Value] = []
        streams: dict[int, tuple[Stream, ...]] = {}
        for number, (node, column) in enumerate(zip(decoders, columns, strict=True)):
            stream = GivenColumn(node.inputs[0].spec, column)
            # Nodes are ordered by their ids, and inputs come before the decoders.
            memory = replace(engine_node(StreamInput(stream), "memory"), id=number)
            streams[number] = (stream,)
            outputs += replace(node, inputs=memory.values, id=len(decoders) + number).values
        part = self._host_part(outputs)
        program = replace(part.program, readers={}, streams=streams)
        return self._host_rate(replace(part, program=program), seconds, readers={})

    def _host_rate(
        self, executable: Executable, seconds: float, readers: Mapping[Node, ShardedReader] | None = None
    ) -> float:
        run = self._start(executable, None, self.pipeline.prefetch_queue_depth, StageTimers(), readers)
        batches = _Batches(self.schedule, run.outputs)
        try:
            batches.take(_WARM_UP_BATCHES)
            start, samples = time.perf_counter(), 0
            while samples == 0 or time.perf_counter() - start < seconds:
                samples += batches.take(1)
            return samples / (time.perf_counter() - start)
        finally:
            run.close()

    def _host_part(self, values: Sequence[Value]) -> Executable:
        """Return a plan that computes some values alone, on the host."""
        graph = Graph(tuple(values), self.graph.name)
        plan = make_plan(graph, TargetMachine(placement="host"), dense_outputs=False)
        return replace(self.executable, plan=plan)

    def _start(
        self,
        executable: Executable,
        num_threads: int | None,
        depth: int,
        timers: StageTimers,
        readers: Mapping[Node, ShardedReader] | None = None,
    ) -> Run:
        pool = self.pipeline.pool(num_threads)
        used = self.readers if readers is None else readers
        return executable.start(used, self.seed, pool, depth, self.schedule, timers, narrow=True)


class _Batches:
    """Batches one after another, from epoch to epoch without end.

    Args:
        schedule: The steps.
        compute: Computes the batch of a step.
    """

    def __init__(self, schedule: Schedule, compute: Callable[[BatchStep], Any]) -> None:
        self._schedule, self._compute = schedule, compute
        self._step = schedule.first()

    def take(self, count: int) -> int:
        """Compute batches. Returns the number of their samples.

        Raises:
            UsageError: A source ends before its first batch.
        """
        samples = 0
        for _ in range(count):
            try:
                self._compute(self._step)
            except EndOfStreamError:
                if not self._step.row:
                    raise UsageError(
                        "the source has no more batches to measure", fix="a source that restarts"
                    ) from None
                self._step = self._schedule.next_epoch(self._step)
                self._compute(self._step)
            samples += self._step.rows
            self._step = self._schedule.next_step(self._step)
        return samples
