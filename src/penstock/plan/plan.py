"""The plan: what the host does, what it hands over, what the device does with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from penstock.core.spec import ShapeKind
from penstock.errors import DefinitionError, InternalError
from penstock.graph.ir.node import Graph, Node, Value
from penstock.graph.ir.operator import DeviceKernel, WholeBatchKernel
from penstock.graph.tracing.fix_suggestions import ShapeProblem, suggested_fix
from penstock.plan.engine_operators import (
    RowCounters,
    ValidMask,
    engine_node,
    host_description_node,
    needs_host_description,
)
from penstock.plan.placement import Placement, Side, TargetMachine, choose_placement
from penstock.plan.stage_grouping import Stage, fusion_groups, group_stages


@dataclass(frozen=True)
class Plan:
    """Where and when everything runs.

    Args:
        graph: the definition, with all specs that the data's first sample could tell.
        target: what it was planned for.
        placements: where each node runs, and why.
        stages: the host's work, in order.
        results: what the host hands over: outputs, values that cross to the device, row coordinates.
        device: the nodes of the device program, in order.
        fusion_groups: those of them that are computed together, in one visit to the data.
        host_descriptions: per chain that the host describes, by its last node, the node of the engine's own that does.
        counters: the result that random numbers on the device come from, if any are drawn there.
        valid: the result that is the mask of a padded last batch, if one is asked for.
        masks_bad_rows: whether rows may be skipped: their outputs are zeros, those of the device program, too.
    """

    graph: Graph
    target: TargetMachine
    placements: Mapping[Node, Placement]
    stages: tuple[Stage, ...]
    results: tuple[Value, ...]
    device: tuple[Node, ...]
    fusion_groups: tuple[tuple[Node, ...], ...]
    host_descriptions: Mapping[Node, Node]
    counters: Value | None
    valid: Value | None
    masks_bad_rows: bool = False

    @cached_property
    def crossing(self) -> tuple[Value, ...]:
        """The results that the device program computes from."""
        used = {*_needs(self.device, self.fusion_groups, self.host_descriptions), self.counters}
        return tuple(value for value in self.results if value in used)

    def on_device(self, value: Value) -> bool:
        """Whether a value is made by the device program."""
        return value.node in self.placements and self.placements[value.node].place is Side.DEVICE


def make_plan(
    graph: Graph, target: TargetMachine, *, dense_outputs: bool, mask: bool = False, skips: bool = False
) -> Plan:
    """Plan a resolved graph.

    Args:
        graph: the definition, after `penstock.plan.shape_demand.resolve`.
        target: the machine and the user's placement hint.
        dense_outputs: whether outputs are delivered as arrays.
        mask: whether rows past the end of an epoch are masked; a `valid` mask is delivered, too.
        skips: whether rows may be skipped.

    Raises:
        DefinitionError: an output must be an array and has samples of different shapes, or rows are skipped that
            others are computed from.
    """
    for node in graph.nodes if skips else ():
        _check_apart(node)
    for value in graph.outputs if dense_outputs else ():
        _check_dense(value)
    placements = choose_placement(graph, target)
    host = [node for node in graph.nodes if placements[node].place is Side.HOST]
    device = tuple(node for node in graph.nodes if placements[node].place is Side.DEVICE)
    needed = dict.fromkeys(value for value in graph.outputs if value.node in host)
    chained = tuple(fusion_groups(graph, device, set(graph.outputs), device=True))
    described_by = {nodes[-1]: host_description_node(nodes) for nodes in chained if needs_host_description(nodes[-1])}
    engine = tuple(described_by.values())
    crossing = [value for value in _needs(device, chained, described_by) if value.node in (*host, *engine)]
    needed |= dict.fromkeys(crossing)
    crosses = bool(crossing)
    draws = any(node.operator.random_bits and not needs_host_description(node) for node in device)
    counted = draws or (bool(device) and not crosses)  # a device program learns the number of rows from its inputs
    counters = engine_node(RowCounters(), "counters").values[0] if counted else None
    valid = engine_node(ValidMask(), "valid").values[0] if mask else None
    extra = [value for value in (counters, valid) if value is not None]
    results = (*needed, *extra)
    hosted = group_stages(graph, [*host, *engine, *(value.node for value in extra)], set(results))
    plan = Plan(graph, target, placements, hosted, results, device, chained, described_by, counters, valid, skips)
    verify_plan(plan)
    return plan


def _needs(
    device: tuple[Node, ...], chained: tuple[tuple[Node, ...], ...], describing: Mapping[Node, Node]
) -> Iterable[Value]:
    """What the device program computes from: no guards, and no arguments of a chain that the host describes."""
    inside = {node: nodes for nodes in chained for node in nodes if nodes[-1] in describing}
    for node in device:
        nodes = inside.get(node)
        if nodes is None:
            yield from node.operands
        elif node is nodes[-1]:
            numbers, *canvas = describing[node].values
            yield canvas[0] if canvas else nodes[0].inputs[0]
            yield numbers


def _check_apart(node: Node) -> None:
    operator = node.operator
    if isinstance(operator, WholeBatchKernel) or (isinstance(operator, DeviceKernel) and operator.mixes_rows):
        raise DefinitionError(
            f'{node} computes rows from other rows, and with on_error="skip" some of these hold no sample',
            given='on_error="skip"',
            fix='on_error="replace", which gives whole batches',
            where=node.where,
        )


def _check_dense(value: Value) -> None:
    if value.spec.extent is not ShapeKind.RAGGED:
        return
    raise DefinitionError(
        f"the output {value} is ragged: its samples differ in shape, so a batch of them is no array",
        given=value.spec,
        fix=fix_for_ragged(value),
        where=value.node.where,
    )


def fix_for_ragged(value: Value) -> str:
    """What would give the samples of a value one shape."""
    trouble = ShapeProblem.RAGGED_BYTES if len(value.spec.shape) == 1 else ShapeProblem.RAGGED
    return f"give the samples one shape: {suggested_fix(trouble)}"


def verify_plan(plan: Plan) -> None:
    """Check what every later stage relies on.

    Raises:
        InternalError: a pass made a plan that cannot run.
    """
    for node in plan.graph.nodes:
        for value in node.sources:
            if plan.on_device(value) and plan.placements[node].place is not Side.DEVICE:
                raise InternalError(f"{node} on the host needs {value} from the device")
    for node in plan.device:
        for value in (*node.operands, *node.values):
            if not value.spec.dense and not needs_host_description(node):
                raise InternalError(f"{value} is ragged and on the device", given=value.spec)
