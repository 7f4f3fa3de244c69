"""Tests of the memory of a run."""

import jax
import numpy as np
import pytest

from penstock import data_iterator, fn
from penstock.engine.host import chunk_scheduler, host_loader
from penstock.engine.host.batch_buffers import BatchBuffers


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
@pytest.mark.parametrize(
    ("light", "joint_bytes", "together"),
    [(-1.0, 0, 1), (-1.0, 16_000, 2), (60.0, 32_000, 4), (60.0, 64_000, 8)],
    ids=["alone", "in pairs", "light, 4 at once", "light, 8 at once"],
)
def test_at_most_depth_plus_two_batches_exist_and_two_buffers_of_joint_batches(
    monkeypatch, light, joint_bytes, together, depth
):
    batch_bytes, held, empty = 2 * 1000 * 4, [], BatchBuffers.empty

    def counted(buffers, *arguments):
        buffer = empty(buffers, *arguments)
        held.append(sum(memory.nbytes for _, memory in buffers._owners.values()) / batch_bytes)
        held_at_once.add(buffer.nbytes // batch_bytes)
        return buffer

    held_at_once = set()
    monkeypatch.setattr(chunk_scheduler, "_LIGHT_BATCH_SECONDS", light)
    monkeypatch.setattr(host_loader, "_MAX_JOINT_BYTES", joint_bytes)
    monkeypatch.setattr(BatchBuffers, "empty", counted)

    @data_iterator(output_map=["x"], reader_name="reader")
    def numbers():
        return fn.readers.arrays(np.zeros((80, 1000), np.float32), name="reader")

    for batch in numbers(batch_size=2, prefetch_queue_depth=depth):  # holds one while it asks for the next
        jax.block_until_ready(batch)
    more = 2 * together if depth > 1 and together > 1 else 0
    assert max(held) <= depth + 2 + more
    assert max(held_at_once) == (together if depth > 1 else 1)
