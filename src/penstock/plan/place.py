"""The decision: which nodes run on the host and which in the device program, and the reason for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Literal

import numpy as np

from penstock.data.spec import Spec
from penstock.errors import DefinitionError
from penstock.graph.advice import Trouble, advice
from penstock.graph.node import Graph, Node, Value
from penstock.graph.operator import BatchKernel, ChainKernel, DeviceKernel, Reader, WholeBatchKernel

PlacementHint = Literal["auto", "host", "device"]

_SCALAR_WORDS = 16


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
    under "is computed from", and it begins where values can be dense.
    """
    chosen: dict[Node, Placement] = {}
    for node in reversed(graph.nodes):
        reason = _cannot(node, target)
        if node.device_bound:
            chosen[node] = _bound(node, reason)
            continue
        wanted = Placement(Place.HOST, reason) if reason else _POLICIES[target.placement](node, target)
        users = (user for value in node.values for user in graph.consumers.get(value, ()))
        hosted = next((user for user in users if chosen[user].place is Place.HOST), None)
        if wanted.place is Place.DEVICE and hosted is not None:
            wanted = Placement(Place.HOST, f"feeds {hosted}, which runs on the host")
        chosen[node] = wanted
    return {node: chosen[node] for node in graph.nodes}


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


def _cannot(node: Node, target: Target) -> str | None:
    """Why a node cannot run on the device, or None."""
    if isinstance(node.operator, Reader):
        return "reads"
    if isinstance(node.operator, WholeBatchKernel):
        return "needs all samples of the batch"
    specs = [value.spec for value in node.sources] + list(node.specs)
    ragged = next((spec for spec in specs if not spec.dense), None)
    if ragged is not None:
        return f"ragged: {ragged}"
    if isinstance(node.operator, DeviceKernel):
        return None  # it takes what JAX makes of its inputs, 64-bit values included
    if isinstance(node.operator, ChainKernel):
        varies = node.operator.random_bits or any(isinstance(given, Value) for given in node.arguments.values())
        if node.operator.heads:
            return "decodes"
        if varies and not node.operator.traceable:
            return "its numbers differ from row to row and need 64 bits"
    elif not isinstance(node.operator, BatchKernel):
        return "works sample by sample"
    wide = next((spec for spec in specs if _needs_64_bits(spec)), None)
    if wide is not None and not target.wide:
        return f"{wide.dtype}, which JAX would narrow (jax_enable_x64 is off)"
    return None


def _needs_64_bits(spec: Spec) -> bool:
    return spec.dtype.itemsize == 8 and spec.dtype != np.dtype(np.complex64)


def _auto(node: Node, target: Target) -> Placement:
    if target.platform == "cpu":
        return Placement(Place.HOST, "on the CPU backend XLA would share these cores")
    if node.device == "cpu":
        return Placement(Place.HOST, "asked for: .cpu()")
    if not node.sources and 0 < node.operator.random_bits <= _SCALAR_WORDS:
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
