"""Epochs of an iterator: schedule, size, and requirements on sources."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from typing import cast

import numpy as np

from penstock.core.warn_once import warn_once
from penstock.engine.executable import Executable, lead_reader
from penstock.engine.host.sharded_reader import ShardedReader
from penstock.engine.transfer.batch_layout import BatchLayout
from penstock.errors import ArgumentTypeError, UsageError
from penstock.graph import Graph, Node, Reader
from penstock.sources.combine.provenance import SampleNames
from penstock.sources.order.schedule import BatchStep, Schedule
from penstock.types import LastBatchPolicy

Readings = Mapping[Node, ShardedReader]


def choose_epoch(
    size: int | None, reader: str | None, policy: LastBatchPolicy, *, padded: bool, graph: Graph
) -> tuple[int, Node | None]:
    """Return the size of an epoch and the reader that determines it, before any data is read.

    Args:
        size: The user's number of samples in an epoch; -1 for an endless iterator, if there is no `reader`; None to
            find the reader.
        reader: Name of the reader whose length is the epoch.
        policy: Policy for the last batch.
        padded: The user's `last_batch_padded`. Readers know themselves whether they repeat their last sample.
        graph: Graph of the first pipeline.

    Returns:
        The number of samples, -1 if a reader or nothing determines it; and the reader, None if there is none.

    Raises:
        UsageError: The arguments contradict each other, or do not determine an epoch.
        UnknownReaderError: No reader has this name.
    """
    if size is not None and (size == 0 or size < -1):
        raise UsageError("size is the number of samples of an epoch", given=size, expected="at least 1, or -1 for none")
    if reader is not None and size not in (None, -1):
        raise UsageError(
            "the reader tells the size",
            given=f"reader_name={reader!r} and size={size}",
            fix="leave size out",
        )
    leader = graph.reader(reader) if reader is not None else _only_reader(graph) if size is None else None
    if leader is not None and padded:
        raise UsageError(
            "the reader tells whether it pads",
            given="last_batch_padded=True",
            fix="leave it out",
        )
    size = -1 if size is None else size
    if leader is None and policy is LastBatchPolicy.PAD:  # the other policies have no effect if an epoch has no end
        raise UsageError(
            "PAD marks the rows that are samples of their own, and only a reader's length tells which these are",
            given=f"size={size} without reader_name",
            fix="reader_name=..., or LastBatchPolicy.FILL, DROP or PARTIAL",
        )
    return size, leader


def _only_reader(graph: Graph) -> Node | None:
    """Return the reader of a definition with one reader; None if external sources determine the end of an epoch."""
    readers = _independent_readers(graph)
    if len(readers) == 1:
        return readers[0]
    if readers:
        names = [node.name for node in readers if node.name]
        raise UsageError(
            f"{graph.name} has several readers, each of which could determine the length of an epoch",
            given=", ".join(map(str, readers)),
            expected="the name of one of them as reader_name, or size",
            fix=f"reader_name={names[0]!r}" if names else 'fn.readers.…(name="main") and reader_name="main"',
            where=readers[0].where,
        )
    if not graph.feeds:
        raise UsageError(
            f"nothing determines the length of an epoch: {graph.name} has neither a reader nor an external source",
            expected="size",
            fix="size=..., the number of samples; or size=-1, for an endless iterator",
            where=graph.outputs[0].node.where,
        )
    return None


def _independent_readers(graph: Graph) -> list[Node]:
    """Return the readers of a definition. A reader and those that read the names of its samples count once."""
    independent: list[Node] = []
    seen: list[tuple[Reader, int, int | None]] = []
    for node in graph.readers:
        reader = cast(Reader, node.operator)
        names = reader.source if isinstance(reader.source, SampleNames) else None
        if names is not None:
            reader = replace(reader, source=names.source)
            # Two readers of one source may have different orders.
            if any(reader.same_order(other) and [node.stream, node.seed] == draws for other, *draws in seen):
                continue
        independent.append(node)
        seen.append((reader, node.stream, node.seed))
    return independent


def check_feeds(planned: Executable, schedule: Schedule) -> None:
    """Check that the processes of a job receive the same batches from users' sources, as far as that is known.

    Raises:
        UsageError: The number of batches is unknown, or each process would receive other rows of the batch.
    """
    feeds = planned.plan.graph.feeds
    if planned.layout.processes <= 1 or not feeds:
        return
    if schedule.length is None:
        raise UsageError(
            f"each process calls the source of {feeds[0]}, and all must end after the same batch",
            fix="size=..., or reader_name=..., which says how long an epoch is",
            where=feeds[0].where,
        )
    for node, why in planned.obstacles:
        if node.id not in planned.program.local:
            raise UsageError(
                f"each process calls the source of {node}, which must give all of them the same batch",
                given=why,
                fix="a source that is told which sample or batch is meant; or a definition that takes shard_id and "
                "num_shards, and gives each shard a source of its own",
                where=node.where,
            )


def may_end_early(planned: Executable) -> bool:
    """Return True if a user's source may end an epoch, if no reader determines it.

    The processes of a job must all end after the same batch. All of them ask a source of the whole batch for every
    batch, so it ends in all of them. A source per shard may end in one process alone.
    """
    feeds = {node.id for node in planned.plan.graph.feeds}
    return bool(feeds) and (planned.layout.processes <= 1 or not feeds & planned.program.local)


def schedule_of(readings: Readings, rows: int, size: int, policy: LastBatchPolicy, layout: BatchLayout) -> Schedule:
    """Return the steps over readers.

    Args:
        readings: The sharded reader of each reader.
        rows: Number of rows of a batch.
        size: Number of samples in an epoch if no reader determines it; otherwise -1.
        policy: Policy for the last batch.
        layout: Layout of batches on the devices.

    Raises:
        UsageError: An epoch has no batch, or PARTIAL cannot deliver the last one.
    """
    lead = lead_reader(readings)
    stride = rows if lead is None else lead.stride(rows)
    length = lead.length if lead is not None and lead.is_leader else size if size > 0 else None
    if length == size:  # counted in rows, not in a reader's positions
        stride = rows
    strides = tuple(reading.stride(rows) for reading in readings.values())
    padded = tuple(reading.pads_last_batch for reading in readings.values())
    schedule = Schedule(rows, length, stride, strides, policy, padded)
    schedule.check()
    # Checked now: otherwise the error would come with the last batch of the first epoch.
    if policy is LastBatchPolicy.PARTIAL and schedule.remainder != stride:
        layout.check_rows(
            schedule.remainder, "the last batch, which PARTIAL delivers as it is (PAD fills it up and masks),"
        )
    _warn_of_repeated_samples(readings, schedule)
    _warn_of_unrelated_orders(readings)
    return schedule


def iterator_schedule(
    readings: Readings, rows: int, size: int, policy: LastBatchPolicy, layout: BatchLayout
) -> Schedule:
    """Return the steps of an iterator; see `schedule_of`.

    Raises:
        UsageError: Same as `schedule_of`; or PARTIAL would deliver a sample twice.
    """
    lead = lead_reader(readings)
    # Not in `schedule_of`: dynamic mode has no PAD, and there the shorter shards repeat a sample, as its page says.
    if policy is LastBatchPolicy.PARTIAL and lead is not None and lead.is_leader and not lead.equal_shards:
        order = lead.orders[0]
        raise UsageError(
            "PARTIAL needs shards of one length: a shorter one would repeat a sample in its last batch",
            given=f"{order.length} samples in {order.shards} contiguous shards",
            fix='LastBatchPolicy.PAD, which masks the repeated row; or shard_mode="global"',
        )
    return schedule_of(readings, rows, size, policy, layout)


def _warn_of_repeated_samples(readings: Readings, schedule: Schedule) -> None:
    """Warn if FILL repeats samples within one batch, as in DALI, because the data set is smaller than the batch."""
    length, stride = schedule.length, schedule.stride
    if schedule.policy is not LastBatchPolicy.FILL or length is None or length >= stride:
        return
    lead = next((node for node, reading in readings.items() if reading.is_leader), None)
    if lead is not None:
        # A reader of one shard has its part of the samples.
        rows, samples = schedule.batch_size, length * schedule.batch_size // stride
        warn_once(
            "repeated samples",
            f"a batch repeats samples: its size is {rows}, and {lead} has {samples}",
            fix=f"batch_size={samples}, or last_batch_policy=LastBatchPolicy.PAD, which masks the repeated rows",
            where=lead.where,
        )


def _warn_of_unrelated_orders(readings: Readings) -> None:
    """Warn if one of two readers does not keep to the order of the other, which shuffles or draws its samples."""
    # A seed of its own says that a reader is independent.
    for (first, one), (second, other) in combinations([item for item in readings.items() if item[0].seed is None], 2):
        if (why := _unrelated(one, other)) is not None:
            warn_once(
                "unrelated orders",
                f"{first} and {second} {why}, so each has an order of its own, and what a batch pairs is chance",
                fix="readers of one length, random_shuffle= and weights=, which have one order; or a seed= for each, "
                "if the pairs are meant to be random",
                where=second.where,
            )


def _unrelated(one: ShardedReader, other: ShardedReader) -> str | None:
    """Return why two readers of the same seed have different orders; None if they are alike or nothing is random."""
    first, second = one.readers[0], other.readers[0]
    if one.length != other.length:
        both = first.shuffle and second.shuffle
        return f"shuffle {one.length} and {other.length} samples" if both else None
    if first.shuffle != second.shuffle:
        return f"have {one.length} samples each, but only one of them shuffles"
    if first.source.selection != second.source.selection:
        return f"have {one.length} samples each, but differ in weights"
    return None


def epoch_size(readings: Readings, schedule: Schedule) -> int:
    """Return the number of samples that an epoch delivers; -1 for an endless one."""
    batches, rows = schedule.batches_per_epoch, schedule.batch_size
    if batches is None:
        return -1
    if schedule.policy in (LastBatchPolicy.FILL, LastBatchPolicy.DROP):
        return batches * rows
    lead = lead_reader(readings)
    last = (batches - 1) * schedule.stride
    if lead is None or not lead.is_leader:
        return schedule.length or 0
    # Shards may differ in length, so the rows of the last batch that hold a sample of the epoch are counted.
    real = lead.coordinates(BatchStep(0, last, (), rows), np.arange(rows)).real
    return (batches - 1) * rows + int(real.sum())


def no_length(schedule: Schedule) -> ArgumentTypeError:
    """Return the error for `len` of an iterator whose epochs are of unknown length."""
    if schedule.length_unknown:
        return ArgumentTypeError("the length is unknown: an external source ends the epoch", fix="size=...")
    return ArgumentTypeError("an endless iterator has no length", fix="reader_name=... or size=...")


def epoch_is_exact(readings: Readings, schedule: Schedule) -> bool:
    """Return True if an epoch has every sample of the leading reader once."""
    lead = lead_reader(readings)
    if lead is None or not lead.is_leader or not lead.covers_epoch or schedule.length is None:
        return False
    if schedule.policy is LastBatchPolicy.PAD:
        return True
    return lead.equal_shards and (schedule.policy is LastBatchPolicy.PARTIAL or schedule.length % schedule.stride == 0)
