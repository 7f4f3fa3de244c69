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
from penstock.graph.ir.fusion import ChainKernel
from penstock.graph.ir.node import Graph, Node
from penstock.graph.ir.operator import BatchKernel, DeviceKernel, Feed, HostBatchKernel, Reader, WholeBatchKernel
from penstock.graph.tracing.fix_suggestions import Trouble, advice
from penstock.plan.engine_operators import canvas_of, described
from penstock.plan.stage_grouping import chains

PlacementHint = Literal["auto", "host", "device"]

_FEW_BITS = 16
"""So many random bits of a row, 32 at a time, are as cheap to send as to make on the device."""

_HOSTED = {
    Reader: "reads",
    Feed: "calls the source",
    WholeBatchKernel: "needs all samples of the batch",
    HostBatchKernel: "computes with NumPy alone",
}
"""What only the host can do, and why."""


class Place(Enum):
    """Where a node runs."""

    HOST = "host"
    DEVICE = "device"


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a node runs, and why."""

    place: Place
    why: str


@dataclass(frozen=True, slots=True)
class Target:
    """What the planner must know of the machine.

    Args:
        platform: JAX's name of the devices: "cpu", "gpu", "tpu".
        wide: whether 64-bit values keep their width on the device (jax_enable_x64).
        placement: "host" and "device" force everything that can be there to be there; "auto" chooses.
    """

    platform: str = "cpu"
    wide: bool = False
    placement: PlacementHint = "auto"


def place(graph: Graph, target: Target) -> Mapping[Node, Placement]:
    """Choose for every node.

    Nothing flows back: what a host node computes from is on the host. So the device part is a set of nodes closed
    under "is computed from", and it begins where values can be dense, or have a largest size. What the host describes
    for the device is decided chain by chain.
    """
    decided: dict[Node, Placement] = {}
    seen: set[tuple[Node, ...]] = set()
    while True:
        chosen = _place(graph, target, decided)
        nodes = [node for node in graph.nodes if chosen[node].place is Place.DEVICE]
        for chain in chains(graph, nodes, set(graph.outputs), device=True):
            if described(chain[0]) and chain not in seen:
                seen.add(chain)
                decided |= _decide(graph, target, chosen, chain)
                break
        else:
            return chosen


def _place(graph: Graph, target: Target, decided: Mapping[Node, Placement]) -> dict[Node, Placement]:
    """Choose for every node, but for those that are decided on."""
    chosen: dict[Node, Placement] = {}
    for node in reversed(graph.nodes):
        reason = _cannot(node, target, graph, chosen)
        if node.device_bound:
            chosen[node] = _bound(node, reason)
            continue
        wanted = (
            Placement(Place.HOST, reason) if reason else decided.get(node) or _POLICIES[target.placement](node, target)
        )
        users = [user for value in node.values for user in graph.consumers.get(value, ())]
        hosted = next((user for user in users if chosen[user].place is Place.HOST), None)
        argued = next((user for user in users if described(user) and _is_argument(node, user)), None)
        if wanted.place is Place.DEVICE and hosted is not None:
            wanted = Placement(Place.HOST, f"feeds {hosted}, which runs on the host")
        elif wanted.place is Place.DEVICE and argued is not None:
            wanted = Placement(Place.HOST, f"describes {argued}")
        chosen[node] = wanted
    return {node: chosen[node] for node in graph.nodes}


def _is_argument(node: Node, user: Node) -> bool:
    return any(given.node is node for given in user.linked.values())


def _decide(
    graph: Graph, target: Target, chosen: Mapping[Node, Placement], chain: tuple[Node, ...]
) -> dict[Node, Placement]:
    """Where a chain runs that the host would describe: where it can, and fewer bytes cross."""
    try:
        canvas = canvas_of(chain)
    except ValueError as error:
        if chain[0].device_bound:
            _bound(chain[0], str(error))
        return dict.fromkeys(chain, Placement(Place.HOST, str(error)))
    given, made = chain[0].inputs[0], chain[-1].values[0]
    if target.placement != "auto" or any(node.device_bound or node.device == "gpu" for node in chain):
        return {node: chosen[node] for node in chain}
    others = [user for user in graph.consumers[given] if user not in chain and given.spec.dense]
    crosses = Place.DEVICE in [chosen[node].place for node in (given.node, *others)]  # anyway
    early = 4 * canvas.size + (0 if crosses else math.prod(given.spec.limits or ()) * given.spec.dtype.itemsize)
    late = made.spec.nbytes
    place, least, most = (Place.DEVICE, early, late) if early < late else (Place.HOST, late, early)
    return dict.fromkeys(chain, Placement(place, f"crosses as {least} bytes instead of {most}"))


def _bound(node: Node, reason: str | None) -> Placement:
    """The placement of a node that only the device can compute: nothing flows back from there to the host."""
    if reason is None:
        kernel = isinstance(node.operator, DeviceKernel)
        return Placement(Place.DEVICE, "a JAX function" if kernel else "computes from a JAX function")
    made = "is a JAX function" if isinstance(node.operator, DeviceKernel) else "computes from a JAX function's output"
    fix = f"give the samples one shape before: {advice(Trouble.RAGGED)}"
    ragged = not all(spec.dense for spec in node.specs)
    what = f"{node} {made}, and cannot be on the device"
    raise DefinitionError(what, given=reason, fix=fix if ragged else None, where=node.where)


def _cannot(node: Node, target: Target, graph: Graph, chosen: Mapping[Node, Placement]) -> str | None:
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
    if isinstance(node.operator, ChainKernel):
        if node.operator.heads:
            return "decodes"
        if described(node) and any(given.node.device_bound for given in node.linked.values()):
            return "the host describes it, and its arguments are on the device"
    elif not isinstance(node.operator, BatchKernel):
        return "works sample by sample"
    if described(node):
        specs = [node.inputs[0].spec, *node.specs]
    wide = next((spec for spec in specs if _needs_64_bits(spec)), None)
    if wide is not None and not target.wide:
        return f"{wide.dtype}, which JAX would narrow (jax_enable_x64 is off)"
    return None


def _on_a_canvas(node: Node, graph: Graph, chosen: Mapping[Node, Placement]) -> bool:
    """Whether a node that takes or gives ragged values can be in a chain of the device program.

    Such a chain begins with images of which the largest size is known, and nobody else needs what lies between.
    """
    if not isinstance(node.operator, ChainKernel) or node.operator.heads:
        return False
    given, made = node.inputs[0], node.values[0]
    others = node.linked.values()
    if given in others or not all(value.spec.dense for value in others):
        return False
    if not made.spec.dense:
        users = graph.consumers.get(made, ())
        if made in graph.outputs or len(users) != 1 or users[0].sources.count(made) != 1:
            return False
        user = users[0]
        if not isinstance(user.operator, ChainKernel) or user.operator.chain is not node.operator.chain:
            return False
        if user.inputs[0] != made or chosen[user].place is not Place.DEVICE:
            return False
    return given.spec.limits is not None or _begins_bounded(given.node)


def _begins_bounded(node: Node) -> bool:
    """Whether a chain that ends with a ragged value can begin with one of which the largest size is known."""
    while isinstance(node.operator, ChainKernel) and not node.operator.heads:
        if node.inputs[0].spec.limits is not None:
            return True
        node = node.inputs[0].node
    return False


def _needs_64_bits(spec: Spec) -> bool:
    return spec.dtype.itemsize == 8 and spec.dtype != np.dtype(np.complex64)


def _auto(node: Node, target: Target) -> Placement:
    if target.platform == "cpu":
        return Placement(Place.HOST, "on the CPU backend XLA would share these cores")
    if node.device == "cpu":
        return Placement(Place.HOST, "asked for: .cpu()")
    if not node.operands and 0 < node.operator.random_bits <= _FEW_BITS:
        return Placement(Place.HOST, "a few numbers per sample: as cheap to send as to make there")
    asked = "asked for" if node.device == "gpu" else "dense"
    return Placement(Place.DEVICE, f"{asked}; the {target.platform} takes dense work")


def _forced_host(_node: Node, _target: Target) -> Placement:
    return Placement(Place.HOST, 'placement="host"')


def _forced_device(_node: Node, _target: Target) -> Placement:
    return Placement(Place.DEVICE, 'placement="device"')


_POLICIES: Mapping[PlacementHint, Callable[[Node, Target], Placement]] = {
    "auto": _auto,
    "host": _forced_host,
    "device": _forced_device,
}
