"""Epochs of external sources: their end, and the position of sources that can only continue."""

import itertools
import time

import numpy as np
import pytest

from penstock import data_iterator, fn


def slow(x):
    """Take long enough that batches are prepared ahead on threads."""
    time.sleep(0.005)
    return x


class Restarting:
    """Iterable of batches of two rows, which contain the number of the batch."""

    def __init__(self, count):
        self.count = count

    def __iter__(self):
        return (np.full(2, number, np.int32) for number in range(self.count))


def stream(source, decorator=data_iterator, function=slow, depth=2, cycle="raise", **options):
    """Return an iterator over the batches of a source that can only continue."""

    @decorator(output_map=["x"], **options)
    def definition():
        x = fn.external_source(source, cycle=cycle)
        return x if function is None else fn.python_function(x, function=function)

    return definition(batch_size=2, device_id=0, prefetch_queue_depth=depth)


def values(batches):
    return [int(batch["x"][0]) for batch in batches]


@pytest.mark.parametrize("function", [None, slow], ids=["light", "threads"])
@pytest.mark.parametrize("auto_reset", [False, True])
def test_every_loop_continues_after_the_last_batch_of_its_size(function, auto_reset):
    def endless():
        for number in itertools.count():
            yield np.full(2, number, np.int32)

    iterator = stream(endless, function=function, cycle=None, size=6, auto_reset=auto_reset)
    assert [values(iterator) for _ in range(3)] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]


@pytest.mark.parametrize("function", [None, slow], ids=["light", "threads"])
def test_a_source_as_long_as_its_size_restarts_with_each_loop(function, caplog):
    iterator = stream(Restarting(3), function=function, size=6)
    assert [values(iterator) for _ in range(3)] == [[0, 1, 2]] * 3
    assert not caplog.records
