"""The decision: which nodes run on the host and which in the device program, and the reason for each."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Literal

import numpy as np

from penstock.core.spec import Spec
from penstock.errors import DefinitionError
from penstock.graph.ir.fusion import FusibleOperator
from penstock.graph.ir.node import Graph, Node
from penstock.graph.ir.operator import BatchKernel, DeviceKernel, HostBatchKernel, Reader, StreamInput, WholeBatchKernel
from penstock.graph.tracing.fix_suggestions import ShapeProblem, suggested_fix
from penstock.plan.engine_operators import canvas_of, needs_host_description
from penstock.plan.stage_grouping import fusion_groups

PlacementHint = Literal["auto", "host", "device"]

_FEW_BITS = 16
"""So many random bits of a row, 32 at a time, are as cheap to send as to make on the device."""

_HOSTED = {
    Reader: "reads",
    StreamInput: "calls the source",
    WholeBatchKernel: "needs all samples of the batch",
    HostBatchKernel: "computes with NumPy alone",
}
"""What only the host can do, and why."""


class Side(Enum):
    """Where a node runs."""

    HOST = "host"
    DEVICE = "device"


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a node runs, and why."""

    place: Side
    why: str


@dataclass(frozen=True, slots=True)
class TargetMachine:
    """What the planner must know of the machine.

    Args:
        platform: JAX's name of the devices: "cpu", "gpu", "tpu".
        wide: whether 64-bit values keep their width on the device (jax_enable_x64).
        placement: "host" and "device" force everything that can be there to be there; "auto" chooses.
    """

    platform: str = "cpu"
    wide: bool = False
    placement: PlacementHint = "auto"


def choose_placement(graph: Graph, target: TargetMachine) -> Mapping[Node, Placement]:
    """Choose for every node.

    Nothing flows back: what a host node computes from is on the host. So the device part is a set of nodes closed
    under "is computed from", and it begins where values can be dense, or have a largest size. What the host describes
    for the device is decided chain by chain.
    """
    decided: dict[Node, Placement] = {}
    seen: set[tuple[Node, ...]] = set()
    while True:
        chosen = _place(graph, target, decided)
        nodes = [node for node in graph.nodes if chosen[node].place is Side.DEVICE]
        for chain in fusion_groups(graph, nodes, set(graph.outputs), device=True):
            if needs_host_description(chain[0]) and chain not in seen:
                seen.add(chain)
                decided |= _decide(graph, target, chosen, chain)
                break
        else:
            return chosen


def _place(graph: Graph, target: TargetMachine, decided: Mapping[Node, Placement]) -> dict[Node, Placement]:
    """Choose for every node, but for those that are decided on."""
    chosen: dict[Node, Placement] = {}
    for node in reversed(graph.nodes):
        reason = _cannot(node, target, graph, chosen)
        if node.device_only:
            chosen[node] = _bound(node, reason)
            continue
        wanted = (
            Placement(Side.HOST, reason) if reason else decided.get(node) or _POLICIES[target.placement](node, target)
        )
        users = [user for value in node.values for user in graph.consumers.get(value, ())]
        hosted = next((user for user in users if chosen[user].place is Side.HOST), None)
        argued = next((user for user in users if needs_host_description(user) and _is_argument(node, user)), None)
        if wanted.place is Side.DEVICE and hosted is not None:
            wanted = Placement(Side.HOST, f"feeds {hosted}, which runs on the host")
        elif wanted.place is Side.DEVICE and argued is not None:
            wanted = Placement(Side.HOST, f"describes {argued}")
        chosen[node] = wanted
    return {node: chosen[node] for node in graph.nodes}


def _is_argument(node: Node, user: Node) -> bool:
    return any(given.node is node for given in user.node_arguments.values())


def _decide(
    graph: Graph, target: TargetMachine, chosen: Mapping[Node, Placement], chain: tuple[Node, ...]
) -> dict[Node, Placement]:
    """Where a chain runs that the host would describe: where it can, and fewer bytes cross."""
    try:
        canvas = canvas_of(chain)
    except ValueError as error:
        if chain[0].device_only:
            _bound(chain[0], str(error))
        return dict.fromkeys(chain, Placement(Side.HOST, str(error)))
    given, made = chain[0].inputs[0], chain[-1].values[0]
    if target.placement != "auto" or any(node.device_only or node.device == "gpu" for node in chain):
        return {node: chosen[node] for node in chain}
    others = [user for user in graph.consumers[given] if user not in chain and given.spec.dense]
    crosses = Side.DEVICE in [chosen[node].place for node in (given.node, *others)]  # anyway
    early = 4 * canvas.size + (0 if crosses else math.prod(given.spec.storage_shape or ()) * given.spec.dtype.itemsize)
    late = made.spec.nbytes
    place, least, most = (Side.DEVICE, early, late) if early < late else (Side.HOST, late, early)
    return dict.fromkeys(chain, Placement(place, f"crosses as {least} bytes instead of {most}"))


