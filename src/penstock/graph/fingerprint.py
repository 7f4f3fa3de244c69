"""A short text that tells one definition from another: what it computes, not where or on what."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, cast

import numpy as np

from penstock.graph.node import Graph, Node, Value
from penstock.graph.operator import Reader, parameters


def fingerprint(graph: Graph) -> str:
    """The definition's fingerprint: operators, parameters and wiring.

    Left out is what may change between a run and its continuation: the data set (it has its own fingerprint), shard
    numbers, wishes for a device, names and lines. Callables count by their qualified names.
    """
    numbers = {node: number for number, node in enumerate(graph.nodes)}
    parts = [_describe(node, numbers) for node in graph.nodes]
    parts += [f"kept {numbers[node]}" for node in graph.preserved]
    parts.append(",".join(f"{numbers[value.node]}.{value.index}" for value in graph.outputs))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _describe(node: Node, numbers: Mapping[Node, int]) -> str:
    skipped = {"source", "shard_id"} if isinstance(node.operator, Reader) else set[str]()
    if isinstance(node.operator, Reader) and not node.operator.contiguous:
        skipped.add("num_shards")
    state = {name: value for name, value in parameters(node.operator).items() if name not in skipped}
    wiring = {"inputs": node.inputs, **node.arguments}
    random = (node.stream, node.seed) if node.operator.random_bits or isinstance(node.operator, Reader) else None
    return f"{node.kind}{_canonical(state, numbers)}{_canonical(wiring, numbers)}{random}"


def _canonical(thing: Any, numbers: Mapping[Node, int]) -> str:
    match thing:
        case Value():
            return f"@{numbers[thing.node]}.{thing.index}"
        case Enum():
            return f"{type(thing).__name__}.{thing.name}"
        case np.ndarray() | np.generic():
            array = np.asarray(cast(Any, thing))
            return f"{array.dtype}{array.shape}{hashlib.sha256(array.tobytes()).hexdigest()[:16]}"
        case dict():
            entries = sorted(cast(dict[str, Any], thing).items())
            return "{" + ",".join(f"{name}={_canonical(value, numbers)}" for name, value in entries) + "}"
        case tuple() | list():
            return "(" + ",".join(_canonical(item, numbers) for item in cast(list[Any], thing)) + ")"
        case _ if is_dataclass(thing) and not isinstance(thing, type):
            return type(thing).__name__ + _canonical({f.name: getattr(thing, f.name) for f in fields(thing)}, numbers)
        case _ if callable(thing):
            return _qualified(thing)
        case _:
            return repr(thing)


def _qualified(function: Callable[..., Any]) -> str:
    inner = getattr(function, "func", function)  # functools.partial
    return f"{getattr(inner, '__module__', '')}.{getattr(inner, '__qualname__', type(inner).__name__)}"
