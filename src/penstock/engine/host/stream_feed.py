"""Stream feeder: asks the streams of a plan for the data of each batch."""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from penstock.core import Column, Indices
from penstock.core.dataclass import dataclass
from penstock.engine.host.column_rows import select_rows
from penstock.errors import PenstockError, SourceError
from penstock.graph import Node
from penstock.sources.order.schedule import BatchStep, Schedule
from penstock.sources.stream import BatchRequest, Columns, EndOfStreamError, NothingFedError, Stream

_log = logging.getLogger("penstock")


@dataclass(frozen=True)
class FedBatch:
    """Data of the streams for a batch.

    Args:
        rows: Number of rows of the batch.
        columns: Columns per feed, for all rows of this process.
        place: Returns the indices of rows in the columns of a feed, given their numbers in the batch.
    """

    rows: int
    columns: Mapping[Node, Columns]
    place: Callable[[Node, Indices], Indices]

    def of(self, node: Node, numbers: Indices) -> Columns:
        """Return the columns of a feed for some rows."""
        places, columns = self.place(node, numbers), self.columns[node]
        if len(places) == len(columns[0]):  # indices ascend, so these are all rows
            return columns
        first, last = int(places[0]), int(places[-1])
        rows = slice(first, last + 1) if last - first + 1 == len(places) else places
        return tuple([select_rows(column, rows) for column in columns])


