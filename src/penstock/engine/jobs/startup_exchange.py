"""What the processes of a job tell each other, once, before the first batch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from penstock.core.columns import Array

_ROUND = 1024
"""Messages are filled up to a multiple of this many bytes, so that few programs are compiled."""


def exchange(devices: Sequence[Any], message: Any) -> list[Any]:
    """The messages of all processes that have one of the devices, in the order of their numbers.

    All of them must call it, as they dispatch programs: in the same order. One process alone gets its own message.

    Args:
        devices: the devices of a mesh.
        message: plain JSON.
    """
    firsts = {device.process_index: device for device in reversed(devices)}
    if len(firsts) <= 1:
        return [message]
    mesh = Mesh(np.array([firsts[number] for number in sorted(firsts)]), ("process",), axis_types=(AxisType.Auto,))
    text = np.frombuffer(json.dumps(message).encode(), np.uint8)
    lengths = _gather(mesh, np.array([len(text)], np.int32))[:, 0]
    padded = np.zeros(-(-int(lengths.max()) // _ROUND) * _ROUND, np.uint8)
    padded[: len(text)] = text
    texts = _gather(mesh, padded)
    return [json.loads(row[:length].tobytes()) for row, length in zip(texts, lengths.tolist(), strict=True)]


def _gather(mesh: Mesh, mine: Array) -> Array:
    """The rows of all processes."""
    split, whole = NamedSharding(mesh, PartitionSpec("process")), NamedSharding(mesh, PartitionSpec())
    shape = (mesh.size, *mine.shape)
    rows = jax.make_array_from_callback(shape, split, lambda _: mine[None])
    with jax.set_mesh(mesh):
        return np.asarray(jax.jit(lambda rows: rows, out_shardings=whole)(rows))
