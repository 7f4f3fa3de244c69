"""What becomes of a frame when rows of it fail in a stage."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from penstock.core.columns import Array, Column, Indices
from penstock.engine.failures.bad_row import BadRow
from penstock.engine.host.execution_frame import ExecutionFrame
from penstock.engine.host.stages.host_stages import HostStage
from penstock.errors import SampleError
from penstock.graph.ir.node import Value
from penstock.numerics.random_bits import random_bits, row_counters
from penstock.plan.engine_operators import RowCoordinates

_REPLACEMENTS = 0xFFFFFFFF
"""The stream of random bits that selects other samples for bad ones; no operator has this number."""

ATTEMPTS = 16
"""How many samples in a row may be bad that take the place of one another: more says that something else is wrong."""


def run_stage(stage: HostStage, frame: ExecutionFrame, failed: list[BadRow]) -> ExecutionFrame:
    """Compute a stage.

    Args:
        stage: which.
        frame: where its inputs are.
        failed: gets the rows that fail and are tolerated.

    Returns:
        The frame without those.

    Raises:
        SampleError: a row fails and is not tolerated, or the stage computes no rows by themselves.
    """
    try:
        stage.compute(frame)
    except SampleError as error:
        if not stage.row_independent:
            raise
        frame.drop_row(error)
        return _one_by_one(stage, frame, failed)
    return without_failed_rows(frame, failed)


def result_buffer(value: Value, slot: Array | None, rows: int) -> Column:
    """Where the results of some rows are put together."""
    if slot is not None:
        return slot
    if value.spec.dense:
        return np.zeros((rows, *value.spec.fixed_shape), value.spec.dtype)
    return [np.zeros((0,) * len(value.spec.shape), value.spec.dtype)] * rows


def _one_by_one(stage: HostStage, frame: ExecutionFrame, failed: list[BadRow]) -> ExecutionFrame:
    """Compute a stage that has failed for some row, row by row; what is left of the frame."""
    frame.forget(stage.outputs)
    frame.failed_rows.clear()
    made: list[ExecutionFrame] = []
    for row in range(frame.rows):
        alone = frame.take_rows(slice(row, row + 1))
        try:
            stage.compute(alone)
        except SampleError as error:
            alone.drop_row(error)
        if alone.failed_rows:
            frame.failed_rows[row] = alone.failed_rows[0]
        else:
            made.append(alone)
    rest = without_failed_rows(frame, failed)
    for row, alone in enumerate(made):
        rest.scatter(np.array([row]), alone, stage.outputs)
    return rest


def without_failed_rows(frame: ExecutionFrame, failed: list[BadRow]) -> ExecutionFrame:
    """The frame without the rows that it has lost, which are added to `failed`."""
    if not frame.failed_rows:
        return frame
    failed += frame.failed_rows.values()
    return frame.remaining()


def replacement_draws(seed: int, coordinates: RowCoordinates, attempts: Indices) -> NDArray[np.uint64]:
    """Draw the samples of rows whose own samples are bad: a function of seed, epoch, position and attempt.

    Args:
        seed: Seed of the pipeline.
        coordinates: Coordinates of the rows.
        attempts: Number of bad samples so far, per row.

    Returns:
        A random number per row; 0 where the row keeps its own sample.
    """
    where = row_counters(coordinates.epoch, coordinates.positions)
    bits = random_bits(np, seed, _REPLACEMENTS, where, 2 * int(attempts.max())).astype(np.uint64)
    last = 2 * np.maximum(attempts, 1) - 1
    rows = np.arange(len(attempts))
    words = bits[rows, last - 1] | bits[rows, last] << np.uint64(32)
    return np.where(attempts > 0, np.maximum(words, np.uint64(1)), np.uint64(0))


def replacements_exhausted_error(bad: BadRow) -> SampleError:
    """The error where no good sample was found for a row."""
    one = bad.samples[0]
    said = bad.error.args[0]
    return SampleError(
        f"{ATTEMPTS} other samples were tried in place of a bad one, and all were bad, too; the last: {said}",
        fix="look whether the data set is there, and what the definition expects of it",
        index=one.index,
        source=one.source,
        path=one.path,
        where=bad.error.where,
    )
