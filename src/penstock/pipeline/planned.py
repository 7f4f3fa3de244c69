"""From graphs to a run: merge, look at sample 0, plan, start."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import jax

from penstock.data.order import mix
from penstock.data.schedule import Step
from penstock.graph.node import Graph, Node
from penstock.host.pool import Serial, Threads
from penstock.host.probe import resolved
from penstock.host.reading import Reading, check_same_specs
from penstock.meter import Meter
from penstock.plan.explain import explain
from penstock.plan.merge import Program, merge
from penstock.plan.place import PlacementWish, Target
from penstock.plan.plan import Plan, make_plan
from penstock.run import Run
from penstock.transfer.layout import Layout


@dataclass(frozen=True)
class Planned:
    """A definition, planned for the devices of a layout: everything but the threads."""

    program: Program
    plan: Plan
    layout: Layout

    @staticmethod
    def of(
        graphs: Sequence[Graph],
        layout: Layout,
        placement: PlacementWish,
        *,
        dense_outputs: bool,
        mask: bool = False,
    ) -> Planned:
        """Merge the graphs of all blocks, look at sample 0 where that is needed, and plan.

        Raises:
            PenstockError: the definition or its first sample is not right.
        """
        shards = layout.shards if len(graphs) > 1 else (0,)
        program = merge(graphs, shards, layout.blocks)
        for readers in program.readers.values():
            check_same_specs(readers)
        program = resolved(program, dense_outputs=dense_outputs)
        target = Target(layout.platform, bool(jax.config.read("jax_enable_x64")), placement)
        return Planned(program, make_plan(program.graph, target, dense_outputs=dense_outputs, mask=mask), layout)

    def readings(self, seed: int, lead: str | None) -> dict[Node, Reading]:
        """How each reader is read; the one named `lead` defines the epoch."""
        return {
            node: Reading(
                self.program.readers[node.serial],
                self.layout.shards,
                self.layout.blocks,
                seed=mix(*node.key(seed)),
                number=number,
                leads=lead is not None and node.name == lead,
            )
            for number, node in enumerate(self.plan.graph.readers)
        }

    def run(
        self,
        readings: Mapping[Node, Reading],
        seed: int,
        pool: Threads | Serial,
        depth: int,
        after: Callable[[Step], Step],
        meter: Meter,
        *,
        narrow: bool,
    ) -> Run:
        """The plan in motion."""
        lead = leading(readings)
        return Run(self.plan, readings, lead, seed, self.layout, pool, depth, after, meter, narrow=narrow)

    def explain(self, rows: int) -> str:
        """What runs where, and why, for batches of so many rows."""
        blocks, devices = self.layout.blocks, len(self.layout.devices)
        batch = f"{rows} rows" + (f" in {blocks} blocks on {devices} devices" if devices > 1 else "")
        return explain(self.plan, self.program.readers, batch)


def leading(readings: Mapping[Node, Reading]) -> Reading | None:
    """The reading whose positions number the rows: the one that defines the epoch, else the first."""
    named = [reading for reading in readings.values() if reading.leads]
    return next(iter(named or readings.values()), None)
