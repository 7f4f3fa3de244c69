"""Chunks, and the interface of what computes them: these rows of this step, into these buffers.

A chunk is a pure function of the plan, the seeds, the step and the rows. So an executor may compute it anywhere, and
again if a worker is lost, with the same result. Plan, order, state, failures and statistics do not depend on the
executor.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, NamedTuple, Protocol

from penstock.core import Array, Column, Indices
from penstock.core.dataclass import dataclass
from penstock.engine.failures.bad_row import BadRow
from penstock.sources.order.schedule import BatchStep
from penstock.sources.storage.byte_range import ReadCost

if TYPE_CHECKING:
    from penstock.engine.host.host_program import HostProgram
    from penstock.engine.host.stream_feed import FedBatch
    from penstock.engine.host.worker_threads import Executor


@dataclass(frozen=True)
class Chunk:
    """Rows of a batch that one call of `HostProgram.run_rows` computes.

    Args:
        step: The batch.
        rows: Numbers of the rows in the batch, int64, ascending.
        slots: Per result, the part of the batch buffer for these rows; None for a ragged result.
        fed: Data of the plan's streams for the batch.
    """

    step: BatchStep
    rows: Indices
    slots: Sequence[Array | None]
    fed: FedBatch | None = None


class ChunkResult(NamedTuple):
    """Results of a chunk.

    Args:
        columns: Per result its column: the slot if there is one, otherwise a list or an array. Zeros in skipped rows.
        failed: Rows that failed and are tolerated, ascending; a row appears once per bad sample.
    """

    columns: tuple[Column, ...]
    failed: list[BadRow]


class ChunkExecutor(Protocol):
    """Computes chunks, on threads or in worker processes.

    Attributes:
        workers: Number of chunks that are computed at the same time.
        in_process: True if chunks are computed in this process, so that its threads share what they read ahead, and the
            consumer's thread may compute cheap batches itself.
        read_executor: Executor for functions that wait for data; None disables prefetching in this process.
        prefetched: Kinds of data to prefetch on `read_executor`.
    """

    workers: int
    in_process: bool
    read_executor: Executor | None
    prefetched: Collection[ReadCost]

    def prepare(self, program: HostProgram) -> None:
        """Check that a program can be computed, before its first chunk.

        Raises:
            PenstockError: The workers cannot compute it.
        """
        ...

    def compute(self, program: HostProgram, chunk: Chunk) -> Future[ChunkResult]:
        """Compute a chunk of a program into its slots, which are parts of arrays that `empty` returned."""
        ...

    def empty(self, size: int) -> Array:
        """Return `size` uninitialized bytes for a batch buffer, aligned for JAX."""
        ...

    def summary(self) -> str:
        """Describe the workers for `explain()` and `stats()`; "" for threads."""
        ...

    def close(self, patience: float | None = None) -> None:
        """Cancel chunks that have not started, and wait for the others. The executor can be used again.

        Args:
            patience: Seconds to wait; None for `penstock.engine.host.worker_threads.CLOSE_TIMEOUT_SECONDS`.
        """
        ...

    def shutdown_nowait(self) -> None:
        """Cancel chunks that have not started, and do not wait for the others."""
        ...
