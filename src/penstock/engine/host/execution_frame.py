"""What one pass over some rows of a batch knows: the registers in which a host program keeps its columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from penstock.core.columns import Array, Column, Indices, Picked
from penstock.core.spec import Extent
from penstock.engine.failures.bad_row import BadRow, BadSample
from penstock.engine.host.run_context import Setting
from penstock.engine.host.sharded_reader import Samples
from penstock.engine.host.stream_feed import Fed
from penstock.errors import InternalError, PenstockError, SampleError, resource_error
from penstock.graph.ir.node import Node, Value
from penstock.graph.ir.operator import Feed
from penstock.graph.ir.reader_lineage import heads_of
from penstock.numerics.random_bits import counters
from penstock.plan.engine_operators import Coordinates
from penstock.plan.plan import dense_fix
from penstock.sources.order.schedule import Step

Register = tuple[Value, int]
"""A value, and the number of the register that holds its column."""


@dataclass
class Frame:
    """One pass over some rows of a batch.

    Rows can be left out of what follows: because they failed, or because others alone are wanted. `part` makes a frame
    of some rows, and `scatter` brings back what was computed for them.

    Args:
        step: the batch.
        numbers: which rows of the batch these are, ascending.
        setting: what all frames of the program share.
        columns: per register the column that it holds, once it is computed.
        slots: per register the place in a batch buffer into which its column goes, if there is one.
        shifts: per row what selects another sample in place of its own, or 0; None where all rows have their own.
        lost: the rows that failed and are tolerated, by their place in the frame. What their columns hold is no sample.
        blamed: the row that an error was made for last.
        branch_of: the frame of the whole pass, where this one is of the rows that take a branch; None where it is that.
        places: where the rows are in the whole pass, ascending; None for all of them.
        branches: of the whole pass: per guard the frame of the rows that take its branch.
        fed: what the streams gave for the batch, where there are any.
    """

    step: Step
    numbers: Indices
    setting: Setting
    columns: list[Any]
    slots: Sequence[Array | None]
    shifts: NDArray[np.uint64] | None = None
    lost: dict[int, BadRow] = field(default_factory=dict[int, BadRow])
    blamed: BadRow | None = None
    branch_of: Frame | None = None
    places: Indices | None = None
    branches: dict[Value, Frame] = field(default_factory=dict[Value, Any])
    fed: Fed | None = None

    @cached_property
    def coordinates(self) -> Coordinates:
        """Where the rows stand in the epoch."""
        return self.setting.coordinates(self.step, self.numbers)

    @cached_property
    def counters(self) -> NDArray[np.uint32]:
        """The same as words of 32 bits, from which random bits are made."""
        return counters(self.coordinates.epoch, self.coordinates.positions)

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self.numbers)

    @property
    def whole(self) -> Frame:
        """The frame of the whole pass."""
        return self.branch_of or self

    def home(self, guard: Value | None) -> Frame:
        """The frame that holds the values of a branch; the whole one for values that stand in none."""
        return self.whole if guard is None else self.whole.branches[guard]

    def at(self, rows: Indices) -> Indices:
        """Where some rows are in the whole pass."""
        return rows if self.places is None else self.places[rows]

    def find(self, places: Indices) -> Indices:
        """Which rows these places of the whole pass are; they are among them."""
        return places if self.places is None else np.searchsorted(self.places, places)

    def branch(self, rows: Indices) -> Frame:
        """A frame for some rows, without columns."""
        none: list[Any] = [None] * len(self.columns)
        shifts = None if self.shifts is None else self.shifts[rows]
        made = Frame(self.step, self.numbers[rows], self.setting, none, none.copy(), shifts, fed=self.fed)
        made.branch_of, made.places = self.whole, self.at(rows)
        return made

    def samples(self, reader: Node) -> Samples | list[tuple[Indices, Samples]]:
        """Which samples of a reader stand in the rows."""
        return self.setting.readings[reader].samples(self.step, self.numbers, self.shifts)

    def part(self, rows: slice | Indices) -> Frame:
        """A frame of some of the rows of the whole pass, with what was computed for them, in branches, too.

        It has no place in the batch's buffers.
        """
        kept = np.arange(self.rows)[rows]
        made = self._cut(rows)
        for guard, branch in self.branches.items():
            inside = np.flatnonzero(np.isin(branch.at(np.arange(branch.rows)), kept))
            part = made.branches[guard] = branch._cut(inside)  # noqa: SLF001  # one class
            part.branch_of, part.places = made, np.searchsorted(kept, branch.at(inside))
        return made

    def _cut(self, rows: slice | Indices) -> Frame:
        columns = [None if column is None else _taken(column, rows, self.rows) for column in self.columns]
        shifts = None if self.shifts is None else self.shifts[rows]
        return Frame(self.step, self.numbers[rows], self.setting, columns, [None] * len(columns), shifts, fed=self.fed)

    def forget(self, outputs: Sequence[Register]) -> None:
        """Forget what was begun of some columns."""
        for value, register in outputs:
            if value.node.guard is None or value.node.guard in self.branches:
                self.home(value.node.guard).columns[register] = None

    def remaining(self) -> Frame:
        """A frame of the rows that did not fail."""
        return self.part(np.setdiff1d(np.arange(self.rows), np.fromiter(self.lost, np.int64)))

    def scatter(self, rows: Indices, part: Frame, outputs: Sequence[Register]) -> None:
        """Take over some columns of a part.

        Args:
            rows: where its rows are in this frame.
            part: a frame that `part` made.
            outputs: whose columns.
        """
        for value, register in outputs:
            mine, theirs = self.home(value.node.guard), part.home(value.node.guard)
            if not theirs.rows:
                continue
            at = mine.find(rows[theirs.at(np.arange(theirs.rows))])
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
        return np.empty((self.rows, *value.spec.sizes), value.spec.dtype) if slot is None else slot

    def keep(self, value: Value, register: int, column: Column) -> None:
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
        named = [each.named for each in samples if each.named]
        what = f"{node} failed on {' with '.join(named) or f'row {row}'}"
        if isinstance(error, InternalError):
            return error.within(what, node.where)
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

    def tolerate(self, error: PenstockError) -> None:
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
        whole.lost[int(np.searchsorted(whole.numbers, bad.number))] = bad
        error.__traceback__ = error.__cause__ = error.__context__ = None  # they hold this frame, and all its samples

    def _blame(self, node: Node, row: int, samples: tuple[BadSample, ...], reason: str, error: SampleError) -> None:
        policy = self.setting.policy(node)
        self.whole.blamed = BadRow(int(self.numbers[row]), samples, node.kind, reason, policy, error)

    def _at(self, node: Node, row: int) -> tuple[BadSample, ...]:
        """The samples that a node computes a row from."""
        found: list[BadSample] = []
        one_row = slice(row, row + 1)
        shifts = None if self.shifts is None else self.shifts[one_row]
        (place,) = self.at(np.array([row]))
        for reader in heads_of(node):
            home = self.home(reader.guard)
            if home.places is not None and place not in home.places:
                continue  # the row takes another branch
            if isinstance(reader.operator, Feed):
                where = f"batch at row {self.step.row} of epoch {self.step.epoch}"
                source = f"sample {self.numbers[row]} of the {where} that {reader.operator.stream} gave"
                found.append(BadSample(str(reader), source=source))
                continue
            samples = self.setting.readings[reader].samples(self.step, self.numbers[one_row], shifts)
            one = samples if isinstance(samples, Samples) else samples[0][1]
            index = int(one.indices[0])
            found.append(
                BadSample(self.setting.name(reader), index, one.source.describe(index), one.source.path(index))
            )
        return tuple(found) or (BadSample(str(node)),)


def _taken(column: Any, rows: slice | Indices, count: int) -> Any:
    """Some rows of a column."""
    if isinstance(column, np.ndarray | Picked):
        return cast(Array | Picked, column)[rows]
    numbers = range(count)[rows] if isinstance(rows, slice) else rows.tolist()
    return [column[row] for row in numbers]


def unfit(value: Value, dtype: Any, shape: tuple[int, ...]) -> PenstockError:
    """The error for a sample that is not what its spec says."""
    spec = value.spec
    other = dtype != spec.dtype or len(shape) != len(spec.shape)
    if other and isinstance(value.node.operator, Feed):
        return SampleError(
            "its source gives samples of several kinds", given=f"{dtype}{list(shape)}", expected=spec,
            fix="samples of one type and rank",
        )  # fmt: skip
    if other or spec.extent is not Extent.SAME:
        return broken_promise(value, dtype, shape)
    return SampleError(
        "its shape differs from that of sample 0, and what follows needs one shape",
        given=shape,
        expected=spec.shape,
        fix=dense_fix(value),
    )


def broken_promise(value: Value, dtype: Any, shape: tuple[int, ...]) -> InternalError:
    """The error for a kernel that does not give what its spec rule says."""
    return InternalError(
        f"a kernel of {value} does not give what its spec rule says", given=f"{dtype}{list(shape)}", expected=value.spec
    )
