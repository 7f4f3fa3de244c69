"""What one pass over some rows of a batch knows: the registers in which a host program keeps its columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.data.bits import counters
from penstock.data.order import Indices
from penstock.data.schedule import Step
from penstock.data.source import Array, Column
from penstock.data.spec import Extent
from penstock.errors import InternalError, PenstockError, SampleError
from penstock.graph.node import Node, Value
from penstock.graph.operator import Feed, Reader
from penstock.host.feeding import Fed
from penstock.host.reading import Reading, Samples
from penstock.plan.plan import dense_fix
from penstock.plan.rows import Coordinates


@dataclass
class Frame:
    """One pass.

    Args:
        step: the batch.
        numbers: which rows of the batch these are.
        lead: the reading whose positions number the rows, or None where nothing is read.
        columns: per register the column that it holds, once it is computed.
        slots: per register the place in a batch buffer into which its column goes, if there is one.
        samples: per reader which samples stand in the rows.
        branch_of: the frame of the whole pass, where this one is of the rows that take a branch; None where it is that.
        places: where the rows are in the whole pass, ascending; None for all of them.
        branches: of the whole pass: per guard the frame of the rows that take its branch.
        fed: what the streams gave for the batch, where there are any.
    """

    step: Step
    numbers: Indices
    lead: Reading | None
    columns: list[Any]
    slots: Sequence[Array | None]
    samples: dict[Node, Samples | list[tuple[Indices, Samples]]] = field(default_factory=dict[Node, Any])
    branch_of: Frame | None = None
    places: Indices | None = None
    branches: dict[Value, Frame] = field(default_factory=dict[Value, Any])
    fed: Fed | None = None

    @cached_property
    def coordinates(self) -> Coordinates:
        """Where the rows stand in the epoch."""
        if self.lead is not None:
            return self.lead.coordinates(self.step, self.numbers)
        return Coordinates(self.step.epoch, self.numbers + self.step.row, np.ones(len(self.numbers), np.bool_))

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
        columns: list[Any] = [None] * len(self.columns)
        return Frame(
            self.step, self.numbers[rows], self.lead, columns, columns, {}, self.whole, self.at(rows), fed=self.fed
        )

    def allocate(self, value: Value, register: int) -> Array:
        """Where a dense column goes: its place in the batch, or memory of its own."""
        slot = self.slots[register]
        return np.empty((self.rows, *value.spec.sizes), value.spec.dtype) if slot is None else slot

    def keep(self, value: Value, register: int, column: Column) -> None:
        """Hold a column in its register: in its place in the batch, as one array where the value is dense.

        Raises:
            PenstockError: it is not what the value's spec says.
        """
        slot = self.slots[register]
        if value.spec.dense and isinstance(column, list):
            samples, column = column, self.allocate(value, register)
            for row, sample in enumerate(samples):
                self.check(value, row, sample)
                column[row] = sample
        elif not value.spec.dense and isinstance(column, np.ndarray):
            self.check(value, 0, column[0])
        elif isinstance(column, np.ndarray) and (
            column.shape[1:] != value.spec.sizes or column.dtype != value.spec.dtype or len(column) != self.rows
        ):
            raise broken_promise(value, column.dtype, column.shape[1:])
        if slot is not None and column is not slot:
            np.copyto(slot, column)
        self.columns[register] = column if slot is None else slot

    def check(self, value: Value, row: int, sample: Array) -> None:
        """Check that a sample is what the spec of its value promises.

        Raises:
            PenstockError: it is not.
        """
        if not value.spec.accepts(sample):
            raise self.failure(value.node, row, unfit(value, sample.dtype, sample.shape))

    def failure(self, node: Node, row: int, error: Exception) -> PenstockError:
        """The error for one row of one node: which samples went into it, and where the user wrote the node."""
        described: list[str] = []
        for reader in _heads_of(node):
            home = self.home(reader.guard)
            (place,) = self.at(np.array([row]))
            if home.places is not None and place not in home.places:
                continue  # its rows take another branch
            if isinstance(reader.operator, Feed):
                described.append(f"sample {self.numbers[row]} of the batch that {reader.operator.stream} gave")
                continue
            samples, (row,) = home.samples[reader], home.find(np.array([place]))
            if isinstance(samples, Samples):
                source, index = samples.source, int(samples.indices[row])
            else:
                places, part = next(part for part in samples if row in part[0])
                source, index = part.source, int(part.indices[places == row][0])
            described.append(f"sample {index} ({source.describe(index)})")
        what = f"{node} failed on {' with '.join(described) or f'row {row}'}"
        if isinstance(error, InternalError):
            return error.within(what, node.where)
        return SampleError(f"{what}: {str(error) or type(error).__name__}", where=node.where)


def unfit(value: Value, dtype: Any, shape: tuple[int, ...]) -> PenstockError:
    """The error for a sample that is not what its spec says."""
    spec = value.spec
    if dtype != spec.dtype or len(shape) != len(spec.shape) or spec.extent is not Extent.SAME:
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


def _heads_of(node: Node) -> list[Node]:
    found: dict[Node, None] = {}
    todo = [node]
    while todo:
        source = todo.pop()
        if isinstance(source.operator, Reader | Feed):
            found[source] = None
        todo += [value.node for value in source.operands]
    return list(found)
