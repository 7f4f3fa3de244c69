"""Execution frame: the columns of some rows of a batch while stages compute them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core import Array, Column, Indices, ShapeKind
from penstock.core.dataclass import dataclass
from penstock.core.tracebacks import cause_text
from penstock.engine.failures.bad_row import BadRow, BadSample
from penstock.engine.host.column_rows import scatter_column, select_rows
from penstock.engine.host.run_context import RunContext, reader_label
from penstock.engine.host.sharded_reader import SampleIndices
from penstock.engine.host.stream_feed import FedBatch
from penstock.errors import InternalError, PenstockError, SampleError, resource_error
from penstock.graph import Node, StreamInput, Value
from penstock.graph.ir.reader_lineage import upstream_readers
from penstock.numerics.random_bits import row_counters
from penstock.plan.engine_operators import RowCoordinates
from penstock.plan.plan import fix_for_ragged
from penstock.sources.order.schedule import BatchStep

# A value, and the number of the register that holds its column.
Register = tuple[Value, int]
Registers = Mapping[Value, int]


class HostStage(ABC):
    """Compiled stage of a plan. Immutable, because several threads run it at the same time.

    Args:
        label: Name of the stage in statistics; "" if the stage measures its parts itself.
        values: Values that later stages or the consumer may read.
        registers: Register of each value.

    Attributes:
        row_independent: True if a row can be computed without the other rows of the batch.
        outputs: Registers of the values.
    """

    row_independent = True

    def __init__(self, label: str, values: Iterable[Value], registers: Registers) -> None:
        self.label = label
        self.outputs: Sequence[Register] = [(value, registers[value]) for value in values]

    @abstractmethod
    def run(self, frame: ExecutionFrame) -> None:
        """Compute the columns of `outputs`.

        Raises:
            SampleError: A row fails. Rows whose failure the frame tolerates are dropped from the frame instead.
        """


@dataclass
class ExecutionFrame:
    """Registers of some rows of a batch, each with the column of a value.

    Stages may leave rows out: rows that fail, or rows that do not take a branch. `take_rows` and `branch` create a
    frame of some rows; `scatter` writes its columns back.

    Args:
        step: The batch.
        rows_in_batch: Numbers of the frame's rows in the batch, int64, ascending.
        context: Context of the run.
        columns: Column of each register; None until a stage has computed it.
        slots: Part of a batch buffer for the column of each register; None if the column is not part of a buffer.
        replacements: Random number per row that selects another sample for it; 0 keeps the row's own sample. None if
            all rows keep theirs.
        failed_rows: Rows whose failure is tolerated, by index in the frame. Their entries in columns are undefined.
        last_failure: The row for which an error was created last.
        branch_of: Frame of all rows, if this frame holds the rows of a branch.
        places: Indices of the rows in that frame, ascending; None for all of them.
        branches: In the frame of all rows, the frame of each branch by its guard.
        fed: Data of the plan's streams for the batch.
    """

    step: BatchStep
    rows_in_batch: Indices
    context: RunContext
    columns: list[Any]
    slots: Sequence[Array | None]
    replacements: NDArray[np.uint64] | None = None
    failed_rows: dict[int, BadRow] = field(default_factory=dict[int, BadRow])
    last_failure: BadRow | None = None
    branch_of: ExecutionFrame | None = None
    places: Indices | None = None
    branches: dict[Value, ExecutionFrame] = field(default_factory=dict[Value, Any])
    fed: FedBatch | None = None

    @cached_property
    def coordinates(self) -> RowCoordinates:
        """Epoch and positions of the rows, which select their random numbers."""
        if self.context.leader is not None:
            return self.context.leader.coordinates(self.step, self.rows_in_batch)
        return RowCoordinates(self.step.epoch, self.rows_in_batch + self.step.row, np.ones(self.rows, np.bool_))

    @cached_property
    def counters(self) -> NDArray[np.uint32]:
        """The coordinates as 32-bit words, the input of the random generator."""
        return row_counters(self.coordinates.epoch, self.coordinates.positions)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.rows_in_batch)

    @property
    def whole(self) -> ExecutionFrame:
        """The frame of all rows, in which branches are kept."""
        return self.branch_of or self

    def frame_of(self, guard: Value | None) -> ExecutionFrame:
        """Return the frame that holds the values of a branch; for None, the frame of all rows."""
        return self.whole if guard is None else self.whole.branches[guard]

    def to_whole_rows(self, rows: Indices) -> Indices:
        """Convert indices in this frame to indices in the frame of all rows."""
        return rows if self.places is None else self.places[rows]

    def from_whole_rows(self, places: Indices) -> Indices:
        """Convert indices in the frame of all rows, which must be in this frame, to indices in this frame."""
        return places if self.places is None else np.searchsorted(self.places, places)

    def branch(self, rows: Indices) -> ExecutionFrame:
        """Create the frame of the rows that take a branch, without columns."""
        part = self.retry(rows, None if self.replacements is None else self.replacements[rows])
        part.branch_of, part.places = self.whole, self.to_whole_rows(rows)
        return part

    def retry(self, rows: Indices, replacements: NDArray[np.uint64] | None) -> ExecutionFrame:
        """Create a frame of some rows without columns, to compute them again."""
        return self._part(rows, [None] * len(self.columns), replacements)

    def _part(
        self, rows: slice | Indices, columns: list[Any], replacements: NDArray[np.uint64] | None
    ) -> ExecutionFrame:
        # Without slots: its rows need not be contiguous in the batch buffers.
        slots = [None] * len(columns)
        return ExecutionFrame(
            self.step, self.rows_in_batch[rows], self.context, columns, slots, replacements, fed=self.fed
        )

    def samples(self, reader: Node) -> list[SampleIndices]:
        """Return the samples of a reader in the rows; see `ShardedReader.samples`."""
        return self.context.readers[reader].samples(self.step, self.rows_in_batch, self.replacements)

    def take_rows(self, rows: slice | Indices) -> ExecutionFrame:
        """Create a frame of some rows of the frame of all rows, with the columns of these rows, also in branches."""
        kept = np.arange(self.rows)[rows]
        result = self._select(rows)
        for guard, branch in self.branches.items():
            # A branch has entries only for rows that take it. Of these, keep the ones in the selection.
            inside = np.flatnonzero(np.isin(branch.to_whole_rows(np.arange(branch.rows)), kept))
            part = result.branches[guard] = branch._select(inside)  # noqa: SLF001  # same class
            part.branch_of, part.places = result, np.searchsorted(kept, branch.to_whole_rows(inside))
        return result

    def _select(self, rows: slice | Indices) -> ExecutionFrame:
        columns = [None if column is None else select_rows(column, rows) for column in self.columns]
        return self._part(rows, columns, None if self.replacements is None else self.replacements[rows])

    def forget(self, outputs: Sequence[Register]) -> None:
        """Clear some registers, which a stage may have filled in part."""
        for value, register in outputs:
            if value.node.guard is None or value.node.guard in self.branches:
                self.frame_of(value.node.guard).columns[register] = None

    def clear(self) -> None:
        """Clear all registers, when the chunk is computed."""
        for frame in (self, *self.branches.values()):
            frame.columns = [None] * len(frame.columns)

    def remaining(self) -> ExecutionFrame:
        """Create a frame of the rows that did not fail."""
        return self.take_rows(np.setdiff1d(np.arange(self.rows), np.fromiter(self.failed_rows, np.int64)))

    def scatter(self, rows: Indices, part: ExecutionFrame, outputs: Sequence[Register]) -> None:
        """Write columns of a part of this frame into their rows.

        Args:
            rows: Indices of the part's rows in this frame.
            part: A frame that `take_rows` created.
            outputs: The registers to copy.
        """
        for value, register in outputs:
            target, source = self.frame_of(value.node.guard), part.frame_of(value.node.guard)
            if not source.rows:
                continue
            at = target.from_whole_rows(rows[source.to_whole_rows(np.arange(source.rows))])
            # The register is empty if the stage failed as a whole before it stored the column.
            column = target.columns[register]
            if column is None:
                column = target.columns[register] = target.allocate(value, register)
            scatter_column(column, at, source.columns[register])

    def allocate(self, value: Value, register: int) -> Any:
        """Return a column to fill: an empty list if ragged, otherwise the slot in the batch buffer or new memory."""
        if not value.spec.dense:
            return [None] * self.rows
        slot = self.slots[register]
        return np.empty((self.rows, *value.spec.fixed_shape), value.spec.dtype) if slot is None else slot

    def set_column(self, value: Value, register: int, column: Column) -> None:
        """Store a column in its register, as one array if the value is dense, and in its slot if it has one.

        Raises:
            PenstockError: The dtype or shape of a sample differs from the value's spec.
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
                if row in self.failed_rows:  # its sample need not have the shape
                    continue
                self.check(value, row, sample)
                column[row] = sample
        # Kernels that could write into the slot returned the slot itself.
        if slot is not None and column is not slot:
            np.copyto(slot, column)
        self.columns[register] = column if slot is None else slot

    def check(self, value: Value, row: int, sample: Array) -> None:
        """Check that a sample has the dtype and shape of its value's spec.

        Raises:
            PenstockError: It does not.
        """
        if not value.spec.accepts(sample):
            raise self.failure(value.node, row, unfit(value, sample.dtype, sample.shape))

    def failure(self, node: Node, row: int, error: Exception) -> PenstockError:
        """Create the error for a row of a node. It names the samples of the row and the line of the definition."""
        samples = self._samples_of_row(node, row)
        labels = [sample.label for sample in samples if sample.label]
        subject = f"{node} failed on {' with '.join(labels) or f'row {row}'}"
        if isinstance(error, InternalError):
            return error.in_context(subject, node.where)
        reason = cause_text(error)
        first = samples[0]
        result = SampleError(
            f"{subject}: {reason}", index=first.index, source=first.source, path=first.path, where=node.where
        )
        self._note_failure(node, row, samples, reason, result)
        return result

    def unreadable(self, reader: Node, row: int, error: SampleError) -> SampleError:
        """Complete the error that a source raised for a row of a reader."""
        # Sources do not know the graph, so the line of the definition is added here.
        error.where = error.where or reader.where
        self._note_failure(reader, row, self._samples_of_row(reader, row), str(error.args[0]), error)
        return error

    def drop_row(self, error: PenstockError) -> None:
        """Drop the row of the error that `failure` or `unreadable` returned last.

        Raises:
            PenstockError: The error itself, if the policy does not tolerate such rows.
            ResourceError: The environment caused the error, such as a full disk. No policy tolerates that: another
                sample would fail as well.
        """
        if (lack := resource_error(error)) is not None:
            lack.where = lack.where or error.where
            raise lack from error
        whole = self.whole
        bad = whole.last_failure
        if bad is None or bad.error is not error or bad.policy == "raise":
            raise error
        whole.failed_rows[int(np.searchsorted(whole.rows_in_batch, bad.number))] = bad
        # Traceback and causes refer to this frame, and a bad row outlives it: they would keep all its samples alive.
        error.__traceback__ = error.__cause__ = error.__context__ = None

    def _note_failure(
        self, node: Node, row: int, samples: tuple[BadSample, ...], reason: str, error: SampleError
    ) -> None:
        policy = self.context.on_error_of(node)
        self.whole.last_failure = BadRow(int(self.rows_in_batch[row]), samples, node.kind, reason, policy, error)

    def _samples_of_row(self, node: Node, row: int) -> tuple[BadSample, ...]:
        """Return the samples from which a node computes a row."""
        result: list[BadSample] = []
        one_row = slice(row, row + 1)
        replacements = None if self.replacements is None else self.replacements[one_row]
        (place,) = self.to_whole_rows(np.array([row]))
        for reader in upstream_readers(node):
            home = self.frame_of(reader.guard)
            if home.places is not None and place not in home.places:
                continue  # a reader of a branch that the row does not take
            if isinstance(reader.operator, StreamInput):
                number = int(self.rows_in_batch[row])
                source = reader.operator.stream.sample_name(number, self.step.epoch, self.step.row)
                # Several inputs of one eager call have one name.
                if (sample := BadSample(str(reader), source=source)) not in result:
                    result.append(sample)
                continue
            (one,) = self.context.readers[reader].samples(self.step, self.rows_in_batch[one_row], replacements)
            index = int(one.indices[0])
            label = reader_label(reader, self.context.readers)
            result.append(BadSample(label, index, one.source.describe(index), one.source.path(index)))
        return tuple(result) or (BadSample(str(node)),)


