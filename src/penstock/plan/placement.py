"""Placement: which nodes run on the host and which in the device program, with the reason for each."""

import math
from collections.abc import Mapping
from enum import Enum
from typing import Literal

import numpy as np

from penstock.core import ONE_SHAPE_FIX
from penstock.core.dataclass import dataclass
from penstock.errors import DefinitionError
from penstock.graph import (
    BatchKernel,
    DeviceKernel,
    Graph,
    HostBatchKernel,
    Node,
    Reader,
    StreamInput,
    WholeBatchKernel,
)
from penstock.graph.ir.fusion_contract import FusibleOperator
from penstock.graph.ir.sample_cache import SampleCache
from penstock.plan.engine_operators import canvas_of, needs_host_description
from penstock.plan.stage_grouping import fusion_groups

PlacementHint = Literal["auto", "host", "device"]

# Up to this many 32-bit words of random bits per row are as cheap to transfer as to draw on the device.
_FEW_BITS = 16

# Kinds of operators that only the host can compute, with the reason that `explain` shows.
_HOSTED = {
    Reader: "reads",
    StreamInput: "calls the source",
    WholeBatchKernel: "needs all samples of the batch",
    HostBatchKernel: "computes with NumPy alone",
    SampleCache: "keeps samples in host memory or files",
}


class Side(Enum):
    """Sides on which a node can run."""

    HOST = "host"
    DEVICE = "device"


@dataclass(frozen=True, slots=True)
class Placement:
    """Side on which a node runs, and the reason."""

    place: Side
    why: str


@dataclass(frozen=True, slots=True)
class TargetMachine:
    """Properties of the machine that placement depends on.

    Args:
        platform: JAX's platform: "cpu", "gpu" or "tpu".
        wide: True if 64-bit values keep their width on the device (`jax_enable_x64`).
        placement: "host" and "device" force all nodes that can run there; "auto" chooses.
    """

    platform: str = "cpu"
    wide: bool = False
    placement: PlacementHint = "auto"


def choose_placement(graph: Graph, target: TargetMachine) -> Mapping[Node, Placement]:
    """Choose the side of every node.

    No value crosses back to the host: if a node runs on the device, all nodes that use it do, too. Values on the device
    are dense or bounded. Fused groups that need a description by the host are decided group by group.
    """
    # Each decision about a group can change the placement of its sources, and thereby other groups: repeat until
    # stable.
    decided: dict[Node, Placement] = {}
    seen: set[tuple[Node, ...]] = set()
    while True:
        chosen = _place(graph, target, decided)
        nodes = [node for node in graph.nodes if chosen[node].place is Side.DEVICE]
        for group in fusion_groups(graph, nodes, set(graph.outputs), device=True):
            if needs_host_description(group[0]) and group not in seen:
                seen.add(group)
                decided |= _decide(graph, target, chosen, group)
                break
        else:
            return chosen


def _place(graph: Graph, target: TargetMachine, decided: Mapping[Node, Placement]) -> dict[Node, Placement]:
    """Choose the side of every node, given the decisions about groups."""
    chosen: dict[Node, Placement] = {}
    # From the outputs backward: a node that feeds the host must run on the host.
    for node in reversed(graph.nodes):
        reason = _cannot(node, target, graph, chosen)
        if node.device_only:
            chosen[node] = _device_only(node, reason)
            continue
        wanted = Placement(Side.HOST, reason) if reason else decided.get(node) or _preferred(node, target)
        users = [user for value in node.values for user in graph.consumers.get(value, ())]
        hosted = next((user for user in users if chosen[user].place is Side.HOST), None)
        described = [user for user in users if needs_host_description(user)]
        argued = next((user for user in described if node in [v.node for v in user.node_arguments.values()]), None)
        if wanted.place is Side.DEVICE and hosted is not None:
            wanted = Placement(Side.HOST, f"feeds {hosted}, which runs on the host")
        elif wanted.place is Side.DEVICE and argued is not None:
            wanted = Placement(Side.HOST, f"describes {argued}")
        chosen[node] = wanted
    return {node: chosen[node] for node in graph.nodes}


def _decide(
    graph: Graph, target: TargetMachine, chosen: Mapping[Node, Placement], group: tuple[Node, ...]
) -> dict[Node, Placement]:
    """Choose the side of a group that needs a description: the one for which fewer bytes cross."""
    try:
        canvas = canvas_of(group)
    except ValueError as error:
        if group[0].device_only:
            _device_only(group[0], str(error))
        return dict.fromkeys(group, Placement(Side.HOST, str(error)))
    source, result = group[0].inputs[0], group[-1].values[0]
    # The user has decided, so the bytes do not matter.
    if target.placement != "auto" or any(node.device_only or node.device == "gpu" for node in group):
        return {node: chosen[node] for node in group}
    others = [user for user in graph.consumers[source] if user not in group and source.spec.dense]
    crosses_anyway = Side.DEVICE in [chosen[node].place for node in (source.node, *others)]
    source_bytes = math.prod(source.spec.storage_shape or ()) * source.spec.dtype.itemsize
    # The description is a vector of float32.
    early = 4 * canvas.size + (0 if crosses_anyway else source_bytes)
    late = result.spec.nbytes
    place, least, most = (Side.DEVICE, early, late) if early < late else (Side.HOST, late, early)
    return dict.fromkeys(group, Placement(place, f"crosses as {least} bytes instead of {most}"))


