"""What one pass over some rows of a batch knows: the registers in which a host program keeps its columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from penstock.core.columns import Array, Column, Indices, RowSelection
from penstock.core.spec import ShapeKind
from penstock.engine.failures.bad_row import BadRow, BadSample
from penstock.engine.host.run_context import RunContext, reader_label
from penstock.engine.host.sharded_reader import SampleIndices
from penstock.engine.host.stream_feed import FedBatch
from penstock.errors import InternalError, PenstockError, SampleError, resource_error
from penstock.graph.ir.node import Node, Value
from penstock.graph.ir.operator import StreamInput
from penstock.graph.ir.reader_lineage import upstream_readers
from penstock.numerics.random_bits import row_counters
from penstock.plan.engine_operators import RowCoordinates
from penstock.plan.plan import fix_for_ragged
from penstock.sources.order.schedule import BatchStep

Register = tuple[Value, int]
"""A value, and the number of the register that holds its column."""


@dataclass
class ExecutionFrame:
    """One pass over some rows of a batch.

    Rows can be left out of what follows: because they failed, or because others alone are wanted. `part` makes a frame
    of some rows, and `scatter` brings back what was computed for them.

    Args:
        step: the batch.
        rows_in_batch: which rows of the batch these are, ascending.
        context: what all frames of the program share.
        columns: per register the column that it holds, once it is computed.
        slots: per register the place in a batch buffer into which its column goes, if there is one.
        replacements: per row what selects another sample in place of its own, or 0; None where all rows have their own.
        failed_rows: rows that failed and are tolerated, by their index in the frame. Their columns hold no sample.
        blamed: the row that an error was made for last.
        branch_of: the frame of the whole pass, where this one is of the rows that take a branch; None where it is that.
        places: where the rows are in the whole pass, ascending; None for all of them.
        branches: of the whole pass: per guard the frame of the rows that take its branch.
        fed: what the streams gave for the batch, where there are any.
    """

    step: BatchStep
    rows_in_batch: Indices
    context: RunContext
    columns: list[Any]
    slots: Sequence[Array | None]
    replacements: NDArray[np.uint64] | None = None
    failed_rows: dict[int, BadRow] = field(default_factory=dict[int, BadRow])
    blamed: BadRow | None = None
    branch_of: ExecutionFrame | None = None
    places: Indices | None = None
    branches: dict[Value, ExecutionFrame] = field(default_factory=dict[Value, Any])
    fed: FedBatch | None = None

    @cached_property
    def coordinates(self) -> RowCoordinates:
        """Where the rows stand in the epoch."""
        if self.context.leader is not None:
            return self.context.leader.coordinates(self.step, self.rows_in_batch)
        return RowCoordinates(self.step.epoch, self.rows_in_batch + self.step.row, np.ones(self.rows, np.bool_))

    @cached_property
    def counters(self) -> NDArray[np.uint32]:
        """The same as words of 32 bits, from which random bits are made."""
        return row_counters(self.coordinates.epoch, self.coordinates.positions)

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self.rows_in_batch)

    @property
    def whole(self) -> ExecutionFrame:
        """The frame of the whole pass."""
        return self.branch_of or self

    def frame_of(self, guard: Value | None) -> ExecutionFrame:
        """The frame that holds the values of a branch; the whole one for values that stand in none."""
        return self.whole if guard is None else self.whole.branches[guard]

    def to_whole_rows(self, rows: Indices) -> Indices:
        """Where some rows are in the whole pass."""
        return rows if self.places is None else self.places[rows]

    def from_whole_rows(self, places: Indices) -> Indices:
        """Which rows these places of the whole pass are; they are among them."""
        return places if self.places is None else np.searchsorted(self.places, places)

    def branch(self, rows: Indices) -> ExecutionFrame:
        """A frame for some rows, without columns."""
        none: list[Any] = [None] * len(self.columns)
        shifts = None if self.replacements is None else self.replacements[rows]
        made = ExecutionFrame(
            self.step, self.rows_in_batch[rows], self.context, none, none.copy(), shifts, fed=self.fed
        )
        made.branch_of, made.places = self.whole, self.to_whole_rows(rows)
        return made

    def samples(self, reader: Node) -> SampleIndices | list[tuple[Indices, SampleIndices]]:
        """Which samples of a reader stand in the rows."""
        return self.context.readers[reader].samples(self.step, self.rows_in_batch, self.replacements)

    def take_rows(self, rows: slice | Indices) -> ExecutionFrame:
        """A frame of some of the rows of the whole pass, with what was computed for them, in branches, too.

        It has no place in the batch's buffers.
        """
        kept = np.arange(self.rows)[rows]
        made = self._cut(rows)
        for guard, branch in self.branches.items():
            inside = np.flatnonzero(np.isin(branch.to_whole_rows(np.arange(branch.rows)), kept))
            part = made.branches[guard] = branch._cut(inside)  # noqa: SLF001  # one class
            part.branch_of, part.places = made, np.searchsorted(kept, branch.to_whole_rows(inside))
        return made

    def _cut(self, rows: slice | Indices) -> ExecutionFrame:
        columns = [None if column is None else _taken(column, rows, self.rows) for column in self.columns]
        shifts = None if self.replacements is None else self.replacements[rows]
        return ExecutionFrame(
            self.step, self.rows_in_batch[rows], self.context, columns, [None] * len(columns), shifts, fed=self.fed
        )

    def forget(self, outputs: Sequence[Register]) -> None:
        """Forget what was begun of some columns."""
        for value, register in outputs:
            if value.node.guard is None or value.node.guard in self.branches:
                self.frame_of(value.node.guard).columns[register] = None

    def remaining(self) -> ExecutionFrame:
        """A frame of the rows that did not fail."""
        return self.take_rows(np.setdiff1d(np.arange(self.rows), np.fromiter(self.failed_rows, np.int64)))

    def scatter(self, rows: Indices, part: ExecutionFrame, outputs: Sequence[Register]) -> None:
        """Take over some columns of a part.

        Args:
            rows: where its rows are in this frame.
            part: a frame that `part` made.
            outputs: whose columns.
        """
        for value, register in outputs:
            mine, theirs = self.frame_of(value.node.guard), part.frame_of(value.node.guard)
            if not theirs.rows:
                continue
            at = mine.from_whole_rows(rows[theirs.to_whole_rows(np.arange(theirs.rows))])
            column = mine.columns[register]
            if column is None:
                column = mine.allocate(value, register) if value.spec.dense else [None] * mine.rows
                mine.columns[register] = column
            if isinstance(column, np.ndarray):
                column[at] = theirs.columns[register]
            else:
                for row, sample in zip(at.tolist(), theirs.columns[register], strict=True):
                    column[row] = sample

    def allocate(self, value: Value, register: int) -> Array:
        """Where a dense column goes: its place in the batch, or memory of its own."""
        slot = self.slots[register]
        return np.empty((self.rows, *value.spec.fixed_shape), value.spec.dtype) if slot is None else slot

    def set_column(self, value: Value, register: int, column: Column) -> None:
        """Hold a column in its register: in its place in the batch, as one array where the value is dense.

        Raises:
            PenstockError: a sample has another dtype or shape than the value's spec says.
        """
        slot, spec = self.slots[register], value.spec
        if isinstance(column, np.ndarray):
            if column.shape[1:] != spec.shape or column.dtype != spec.dtype:
                self.check(value, 0, column[0])
            if len(column) != self.rows:
                raise broken_promise(value, column.dtype, column.shape[1:])
        elif spec.dense:
            samples, column = column, self.allocate(value, register)
            for row, sample in enumerate(samples):
                self.check(value, row, sample)
                column[row] = sample
        if slot is not None and column is not slot:
            np.copyto(slot, column)
        self.columns[register] = column if slot is None else slot

    def check(self, value: Value, row: int, sample: Array) -> None:
        """Check that a sample is what the spec of its value promises.

        Raises:
            PenstockError: the sample has another dtype or shape.
        """
        if not value.spec.accepts(sample):
            raise self.failure(value.node, row, unfit(value, sample.dtype, sample.shape))

    def failure(self, node: Node, row: int, error: Exception) -> PenstockError:
        """The error for one row of one node: which samples went into it, and where the user wrote the node."""
        samples = self._at(node, row)
        named = [each.label for each in samples if each.label]
        what = f"{node} failed on {' with '.join(named) or f'row {row}'}"
        if isinstance(error, InternalError):
            return error.in_context(what, node.where)
        reason = str(error) or type(error).__name__
        first = samples[0]
        made = SampleError(
            f"{what}: {reason}", index=first.index, source=first.source, path=first.path, where=node.where
        )
        self._blame(node, row, samples, reason, made)
        return made

    def unreadable(self, reader: Node, row: int, error: SampleError) -> SampleError:
        """The error for one row of a reader, from what its source said."""
        error.where = error.where or reader.where
        self._blame(reader, row, self._at(reader, row), str(error.args[0]), error)
        return error

    def drop_row(self, error: PenstockError) -> None:
        """Go on without the row that an error was just made for.

        Raises:
            PenstockError: the error, where such rows are not tolerated.
            ResourceError: its cause is the environment, whatever is done about bad samples.
        """
        if (lack := resource_error(error)) is not None:
            lack.where = lack.where or error.where
            raise lack from error
        whole = self.whole
        bad = whole.blamed
        if bad is None or bad.error is not error or bad.policy == "raise":
            raise error
        whole.failed_rows[int(np.searchsorted(whole.rows_in_batch, bad.number))] = bad
        error.__traceback__ = error.__cause__ = error.__context__ = None  # they hold this frame, and all its samples

    def _blame(self, node: Node, row: int, samples: tuple[BadSample, ...], reason: str, error: SampleError) -> None:
        policy = self.context.on_error_of(node)
        self.whole.blamed = BadRow(int(self.rows_in_batch[row]), samples, node.kind, reason, policy, error)

    def _at(self, node: Node, row: int) -> tuple[BadSample, ...]:
        """The samples that a node computes a row from."""
        found: list[BadSample] = []
        one_row = slice(row, row + 1)
        shifts = None if self.replacements is None else self.replacements[one_row]
        (place,) = self.to_whole_rows(np.array([row]))
        for reader in upstream_readers(node):
            home = self.frame_of(reader.guard)
            if home.places is not None and place not in home.places:
                continue  # the row takes another branch
            if isinstance(reader.operator, StreamInput):
                where = f"batch at row {self.step.row} of epoch {self.step.epoch}"
                source = f"sample {self.rows_in_batch[row]} of the {where} that {reader.operator.stream} gave"
                found.append(BadSample(str(reader), source=source))
                continue
            samples = self.context.readers[reader].samples(self.step, self.rows_in_batch[one_row], shifts)
            one = samples if isinstance(samples, SampleIndices) else samples[0][1]
            index = int(one.indices[0])
            found.append(
                BadSample(
                    reader_label(reader, self.context.readers),
                    index,
                    one.source.describe(index),
                    one.source.path(index),
                )
            )
        return tuple(found) or (BadSample(str(node)),)


def _taken(column: Any, rows: slice | Indices, count: int) -> Any:
    """Some rows of a column."""
    if isinstance(column, np.ndarray | RowSelection):
        return cast(Array | RowSelection, column)[rows]
    numbers = range(count)[rows] if isinstance(rows, slice) else rows.tolist()
    return [column[row] for row in numbers]


def unfit(value: Value, dtype: Any, shape: tuple[int, ...]) -> PenstockError:
    """The error for a sample that is not what its spec says."""
    spec = value.spec
    other = dtype != spec.dtype or len(shape) != len(spec.shape)
    if other and isinstance(value.node.operator, StreamInput):
        return SampleError(
            "its source gives samples of several kinds", given=f"{dtype}{list(shape)}", expected=spec,
            fix="samples of one type and rank",
        )  # fmt: skip
    if other or spec.extent is not ShapeKind.SAME:
        return broken_promise(value, dtype, shape)
    return SampleError(
        "its shape differs from that of sample 0, and what follows needs one shape",
        given=shape,
        expected=spec.shape,
        fix=fix_for_ragged(value),
    )


def broken_promise(value: Value, dtype: Any, shape: tuple[int, ...]) -> InternalError:
    """The error for a kernel that does not give what its spec rule says."""
    return InternalError(
        f"a kernel of {value} does not give what its spec rule says", given=f"{dtype}{list(shape)}", expected=value.spec
    )