class StreamFeeder:
    """Asks the streams of a plan. Only the consumer's thread may use it, because sources may not be thread-safe.

    Args:
        streams: Streams per feed: one per block of this process, or one for the whole batch.
        local: Ids of the feeds with a stream per block.
        shards: Numbers of these blocks.
        blocks: Number of blocks in the whole batch.
        schedule: Steps of the run.
    """

    def __init__(
        self,
        streams: Mapping[Node, Sequence[Stream]],
        local: Collection[int],
        shards: Sequence[int],
        blocks: int,
        schedule: Schedule,
    ) -> None:
        self._local = local
        self._streams = streams
        self._all = [(stream, node) for node, streams in streams.items() for stream in streams]
        self._prefetching = [(stream, node) for stream, node in self._all if stream.prefetch_depth]
        self._shards, self._blocks = np.asarray(shards), blocks
        self._schedule = schedule
        # The batch that DROP leaves out counts: sources pass it, too.
        self._batches_per_epoch = (schedule.batches_per_epoch or 0) + schedule.drops_last_batch
        self._rows_per_epoch = schedule.rows_per_epoch
        # Steps that streams were asked for and the consumer has not taken. True if the streams gave the batch.
        self._open: dict[BatchStep, bool] = {}
        self._taken: BatchStep | None = None  # the last step whose batch the streams gave
        self._delivered: BatchStep | None = None  # the last step whose batch the consumer has taken
        self._warned_short = False

    def next_batch(self, step: BatchStep, *, at_once: bool) -> FedBatch:
        """Ask the streams for the data of a batch.

        Args:
            step: The batch.
            at_once: True if the batch is computed into other memory before the next call, so that a stream may lend its
                memory instead of copying.

        Raises:
            EndOfStreamError: A stream has ended the epoch.
            PenstockError: A stream fails, or returns a wrong number of samples.
        """
        self._open[step] = False
        if self._prefetching:
            self._announce(step)
        self._pass_over(step)
        columns: dict[Node, Columns] = {}
        counts: dict[int, Node] = {}
        # Streams reuse their memory for the next batch. Borrowing is safe only if nothing else is asked in between.
        lent = at_once and len(self._all) == 1  # several sources may return the same memory
        for node, streams in self._streams.items():
            request = self._request(step, node)
            try:
                parts = self._ask(node, streams, request, step, lent=lent)
            except EndOfStreamError:
                # The shortest source ends the epoch. Sources that cannot seek have already returned this batch; they
                # return it again as the first batch of the next epoch.
                for stream, other in self._all:
                    stream.unread(self._request(step, other))
                raise
            sizes = {len(part[0]) for part in parts}
            if len(sizes) > 1:
                raise SourceError(
                    f"the sources of the shards of {node} return different numbers of samples",
                    given=", ".join(map(str, sorted(sizes))),
                    where=node.where,
                )
            columns[node] = parts[0] if len(parts) == 1 else _concatenate(parts)
            # A local stream returns the rows of its block only; scale its count to the whole batch.
            counts[sizes.pop() * (step.rows // request.rows)] = node
        rows = min(counts)
        if len(counts) > 1:
            listed = ", ".join(f"{count} from {node}" for count, node in counts.items())
            message = "the sources of a batch return different numbers of samples"
            raise SourceError(message, given=listed, where=counts[rows].where)
        self._taken, self._open[step] = step, True
        return FedBatch(rows, columns, partial(self._place, rows))

    def expects(self, step: BatchStep) -> bool:
        """Return False if the streams were asked for another step that the consumer has not taken."""
        return next(iter(self._open), step) == step

    def delivered(self, step: BatchStep) -> None:
        """Note that the consumer has taken a batch, or the end of an epoch in its place; the streams may release it."""
        if self._open.pop(step, False):
            self._delivered = step
        for stream, request in self._requests(step):
            stream.release(request)

    def forgive(self, step: BatchStep) -> None:
        """Clear the failures of a batch, which were raised, so that it can be tried again."""
        for stream, request in self._requests(step):
            stream.clear_failure(request)

    def rewind(self) -> None:
        """Return to the last delivered batch, because the next step is not the expected one."""
        self._taken = self._delivered
        self._open.clear()
        for stream, _ in self._all:
            stream.rewind()

    def close(self) -> None:
        """Return to the last delivered batch, and cancel what streams prepare ahead."""
        self.rewind()
        for stream, _ in self._all:
            stream.close()

    def _left_out(self, step: BatchStep) -> BatchStep:
        """Return the step of the batch that `LastBatchPolicy.DROP` left out before this step; otherwise the step."""
        if not self._schedule.drops_last_batch or step.row or not step.epoch:
            return step
        return self._schedule.end(replace(step, epoch=step.epoch - 1))

    def _requests(self, step: BatchStep) -> list[tuple[Stream, BatchRequest]]:
        """Return the requests for a batch, after those for the batch that was left out before it."""
        steps = dict.fromkeys((self._left_out(step), step))
        return [(stream, self._request(passed, node)) for passed in steps for stream, node in self._all]

    def _pass_over(self, step: BatchStep) -> None:
        """Skip the batch that was left out before this step, in sources that cannot seek."""
        left_out, taken = self._left_out(step), self._taken
        position = None if taken is None else (taken.epoch, taken.row + self._schedule.stride)
        if left_out is step or position != (left_out.epoch, left_out.row):
            return
        for stream, node in self._all:
            # Seekable sources compute any batch from its index, so they need not be asked for one that is left out.
            if stream.seek_obstacle is not None:
                with suppress(EndOfStreamError, NothingFedError):
                    stream.batch(self._request(left_out, node))

    def _announce(self, step: BatchStep) -> None:
        """Announce the next batches to the streams that prepare them ahead, in worker processes."""
        for distance in range(1 + max(stream.prefetch_depth for stream, _ in self._prefetching)):
            for stream, node in self._prefetching:
                if distance <= stream.prefetch_depth:
                    stream.prefetch(self._request(step, node))
            step = self._schedule.next_step(step)

    def _ask(
        self, node: Node, streams: Sequence[Stream], request: BatchRequest, step: BatchStep, *, lent: bool
    ) -> list[Columns]:
        try:
            return [stream.batch(request) if lent else stream.batch_copy(request) for stream in streams]
        except EndOfStreamError:
            batches = self._schedule.batches_per_epoch
            if batches is None:
                raise
            # A source of the whole batch may end an epoch early: `size` was only an upper limit.
            if self._schedule.length_unknown:
                if not self._warned_short:
                    text = "the source of %s ended epoch %d after %d batches, where size says %d"
                    _log.warning(text, node, request.epoch, request.iteration, batches)
                self._warned_short = True
                raise
            raise SourceError(
                f"the source of {node} ends in the middle of an epoch",
                given=f"{request.iteration} batches in epoch {step.epoch}",
                expected=f"{batches}, as the iterator's reader or size says",
                fix='cycle="quiet" for an iterable; or leave reader_name out, so that it ends the epoch',
                where=node.where,
            ) from None
        except PenstockError as error:
            error.where = error.where or node.where
            raise

    def _request(self, step: BatchStep, node: Node) -> BatchRequest:
        parts = self._blocks if node.id in self._local else 1
        schedule, max_rows = self._schedule, self._schedule.batch_size // parts
        # Some sources count batches or rows over all epochs.
        return BatchRequest(
            step.epoch,
            step.row * max_rows // schedule.stride,
            max_rows,
            step.rows // parts,
            step.epoch * self._batches_per_epoch,
            step.epoch * (self._rows_per_epoch // parts),
        )

    def _place(self, rows: int, node: Node, numbers: Indices) -> Indices:
        if node.id not in self._local:
            return numbers
        size = rows // self._blocks
        return np.searchsorted(self._shards, numbers // size) * size + numbers % size


def _concatenate(parts: Sequence[Columns]) -> Columns:
    """Concatenate the columns of blocks."""
    joined: list[Column] = []
    for columns in zip(*parts, strict=True):
        # Ragged columns are lists, and so is the result unless all columns are arrays of one shape.
        shapes: set[Any] = {getattr(column, "shape", None) for column in columns}
        same_shape = len(shapes) == 1 and None not in shapes
        joined.append(np.concatenate(columns) if same_shape else [sample for column in columns for sample in column])
    return tuple(joined)
