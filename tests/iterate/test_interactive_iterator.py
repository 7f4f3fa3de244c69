"""Tests of loops over a part of the data, of access to any batch, and of the repr."""

import copy
import pickle
import threading

import numpy as np
import pytest
from counted_data import counted

from penstock import DataIterator, LastBatchPolicy, Pipeline, data_iterator, fn, types
from penstock.errors import SampleError, StateError, UsageError

POLICIES = [LastBatchPolicy.FILL, LastBatchPolicy.PARTIAL, LastBatchPolicy.DROP, LastBatchPolicy.PAD]


def training(count=10, batch_size=4, policy=LastBatchPolicy.FILL, seed=3, **options):
    """Return an iterator over shuffled numbers with noise, and a second reader of another length."""

    @data_iterator(output_map=["x", "noisy", "other"], reader_name="r", last_batch_policy=policy)
    def definition():
        x = fn.readers.arrays(np.arange(count), random_shuffle=True, name="r")
        other = fn.readers.arrays(np.arange(7), random_shuffle=True, name="other")
        return x, x + fn.random.uniform(range=[0.0, 0.5]), other

    return definition(batch_size=batch_size, seed=seed, **options)


def values(batch):
    return {name: np.asarray(array).tolist() for name, array in batch.items()}


def epochs(iterator, number):
    return [[values(batch) for batch in iterator] for _ in range(number)]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_any_batch_equals_that_of_a_loop_and_the_iterator_stays(policy):
    expected = epochs(training(policy=policy), 4)
    iterator = training(policy=policy)
    next(iterator)
    state = iterator.get_state()
    for epoch in (3, 0, 2, 1):
        assert [values(iterator.batch_at(epoch, step)) for step in range(len(iterator))] == expected[epoch]
    assert iterator.get_state() == state
    assert [values(batch) for batch in iterator] == expected[0][1:]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_seek_continues_as_a_loop_does(policy):
    expected = epochs(training(policy=policy), 4)
    iterator = training(policy=policy)
    for epoch, step in ((2, 1), (0, 0), (3, len(iterator) - 1)):
        iterator.seek(epoch, step)
        assert [values(batch) for batch in iterator] == expected[epoch][step:]
        if epoch < 3:
            assert [values(batch) for batch in iterator] == expected[epoch + 1]


def test_replay_returns_the_batch_after_a_state_of_another_seed():
    other, iterator = training(seed=9), training()
    states = []
    for _ in range(7):
        try:
            state = other.get_state()
            states.append((state, values(next(other))))
        except StopIteration:
            iter(other)
    before = iterator.get_state()
    for state, batch in reversed(states):
        assert values(iterator.replay(state)) == batch
    assert iterator.get_state() == before
    assert values(next(iterator)) == epochs(training(), 1)[0][0]


@pytest.mark.parametrize(("epoch", "step"), [(0, 3), (0, 3_000_000), (3_000_000, 3)])
def test_every_batch_costs_the_same(epoch, step):
    data, iterator = counted()
    iterator.batch_at(0, 1)
    before = data.reads
    iterator.batch_at(epoch, step)
    assert 4 <= data.reads - before <= 8
    iterator.seek(epoch, step)
    before = data.reads
    next(iterator)
    assert 4 <= data.reads - before <= 12


def test_missing_batches_are_refused():
    iterator = training()
    with pytest.raises(UsageError, match=r"no such batch(.|\n)*step=3(.|\n)*0 to 2"):
        iterator.batch_at(0, 3)
    with pytest.raises(UsageError, match="no such batch"):
        iterator.seek(1, 3)
    with pytest.raises(UsageError, match=r"DataIterator\.batch_at: (.|\n)*at least 0"):
        iterator.batch_at(-1, 0)


def test_external_sources_serve_the_iterator_alone():
    @data_iterator(output_map=["x"], size=8)
    def definition():
        return fn.external_source(lambda info: np.int64(info.idx_in_epoch), batch=False, dtype=types.INT64)

    iterator = definition(batch_size=2)
    assert values(iterator.batch_at(0, 0)) == {"x": [0, 1]}
    with pytest.raises(StateError, match=r"external source(.|\n)*seek"):
        iterator.batch_at(0, 2)
    iterator.seek(0, 2)
    assert values(next(iterator)) == {"x": [4, 5]}


def test_operators_with_a_state_are_refused_unless_it_is_known():
    @data_iterator(output_map=["x"], reader_name="r")
    def definition():
        x = fn.readers.arrays(np.arange(8, dtype=np.int32), name="r")
        return fn.jax_function(lambda total, a: (total + a.sum(), a + total), state=np.int32(0))(x)

    expected = epochs(definition(batch_size=2), 2)
    iterator = definition(batch_size=2)
    states = []
    for _ in range(3):
        states.append(iterator.get_state())
        next(iterator)
    assert [values(iterator.replay(state)) for state in states] == expected[0][:3]
    assert values(iterator.batch_at(0, 0)) == expected[0][0]
    with pytest.raises(StateError):
        iterator.batch_at(1, 1)
    with pytest.raises(StateError):
        iterator.seek(1, 1)
    assert values(next(iterator)) == expected[0][3]
    iterator.seek(0, 0)
    assert epochs(iterator, 2) == expected


