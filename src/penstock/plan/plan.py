"""The plan: stages of the host, values that cross, and the device program."""

from collections.abc import Iterable, Mapping

from penstock.core import ONE_SHAPE_FIX, ShapeKind
from penstock.core.dataclass import dataclass
from penstock.errors import DefinitionError, InternalError
from penstock.graph import DeviceKernel, Graph, Node, Value, WholeBatchKernel
from penstock.plan.engine_operators import (
    ROW_COUNTERS,
    VALID_MASK,
    engine_node,
    host_description_node,
    needs_host_description,
)
from penstock.plan.placement import Placement, Side, TargetMachine, choose_placement
from penstock.plan.stage_grouping import Stage, fusion_groups, group_stages


@dataclass(frozen=True)
class Plan:
    """Placement and order of all work of a definition.

    Args:
        graph: The definition, with the shapes of sample 0.
        target: The machine.
        placements: The side of each node, and the reason.
        stages: The stages of the host, in order.
        results: The values that the host hands over: outputs, values that cross to the device, row counters, the mask.
        crossing: The results that the device program uses.
        device: The nodes of the device program, in topological order.
        fusion_groups: Groups of nodes of the device program that are computed together.
        host_descriptions: The node that describes a fused group, by the last node of the group.
        counters: The row counters, if the device program needs them; otherwise None.
        valid: The mask of a padded last batch, if requested; otherwise None.
        masks_bad_rows: True if rows may be skipped. Their outputs are zeros.
    """

    graph: Graph
    target: TargetMachine
    placements: Mapping[Node, Placement]
    stages: tuple[Stage, ...]
    results: tuple[Value, ...]
    crossing: tuple[Value, ...]
    device: tuple[Node, ...]
    fusion_groups: tuple[tuple[Node, ...], ...]
    host_descriptions: Mapping[Node, Node]
    counters: Value | None
    valid: Value | None
    masks_bad_rows: bool = False

    def on_device(self, value: Value) -> bool:
        """True if the device program computes a value."""
        return value.node in self.placements and self.placements[value.node].place is Side.DEVICE


def make_plan(
    graph: Graph, target: TargetMachine, *, dense_outputs: bool, mask: bool = False, skips: bool = False
) -> Plan:
    """Plan a resolved graph.

    Args:
        graph: The definition, after `penstock.plan.shape_demand.apply_shapes`.
        target: The machine and the user's placement hint.
        dense_outputs: True if outputs are delivered as arrays.
        mask: True to deliver a mask of the rows past the end of an epoch.
        skips: True if rows may be skipped.

    Raises:
        DefinitionError: an output must be an array but is ragged, or rows may be skipped that other rows depend on.
    """
    for node in graph.nodes if skips else ():
        _check_apart(node)
    for value in graph.outputs if dense_outputs else ():
        _check_dense(value)
    placements = choose_placement(graph, target)
    host = [node for node in graph.nodes if placements[node].place is Side.HOST]
    device = tuple(node for node in graph.nodes if placements[node].place is Side.DEVICE)
    # A dictionary as an ordered set: the inputs of the device program follow this order.
    needed = dict.fromkeys(value for value in graph.outputs if value.node in host)
    groups = tuple(fusion_groups(graph, device, set(graph.outputs), device=True))
    described_by = {nodes[-1]: host_description_node(nodes) for nodes in groups if needs_host_description(nodes[-1])}
    engine = tuple(described_by.values())
    device_inputs = [value for value in _needs(device, groups, described_by) if value.node in (*host, *engine)]
    needed |= dict.fromkeys(device_inputs)
    draws = any(node.operator.random_bits and not needs_host_description(node) for node in device)
    # A device program learns the number of rows from its inputs, so it needs at least one.
    needs_counters = draws or (bool(device) and not device_inputs)
    counters = engine_node(ROW_COUNTERS, "counters").values[0] if needs_counters else None
    valid = engine_node(VALID_MASK, "valid").values[0] if mask else None
    extra = [value for value in (counters, valid) if value is not None]
    results = (*needed, *extra)
    crossing = tuple(value for value in results if value in (*device_inputs, counters))
    hosted = group_stages(graph, [*host, *engine, *(value.node for value in extra)], set(results))
    plan = Plan(
        graph, target, placements, hosted, results, crossing, device, groups, described_by, counters, valid, skips
    )
    verify_plan(plan)
    return plan


def _needs(
    device: tuple[Node, ...], groups: tuple[tuple[Node, ...], ...], describing: Mapping[Node, Node]
) -> Iterable[Value]:
    """Yield the operands of the device program: no guards, and no arguments of groups that the host describes."""
    inside = {node: nodes for nodes in groups for node in nodes if nodes[-1] in describing}
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
            f'{node} computes rows from other rows, and with on_error="skip" some of these have no sample',
            given='on_error="skip"',
            fix='on_error="replace", which gives whole batches',
            where=node.where,
        )


def _check_dense(value: Value) -> None:
    if value.spec.extent is not ShapeKind.RAGGED:
        return
    raise DefinitionError(
        f"the output {value} is ragged: its samples differ in shape, so a batch of them is not an array",
        given=value.spec,
        fix=fix_for_ragged(value),
        where=value.node.where,
    )


def fix_for_ragged(value: Value) -> str:
    """Return the fix for a ragged value that must be dense."""
    if len(value.spec.shape) == 1:
        return (
            "give the samples one shape: fn.decoders.image for encoded images; fn.pad(x, shape=...) if no sample is "
            'larger; or fn.slice(x, 0, 32, axes=[0], out_of_bounds_policy="pad"), which cuts and pads'
        )
    return f"give the samples one shape: {ONE_SHAPE_FIX}"


def verify_plan(plan: Plan) -> None:
    """Check the invariants of a plan.

    Raises:
        InternalError: the plan cannot run.
    """
    for node in plan.graph.nodes:
        for value in node.sources:
            if plan.on_device(value) and plan.placements[node].place is not Side.DEVICE:
                raise InternalError(f"{node} on the host needs {value} from the device")
    # XLA programs have fixed shapes. The canvas of a description has one, too.
    for node in plan.device:
        for value in (*node.operands, *node.values):
            if not value.spec.dense and not needs_host_description(node):
                raise InternalError(f"{value} is ragged and on the device", given=value.spec)
