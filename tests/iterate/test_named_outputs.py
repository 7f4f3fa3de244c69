"""Tests of definitions that return a dict, which names the outputs."""

import jax
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from penstock import DataIterator, LastBatchPolicy, Pipeline, data_iterator, fn, peekable_data_iterator, pipeline_def
from penstock.errors import ArgumentTypeError, UsageError
from penstock.iterate.dry_run import dry_run

IMAGES = (np.arange(12 * 6 * 4 * 3) * 7 % 251).astype(np.uint8).reshape(12, 6, 4, 3)
DATA = {"x": IMAGES, "y": np.arange(12, dtype=np.int32)}
ROWS = NamedSharding(jax.make_mesh((4,), ("batch",)), P("batch"))
ALL = NamedSharding(ROWS.mesh, P())


def training():
    data = fn.readers.arrays(DATA, layout={"x": "HWC", "y": ""}, random_shuffle=True, name="r")
    images = fn.crop_mirror_normalize(data["x"], mirror=fn.random.coin_flip(), std=60.0)
    return {"labels": data["y"], "images": images, "sums": fn.reductions.sum(data["x"])}


def positional():
    return tuple(training().values())


def per_block(shard_id, num_shards):
    x = fn.readers.arrays(DATA["y"], shard_id=shard_id, num_shards=num_shards)
    return {"x": x, "noisy": x + fn.random.uniform()}


def values(batch):
    return {name: np.asarray(array).tolist() for name, array in batch.items()}


def epoch(iterator):
    return [values(batch) for batch in iterator]


@pytest.mark.parametrize("decorator", [data_iterator, peekable_data_iterator])
def test_a_dict_names_the_outputs_in_its_order(decorator):
    expected = epoch(decorator(positional, ["labels", "images", "sums"])(batch_size=4, seed=1))
    for make in (decorator(training), decorator()(training), decorator(output_map=[])(training)):
        iterator = make(batch_size=4, seed=1)
        assert (
            iterator.output_map == list(next(iterator)) == list(iterator.element_spec) == ["labels", "images", "sums"]
        )
        iterator.seek(0, 0)
        assert epoch(iterator) == expected
        assert "labels int32[4], images float32[4, 3, 6, 4], sums" in repr(iterator)
        assert list(iterator.sample(3)) == ["labels", "images", "sums"]


def test_peeking_has_the_names():
    iterator = peekable_data_iterator(training)(batch_size=4, seed=1)
    coming = iterator.peek_async()
    assert list(iterator.peek()) == list(coming.result()) == ["labels", "images", "sums"]


def test_an_output_map_selects_in_its_order():
    whole = epoch(data_iterator(training)(batch_size=4, seed=1))
    some = epoch(data_iterator(training, ["sums", "labels"])(batch_size=4, seed=1))
    assert [list(batch) for batch in some] == [["sums", "labels"]] * 3
    assert some == [{name: batch[name] for name in ("sums", "labels")} for batch in whole]


@pytest.mark.parametrize("names", [["labels", "image"], ["image"], ["labels", "images", "sums", "image"]])
def test_an_output_map_that_contradicts_the_dict_is_refused(names):
    with pytest.raises(UsageError, match=r"'image'(.|\n)*'labels', 'images', 'sums'(.|\n)*did you mean 'images'"):
        data_iterator(training, names)(batch_size=4)


def test_outputs_without_names_are_refused():
    with pytest.raises(UsageError, match=r"need names(.|\n)*output_map(.|\n)*return") as caught:
        data_iterator(positional)(batch_size=4)
    assert "test_named_outputs.py" in str(caught.value.where)


@pytest.mark.parametrize(("result", "problem"), [({}, "no outputs"), ({1: 2}, "not text"), ({"x": object()}, "object")])
def test_other_dicts_are_refused(result, problem):
    with pytest.raises(ArgumentTypeError, match=problem):
        data_iterator(lambda: result, size=-1)(batch_size=4)


def test_a_readers_dict_is_a_definition():
    def arrays():
        return fn.readers.arrays(DATA, layout={"x": "HWC", "y": ""})

    assert next(data_iterator(arrays)(batch_size=4))["y"].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("options", [{"sharding": ROWS}, {"devices": jax.devices()[:4]}, {"pmap_compatible": True}])
