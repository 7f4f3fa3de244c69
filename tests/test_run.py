"""A plan in motion: what it holds in memory."""

import jax
import numpy as np
import pytest

from penstock import data_iterator, fn
from penstock.host import buffers, loader


@pytest.mark.parametrize(("small", "together", "most"), [(0, 1, 4), (1 << 20, 2, 3)])
def test_no_more_batches_exist_than_the_depth_and_two_or_four_in_pairs(monkeypatch, small, together, most):
    made = []
    monkeypatch.setattr(loader, "_LIGHT_BATCH", -1.0)  # light batches share memory
    monkeypatch.setattr(loader, "_SMALL", small)  # as two of a pair do
    monkeypatch.setattr(buffers, "_aligned", lambda size, make=buffers._aligned: made.append(size) or make(size))

    @data_iterator(output_map=["x"], reader_name="reader")
    def numbers():
        return fn.readers.arrays(np.zeros((40, 1000), np.float32), name="reader")

    for batch in numbers(batch_size=2, prefetch_queue_depth=2):  # holds one while it asks for the next
        jax.block_until_ready(batch)
    assert 0 < made.count(together * 8000) <= most
    assert max(made) == together * 8000
