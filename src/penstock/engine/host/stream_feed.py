"""How the streams of a plan are asked for the batches of a run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from penstock.core.columns import Column, Indices
from penstock.errors import PenstockError, SourceError
from penstock.graph.ir.node import Node
from penstock.sources.order.schedule import BatchStep, Schedule
from penstock.sources.stream import BatchRequest, Columns, EndOfStreamError, NothingFedError, Stream

_log = logging.getLogger("penstock")


@dataclass(frozen=True)
class FedBatch:
    """What the streams gave for a batch.

    Args:
        rows: how many rows it has.
        columns: per feed its values, for all rows of this process.
        place: where rows stand in the columns, given their numbers in the batch.
    """

    rows: int
    columns: Mapping[Node, Columns]
    place: Callable[[Node, Indices], Indices]

    def of(self, node: Node, numbers: Indices) -> Columns:
        """The values of a feed for some rows."""
        places, columns = self.place(node, numbers), self.columns[node]
        if len(places) == len(columns[0]):  # they ascend, and are all
            return columns
        if not len(places):
            return tuple([column[:0] for column in columns])
        first, last = int(places[0]), int(places[-1])
        if last - first + 1 == len(places):
            return tuple([column[first : last + 1] for column in columns])
        return tuple([c[places] if isinstance(c, np.ndarray) else [c[p] for p in places.tolist()] for c in columns])


class StreamFeeder:
    """The streams of a plan. Only the thread that asks for batches may call it.

    Args:
        streams: per feed the stream of each block of this process, or one for the whole batch.
        local: the serial numbers of those feeds that have one for each block.
        shards: the numbers of these blocks.
        blocks: how many blocks the whole batch has.
        schedule: the steps of the run.
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
        self._each = [(stream, node) for node, streams in streams.items() for stream in streams]
        self._working = [(stream, node) for stream, node in self._each if stream.prefetch_depth]
        self._shards, self._blocks = np.asarray(shards), blocks
        self._schedule = schedule
        self._taken: BatchStep | None = None  # which step was taken last
        self._delivered: BatchStep | None = None
        self._short = False  # whether it was said that a source ends before its epoch

    def next_batch(self, step: BatchStep, *, at_once: bool) -> FedBatch:
        """The streams' part of a batch.

        Args:
            step: which batch.
            at_once: whether it is computed, into other memory, before a stream is asked for anything else.

        Raises:
            EndOfStreamError: one of them has no more batches in this epoch.
            PenstockError: one of them fails, or gives another number of samples than it may.
        """
        if self._working:
            self._announce(step)
        self._pass_over(step)
        columns: dict[Node, Columns] = {}
        counts: dict[int, Node] = {}
        lent = at_once and len(self._each) == 1  # sources may share memory
        for node, streams in self._streams.items():
            turn = self._turn(step, node)
            try:
                parts = self._ask(node, streams, turn, step, lent=lent)
            except EndOfStreamError:
                for stream, other in self._each:
                    stream.unread(self._turn(step, other))
                raise
            sizes = {len(part[0]) for part in parts}
            if len(sizes) > 1:
                raise SourceError(
                    f"the sources of {node}, one for each shard, give different numbers of samples",
                    given=", ".join(map(str, sorted(sizes))),
                    where=node.where,
                )
            columns[node] = parts[0] if len(parts) == 1 else _joined(parts)
            counts[sizes.pop() * (step.rows // turn.rows)] = node
        rows = min(counts)
        if len(counts) > 1:
            listed = ", ".join(f"{count} from {node}" for count, node in counts.items())
            what = "the sources of a batch give different numbers of samples"
            raise SourceError(what, given=listed, where=counts[rows].where)
        self._taken = step
        return FedBatch(rows, columns, self._place(rows))

    def delivered(self, step: BatchStep) -> None:
        """The batch was taken: nobody will ask for it again."""
        self._delivered = step
        for each in self._with_left_out(step):
            for stream, node in self._each:
                stream.release(self._turn(each, node))

    def forgive(self, step: BatchStep) -> None:
        """What failed in a batch was raised, and may be tried again."""
        for each in self._with_left_out(step):
            for stream, node in self._each:
                stream.clear_failure(self._turn(each, node))

    def rewind(self) -> None:
        """Another step than the one that follows is asked for next."""
        self._taken = self._delivered
        for stream, _ in self._each:
            stream.rewind()

    def close(self) -> None:
        """Give up what was begun elsewhere."""
        for stream, _ in self._each:
            stream.close()

    def _left_out(self, step: BatchStep) -> BatchStep:
        """The end of the epoch before, where `LastBatchPolicy.DROP` leaves out a batch; else the step itself."""
        if not self._schedule.drops_last_batch or step.row or not step.epoch:
            return step
        return self._schedule.end(replace(step, epoch=step.epoch - 1))

    def _with_left_out(self, step: BatchStep) -> tuple[BatchStep, ...]:
        left_out = self._left_out(step)
        return (step,) if left_out is step else (left_out, step)

    def _pass_over(self, step: BatchStep) -> None:
        """Ask sources that only go on for the batch that was left out before this step, if they stand there."""
        left_out, taken = self._left_out(step), self._taken
        stands = None if taken is None else (taken.epoch, taken.row + self._schedule.stride)
        if left_out is step or stands != (left_out.epoch, left_out.row):
            return
        for stream, node in self._each:
            if stream.seek_obstacle is not None:
                with suppress(EndOfStreamError, NothingFedError):
                    stream.batch(self._turn(left_out, node))

    def _announce(self, step: BatchStep) -> None:
        """Tell the streams that can work ahead which batches will be asked for."""
        for distance in range(1 + max(stream.prefetch_depth for stream, _ in self._working)):
            for stream, node in self._working:
                if distance <= stream.prefetch_depth:
                    stream.prefetch(self._turn(step, node))
            step = self._schedule.next_step(step)

    def _ask(
        self, node: Node, streams: Sequence[Stream], turn: BatchRequest, step: BatchStep, *, lent: bool
    ) -> list[Columns]:
        try:
            return [stream.batch(turn) if lent else stream.batch_copy(turn) for stream in streams]
        except EndOfStreamError:
            batches = self._schedule.batches_per_epoch
            if batches is None:
                raise
            if self._schedule.length_unknown:
                if not self._short:
                    text = "the source of %s ended epoch %d after %d batches, where size says %d"
                    _log.warning(text, node, turn.epoch, turn.iteration, batches)
                self._short = True
                raise
            raise SourceError(
                f"the source of {node} ends in the middle of an epoch",
                given=f"{turn.iteration} batches in epoch {step.epoch}",
                expected=f"{batches}, as the iterator's reader or size says",
                fix='cycle="quiet" for an iterable; or leave reader_name out, so that it ends the epoch',
                where=node.where,
            ) from None
        except PenstockError as error:
            error.where = error.where or node.where
            raise

    def _turn(self, step: BatchStep, node: Node) -> BatchRequest:
        parts = self._blocks if node.id in self._local else 1
        schedule = self._schedule
        before = step.epoch * ((schedule.batches_per_epoch or 0) + schedule.drops_last_batch)
        return BatchRequest(
            step.epoch, step.row // schedule.stride, schedule.batch_size // parts, step.rows // parts, before
        )

    def _place(self, rows: int) -> Callable[[Node, Indices], Indices]:
        def place(node: Node, numbers: Indices) -> Indices:
            if node.id not in self._local:
                return numbers
            size = rows // self._blocks
            return np.searchsorted(self._shards, numbers // size) * size + numbers % size

        return place


def _joined(parts: Sequence[Columns]) -> Columns:
    """The blocks' columns, one after the other."""
    joined: list[Column] = []
    for columns in zip(*parts, strict=True):
        alike = len({getattr(column, "shape", None) for column in columns} | {None}) == 2
        dense: Any = [column for column in columns if isinstance(column, np.ndarray)]
        joined.append(
            np.concatenate(dense) if alike and len(dense) == len(columns) else [s for c in columns for s in c]
        )
    return tuple(joined)
