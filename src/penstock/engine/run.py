"""A plan in motion: host threads, transfers, the device program. The only object with threads in it."""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import jax
import numpy as np

from penstock.core.columns import Array, Column, Indices
from penstock.core.stage_timers import DEVICES_WAIT, HOST_WAIT
from penstock.engine.device.device_program import DeviceProgram, State, stateful
from penstock.engine.device.operator_state import OperatorState
from penstock.engine.failures.bad_row import BadRow
from penstock.engine.host.host_loader import HostBatch, HostLoader
from penstock.engine.host.host_program import HostProgram
from penstock.engine.host.run_context import RunContext
from penstock.engine.transfer.batch_layout import BatchLayout
from penstock.engine.transfer.in_flight import InFlightLimit
from penstock.engine.transfer.row_masks import RowMasks
from penstock.plan.plan import Plan
from penstock.sources.order.schedule import BatchStep


class Run:
    """Gives the batch of any step; those that follow are prepared ahead on the host.

    Args:
        plan: what runs where.
        layout: how batches lie on the devices.
        context: what its parts share.
        narrow: whether 64-bit values are handed over as JAX would make them; else as they are.
    """

    def __init__(self, plan: Plan, layout: BatchLayout, context: RunContext, *, narrow: bool) -> None:
        self._layout = layout
        self._context = context
        self.meter = context.timers
        self._backlog = InFlightLimit(layout.devices)
        self._device = DeviceProgram(plan, context.seed, layout) if plan.device else None
        self._carried = OperatorState(plan, self._device.place) if self._device and stateful(plan) else None
        numbers = {value: number for number, value in enumerate(plan.results)}
        self._hosted = [(n, numbers[value]) for n, value in enumerate(plan.graph.outputs) if value in numbers]
        self._crossing = [numbers[value] for value in plan.crossing]
        self._mask = None if plan.valid is None else numbers[plan.valid]
        self._order = [
            *range(len(plan.graph.outputs)),
            *([] if plan.valid is None and not plan.masks_bad_rows else [None]),
        ]
        self._masks = RowMasks(lambda column: layout.put_batch({None: column})[None])
        self._crossing_masks = RowMasks(layout.put_rows) if plan.masks_bad_rows and plan.device else None
        dtypes = [value.spec.dtype for value in plan.results]
        self._loader = HostLoader(
            HostProgram(plan, context),
            [np.dtype(jax.dtypes.canonicalize_dtype(dtype)) if narrow else dtype for dtype in dtypes],
        )

    def next_batch(self, step: BatchStep) -> tuple[list[jax.Array], Sequence[BadRow]]:
        """The outputs of a batch, then its mask if the plan has one. Dispatches on the caller's thread.

        Returns:
            They, and the rows of this process that failed and are tolerated.

        Raises:
            SampleError: a sample of the batch is bad.
        """
        batch = self._take(step)
        columns = batch.columns
        start = time.perf_counter()
        self._backlog.wait()
        settled = time.perf_counter()
        hosted: dict[int | None, Array] = {number: _dense(columns[result]) for number, result in self._hosted}
        outputs: dict[int | None, jax.Array] = {**self._made(batch), **self._layout.put_batch(hosted)}
        if None in self._order:
            outputs[None] = self._masks.put(len(columns[0]), self._lost(batch))
        self.meter.add(DEVICES_WAIT, seconds=settled - start, samples=step.rows)
        self.meter.add("transfer and dispatch", seconds=time.perf_counter() - settled, samples=step.rows)
        return [outputs[number] for number in self._order], batch.failed

    def begin(self, step: BatchStep) -> tuple[Future[Any], ...]:
        """Begin the host's part of a batch that will be asked for next. Neither waits nor dispatches anything.

        Returns:
            The chunks of work that have to be done first.

        Raises:
            SampleError: a sample of the batch is bad.
        """
        return self._loader.begin(step)

    def outputs(self, step: BatchStep) -> tuple[list[Any], Sequence[BadRow]]:
        """The outputs of a batch where they are: columns on the host, arrays on the device; and the rows that failed.

        Raises:
            SampleError: a sample of the batch is bad.
        """
        batch = self._take(step)
        outputs: dict[int, Any] = dict(self._made(batch))
        outputs |= {number: batch.columns[result] for number, result in self._hosted}
        return [outputs[number] for number in range(len(outputs))], batch.failed

    def _take(self, step: BatchStep) -> HostBatch:
        start = time.perf_counter()
        gc.collect(0)  # JAX lets go of the batches that the user dropped only now, or in its next call: after `take`
        batch = self._loader.get(step)
        self.meter.add(HOST_WAIT, seconds=time.perf_counter() - start, samples=step.rows)
        return batch

    def _lost(self, batch: HostBatch) -> Indices:
        """Which rows of this process the batch's mask leaves out."""
        if self._mask is not None:
            return np.flatnonzero(~_dense(batch.columns[self._mask]))
        skipped = np.array([bad.number for bad in batch.failed if bad.policy == "skip"], np.int64)
        if not len(skipped):
            return skipped
        rows = len(batch.columns[0]) // len(self._layout.shards) * self._layout.blocks
        return np.searchsorted(self._layout.local_rows(rows), skipped)

    def _made(self, batch: HostBatch) -> dict[int, jax.Array]:
        """The outputs that the device program makes, by number."""
        if self._device is None:
            return {}
        step, columns = batch.step, batch.columns
        before = self._carried.before(step) if self._carried else ()
        crossing = [self._layout.put_rows(_dense(columns[result])) for result in self._crossing]
        if self._crossing_masks is not None:
            crossing.append(self._crossing_masks.put(len(columns[0]), self._lost(batch)))
        state, outputs = self._device(before, crossing)
        if self._carried:
            self._carried.save_after(self._context.schedule.next_step(step), state)
        return dict(zip(self._device.numbers, outputs, strict=True))

    def carried(self, step: BatchStep) -> State | None:
        """The state that operators carry, as it is before the batch of `step`; None where none carries any.

        Raises:
            StateError: the batches before have not just been made.
        """
        return self._carried.before(step) if self._carried else None

    def resume(self, step: BatchStep, state: Sequence[Sequence[Any]] | None, *, anew: bool = False) -> None:
        """Go to a step, with the state that operators carried there; None stands for the state at the beginning.

        Args:
            step: where.
            state: what was carried there.
            anew: whether operators begin anew where no state is given, or that of others.

        Raises:
            StateError: the state belongs to other operators.
        """
        if self._carried:
            self._carried.resume(step, state, anew=anew)

    def close(self) -> None:
        """End the threads and forget what was prepared. The run may be used again."""
        self._loader.close()
        if self._context.feeder is not None:
            self._context.feeder.close()


def _dense(column: Column) -> Array:
    return column if isinstance(column, np.ndarray) else np.stack(column)
