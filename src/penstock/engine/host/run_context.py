"""What the frames of a program share, and what they say of rows that fail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.core.columns import Indices
from penstock.engine.host.sharded_reader import ShardedReader
from penstock.graph.ir.node import Node
from penstock.graph.ir.reader_lineage import upstream_readers
from penstock.numerics.random_bits import random_bits, row_counters
from penstock.plan.engine_operators import RowCoordinates
from penstock.sources.order.schedule import BatchStep
from penstock.types import OnError

_REPLACEMENTS = 0xFFFFFFFF
"""The stream of random bits that selects other samples for bad ones; no operator has this number."""


@dataclass(frozen=True)
class RunContext:
    """What all frames of a program share.

    Args:
        readings: how each reader is read.
        lead: the reading whose positions number the rows, or None where nothing is read.
        seed: of the pipeline.
        on_error: what is done about bad samples, where their readers do not say.
    """

    readings: Mapping[Node, ShardedReader]
    lead: ShardedReader | None
    seed: int
    on_error: OnError = "raise"

    def coordinates(self, step: BatchStep, numbers: Indices) -> RowCoordinates:
        """Where the rows of a batch with these numbers stand in the epoch."""
        if self.lead is not None:
            return self.lead.coordinates(step, numbers)
        return RowCoordinates(step.epoch, numbers + step.row, np.ones(len(numbers), np.bool_))

    def name(self, reader: Node) -> str:
        """What a reader is called: by its number, too, where several are called the same."""
        same = [each for each in self.readings if str(each) == str(reader)]
        return str(reader) if len(same) == 1 else f"{reader} {same.index(reader) + 1}"

    def on_error_of(self, node: Node) -> OnError:
        """What is done when a node fails on a row: the strictest of what the readers it computes from say."""
        readers = [self.readings[each].readers[0] for each in upstream_readers(node) if each in self.readings]
        said = [reader.on_error or self.on_error for reader in readers] or [self.on_error]
        return "raise" if "raise" in said else "skip" if "skip" in said else "replace"

    def replacement_draws(self, coordinates: RowCoordinates, attempts: Indices) -> NDArray[np.uint64]:
        """What selects the samples of rows whose own ones are bad: a function of seed, epoch, position and attempt.

        Args:
            coordinates: of the rows.
            attempts: per row how many samples were bad.

        Returns:
            Per row a number; 0 where the row has its own sample.
        """
        where = row_counters(coordinates.epoch, coordinates.positions)
        bits = random_bits(np, self.seed, _REPLACEMENTS, where, 2 * int(attempts.max())).astype(np.uint64)
        last = 2 * np.maximum(attempts, 1) - 1
        rows = np.arange(len(attempts))
        words = bits[rows, last - 1] | bits[rows, last] << np.uint64(32)
        return np.where(attempts > 0, np.maximum(words, np.uint64(1)), np.uint64(0))
