"""Tests of what determines the epoch if neither `reader_name` nor `size` does: the only reader, or DALI's rule."""

import itertools

import numpy as np
import pytest

import penstock.plugin.jax as dali
from penstock import DataIterator, LastBatchPolicy, Pipeline, data_iterator, fn, peekable_data_iterator, pipeline_def
from penstock.errors import StateError, UsageError
from penstock.plugin.jax import clu

CANONICAL = [pytest.param(data_iterator, id="penstock"), pytest.param(peekable_data_iterator, id="penstock, peekable")]
DALIS = [pytest.param(dali.data_iterator, id="dali"), pytest.param(clu.peekable_data_iterator, id="dali, peekable")]


def named():
    return fn.readers.arrays(np.arange(5), name="r")


def unnamed():
    return fn.readers.arrays(np.arange(5))


@pipeline_def
def decorated():
    return fn.readers.arrays(np.arange(5), name="r")


def pair():
    return fn.readers.arrays(np.arange(5), name="images"), fn.readers.arrays(np.arange(4), name="masks")


def first(iterator, count=4):
    return [np.asarray(batch["x"]).tolist() for batch in itertools.islice(iterator, count)]


@pytest.mark.parametrize("decorator", CANONICAL)
@pytest.mark.parametrize("definition", [named, unnamed, decorated])
def test_the_only_reader_determines_the_epoch(decorator, definition):
    for make in (decorator(definition, ["x"]), decorator(output_map=["x"], size=None)(definition)):
        iterator = make(batch_size=2)
        assert (first(iterator), len(iterator), iterator.size) == ([[0, 1], [2, 3], [4, 0]], 3, 6)
        assert first(iterator) == [[0, 1], [2, 3], [4, 0]]
        assert iterator._size_no_pad == 5


@pytest.mark.slow
@pytest.mark.parametrize("decorator", [*CANONICAL, *DALIS])
@pytest.mark.parametrize("definition", [named, unnamed, decorated])
def test_minus_one_is_endless(decorator, definition):
    iterator = decorator(definition, ["x"], size=-1)(batch_size=2)
    assert (first(iterator), iterator.size) == ([[0, 1], [2, 3], [4, 0], [1, 2]], -1)


@pytest.mark.parametrize("decorator", DALIS)
@pytest.mark.parametrize("definition", [named, unnamed, decorated])
def test_dali_paths_are_endless_without_a_name(decorator, definition):
    for make in (decorator(definition, ["x"]), decorator(output_map=["x"])(definition)):
        assert first(make(batch_size=2)) == [[0, 1], [2, 3], [4, 0], [1, 2]]
    assert len(first(decorator(named, ["x"], -1, "r")(batch_size=2))) == 3
    assert len(first(decorator(named, ["x"], 4)(batch_size=2))) == 2


def test_iterators_of_pipelines_are_endless_without_a_name():
    with Pipeline(batch_size=2) as pipeline:
        pipeline.set_outputs(named())
    assert len(first(DataIterator(pipeline, ["x"]))) == 4
    assert len(first(DataIterator(pipeline, ["x"], size=None))) == 3


@pytest.mark.parametrize("decorator", CANONICAL)
def test_several_readers_need_a_choice(decorator):
    with pytest.raises(
        UsageError, match=r"several readers(.|\n)*'images'(.|\n)*'masks'(.|\n)*reader_name='images'"
    ) as e:
        decorator(pair, ["x", "y"])(batch_size=2)
    assert "test_epoch_choice.py" in str(e.value.where)
    assert len(decorator(pair, ["x", "y"], reader_name="masks")(batch_size=2)) == 2
    assert len(decorator(pair, ["x", "y"], size=20)(batch_size=2)) == 10
    assert len(first(decorator(pair, ["x", "y"], size=-1)(batch_size=2), 9)) == 9
    # A reader of no output does not count.
    assert len(decorator(lambda: dict(zip("xy", pair(), strict=True)), ["x"])(batch_size=2)) == 3


def test_several_readers_without_names():
    with pytest.raises(UsageError, match=r"several readers(.|\n)*name="):
        data_iterator(lambda: (unnamed(), unnamed()), ["x", "y"])(batch_size=2)


def test_names_of_samples_do_not_count_as_a_reader():
    def definition():
        x = unnamed()
        name = fn.pad(fn.get_property(x, key="source_info"), shape=[20])
        return {"x": x, "name": name, "size": fn.shapes(name), "y": unnamed()}

    assert len(data_iterator(definition, ["x", "name"])(batch_size=2)) == 3
    assert len(data_iterator(definition, ["name", "size"])(batch_size=2)) == 3
    with pytest.raises(UsageError, match=r"several readers(.|\n)*given: *readers.arrays, readers.arrays\n"):
        data_iterator(definition)(batch_size=2)


@pytest.mark.parametrize("decorator", CANONICAL)
def test_definitions_without_data_need_a_size(decorator):
    def noise():
        return fn.random.uniform()

    with pytest.raises(UsageError, match=r"determines the length(.|\n)*size=-1") as caught:
        decorator(noise, ["x"])(batch_size=2)
    assert "test_epoch_choice.py" in str(caught.value.where)
    assert len(first(decorator(noise, ["x"], size=-1)(batch_size=2), 20)) == 20
    assert len(decorator(noise, ["x"], size=8)(batch_size=2)) == 4


def test_an_external_source_ends_the_epoch():
    @data_iterator(output_map=["x"])
    def definition():
        return fn.external_source([np.arange(2), np.arange(2, 4)], cycle="raise")

    iterator = definition(batch_size=2)
    assert [first(iterator), first(iterator)] == [[[0, 1], [2, 3]]] * 2
    with pytest.raises(TypeError, match=r"external source(.|\n)*size"):
        len(iterator)


def test_a_reader_beside_an_external_source_determines_the_epoch():
    @data_iterator(output_map=["x", "y"])
    def definition():
        return unnamed(), fn.external_source(lambda: np.arange(2))

    assert len(first(definition(batch_size=2))) == 3


@pytest.mark.parametrize("definition", [named, unnamed])
def test_the_only_reader_is_as_good_as_a_name(definition):
    padded = data_iterator(definition, ["x"], last_batch_policy=LastBatchPolicy.PAD)(batch_size=2)
    assert padded.visits_each_sample_once
    assert [batch["valid"].tolist() for batch in padded][-1] == [True, False]
    assert int(padded.sample(3)["x"]) == 3
    with pytest.raises(UsageError, match="whether it pads"):
        data_iterator(definition, ["x"], last_batch_padded=True)(batch_size=2)


def test_states_of_endless_iterators_need_an_endless_iterator():
    before = data_iterator(named, ["x"], size=-1)(batch_size=2)
    assert len(first(before, 7)) == 7
    state = before.get_state()
    with pytest.raises(StateError, match=r"size=-1 if the iterator was endless"):
        data_iterator(named, ["x"])(batch_size=2).set_state(state)
    after = data_iterator(named, ["x"], size=-1)(batch_size=2)
    after.set_state(state)
    assert first(after) == first(before)


def test_states_do_not_depend_on_how_the_reader_was_chosen():
    before = data_iterator(named, ["x"], reader_name="r")(batch_size=2)
    next(before)
    after = data_iterator(named, ["x"])(batch_size=2)
    after.set_state(before.get_state())
    assert first(after) == first(before)