def _device_only(node: Node, reason: str | None) -> Placement:
    """Return the placement of a node that only the device can compute, or raise if it cannot."""
    if reason is None:
        kernel = isinstance(node.operator, DeviceKernel)
        return Placement(Side.DEVICE, "a JAX function" if kernel else "computes from a JAX function")
    role = "is a JAX function" if isinstance(node.operator, DeviceKernel) else "computes from a JAX function's output"
    fix = f"give the samples one shape before: {ONE_SHAPE_FIX}"
    ragged = not all(spec.dense for spec in node.specs)
    what = f"{node} {role}, and cannot run on the device"
    raise DefinitionError(what, given=reason, fix=fix if ragged else None, where=node.where)


def _cannot(node: Node, target: TargetMachine, graph: Graph, chosen: Mapping[Node, Placement]) -> str | None:
    """Return the reason that a node cannot run on the device; None if it can.

    Args:
        node: The node.
        target: The machine.
        graph: The definition.
        chosen: The placements of the nodes that use it.
    """
    for kind, reason in _HOSTED.items():
        if isinstance(node.operator, kind):
            return reason
    specs = [value.spec for value in node.sources] + list(node.specs)
    ragged = next((spec for spec in specs if not spec.dense), None)
    if ragged is not None and not _on_a_canvas(node, graph, chosen):
        return f"ragged: {ragged}"
    if isinstance(node.operator, DeviceKernel):
        # The user wrote it for JAX, which narrows 64-bit inputs in any program.
        return None
    if isinstance(node.operator, FusibleOperator):
        # Decoders start a group, and no decoder runs in a device program.
        if node.operator.starts_group:
            return "decodes"
        if needs_host_description(node) and any(value.node.device_only for value in node.node_arguments.values()):
            return "the host describes it, and its arguments are on the device"
    elif not isinstance(node.operator, BatchKernel):
        return "works sample by sample"
    if needs_host_description(node):
        # The host uses the arguments, so their width does not matter.
        specs = [node.inputs[0].spec, *node.specs]
    # complex64 has 64 bits, but JAX does not narrow it.
    wide = next((spec for spec in specs if spec.dtype.itemsize == 8 and spec.dtype != np.complex64), None)
    if wide is not None and not target.wide:
        return f"{wide.dtype}, which JAX would narrow (jax_enable_x64 is off)"
    return None


def _on_a_canvas(node: Node, graph: Graph, chosen: Mapping[Node, Placement]) -> bool:
    """True if a node with ragged inputs or outputs can be in a fused group of the device program.

    Such a group begins with images of a known largest size, and no other node uses its inner values.
    """
    if not isinstance(node.operator, FusibleOperator) or node.operator.starts_group:
        return False
    source, result = node.inputs[0], node.values[0]
    others = node.node_arguments.values()
    if source in others or not all(value.spec.dense for value in others):
        return False
    if not result.spec.dense:
        users = graph.consumers.get(result, ())
        if result in graph.outputs or len(users) != 1 or users[0].sources.count(result) != 1:
            return False
        user = users[0]
        if (
            not isinstance(user.operator, FusibleOperator)
            or user.operator.fusion_group is not node.operator.fusion_group
        ):
            return False
        if user.inputs[0] != result or chosen[user].place is not Side.DEVICE:
            return False
    return source.spec.storage_shape is not None or _begins_bounded(source.node)


def _begins_bounded(node: Node) -> bool:
    """True if a group that ends with a ragged value can begin with one of a known largest size."""
    while isinstance(node.operator, FusibleOperator) and not node.operator.starts_group:
        if node.inputs[0].spec.storage_shape is not None:
            return True
        node = node.inputs[0].node
    return False


def _preferred(node: Node, target: TargetMachine) -> Placement:
    """Return the placement of a node that can run on both sides."""
    if target.placement != "auto":
        return Placement(Side(target.placement), f'placement="{target.placement}"')
    if target.platform == "cpu":
        return Placement(Side.HOST, "on the CPU backend XLA would share these cores")
    # `.cpu()` is a hint. Without it, an accelerator takes all work that it can.
    if node.device == "cpu":
        return Placement(Side.HOST, "asked for: .cpu()")
    if not node.operands and 0 < node.operator.random_bits <= _FEW_BITS:
        return Placement(Side.HOST, "a few numbers per sample: as cheap to send as to make there")
    reason = "asked for" if node.device == "gpu" else "dense"
    return Placement(Side.DEVICE, f"{reason}; the {target.platform} takes dense work")
