"""A plan in motion: host threads, transfers, the device program. The only object with threads in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import jax
import numpy as np

from penstock.data.schedule import Step
from penstock.data.source import Array, Column
from penstock.device.program import DeviceProgram
from penstock.graph.node import Node, Value
from penstock.host.feed import Feed
from penstock.host.pool import Pool
from penstock.host.program import HostProgram
from penstock.host.reading import Reading
from penstock.meter import Meter
from penstock.plan.plan import Plan
from penstock.transfer.backlog import Backlog
from penstock.transfer.layout import Layout


class Run:
    """Gives the batch of any step; those that follow are prepared ahead on the host.

    Args:
        plan: what runs where.
        readings: how each reader is read.
        lead: the reading whose positions number the rows.
        seed: what all random numbers derive from.
        layout: how batches lie on the devices.
        pool: where host work runs.
        depth: how many host batches are begun ahead.
        after: the step that follows another.
        meter: what the stages report to.
        narrow: whether 64-bit values are handed over as JAX would make them; else as they are.
    """

    def __init__(
        self,
        plan: Plan,
        readings: Mapping[Node, Reading],
        lead: Reading | None,
        seed: int,
        layout: Layout,
        pool: Pool,
        depth: int,
        after: Callable[[Step], Step],
        meter: Meter,
        *,
        narrow: bool,
    ) -> None:
        self.plan = plan
        self._layout = layout
        self._meter = meter
        self._backlog = Backlog(layout.devices)
        self._device = DeviceProgram(plan, seed, layout) if plan.device else None
        dtypes = [value.spec.dtype for value in plan.results]
        self._feed = Feed(
            HostProgram(plan, readings, lead, seed, meter),
            layout.lanes,
            [np.dtype(jax.dtypes.canonicalize_dtype(dtype)) if narrow else dtype for dtype in dtypes],
            pool,
            depth,
            after,
        )

    def arrays(self, step: Step) -> tuple[jax.Array, ...]:
        """The outputs of a batch, then its mask if the plan has one. Dispatches on the caller's thread.

        Raises:
            SampleError: a sample of the batch is bad.
        """
        hosted = self.hosted(step)
        with self._meter.timed("wait for emulated devices", step.rows):
            self._backlog.settle()
        with self._meter.timed("transfer and dispatch", step.rows):
            made = self.made(hosted)
            outputs = [
                made[number] if number in made else self._layout.put_output(number, _dense(hosted[value]))
                for number, value in enumerate(self.plan.graph.outputs)
            ]
            if self.plan.valid is not None:
                outputs.append(self._layout.put_mask(_dense(hosted[self.plan.valid])))
            return tuple(outputs)

    def hosted(self, step: Step) -> dict[Value, Column]:
        """What the host hands over for a batch: the plan's results."""
        with self._meter.timed("wait for the host", step.rows):
            return dict(zip(self.plan.results, self._feed.take(step), strict=True))

    def made(self, hosted: Mapping[Value, Column]) -> dict[int, jax.Array]:
        """The outputs that the device program makes of it, by number. Dispatches on the caller's thread."""
        if self._device is None:
            return {}
        crossing = [self._layout.put_rows(_dense(hosted[value])) for value in self.plan.crossing]
        return dict(zip(self._device.numbers, self._device(crossing), strict=True))

    def close(self) -> None:
        """End the threads and forget what was prepared. The run may be used again."""
        self._feed.close()


def _dense(column: Column) -> Array:
    return column if isinstance(column, np.ndarray) else np.stack(column)
