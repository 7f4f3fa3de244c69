"""Tests of failing rows: stages, replacements, and refused combinations."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pipeline_runs import build_pipeline

from penstock import Pipeline, fn
from penstock.core import Spec
from penstock.core.stage_timers import StageTimers
from penstock.engine.host.execution_frame import ExecutionFrame
from penstock.engine.host.run_context import RunContext
from penstock.errors import SampleError
from penstock.graph import BatchKernel, Operator, SampleKernel, WholeBatchKernel, apply
from penstock.operators.readers.reader_arguments import apply_reader
from penstock.sources.order.sample_order import SampleOrder
from penstock.sources.order.schedule import BatchStep, Schedule
from penstock.sources.source import Source

LENGTH = 40


@dataclass(frozen=True)
class Fussy(Operator, SampleKernel):
    """Sample kernel that fails on some numbers."""

    bad: frozenset

    def infer(self, numbers):
        return numbers

    def sample(self, context, numbers):
        if int(numbers) in self.bad:
            raise ValueError(f"{numbers} is bad")
        return numbers


@dataclass(frozen=True)
class FussyBatch(Operator, BatchKernel):
    """Batch kernel that fails on batches with some numbers."""

    bad: frozenset

    def infer(self, numbers):
        return numbers

    def batch(self, context, numbers):
        if any(int(number) in self.bad for number in numbers):
            raise ValueError("a bad number")
        return numbers + numbers.dtype.type(0)


@dataclass(frozen=True)
class Shared(Operator, WholeBatchKernel):
    """Whole-batch kernel that adds the maximum of the batch to all numbers."""

    def infer(self, numbers):
        return numbers

    def whole_batch(self, context, numbers):
        assert all(int(number) % 7 for number in numbers), "it sees good samples only"
        return numbers + max(numbers)


class Holes(Source):
    """Source of numbers and their squares, some of which cannot be read."""

    specs = (Spec(np.dtype(np.int32), (None,)), Spec(np.dtype(np.int32), ()))

    def __init__(self, bad):
        self.bad = bad

    def __len__(self):
        return LENGTH

    def read(self, indices, out):
        for index in indices.tolist():
            if index in self.bad:
                raise SampleError(f"sample {index} is a hole", index=index, source=self.describe(index))
        return [np.full(1 + index % 3, index, np.int32) for index in indices], (indices**2).astype(np.int32)

    def describe(self, index):
        return f"hole {index}"

    def fingerprint(self):
        return "holes"


SEVENTHS = frozenset(range(0, LENGTH, 7))


def outputs(where, on_error, bad=SEVENTHS):
    """Return a number and its square; some of the numbers are bad."""
    if where == "read":
        numbers, squares = apply_reader(Holes(bad), {"on_error": on_error, "random_shuffle": True})
        return numbers[:1], squares
    numbers = fn.readers.arrays(np.arange(LENGTH, dtype=np.int32), on_error=on_error, random_shuffle=True)
    squares = fn.readers.arrays(np.arange(LENGTH, dtype=np.int32) ** 2, on_error=on_error, random_shuffle=True)
    return apply({"sample": Fussy, "batch": FussyBatch}[where](bad), numbers), squares


def columns(where, batches, batch_size, **options):
    pipeline = build_pipeline(lambda: outputs(where, "replace"), batch_size=batch_size, seed=3, **options)
    rows = [[output.as_array().ravel() for output in pipeline.run()] for _ in range(batches)]
    return [np.concatenate(column) for column in zip(*rows, strict=True)]


@pytest.mark.parametrize("where", ["read", "sample", "batch"])
def test_bad_sample_is_replaced_in_all_readers(where):
    numbers, squares = columns(where, 10, 4, exec_async=False)
    assert not set(numbers.tolist()) & SEVENTHS
    assert (squares == numbers**2).all()
    order = SampleOrder(LENGTH, shuffle=True, seed=3).indices(0, np.arange(LENGTH))
    own = ~np.isin(order, list(SEVENTHS))
    for options in ({"num_threads": 3}, {"num_threads": 1}):
        again, _ = columns(where, 5, 8, **options)
        assert (again == numbers).all()
    assert len(set(numbers.tolist())) > own.sum() - 1


def test_whole_batch_operator_sees_replacement():
    with Pipeline(4, seed=3) as pipeline:
        numbers = fn.readers.arrays(np.arange(1, LENGTH + 1, dtype=np.int32), on_error="replace")
        good = apply(Fussy(frozenset(range(0, LENGTH + 1, 7))), numbers)
        pipeline.set_outputs(good, apply(Shared(), good))
    for _ in range(10):
        good, shared = (output.as_array() for output in pipeline.run())
        assert (shared == good + good.max()).all()
        assert (good % 7 != 0).all()


@pytest.mark.parametrize("where", ["read", "sample", "batch"])
def test_error_names_first_bad_sample(where):
    with Pipeline(LENGTH, seed=3, exec_async=False) as pipeline:
        pipeline.set_outputs(*outputs(where, "raise"))
    first = next(
        n for n in SampleOrder(LENGTH, shuffle=True, seed=3).indices(0, np.arange(LENGTH)).tolist() if n in SEVENTHS
    )
    with pytest.raises(SampleError) as caught:
        pipeline.run()
    assert caught.value.index == first
    assert f"sample {first} " in str(caught.value)


def test_error_names_last_replacement_if_all_samples_are_bad():
    with Pipeline(4, seed=3, exec_async=False) as pipeline:
        pipeline.set_outputs(*outputs("sample", "replace", frozenset(range(LENGTH))))
    with pytest.raises(SampleError, match="16 other samples were tried"):
        pipeline.run()


def test_strictest_reader_policy_applies():
    with Pipeline(LENGTH, seed=3, exec_async=False) as pipeline:
        one = fn.readers.arrays(np.arange(LENGTH), on_error="replace")
        other = fn.readers.arrays(np.arange(LENGTH))
        pipeline.set_outputs(apply(Fussy(SEVENTHS), one + other))
    with pytest.raises(SampleError, match=r"sample 0 .* with sample 0"):
        pipeline.run()


@given(st.integers(1, 60), st.integers(1, 6), st.data())
def test_replacements_come_from_the_same_shard(length, shards, data):
    shards = min(shards, length)
    order = SampleOrder(length, shards=shards)
    indices = np.array(data.draw(st.lists(st.integers(0, length - 1), min_size=1, max_size=20)))
    shifts = np.array(data.draw(st.lists(st.integers(0, 2**64 - 1), min_size=20, max_size=20)), np.uint64)
    shifts = shifts[: len(indices)]
    others = order.replacement_indices(indices, shifts)
    for index, other, shift in zip(indices.tolist(), others.tolist(), shifts.tolist(), strict=True):
        part = next(s for s in range(shards) if length * s // shards <= index < length * (s + 1) // shards)
        first, end = length * part // shards, length * (part + 1) // shards
        assert first <= other < end
        assert (other == index) == (shift == 0 or end - first == 1)


def test_sub_frame_is_computed_and_merged():
    with Pipeline(2) as pipeline:
        pipeline.set_outputs(*apply_reader(Holes(()), {}))
    ragged, dense = pipeline.graph.outputs
    step, numbers = BatchStep(0, 0, (0,), 5), np.arange(5)
    frame = ExecutionFrame(
        step,
        numbers,
        RunContext({}, None, 0, Schedule(5, None, 5, ()), StageTimers()),
        [[np.array([n]) for n in numbers], numbers * 2],
        [None, None],
    )
    part = frame.take_rows(np.array([1, 3]))
    assert (part.rows_in_batch.tolist(), [n.tolist() for n in part.columns[0]]) == ([1, 3], [[1], [3]])
    assert part.columns[1].tolist() == [2, 6]
    whole = ExecutionFrame(step, numbers, frame.context, [None, None], [None, None])
    whole.scatter(np.array([1, 3]), part, [(ragged, 0), (dense, 1)])
    assert [n if n is None else n.tolist() for n in whole.columns[0]] == [None, [1], None, [3], None]
    assert whole.columns[1][[1, 3]].tolist() == [2, 6]