@pytest.mark.parametrize("definition", [training, per_block])
def test_layouts(options, definition):
    names = list(data_iterator(definition)(batch_size=4).element_spec)
    expected = next(data_iterator(definition, names, **options)(batch_size=4, seed=1))
    batch = next(data_iterator(definition, **options)(batch_size=4, seed=1))
    assert values(batch) == values(expected)
    assert [a.sharding for a in batch.values()] == [a.sharding for a in expected.values()]


@pytest.mark.parametrize("definition", [training, per_block])
def test_a_sharding_per_output(definition):
    names = list(data_iterator(definition)(batch_size=4).element_spec)
    shardings = {name: ALL if number else ROWS for number, name in enumerate(names)}
    batch = next(data_iterator(definition, sharding=dict(reversed(shardings.items())))(batch_size=4))
    assert {name: array.sharding for name, array in batch.items()} == shardings
    some = next(data_iterator(definition, [names[0]], sharding={names[0]: ROWS})(batch_size=4))
    assert list(some) == [names[0]]
    with pytest.raises(UsageError, match="an entry for each output"):
        data_iterator(definition, sharding={names[0]: ROWS})(batch_size=4)
    with pytest.raises(UsageError, match="an entry for each output"):
        data_iterator(definition, sharding={})(batch_size=4)


def test_masks():
    padded = data_iterator(training, last_batch_policy=LastBatchPolicy.PAD)(batch_size=8)
    assert list(next(padded)) == ["labels", "images", "sums", "valid"]
    with pytest.raises(UsageError, match=r"output_map=\['labels', 'images', 'sums', 'valid'\]"):
        data_iterator(training, on_error="skip")(batch_size=4)
    skipping = data_iterator(training, ["images", "valid"], on_error="skip")(batch_size=4)
    assert list(next(skipping)) == ["images", "valid"]


@pytest.mark.parametrize("options", [{"on_error": "skip"}, {"last_batch_policy": LastBatchPolicy.PAD}])
def test_the_name_of_the_mask_is_taken(options):
    with pytest.raises(UsageError, match="'valid' is taken"):
        data_iterator(lambda: {"x": fn.readers.arrays([1, 2]), "valid": 1}, **options)(batch_size=2)


def test_states_do_not_depend_on_the_form_of_the_definition():
    before = data_iterator(positional, ["labels", "images", "sums"])(batch_size=4, seed=1)
    next(before)
    after = data_iterator(training)(batch_size=4)
    after.set_state(before.get_state())
    assert epoch(after) == epoch(before)


def test_pipelines_return_the_values_in_order():
    planned = pipeline_def(training)(batch_size=4, seed=1)
    debugged = pipeline_def(training, debug=True)(batch_size=4, seed=1)
    again = Pipeline.deserialize(planned.serialize())
    batches = [[np.asarray(output.as_cpu().as_array()) for output in pipe.run()] for pipe in (planned, debugged, again)]
    assert [array.shape for array in batches[0]] == [(4,), (4, 3, 6, 4), (4,)]
    for other in batches[1:]:
        assert all(np.array_equal(one, two) for one, two in zip(batches[0], other, strict=True))
    assert list(next(DataIterator(again))) == ["labels", "images", "sums"]
    made = pipeline_def(training)(batch_size=4, seed=1)
    assert values(next(DataIterator(made))) == values(next(data_iterator(pipeline_def(training))(batch_size=4, seed=1)))


def test_conditionals_and_fed_batches():
    @data_iterator
    @pipeline_def(enable_conditionals=True)
    def definition():
        x = fn.external_source([np.float32([1, 2]), np.float32([3, 4])])
        if x > 2:
            x = x + 10
        return {"x": x}

    assert [batch["x"].tolist() for batch in definition(batch_size=2)] == [[1, 2], [13, 14]]


def test_plans_are_shown():
    plans = []
    with dry_run(plans.append):
        next(data_iterator(training)(batch_size=4))
    assert "crop_mirror_normalize" in plans[0].explain()