def unfit(value: Value, dtype: Any, shape: tuple[int, ...]) -> PenstockError:
    """Create the error for a sample whose dtype or shape differs from its spec."""
    spec = value.spec
    other = dtype != spec.dtype or len(shape) != len(spec.shape)
    if other and isinstance(value.node.operator, StreamInput):
        return SampleError(
            "its source gives samples of several kinds", given=f"{dtype}{list(shape)}", expected=spec,
            fix="samples of one type and rank",
        )  # fmt: skip
    # For code of the user, a trial decides dtypes and shapes, and the result may depend on the content of the sample.
    if value.node.operator.reproducible == "in a run" and (other or spec.extent is not ShapeKind.SAME):
        return SampleError(
            "the function returns another dtype or shape than in its trial while the definition was traced",
            given=f"{dtype}{list(shape)}",
            expected=spec,
            fix="declare its outputs with dtype= and ndim=",
        )
    # Only an assumed-same shape depends on the data. Any other difference is a bug of the kernel or its spec rule.
    if other or spec.extent is not ShapeKind.SAME:
        return broken_promise(value, dtype, shape)
    return SampleError(
        "the samples differ in shape here, and what follows needs one shape",
        given=shape,
        expected=f"{spec.shape}, the shape of the sample that was tried before the first batch",
        fix=fix_for_ragged(value),
    )


def broken_promise(value: Value, dtype: Any, shape: tuple[int, ...]) -> InternalError:
    """Create the error for a kernel whose result differs from its spec rule."""
    return InternalError(
        f"a kernel of {value} does not give what its spec rule says", given=f"{dtype}{list(shape)}", expected=value.spec
    )
