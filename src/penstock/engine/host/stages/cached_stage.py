"""Stage of a cache: takes stored samples from it, and computes and stores the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

import numpy as np

from penstock.core import Array, Column
from penstock.core.thread_clock import ThreadClock
from penstock.engine.host.execution_frame import ExecutionFrame, HostStage, Registers
from penstock.engine.host.failed_rows import run_stages
from penstock.graph import Value
from penstock.graph.ir.sample_cache import cached_reader
from penstock.plan.stage_grouping import Stage
from penstock.sources.storage.sample_store import Record, SampleState


class CachedStage(HostStage):
    """Stage of a cache.

    Statistics have a line for the samples that are found, one for those that are stored, and those of the inner stages.

    Args:
        planned: The stage in the plan.
        inner: The compiled inner stages, which compute the samples that the cache does not have.
        registers: Register of each value.
        results: Results of the plan.
    """

    def __init__(
        self, planned: Stage, inner: Sequence[HostStage], registers: Registers, results: AbstractSet[Value]
    ) -> None:
        (node,) = planned.nodes
        super().__init__("", [*planned.stored, *node.values], registers)
        self._inner, self._reader = inner, cached_reader(node)
        self._hits, self._fills = f"{node}: hits", f"{node}: fills"
        self._stored = [registers[value] for value in planned.stored]
        pieces = {value: number for number, value in enumerate(planned.stored)}
        # The outputs of the cache equal its inputs, which are stored once.
        sources = [*planned.stored, *node.inputs]
        self._pieces = [pieces[value] for value in sources]
        # A consumer may write to the arrays of a ragged output, which would change the cache.
        self._copied = [value in results and not value.spec.dense for value, _ in self.outputs]

    def run(self, frame: ExecutionFrame) -> None:
        """Fill the columns of all rows; drop the rows that fail."""
        for value, register in self.outputs:
            frame.columns[register] = frame.allocate(value, register)
        cache = frame.context.caches.get(self._reader)
        timers, clock = frame.context.timers, ThreadClock()
        rows, states = np.arange(frame.rows), list[SampleState]()
        if cache is not None:
            records, states = cache.find(frame.samples(self._reader), frame.rows)
            found = {row: record for row, record in enumerate(records) if record is not None}
            self._fill(frame, found)
            rows = np.array([row for row in rows.tolist() if row not in found], np.int64)
            timers.add(self._hits, clock, samples=len(found))
        if not len(rows):
            return
        part = frame.retry(rows, None if frame.replacements is None else frame.replacements[rows])
        done, failed = run_stages(self._inner, part)
        clock.lap()
        for bad in failed:
            frame.failed_rows[int(np.searchsorted(frame.rows_in_batch, bad.number))] = bad
        if not done.rows:
            return
        columns: list[Column] = [done.columns[register] for register in self._stored]
        made: list[Record] = [[_sample(column, row) for column in columns] for row in range(done.rows)]
        places: list[int] = np.searchsorted(frame.rows_in_batch, done.rows_in_batch).tolist()
        computed = dict(zip(places, made, strict=True))
        if cache is not None:
            cache.add(done.samples(self._reader), [states[row] for row in places], made)
        self._fill(frame, computed)
        if cache is not None:
            timers.add(self._fills, clock, samples=len(made))

    def _fill(self, frame: ExecutionFrame, records: Mapping[int, Record]) -> None:
        """Write the records of some rows to the columns of the outputs."""
        for (value, register), piece, copied in zip(self.outputs, self._pieces, self._copied, strict=True):
            column, accepts = frame.columns[register], value.spec.accepts
            for row, record in records.items():
                sample = record[piece]
                if not accepts(sample):  # a shape that is assumed for all samples
                    frame.check(value, row, sample)
                column[row] = sample.copy() if copied else sample


def _sample(column: Column, row: int) -> Array:
    # An ellipsis, because a row of an array of numbers would be a number.
    return column[row, ...] if isinstance(column, np.ndarray) else column[row]
