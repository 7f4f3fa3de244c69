"""Exchange of messages between the processes of a job, before the first batch."""

import json
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from penstock.core import Array

# Messages are padded to a multiple of this many bytes. XLA compiles a program per shape, so few shapes compile fast.
_ROUND = 1024


def exchange(devices: Sequence[Any], message: Any) -> list[Any]:
    """Return the messages of all processes that own one of the devices, in the order of the process numbers.

    Runs collectives: all processes must call it, in the same order relative to their other programs. A process alone
    gets its own message back.

    Args:
        devices: The devices of a mesh.
        message: Plain JSON.
    """
    firsts = {device.process_index: device for device in reversed(devices)}
    if len(firsts) <= 1:
        return [message]
    mesh = Mesh(np.array([firsts[number] for number in sorted(firsts)]), ("process",), axis_types=(AxisType.Auto,))
    text = np.frombuffer(json.dumps(message).encode(), np.uint8)
    # The lengths come first, because all processes of a collective must pass arrays of one shape.
    lengths = _gather(mesh, np.array([len(text)], np.int32))[:, 0]
    padded = np.zeros(-(-int(lengths.max()) // _ROUND) * _ROUND, np.uint8)
    padded[: len(text)] = text
    texts = _gather(mesh, padded)
    return [json.loads(row[:length].tobytes()) for row, length in zip(texts, lengths.tolist(), strict=True)]


def _gather(mesh: Mesh, row: Array) -> Array:
    """Stack one row of each process."""
    # `multihost_utils.process_allgather` would make all processes of the job take part, not only those of the mesh.
    split, whole = NamedSharding(mesh, PartitionSpec("process")), NamedSharding(mesh, PartitionSpec())
    shape = (mesh.size, *row.shape)
    # A mesh that the user has set may not have these devices, and a transfer guard concerns the user's own transfers.
    with jax.set_mesh(mesh), jax.transfer_guard("allow"):
        rows = jax.make_array_from_callback(shape, split, lambda _: row[None])
        return np.asarray(jax.jit(lambda rows: rows, out_shardings=whole)(rows))
