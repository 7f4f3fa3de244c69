"""A plan in motion: what it holds in memory."""

import jax
import numpy as np

from penstock import data_iterator, fn
from penstock.host import buffers, loader


def test_no_more_batches_exist_than_the_depth_and_two(monkeypatch):
    made = []
    monkeypatch.setattr(loader, "_LIGHT_BATCH", -1.0)  # light batches share memory
    monkeypatch.setattr(buffers, "_aligned", lambda size, make=buffers._aligned: made.append(size) or make(size))

    @data_iterator(output_map=["x"], reader_name="reader")
    def numbers():
        return fn.readers.arrays(np.zeros((40, 1000), np.float32), name="reader")

    depth = 2
    for batch in numbers(batch_size=2, prefetch_queue_depth=depth):  # holds one while it asks for the next
        jax.block_until_ready(batch)
    assert len(made) == depth + 2
