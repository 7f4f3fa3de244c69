"""Failed rows: which row of a stage fails, and which samples take the place of bad ones."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.core import Array, Column, Indices
from penstock.core.thread_clock import ThreadClock
from penstock.engine.failures.bad_row import BadRow
from penstock.engine.host.column_rows import scatter_column
from penstock.engine.host.execution_frame import ExecutionFrame, HostStage
from penstock.engine.host.stages.branch_stage import full_column
from penstock.errors import SampleError
from penstock.graph import Node, Value
from penstock.numerics.random_bits import random_bits, row_counters
from penstock.plan.engine_operators import RowCoordinates

# Index of the random stream that selects replacements. Operators are numbered from 0, so none of them has this number.
_REPLACEMENT_STREAM = 0xFFFFFFFF

# Samples to try for one row. More bad samples in a row indicate that the data set or the definition is wrong.
_MAX_ATTEMPTS = 16


def raise_first_failing_row(
    frame: ExecutionFrame, nodes: Sequence[Node], run_one: Callable[[int, int], object]
) -> None:
    """Find the first row for which a stage fails if it computes that row alone. Returns if there is none.

    Args:
        frame: The frame for which the stage failed.
        nodes: Nodes of the stage, in topological order.
        run_one: Called with a row and a count; computes the first `count` nodes for that row.

    Raises:
        PenstockError: The error that names the sample and the node.
    """
    for row in range(frame.rows):
        for count, node in enumerate(nodes, start=1):
            try:
                run_one(row, count)
            except Exception as error:
                raise frame.failure(node, row, error) from error


def run_stages(
    stages: Sequence[HostStage], frame: ExecutionFrame, finish: Callable[[ExecutionFrame], None] | None = None
) -> tuple[ExecutionFrame, list[BadRow]]:
    """Take a frame through stages.

    Args:
        stages: The stages, in order.
        frame: A frame of all rows.
        finish: Called with the frame after the last stage. It may drop rows.

    Returns:
        A frame of the rows that did not fail, and the rows that did and are tolerated. If rows fail before a stage that
        needs the whole batch, the frame is unfinished.

    Raises:
        SampleError: A row fails and is not tolerated.
    """
    failed: list[BadRow] = []
    timers, clock = frame.context.timers, ThreadClock()
    for stage in stages:
        if failed and not stage.row_independent:
            return frame, failed
        rows = frame.rows
        try:
            stage.run(frame)
        except SampleError as error:
            frame = run_row_by_row(stage, frame, error, failed)
        else:
            frame = without_failed_rows(frame, failed)
        if stage.label:
            timers.add(stage.label, clock, samples=rows)
        else:
            clock.lap()
        # Readers and kernels assume at least one row.
        if not frame.rows:
            return frame, failed
    if finish is not None:
        finish(frame)
    return without_failed_rows(frame, failed), failed


def run_row_by_row(stage: HostStage, frame: ExecutionFrame, error: SampleError, failed: list[BadRow]) -> ExecutionFrame:
    """Run a stage that failed for some row again, one row at a time. Returns a frame of the rows that succeed.

    Args:
        stage: The stage.
        frame: The frame that holds its inputs.
        error: The error of the failed row.
        failed: Receives the rows that fail and are tolerated.

    Raises:
        SampleError: A row fails and is not tolerated, or the stage cannot compute rows separately.
    """
    if not stage.row_independent:
        raise error
    frame.drop_row(error)
    # The stage may have filled some registers before it failed, with columns of another number of rows.
    frame.forget(stage.outputs)
    frame.failed_rows.clear()
    succeeded: list[ExecutionFrame] = []
    for row in range(frame.rows):
        # Rows that succeed alone are kept, so that one bad sample does not cost the others of its chunk.
        alone = frame.take_rows(slice(row, row + 1))
        try:
            stage.run(alone)
        except SampleError as error:
            alone.drop_row(error)
        if alone.failed_rows:
            frame.failed_rows[row] = alone.failed_rows[0]
        else:
            succeeded.append(alone)
    rest = without_failed_rows(frame, failed)
    for row, alone in enumerate(succeeded):
        rest.scatter(np.array([row]), alone, stage.outputs)
    return rest


def without_failed_rows(frame: ExecutionFrame, failed: list[BadRow]) -> ExecutionFrame:
    """Return a frame without the rows that were dropped, and add these to `failed`."""
    if not frame.failed_rows:
        return frame
    failed += frame.failed_rows.values()
    return frame.remaining()


def replace_failed_rows(
    frame: ExecutionFrame,
    done: ExecutionFrame,
    failed: list[BadRow],
    run_stages: Callable[[ExecutionFrame], tuple[ExecutionFrame, list[BadRow]]],
    results: Sequence[tuple[Value, int, Array | None]],
    *,
    row_independent: bool,
) -> tuple[tuple[Column, ...], list[BadRow]]:
    """Compute other samples for the rows that failed, until none of them fails.

    Args:
        frame: The frame of all rows.
        done: The frame of the rows that succeeded in the first pass.
        failed: The rows that failed in it.
        run_stages: Takes a frame through all stages, and returns the same two things.
        results: Each result, its register, and its slot in the batch buffer; None for a ragged result.
        row_independent: False if a stage needs the whole batch, so that all rows are computed again.

    Returns:
        The columns of the results, with zeros in rows that are skipped; and all failures, ascending by row.

    Raises:
        SampleError: All samples that were tried for a row are bad.
    """
    columns = [_result_column(value, slot, frame.rows) for value, _, slot in results]
    attempts = np.zeros(frame.rows, np.int64)
    skipped: set[int] = set()
    all_failed: list[BadRow] = []
    while True:
        # A stage that needs the whole batch did not see all rows, so none of its results is valid.
        if done.rows and (row_independent or not failed):
            at = np.searchsorted(frame.rows_in_batch, done.rows_in_batch)
            for column, (value, register, _) in zip(columns, results, strict=True):
                scatter_column(column, at, full_column(value, register, done))
        again: set[int] = set()
        for bad in failed:
            row = int(np.searchsorted(frame.rows_in_batch, bad.number))
            attempts[row] += 1
            (skipped if bad.policy == "skip" else again).add(row)
            if bad.policy != "skip" and attempts[row] > _MAX_ATTEMPTS:
                raise _all_bad_error(bad)
        all_failed += failed
        if not again:
            break
        # Skipped rows keep zeros; only rows to be replaced are computed again.
        rows = np.array(sorted(again)) if row_independent else np.arange(frame.rows)
        retry = frame.retry(rows, None)
        retry.replacements = _replacement_draws(frame.context.seed, retry.coordinates, attempts[rows])
        done, failed = run_stages(retry)
    for column in columns:
        if isinstance(column, np.ndarray):
            # A row may have failed after its result was partly written into the slot.
            column[sorted(skipped)] = 0
    return tuple(columns), sorted(all_failed, key=lambda bad: bad.number)


def _result_column(value: Value, slot: Array | None, rows: int) -> Column:
    """Return the column in which the rows of several passes are collected."""
    if slot is not None:
        return slot
    if value.spec.dense:
        return np.zeros((rows, *value.spec.fixed_shape), value.spec.dtype)
    return [np.zeros((0,) * len(value.spec.shape), value.spec.dtype)] * rows


def _replacement_draws(seed: int, coordinates: RowCoordinates, attempts: Indices) -> NDArray[np.uint64]:
    """Draw a random number per row that selects its next sample; 0 for rows without a bad sample.

    The number is a pure function of seed, epoch, position and attempt, so that a replacement does not depend on chunks,
    threads or devices.
    """
    counters = row_counters(coordinates.epoch, coordinates.positions)
    # Attempt k uses words 2k - 2 and 2k - 1. 64 bits, because a data set may have more than 2**32 samples.
    bits = random_bits(np, seed, _REPLACEMENT_STREAM, counters, 2 * int(attempts.max())).astype(np.uint64)
    last = 2 * np.maximum(attempts, 1) - 1
    rows = np.arange(len(attempts))
    words = bits[rows, last - 1] | bits[rows, last] << np.uint64(32)
    return np.where(attempts > 0, np.maximum(words, np.uint64(1)), np.uint64(0))


def _all_bad_error(bad: BadRow) -> SampleError:
    sample = bad.samples[0]
    return SampleError(
        f"{_MAX_ATTEMPTS} other samples were tried in place of a bad one, and all were bad, too; "
        f"the last: {bad.error.args[0]}",
        fix="check that the data set is complete, and that the definition fits its samples",
        index=sample.index,
        source=sample.source,
        path=sample.path,
        where=bad.error.where,
    )
