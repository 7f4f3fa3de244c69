"""Context of a run: everything that its loader, program, stages and frames share."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from penstock.core import Indices
from penstock.core.dataclass import dataclass
from penstock.core.stage_timers import StageTimers
from penstock.engine.host.cached_samples import CachedSamples
from penstock.engine.host.chunk_executor import ChunkExecutor
from penstock.engine.host.sharded_reader import ShardedReader
from penstock.engine.host.stream_feed import StreamFeeder
from penstock.engine.host.worker_threads import SerialExecutor
from penstock.graph import Node
from penstock.graph.ir.reader_lineage import upstream_readers
from penstock.sources.order.schedule import BatchStep, Schedule
from penstock.types import OnError


class RandomDraws(Protocol):
    """Random numbers that do not follow from a seed and the position of the sample: those of a captured loop."""

    def bits(self, stream: int, step: BatchStep, rows: Indices, count: int) -> NDArray[np.uint32]:
        """Return `count` words of 32 random bits for some rows.

        Args:
            stream: Stream of the node that draws.
            step: The batch.
            rows: Numbers of the rows in the batch.
            count: Number of words per row.
        """
        ...


@dataclass(frozen=True)
class RunContext:
    """Everything that the loader, program, stages and frames of a run share.

    Args:
        readers: The readers of the plan.
        leader: Reader whose positions select the rows' random numbers. None if the plan reads
            nothing.
        seed: Seed of the pipeline, from which all its random numbers derive.
        schedule: Steps of the run.
        timers: Timers of the stages.
        on_error: Policy for bad samples of readers that do not have their own.
        feeder: Feeder of the plan's streams; None if it has none.
        executor: Runs chunks. The loader closes it.
        prefetch_depth: Number of batches to begin ahead of the consumer.
        local_rows: Returns the numbers of the rows that this process computes, given the number of rows of a batch.
        draws: Random numbers of the nodes; None derives them from `seed`.
        caches: By reader, the cache of values that are computed from its samples alone.
        host_processes: Number of processes on this host that compute parts of each batch.
    """

    readers: Mapping[Node, ShardedReader]
    leader: ShardedReader | None
    seed: int
    schedule: Schedule
    timers: StageTimers
    on_error: OnError = "raise"
    feeder: StreamFeeder | None = None
    executor: ChunkExecutor = field(default_factory=SerialExecutor)
    prefetch_depth: int = 0
    local_rows: Callable[[int], Indices] = np.arange
    draws: RandomDraws | None = None
    caches: Mapping[Node, CachedSamples] = field(default_factory=dict[Node, CachedSamples])
    host_processes: int = 1

    def on_error_of(self, node: Node) -> OnError:
        """Return the policy for rows on which a node fails: the strictest of the readers that it computes from."""
        readers = [self.readers[reader].readers[0] for reader in upstream_readers(node) if reader in self.readers]
        # A node that depends on no reader, such as one behind a stream, follows the policy of the iterator.
        policies = [reader.on_error or self.on_error for reader in readers] or [self.on_error]
        return "raise" if "raise" in policies else "skip" if "skip" in policies else "replace"


def reader_label(reader: Node, readers: Collection[Node]) -> str:
    """Return the label of a reader, numbered if several have the same name."""
    same = [other for other in readers if str(other) == str(reader)]
    return str(reader) if len(same) == 1 else f"{reader} {same.index(reader) + 1}"
