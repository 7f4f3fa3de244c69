"""What one pass over some rows of a batch knows: the registers in which a host program keeps its columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from penstock.data.order import Indices
from penstock.data.schedule import Step
from penstock.data.source import Array
from penstock.errors import InternalError, PenstockError, SampleError
from penstock.graph.node import Node
from penstock.graph.operator import Reader
from penstock.host.reading import Reading, Samples
from penstock.plan.rows import Coordinates


@dataclass(slots=True)
class Frame:
    """One pass.

    Args:
        step: the batch.
        lanes: the numbers of the rows in the batch.
        lead: the reading whose positions number the rows, or None where nothing is read.
        columns: per register the column that it holds, once it is computed.
        slots: per register the place in a batch buffer into which its column goes, if there is one.
        samples: per reader which samples stand in the rows.
    """

    step: Step
    lanes: Indices
    lead: Reading | None
    columns: list[Any]
    slots: list[Array | None]
    samples: dict[Node, Samples | list[tuple[Indices, Samples]]] = field(default_factory=dict[Node, Any])

    @property
    def coordinates(self) -> Coordinates:
        """Where the rows stand in the epoch."""
        if self.lead is not None:
            return self.lead.coordinates(self.step, self.lanes)
        return Coordinates(self.step.epoch, self.lanes + self.step.row, np.ones(len(self.lanes), np.bool_))

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self.lanes)

    def failure(self, node: Node, row: int, error: Exception) -> PenstockError:
        """The error for one row of one node: which samples went into it, and where the user wrote the node."""
        described: list[str] = []
        for reader in _readers_of(node):
            samples = self.samples[reader]
            if isinstance(samples, Samples):
                source, index = samples.source, int(samples.indices[row])
            else:
                places, part = next(part for part in samples if row in part[0])
                source, index = part.source, int(part.indices[places == row][0])
            described.append(f"sample {index} ({source.describe(index)})")
        what = f"{node} failed on {' with '.join(described) or f'row {row}'}: {error}"
        kind = InternalError if isinstance(error, InternalError) else SampleError
        return kind(what, where=node.where)


def _readers_of(node: Node) -> list[Node]:
    found: dict[Node, None] = {}
    todo = [node]
    while todo:
        source = todo.pop()
        if isinstance(source.operator, Reader):
            found[source] = None
        todo += [value.node for value in source.sources]
    return list(found)