def _bound(node: Node, reason: str | None) -> Placement:
    """The placement of a node that only the device can compute: nothing flows back from there to the host."""
    if reason is None:
        kernel = isinstance(node.operator, DeviceKernel)
        return Placement(Side.DEVICE, "a JAX function" if kernel else "computes from a JAX function")
    made = "is a JAX function" if isinstance(node.operator, DeviceKernel) else "computes from a JAX function's output"
    fix = f"give the samples one shape before: {suggested_fix(ShapeProblem.RAGGED)}"
    ragged = not all(spec.dense for spec in node.specs)
    what = f"{node} {made}, and cannot be on the device"
    raise DefinitionError(what, given=reason, fix=fix if ragged else None, where=node.where)


def _cannot(node: Node, target: TargetMachine, graph: Graph, chosen: Mapping[Node, Placement]) -> str | None:
    """Why a node cannot run on the device, or None.

    Args:
        node: the node.
        target: the machine.
        graph: the definition.
        chosen: where the nodes run that compute from it.
    """
    for kind, reason in _HOSTED.items():
        if isinstance(node.operator, kind):
            return reason
    specs = [value.spec for value in node.sources] + list(node.specs)
    ragged = next((spec for spec in specs if not spec.dense), None)
    if ragged is not None and not _on_a_canvas(node, graph, chosen):
        return f"ragged: {ragged}"
    if isinstance(node.operator, DeviceKernel):
        return None  # it takes what JAX makes of its inputs, 64-bit values included
    if isinstance(node.operator, FusibleOperator):
        if node.operator.starts_group:
            return "decodes"
        if needs_host_description(node) and any(given.node.device_only for given in node.node_arguments.values()):
            return "the host describes it, and its arguments are on the device"
    elif not isinstance(node.operator, BatchKernel):
        return "works sample by sample"
    if needs_host_description(node):
        specs = [node.inputs[0].spec, *node.specs]
    wide = next((spec for spec in specs if _needs_64_bits(spec)), None)
    if wide is not None and not target.wide:
        return f"{wide.dtype}, which JAX would narrow (jax_enable_x64 is off)"
    return None


def _on_a_canvas(node: Node, graph: Graph, chosen: Mapping[Node, Placement]) -> bool:
    """Whether a node that takes or gives ragged values can be in a chain of the device program.

    Such a chain begins with images of which the largest size is known, and nobody else needs what lies between.
    """
    if not isinstance(node.operator, FusibleOperator) or node.operator.starts_group:
        return False
    given, made = node.inputs[0], node.values[0]
    others = node.node_arguments.values()
    if given in others or not all(value.spec.dense for value in others):
        return False
    if not made.spec.dense:
        users = graph.consumers.get(made, ())
        if made in graph.outputs or len(users) != 1 or users[0].sources.count(made) != 1:
            return False
        user = users[0]
        if (
            not isinstance(user.operator, FusibleOperator)
            or user.operator.fusion_group is not node.operator.fusion_group
        ):
            return False
        if user.inputs[0] != made or chosen[user].place is not Side.DEVICE:
            return False
    return given.spec.storage_shape is not None or _begins_bounded(given.node)


def _begins_bounded(node: Node) -> bool:
    """Whether a chain that ends with a ragged value can begin with one of which the largest size is known."""
    while isinstance(node.operator, FusibleOperator) and not node.operator.starts_group:
        if node.inputs[0].spec.storage_shape is not None:
            return True
        node = node.inputs[0].node
    return False


def _needs_64_bits(spec: Spec) -> bool:
    return spec.dtype.itemsize == 8 and spec.dtype != np.dtype(np.complex64)


def _auto(node: Node, target: TargetMachine) -> Placement:
    if target.platform == "cpu":
        return Placement(Side.HOST, "on the CPU backend XLA would share these cores")
    if node.device == "cpu":
        return Placement(Side.HOST, "asked for: .cpu()")
    if not node.operands and 0 < node.operator.random_bits <= _FEW_BITS:
        return Placement(Side.HOST, "a few numbers per sample: as cheap to send as to make there")
    asked = "asked for" if node.device == "gpu" else "dense"
    return Placement(Side.DEVICE, f"{asked}; the {target.platform} takes dense work")


def _forced_host(_node: Node, _target: TargetMachine) -> Placement:
    return Placement(Side.HOST, 'placement="host"')


def _forced_device(_node: Node, _target: TargetMachine) -> Placement:
    return Placement(Side.DEVICE, 'placement="device"')


_POLICIES: Mapping[PlacementHint, Callable[[Node, TargetMachine], Placement]] = {
    "auto": _auto,
    "host": _forced_host,
    "device": _forced_device,
}
