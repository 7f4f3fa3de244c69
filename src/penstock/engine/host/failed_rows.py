"""What becomes of a frame when rows of it fail in a stage."""

from __future__ import annotations

import numpy as np

from penstock.core.columns import Array, Column
from penstock.engine.failures.bad_row import BadRow
from penstock.engine.host.execution_frame import ExecutionFrame
from penstock.engine.host.stages.host_stages import HostStage
from penstock.errors import SampleError
from penstock.graph.ir.node import Value

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
        stage.run(frame)
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
            stage.run(alone)
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