def test_a_bad_sample_of_another_batch_does_not_move_the_iterator():
    def checked(number):
        if number == 5:
            raise ValueError("five")
        return number

    @data_iterator(output_map=["x"], reader_name="r")
    def definition():
        return fn.python_function(
            fn.readers.arrays(np.arange(8), name="r"), function=checked, dtype=types.INT64, ndim=0
        )

    iterator = definition(batch_size=2)
    with pytest.raises(SampleError, match="five"):
        iterator.batch_at(0, 2)
    assert values(iterator.batch_at(0, 3)) == {"x": [6, 7]}
    assert values(next(iterator)) == {"x": [0, 1]}


def test_take_advances_the_iterator():
    expected = epochs(training(), 2)
    iterator = training()
    assert [values(batch) for batch in iterator.take(2)] == expected[0][:2]
    assert [values(batch) for batch in iterator.take(9)] == expected[0][2:]
    assert [values(batch) for batch in iterator.take(1)] == expected[1][:1]
    assert not list(iterator.take(0))


@pytest.mark.parametrize("auto_reset", [True, False])
def test_an_epoch_begins_at_its_beginning(auto_reset):
    expected = epochs(training(), 4)

    @data_iterator(output_map=["x"], reader_name="r", auto_reset=auto_reset)
    def definition():
        return fn.readers.arrays(np.arange(10), random_shuffle=True, name="r")

    iterator = definition(batch_size=4, seed=3)
    xs = [[batch["x"] for batch in epoch] for epoch in expected]
    assert [values(batch)["x"] for batch in iterator.epoch()] == xs[0]
    for batch in iterator.epoch():
        assert values(batch)["x"] == xs[1][0]
        break
    assert [values(batch)["x"] for batch in iterator.epoch()] == xs[2]
    assert [values(batch)["x"] for batch in iterator.epoch()] == xs[3]


def test_a_loop_continues_after_break_and_a_second_iter():
    expected = epochs(training(), 2)
    iterator = training()
    for batch in iterator:
        assert values(batch) == expected[0][0]
        break
    assert iter(iterator) is iterator
    assert values(next(iter(iterator))) == expected[0][1]
    assert [values(batch) for batch in iterator] == expected[0][2:]
    if not iterator.at_start:
        with pytest.raises(StopIteration):
            next(iterator)
    assert [values(batch) for batch in iterator] == expected[1]


@pytest.mark.parametrize("auto_reset", [True, False])
def test_calls_after_the_end(auto_reset):
    expected = epochs(training(), 2)
    iterator = DataIterator(training()._pipes, ["x", "noisy", "other"], reader_name="r", auto_reset=auto_reset)
    assert [values(batch) for batch in iterator] == expected[0]
    if auto_reset:
        assert values(next(iterator)) == expected[1][0]
        return
    for _ in range(3):
        with pytest.raises(StopIteration):
            next(iterator)
    assert not list(iterator.take(0))
    assert iterator.at_start
    assert values(next(iterator)) == expected[1][0]


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_copies_are_refused_with_a_reason(copied):
    iterator = training()
    with pytest.raises(TypeError, match=r"cannot be pickled or copied(.|\n)*get_state"):
        copied(iterator)
    assert values(next(iterator)) == epochs(training(), 1)[0][0]


def test_an_endless_iterator_has_no_epochs():
    @data_iterator(output_map=["x"], size=-1)
    def definition():
        return fn.readers.arrays(np.arange(4))

    iterator = definition(batch_size=2)
    with pytest.raises(UsageError, match=r"endless(.|\n)*take"):
        iterator.epoch()
    with pytest.raises(UsageError, match=r"endless(.|\n)*epoch=1"):
        iterator.batch_at(1, 0)
    assert values(iterator.batch_at(0, 3)) == {"x": [2, 3]}
    assert repr(iterator) == "DataIterator(definition: x int32[2]; epoch 0, batch 0)"


def test_the_repr_tells_outputs_and_position():
    iterator = training()
    next(iterator)
    text = "DataIterator(definition: x int32[4], noisy float32[4], other int32[4]; 10 samples; epoch 0, batch 1 of 3)"
    assert repr(iterator) == text
    list(iterator)
    iterator.seek(7, 2)
    assert repr(iterator).endswith("epoch 7, batch 2 of 3)")


def test_with_ends_the_threads():
    before = threading.active_count()
    pipeline = Pipeline(batch_size=256, num_threads=2, prefetch_queue_depth=2)
    with pipeline:
        images = fn.readers.arrays(np.zeros((512, 64, 64, 3), np.uint8), layout="HWC", name="r")
        pipeline.set_outputs(fn.resize(images, size=200))
    with DataIterator(pipeline, ["x"], reader_name="r") as iterator:
        next(iterator)
        iterator.batch_at(1, 1)
        assert threading.active_count() > before
    assert threading.active_count() == before
