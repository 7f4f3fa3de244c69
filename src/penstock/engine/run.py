"""Run of a plan: host threads, transfers and the device program. The only object that has threads."""

import time
from collections.abc import Generator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np

from penstock.core import Array, Column, Indices
from penstock.core.slice_recorder import CLOCK_MARKER, active_recorder
from penstock.core.stage_timers import DEVICES_WAIT
from penstock.core.thread_clock import ThreadClock
from penstock.engine.device.device_program import DeviceProgram, State, stateful
from penstock.engine.device.operator_state import OperatorState
from penstock.engine.failures.bad_row import BadRow
from penstock.engine.host.host_loader import HostBatch, HostLoader
from penstock.engine.host.host_program import HostProgram
from penstock.engine.host.run_context import RunContext
from penstock.engine.host.slow_batches import slow_batch
from penstock.engine.transfer.batch_layout import BatchLayout
from penstock.engine.transfer.emulated_devices import InFlightLimit
from penstock.engine.transfer.row_masks import RowMasks
from penstock.plan.plan import Plan
from penstock.sources.order.schedule import BatchStep
from penstock.sources.stream import EndOfStreamError


class Run:
    """Computes the batch of any step, and prepares the host part of the following ones.

    Args:
        plan: The plan.
        layout: Layout of batches on the devices.
        context: Context of the run.
        narrow: True to deliver 64-bit values in the dtype that JAX gives them; False to keep their dtype.

    Attributes:
        meter: Timers of the stages.
    """

    def __init__(self, plan: Plan, layout: BatchLayout, context: RunContext, *, narrow: bool) -> None:
        self._layout = layout
        self._context = context
        self.meter = context.timers
        self._in_flight_limit = InFlightLimit(layout.devices)
        # A plan without device nodes transfers the host's columns only; nothing is compiled.
        self._device = DeviceProgram(plan, context.seed, layout) if plan.device else None
        self._operator_state = OperatorState(plan, self._device.place) if self._device and stateful(plan) else None
        numbers = {value: number for number, value in enumerate(plan.results)}
        self._host_outputs = [(n, numbers[value]) for n, value in enumerate(plan.graph.outputs) if value in numbers]
        self._crossing = [numbers[value] for value in plan.crossing]
        self._mask = None if plan.valid is None else numbers[plan.valid]
        self._output_order = [
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
        """Compute the arrays of a batch.

        Waits for the host part and dispatches the device program, both on the caller's thread: collectives of the
        input pipeline and of the training step must not interleave differently on two processes.

        Returns:
            The outputs, followed by the mask if the plan has one; and the rows of this process that failed and are
            tolerated.

        Raises:
            SampleError: A sample of the batch is bad.
        """
        begin = time.perf_counter()
        with slow_batch(), self._carrying_over(step):
            batch = self._loader.get(step)
        columns = batch.columns
        clock = ThreadClock()
        # Waits before the transfer, so that the time of the devices is not counted as transfer.
        self._in_flight_limit.wait()
        self.meter.add(DEVICES_WAIT, clock, samples=step.rows)
        # All outputs of the host in one transfer: each call of JAX has a fixed cost.
        hosted: dict[int | None, Array] = {number: _dense(columns[result]) for number, result in self._host_outputs}
        outputs: dict[int | None, jax.Array] = {**self._device_outputs(batch), **self._layout.put_batch(hosted)}
        if None in self._output_order:
            outputs[None] = self._masks.put(len(columns[0]), self._masked_rows(batch))
        self.meter.add("transfer and dispatch", clock, samples=step.rows)
        if (recorder := active_recorder()) is not None:
            # The same moment in a profile of JAX, if one is recorded, from which `penstock.trace` aligns the clocks.
            with jax.profiler.TraceAnnotation(CLOCK_MARKER, perf_counter_ns=time.perf_counter_ns()):
                pass
            recorder.add("batch", begin, time.perf_counter(), epoch=step.epoch, row=step.row, samples=step.rows)
        return [outputs[number] for number in self._output_order], batch.failed

    @property
    def workers(self) -> str:
        """Description of the worker processes; "" if threads compute the host part."""
        return self._context.executor.summary()

    def begin(self, step: BatchStep) -> tuple[Future[Any], ...]:
        """Begin the host part of the next batch. Neither waits nor dispatches.

        Returns:
            Futures that complete when the host part is done.

        Raises:
            SampleError: A sample of the batch is bad.
        """
        with self._carrying_over(step):
            return self._loader.begin(step)

    def outputs(self, step: BatchStep) -> tuple[list[Any], Sequence[BadRow]]:
        """Compute the outputs of a batch without transfers: columns of the host, and arrays of the device.

        Returns:
            The outputs, and the rows that failed and are tolerated.

        Raises:
            SampleError: A sample of the batch is bad.
        """
        with slow_batch(), self._carrying_over(step):
            batch = self._loader.get(step)
        outputs: dict[int, Any] = dict(self._device_outputs(batch))
        outputs |= {number: batch.columns[result] for number, result in self._host_outputs}
        return [outputs[number] for number in range(len(outputs))], batch.failed

    @contextmanager
    def _carrying_over(self, step: BatchStep) -> Generator[None]:
        """Make the state of operators before a step that of the next epoch, if a stream ends this one there."""
        try:
            yield
        except EndOfStreamError:
            if self._operator_state:
                self._operator_state.carry_over(step, self._context.schedule.next_epoch(step))
            raise

    def _masked_rows(self, batch: HostBatch) -> Indices:
        """Return the indices of this process's rows for which the mask is False."""
        if self._mask is not None:
            return np.flatnonzero(~_dense(batch.columns[self._mask]))
        skipped = np.array([bad.number for bad in batch.failed if bad.policy == "skip"], np.int64)
        if not len(skipped):
            return skipped
        # Bad rows are numbered in the global batch; the mask has the rows of this process.
        rows = len(batch.columns[0]) // len(self._layout.shards) * self._layout.blocks
        return np.searchsorted(self._layout.local_rows(rows), skipped)

    def _device_outputs(self, batch: HostBatch) -> dict[int, jax.Array]:
        """Dispatch the device program. Returns its outputs by number."""
        if self._device is None:
            return {}
        step, columns = batch.step, batch.columns
        before = self._operator_state.before(step) if self._operator_state else ()
        # Values that only cross to the device get the sharding of the rows, not the sharding of an output.
        crossing = [self._layout.put_rows(_dense(columns[result])) for result in self._crossing]
        if self._crossing_masks is not None:
            crossing.append(self._crossing_masks.put(len(columns[0]), self._masked_rows(batch)))
        state, outputs = self._device(before, crossing)
        if self._operator_state:
            self._operator_state.save_after(self._context.schedule.next_step(step), state)
        return dict(zip(self._device.numbers, outputs, strict=True))

    def taken(self, step: BatchStep) -> None:
        """Note that the consumer has taken a batch, or the end of its epoch. Until then, other steps give it back."""
        if self._context.feeder is not None:
            self._context.feeder.delivered(step)

    def carried(self, step: BatchStep) -> State | None:
        """Return the state of stateful operators before the batch of `step`; None if there are none.

        Raises:
            StateError: The state is unknown, because the preceding batch was not the last one computed.
        """
        return self._operator_state.before(step) if self._operator_state else None

    def check_state(self, step: BatchStep, state: Sequence[Sequence[Any]] | None, *, allow_reset: bool) -> None:
        """Check the arguments of `resume`, without a change.

        Raises:
            StateError: The state belongs to other operators.
        """
        if self._operator_state:
            self._operator_state.arrays_of(step, state, allow_reset=allow_reset)

    def resume(self, step: BatchStep, state: Sequence[Sequence[Any]] | None, *, allow_reset: bool = False) -> None:
        """Restore the state of stateful operators at a step.

        Args:
            step: The step.
            state: The state that `carried` returned there; None for the initial state.
            allow_reset: True to use the initial state if `state` is missing or belongs to other operators.

        Raises:
            StateError: The state belongs to other operators.
        """
        if self._operator_state:
            self._operator_state.resume(step, state, allow_reset=allow_reset)

    def close(self) -> None:
        """End the threads and discard prepared batches. The run can be used again."""
        self._loader.close()
        if self._context.feeder is not None:
            self._context.feeder.close()


def _dense(column: Column) -> Array:
    return column if isinstance(column, np.ndarray) else np.stack(column)
