"""Sharded reader: maps the rows of a batch to samples, in the order of one reader."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from penstock.core import Array, Column, Indices, RowSelection
from penstock.core.dataclass import dataclass
from penstock.engine.host.column_rows import scatter_column
from penstock.errors import DefinitionError, SampleError, UsageError
from penstock.graph import Reader
from penstock.plan.engine_operators import RowCoordinates
from penstock.plan.shard_merge import ReaderFacts
from penstock.sources.order.schedule import BatchStep
from penstock.sources.source import Source

# Number of a row, or numbers of several rows.
N = TypeVar("N", int, Indices)


@dataclass(frozen=True, slots=True)
class SampleIndices:
    """Samples of some rows, all of one source.

    Args:
        source: The source.
        indices: Indices of the samples in the source.
        places: Indices of their rows among the rows that were requested, ascending.
    """

    source: Source
    indices: Indices
    places: Indices


class ShardedReader:
    """One reader of a pipeline, for the whole batch or per block of rows, with its sample order.

    Args:
        readers: A reader for the whole batch, or a reader per block that this process computes, in row order.
        shards: Numbers of these blocks.
        num_shards: Number of blocks in the whole batch if each has its own reader; 1 if one reader serves all.
        seed: Selects the permutations.
        number: Index among the pipeline's readers, and in `BatchStep.consumed`.
        leads: True if the reader defines the epoch. Other readers continue over the end of an epoch.
        facts: Facts of the readers of all blocks, if other processes have some of them.
        rows: Number of rows of a full batch.
    """

    def __init__(
        self,
        readers: Sequence[Reader],
        shards: Sequence[int],
        num_shards: int,
        *,
        seed: int,
        number: int,
        leads: bool,
        facts: Sequence[ReaderFacts] | None = None,
        rows: int = 1,
    ) -> None:
        self.readers = tuple(readers)
        self.orders = tuple(reader.order(seed) for reader in readers)
        self.is_leader = leads
        self._shards = np.asarray(shards)
        self._num_shards = num_shards
        self._facts = facts
        self._number = number
        self._stride = self.stride(rows)

    @property
    def length(self) -> int:
        """Number of positions in an epoch. If blocks have their own data, the shortest block determines it."""
        return min(self._lengths)

    @property
    def _lengths(self) -> list[int]:
        """Number of positions in an epoch, per block."""
        if self._facts is not None:
            return [facts.length for facts in self._facts]
        return [order.epoch_length for order in self.orders]

    @property
    def covers_epoch(self) -> bool:
        """True if the real positions of an epoch visit every sample once."""
        one = self.readers[0]
        # A selection visits only some samples of its source.
        if one.source.selection is not None:
            return False
        if self._num_shards == 1:
            return one.num_shards == 1
        if self._facts is not None:
            parts = [(facts.shard_id, facts.num_shards, facts.length) for facts in self._facts]
            alike = len({(facts.order, facts.dataset) for facts in self._facts}) == 1
        else:
            parts = [(r.shard_id, r.num_shards, length) for r, length in zip(self.readers, self._lengths, strict=True)]
            alike = all(reader.same_order(one) for reader in self.readers)
        if one.contiguous:
            return alike and sorted(parts) == [(k, self._num_shards, parts[0][2]) for k in range(self._num_shards)]
        return all(part[1:] == (1, parts[0][2]) for part in parts)

    @property
    def equal_shards(self) -> bool:
        """True if all blocks have the same number of samples."""
        return self.orders[0].length % self.orders[0].shards == 0

    def _ends(self, step: BatchStep, numbers: Indices) -> int | Indices:
        """Return the end of the samples in the order of each row, in this epoch.

        Contiguous shards may differ by one sample, and trade places from epoch to epoch.
        """
        one = self.orders[0]
        if one.shards == 1:
            return self.length
        if self._num_shards == 1:
            return one.shard_bounds(step.epoch)[1]
        shards = {block: order.shard for block, order in zip(self._shards.tolist(), self.orders, strict=True)}
        blocks = range(self._num_shards)
        ends = [replace(one, shard=shards.get(block, block)).shard_bounds(step.epoch)[1] for block in blocks]
        return np.minimum(self.length, np.array(ends))[numbers // (step.rows // self._num_shards)]

    def stride(self, rows: int) -> int:
        """Return the number of positions that a batch of `rows` rows consumes."""
        one = self.readers[0]
        return rows // self._num_shards if self._num_shards > 1 or one.contiguous else rows * one.num_shards

    @property
    def pads_last_batch(self) -> bool:
        """True if an epoch is a whole number of batches: rows past its end repeat the last sample."""
        return self.readers[0].pad_last_batch

    def samples_passed(self, total: int) -> int:
        """Convert positions to samples, the unit of saved states: without the padding of last batches."""
        # States do not contain positions, because padding depends on the batch size, which may change on restore.
        if not self._fills_up:
            return total
        order = self.orders[0]
        epochs, inside = divmod(total, order.positions_per_epoch(self._stride))
        return epochs * order.epoch_length + inside

    def positions_passed(self, samples: int) -> int:
        """Convert samples to positions; the inverse of `samples_passed`.

        Raises:
            ValueError: No batch of this reader begins there.
        """
        if not self._fills_up:
            return samples
        order = self.orders[0]
        epochs, inside = divmod(samples, order.epoch_length)
        if inside % self._stride:
            raise ValueError(f"no batch begins after {inside} of {order.epoch_length} samples")
        return epochs * order.positions_per_epoch(self._stride) + inside

    @property
    def _fills_up(self) -> bool:
        """True if the positions of later epochs depend on the batch size, because each epoch ends with padding."""
        return self.pads_last_batch and not self.is_leader and len(set(self._lengths)) == 1

    def consecutive(self, rows: int) -> bool:
        """True if a batch consumes one position per row, all in one order."""
        return self._num_shards == 1 and self.stride(rows) == rows

    def offsets(self, rows: int, numbers: N) -> N:
        """Return the positions of rows relative to the first position of their batch."""
        if self._num_shards > 1:
            return numbers % (rows // self._num_shards)
        one = self.readers[0]
        return numbers + one.shard_id * rows if one.shard_id and not one.contiguous else numbers

    def positions(self, step: BatchStep, numbers: N) -> N:
        """Return the positions of rows in the sample order, given their numbers in the batch."""
        return self.offsets(step.rows, numbers) + (step.row if self.is_leader else step.consumed[self._number])

    def coordinates(self, step: BatchStep, numbers: Indices) -> RowCoordinates:
        """Return the coordinates that select the rows' random numbers, if this reader is the leader.

        They contain positions in the reader's order if all rows share it, otherwise positions in the sequence of rows.
        """
        own = step.row + self.offsets(step.rows, numbers)
        positions = own if self._num_shards == 1 else step.row * self._num_shards + numbers
        real = own < self._ends(step, numbers) if self.is_leader else np.ones(len(numbers), np.bool_)
        return RowCoordinates(step.epoch, positions, real)

    def row_of(self, epoch: int, index: int, rows: int) -> tuple[int, int] | None:
        """Return the batch and the row that hold a sample in an epoch of this reader, which must be the leader.

        Args:
            epoch: Number of the epoch.
            index: Index of the sample in the data set.
            rows: Number of rows of a full batch.

        Returns:
            Number of the batch in the epoch and of the row in the batch, of the first of several; None if other
            processes or programs have the sample. A batch after the last one holds samples that the policy drops.

        Raises:
            UsageError: The index does not determine a sample, or the sample does not determine a row.
        """
        order = self.orders[0]
        if order.choice is not None:
            raise UsageError(
                "the reader draws samples, so that an epoch may have a sample several times or not at all",
                fix="batch_at(epoch, step), for the samples that the epoch has",
            )
        if self._num_shards > 1 and not (self.covers_epoch and self.readers[0].contiguous):
            raise UsageError(
                "the blocks of a batch read separate data, so that an index means several samples",
                fix="batch_at(epoch, step)",
            )
        if index >= order.length:
            raise UsageError(
                "the data set has no such sample", given=f"index={index}", expected=f"0 to {order.length - 1}"
            )
        for shard, own in zip(self._shards.tolist(), self.orders, strict=False):  # all shards may share one order
            position = own.position(epoch, index)
            if position is not None:
                number, inside = divmod(position, self._stride)
                if self._num_shards > 1:
                    return number, shard * (rows // self._num_shards) + inside
                row = inside - int(self.offsets(rows, 0))
                return (number, row) if 0 <= row < rows else None
        return None

    def samples(
        self, step: BatchStep, numbers: Indices, replacements: NDArray[np.uint64] | None = None
    ) -> list[SampleIndices]:
        """Return the samples of some rows, per block.

        Args:
            step: The batch.
            numbers: Numbers of the rows in the batch, ascending.
            replacements: Random number per row that selects another sample; 0 keeps the row's own sample. See
                `SampleOrder.replacement_indices`.
        """
        if self._num_shards == 1:
            places = np.arange(len(numbers))
            return [self._of_block(0, self._indices_of_all(step, numbers), places, replacements)]
        positions = self.positions(step, numbers)
        # The blocks of this process need not be contiguous, because rows follow the order of the mesh.
        blocks = np.searchsorted(self._shards, numbers // (step.rows // self._num_shards))
        parts = [(block, np.flatnonzero(blocks == block)) for block in np.unique(blocks).tolist()]
        return [
            self._of_block(block, self._indices(block, step, positions[places]), places, replacements)
            for block, places in parts
        ]

    def _of_block(
        self, block: int, indices: Indices, places: Indices, replacements: NDArray[np.uint64] | None
    ) -> SampleIndices:
        if replacements is not None:
            indices = self.orders[block].replacement_indices(indices, replacements[places])
        return SampleIndices(self.readers[block].source, indices, places)

    def _indices_of_all(self, step: BatchStep, numbers: Indices) -> Indices:
        first, count = int(numbers[0]), len(numbers)
        # Contiguous numbers, the usual case, use one range of the permutation, which is much cheaper than single
        # positions.
        if int(numbers[-1]) - first + 1 != count:  # gaps: rows between them belong to other processes
            return self._indices(0, step, self.positions(step, numbers))
        order, start = self.orders[0], self.positions(step, first)
        if self.is_leader:
            return order.index_range(step.epoch, start, count)
        return order.index_range_over_epochs(start, count, self._stride)

    def _indices(self, block: int, step: BatchStep, positions: Indices) -> Indices:
        order = self.orders[block]
        if self.is_leader:
            return order.indices(step.epoch, positions)
        return order.indices_over_epochs(positions, self._stride)


def read_columns(
    samples: Sequence[SampleIndices],
    rows: int,
    out: Sequence[Array | None],
    picked: Sequence[bool],
) -> tuple[tuple[Column | RowSelection, ...], dict[int, SampleError]]:
    """Read the samples of some rows.

    Args:
        samples: Samples as returned by `ShardedReader.samples`.
        rows: Number of rows.
        out: Arrays to write into, as for `Source.read`.
        picked: Per value, True if a source in memory may return indices instead of a copy.

    Returns:
        A column per value, and the errors of the rows that cannot be read.
    """
    if len(samples) == 1:
        (part,) = samples
        # A selection refers to the arrays of the source. Fused stages read pixels from there, which saves a pass over
        # memory.
        if any(picked) and part.source.in_memory:
            columns = [RowSelection(array, part.indices) for array in part.source.in_memory]
            return tuple([c if p else c.gather(slot) for c, p, slot in zip(columns, picked, out, strict=True)]), {}
        return part.source.read_tolerant(part.indices, out)
    parts = [(part.places, part.source.read_tolerant(part.indices, [None] * len(out))) for part in samples]
    errors = {int(places[row]): error for places, (_, failed) in parts for row, error in failed.items()}
    columns = [_interleave([(places, read[i]) for places, (read, _) in parts], rows) for i in range(len(out))]
    return tuple(columns), errors


def _interleave(parts: Sequence[tuple[Indices, Column]], rows: int) -> Column:
    first = parts[0][1]
    is_array = isinstance(first, np.ndarray)
    result = np.empty((rows, *first.shape[1:]), first.dtype) if is_array else [np.empty(0)] * rows
    for places, column in parts:
        scatter_column(result, places, column)
    return result


def check_same_specs(readers: Sequence[Reader]) -> None:
    """Check that the readers of all blocks return values of the same specs."""
    for reader in readers[1:]:
        if reader.source.specs != readers[0].source.specs:
            raise DefinitionError(
                "the shards read data of different dtypes or shapes",
                given=reader.source.specs,
                expected=readers[0].source.specs,
            )
