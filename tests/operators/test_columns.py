"""Operators that need the whole batch: one piece of work, batch by batch, and no sharing of a batch."""

from types import SimpleNamespace

import numpy as np
import pytest
from pipeline_runs import build_pipeline

from penstock import fn
from penstock.engine.executable import _check_whole_batches
from penstock.errors import DefinitionError

LISTS = [np.arange(1 + number % 5, dtype=np.int32) for number in range(24)]


def padded(threads, rows=4, shape=None):
    return build_pipeline(
        lambda numbers: fn.pad(numbers, fill_value=-1, shape=shape), LISTS, batch_size=rows, num_threads=threads
    )


@pytest.mark.parametrize(("threads", "shape"), [(1, None), (4, None), (1, [0]), (1, [-1])])
def test_each_batch_is_padded_to_its_own_largest(threads, shape):
    pipeline = padded(threads, shape=shape)
    for start in range(0, 24, 4):
        largest = max(len(numbers) for numbers in LISTS[start : start + 4])
        batch = list(pipeline.run()[0])
        assert [len(sample) for sample in batch] == [largest] * 4
        for sample, numbers in zip(batch, LISTS[start : start + 4], strict=True):
            assert sample.tolist() == numbers.tolist() + [-1] * (largest - len(numbers))
    pipeline.close()


def test_a_part_of_a_batch_cannot_pass():
    """Real processes try it in tests/multiprocess; here a layout says that it holds one block of two."""
    graph = padded(2).graph
    _check_whole_batches(graph, SimpleNamespace(shards=(0, 1), blocks=2))
    with pytest.raises(DefinitionError, match=r"pad needs all samples of the batch(.|\n)*test_columns\.py"):
        _check_whole_batches(graph, SimpleNamespace(shards=(0,), blocks=2))
