"""Measured pipeline: the definition of an iterator, run for some seconds with any number of threads."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import jax

from penstock.core import optional_import
from penstock.core.stage_timers import StageTimers
from penstock.diagnose.process_usage import ProcessUsage, resident_bytes
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
        unloaded_samples_per_second: Estimate without the load of other processes; see `unloaded_speedup`.
        busy_cpus: CPU time of the process per second of wall time.
        starved_threads: Threads of the process that were ready to run but had no CPU, on average.
        other_cpus: CPUs that other processes kept busy, on average.
        gil_percent: Contention for the GIL: share of the time in which a thread that asks for it has to wait.
        peak_rss_megabytes: Largest resident memory of the process.
        stats: Statistics of the stages.
    """

    num_threads: int
    prefetch_queue_depth: int
    samples_per_second: float
    unloaded_samples_per_second: float
    busy_cpus: float
    starved_threads: float
    other_cpus: float
    gil_percent: float
    peak_rss_megabytes: float
    stats: IteratorStatistics

    @property
    def mostly_waits(self) -> bool:
        """True if the stages wait for data for most of their time, and not for a CPU."""
        stages = self.stats.working_stages.values()
        seconds = sum(stage.seconds for stage in stages)
        worked = sum(stage.cpu_seconds for stage in stages) + self.starved_threads * self.stats.elapsed_seconds
        return worked < seconds / 2


def unloaded_speedup(num_threads: int, busy_cpus: float, starved_threads: float, cpus: float) -> float:
    """Return how much faster a run would be if its threads never waited for a CPU that other processes use.

    >>> unloaded_speedup(num_threads=1, busy_cpus=0.5, starved_threads=0.5, cpus=2)
    2.0
    >>> unloaded_speedup(num_threads=4, busy_cpus=2.0, starved_threads=2.0, cpus=2)  # they wait for each other
    1.0
    """
    waiting = min(starved_threads / num_threads, 0.9)
    return max(1.0, min(1 / (1 - waiting), cpus / max(busy_cpus, 1e-3)))


def _deliver(run: Run, step: BatchStep) -> None:
    jax.block_until_ready(run.next_batch(step)[0])
    run.taken(step)


def _compute_on_host(run: Run, step: BatchStep) -> None:
    run.outputs(step)
    run.taken(step)


@dataclass(frozen=True)
class MeasuredPipeline:
    """The definition of an iterator, planned for its devices, or a part of it.

    Runs of it do not move the iterator.

    Args:
        pipeline: Options of the execution.
        executable: The plan.
        readers: Readers of the plan.
        schedule: The batches.
        seed: Seed of the random numbers.
        compute: Computes a batch in a run.
    """

    pipeline: Pipeline
    executable: Executable
    readers: Mapping[Node, ShardedReader]
    schedule: Schedule
    seed: int
    compute: Callable[[Run, BatchStep], None] = _deliver

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
    def adjustable(self) -> bool:
        """True if it can be measured with several settings: it uses threads, and every source can begin again."""
        return self.pipeline.exec_async and not self.executable.obstacles

    def measure(self, num_threads: int | None, prefetch_queue_depth: int, seconds: float, cpus: float) -> Measurement:
        """Run the pipeline.

        Args:
            num_threads: Number of threads; None leaves the choice to the pipeline.
            prefetch_queue_depth: Number of batches prepared ahead.
            seconds: Duration, after two batches to warm up.
            cpus: CPUs that the threads could use on an idle machine.

        Raises:
            MissingExtraError: The extra `bench` is not installed.
            PenstockError: A batch cannot be computed.
        """
        sampler: Any = optional_import.import_extra("gilknocker", "bench", "penstock bench")
        timers = StageTimers()
        run = self._start(num_threads, prefetch_queue_depth, timers)
        batches = _Batches(self.schedule, partial(self.compute, run))
        try:
            batches.take(_WARM_UP_BATCHES)
            before = IteratorStatistics(timers.snapshot())
            gil = sampler.KnockKnock(_GIL_POLL_MICROSECONDS)
            gil.start()
            start, samples, peak, count = ProcessUsage.now(), 0, 0, 0
            # More batches than were begun before, so that the stages of some are measured from their beginning.
            while count < prefetch_queue_depth + 2 or time.perf_counter() - start.wall < seconds:
                samples += batches.take(1)
                count += 1
                peak = max(peak, resident_bytes())
            usage = ProcessUsage.now().since(start)
            contention = gil.contention_metric
            gil.stop()
        finally:
            run.close()
        workers = num_threads or self.pipeline.num_threads
        busy, starved = usage.cpu / usage.wall, usage.starved / usage.wall
        rate = samples / usage.wall
        return Measurement(
            workers,
            prefetch_queue_depth,
            rate,
            rate * unloaded_speedup(workers, busy, starved, cpus),
            busy,
            starved,
            usage.other_cpus,
            100 * contention,
            peak / 1e6,
            IteratorStatistics(timers.snapshot()).since(before),
        )

    @property
    def reading(self) -> Self | None:
        """The readers alone; None if there are none."""
        values = [value for node in self.graph.readers for value in node.values]
        return self._host_part(values) if values else None

    def decoding(self) -> Self | None:
        """Return the decoders alone, on the encoded samples of the first batch in memory.

        None if there is no decoder that depends on data only.
        """
        decoders = [
            node
            for node in self.graph.nodes
            if node.kind.startswith("decoders.") and not node.node_arguments and node.guard is None
        ]
        if not decoders:
            return None
        encoded = self._host_part([node.inputs[0] for node in decoders])
        run = encoded._start(None, 0, StageTimers())  # noqa: SLF001  # same class
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
        program = replace(part.executable.program, readers={}, streams=streams)
        return replace(part, executable=replace(part.executable, program=program), readers={})

    def _host_part(self, values: Sequence[Value]) -> Self:
        """Return a pipeline that computes some values alone, on the host."""
        graph = Graph(tuple(values), self.graph.name)
        plan = make_plan(graph, TargetMachine(placement="host"), dense_outputs=False)
        return replace(self, executable=replace(self.executable, plan=plan), compute=_compute_on_host)

    def _start(self, num_threads: int | None, depth: int, timers: StageTimers) -> Run:
        pool = self.pipeline.pool(num_threads)
        return self.executable.start(self.readers, self.seed, pool, depth, self.schedule, timers, narrow=True)


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
