"""Tests of the objects that iterator creation builds, and how often."""

import functools

import jax
import numpy as np
import pytest

from penstock import data_iterator, fn, peekable_data_iterator, pipeline_def
from penstock.engine.executable import Executable
from penstock.engine.transfer.batch_layout import ShardedLayout
from penstock.errors import ArgumentTypeError, UsageError
from penstock.pipeline.pipeline import Pipeline


def numbers(shard_id, num_shards):
    return fn.readers.arrays(np.arange(12), name="r", random_shuffle=True, shard_id=shard_id, num_shards=num_shards)


def sharding(count):
    return jax.NamedSharding(jax.make_mesh((count,), ("batch",), devices=jax.devices()[:count]), jax.P("batch"))


def counted(monkeypatch, kind, name):
    """Return a list that grows with each call of a method."""
    calls, plain = [], getattr(kind, name)

    @functools.wraps(plain)
    def call(self, *args, **kwargs):
        calls.append(args)
        return plain(self, *args, **kwargs)

    monkeypatch.setattr(kind, name, call)
    return calls


def test_factory_creates_one_layout_and_a_pipeline_per_block(monkeypatch):
    layouts, pipelines = counted(monkeypatch, ShardedLayout, "__init__"), counted(monkeypatch, Pipeline, "__init__")
    make = data_iterator(numbers, ["x"], reader_name="r", sharding={"x": sharding(4)})
    make(batch_size=4)
    assert (len(layouts), len(pipelines)) == (1, 4)
    make(batch_size=8)
    assert (len(layouts), len(pipelines)) == (1, 8)


def test_drawn_seed_is_shared_by_all_blocks():
    iterator = data_iterator(numbers, ["x"], reader_name="r", sharding=sharding(4))(batch_size=4)
    assert sorted(x for batch in iterator for x in batch["x"].tolist()) == list(range(12))


def test_source_schedules_are_computed_once_per_seed(monkeypatch):
    made = counted(monkeypatch, Executable, "readings")
    make = data_iterator(lambda: numbers(0, 1), ["x"], reader_name="r")
    first = make(batch_size=4, seed=1)
    next(first)
    state = first.get_state()
    assert (first.visits_each_sample_once, first.size, len(made)) == (True, 12, 1)
    other = make(batch_size=4, seed=2)
    other.set_state(state)
    assert (other.get_state(), len(made)) == (state, 3)
    assert next(other)["x"].tolist() == next(first)["x"].tolist()


@pytest.mark.parametrize("names", ["x", [1], ["x", "x"]])
def test_output_names_are_checked_before_tracing(names):
    with pytest.raises(UsageError, match="output_map"):
        data_iterator(numbers, names, sharding=sharding(2))


def test_output_names_may_be_dictionary_keys():
    shapes = {"x": (), "doubled": ()}

    @data_iterator(output_map=shapes.keys(), reader_name="r")
    def pair():
        x = fn.readers.arrays(np.arange(4), name="r")
        return x, x * 2

    batch = next(pair(batch_size=2))
    assert {name: value.tolist() for name, value in batch.items()} == {"x": [0, 1], "doubled": [0, 2]}


def test_sharding_of_unknown_output_raises_before_tracing():
    with pytest.raises(UsageError, match="each output"):
        data_iterator(numbers, ["x"], sharding={"y": sharding(2)})


def test_state_dict_names_are_those_of_the_state():
    make = data_iterator(lambda: numbers(0, 1), ["x"], reader_name="r")
    first, other = make(batch_size=4, seed=1), make(batch_size=4, seed=2)
    next(first)
    other.load_state_dict(first.state_dict())
    assert other.get_state() == first.get_state()
    assert next(other)["x"].tolist() == next(first)["x"].tolist()


def scaled(factor, offset=0):
    return {"x": fn.readers.arrays(np.arange(4)) * factor + offset}


class Scaled:
    def __call__(self, factor, offset=0):
        numbers = fn.readers.arrays(np.arange(4))
        if numbers < 2:
            numbers = numbers * factor
        return {"x": numbers + offset}


@pytest.mark.parametrize("conditionals", [False, True])
def test_definitions_may_be_partial_applications_and_objects(conditionals):
    options = {"enable_conditionals": conditionals, "batch_size": 4}
    partial = functools.partial(functools.partial(scaled, 3), offset=1)
    make = pipeline_def(partial, **options)
    assert (make.__name__, make().name) == ("scaled", "scaled")
    assert make(offset=2).run()[0].as_array().tolist() == [2, 5, 8, 11]
    assert next(data_iterator(partial)(batch_size=4))["x"].tolist() == [1, 4, 7, 10]
    if conditionals:
        make = pipeline_def(Scaled(), **options)
        assert (make.__name__, make(3).name) == ("Scaled", "Scaled")
        assert make(3).run()[0].as_array().tolist() == [0, 3, 2, 3]
    with pytest.raises(ArgumentTypeError, match="neither Scaled nor its pipeline has an argument 'factr'"):
        pipeline_def(Scaled(), **options)(factr=3)


@pytest.mark.parametrize("decorator", [data_iterator, peekable_data_iterator])
def test_decorator_enables_conditionals(decorator):
    @decorator(enable_conditionals=True)
    def halved():
        x = fn.readers.arrays(np.arange(4))
        if x % 2 == 0:
            x = x // 2
        return {"x": x}

    assert next(halved(batch_size=4))["x"].tolist() == [0, 1, 1, 3]
    with pytest.raises(ArgumentTypeError, match="enable_conditionals=True in the decorator"):
        halved(batch_size=4, enable_conditionals=False)
