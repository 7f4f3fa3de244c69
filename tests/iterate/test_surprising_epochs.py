"""Epochs that run, but probably not as intended, and shards with folders of their own."""

import jax
import numpy as np
import pytest

from penstock import data_iterator, fn, pipeline_def
from penstock.errors import PenstockWarning
from penstock.plugin.jax import DALIGenericIterator
from penstock.testing import write_photographs
from penstock.types import LastBatchPolicy

TWO_DEVICES = jax.NamedSharding(jax.make_mesh((2,), ("batch",), devices=jax.devices()[:2]), jax.P("batch"))


def numbers(length, **options):
    return fn.readers.arrays(np.arange(length), **options)


def ten(batch_size, policy=LastBatchPolicy.FILL):
    @data_iterator(last_batch_policy=policy)
    def definition():
        return {"x": numbers(10)}

    return definition(batch_size=batch_size, device_id=0)


def test_a_batch_larger_than_the_data_is_named():
    with pytest.warns(PenstockWarning, match=r"repeats samples: its size is 16, and .*arrays.* has 10\n.*size=10"):
        iterator = ten(16)
    assert np.bincount(next(iterator)["x"]).max() == 2
    for policy in (LastBatchPolicy.PAD, LastBatchPolicy.PARTIAL):
        ten(16, policy)
    ten(10)


def pairs(one, other):
    @data_iterator(reader_name="one")
    def definition():
        return {"a": numbers(**one, name="one"), "b": numbers(**other)}

    return definition(batch_size=5, device_id=0)


def test_shuffled_readers_of_different_length_are_named():
    with pytest.warns(PenstockWarning, match=r"shuffle 10 and 12 samples, so each has an order of its own"):
        pairs({"length": 10, "random_shuffle": True}, {"length": 12, "random_shuffle": True})


@pytest.mark.parametrize(
    ("one", "other", "why"),
    [
        ({"random_shuffle": True}, {}, "only one of them shuffles"),
        ({}, {"random_shuffle": True}, "only one of them shuffles"),
        ({"random_shuffle": True}, {"random_shuffle": True, "weights": range(10)}, "differ in weights"),
    ],
    ids=["first", "second", "weights"],
)
def test_readers_of_one_length_with_other_orders_are_named(one, other, why):
    with pytest.warns(PenstockWarning, match=rf"have 10 samples each, but {why}, so each has an order of its own"):
        pairs({"length": 10, **one}, {"length": 10, **other})


@pytest.mark.parametrize(
    ("length", "options"),
    [
        (10, {"random_shuffle": True}),
        (10, {"random_shuffle": True, "seed": 3}),
        (10, {"random_shuffle": True, "weights": range(10), "seed": 3}),
        (12, {"random_shuffle": True, "seed": 3}),
        (12, {"random_shuffle": False}),
    ],
    ids=["same length", "own seed", "own seed and weights", "own seed and length", "not shuffled"],
)
def test_readers_that_are_meant_to_be_so_are_not_named(length, options):
    pairs({"length": 10, "random_shuffle": True}, {"length": length, **options})


def test_readers_without_an_own_order_are_not_named():
    pairs({"length": 10}, {"length": 10})
    pairs({"length": 10, "weights": range(10)}, {"length": 10, "weights": list(range(10))})
    pairs({"length": 10, "random_shuffle": True, "seed": 3}, {"length": 10})


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Two folders of photographs that differ in number, sizes and labels."""
    roots = [tmp_path_factory.mktemp(name) for name in "ab"]
    write_photographs(roots[0], samples_per_class=2, sizes=(20, 40))
    write_photographs(roots[1], samples_per_class=3, sizes=(50, 60))
    return roots


def test_shards_may_read_folders_of_their_own(folders):
    @data_iterator(sharding=TWO_DEVICES)
    def definition(shard_id, num_shards):
        files, _ = fn.readers.file(file_root=folders[shard_id])
        return {"shapes": fn.peek_image_shape(files), "images": fn.resize(fn.decoders.image(files), size=(8, 8))}

    @pipeline_def(batch_size=2, num_threads=1)
    def single(folder):
        files, _ = fn.readers.file(file_root=folder, name="files")
        return fn.peek_image_shape(files), fn.resize(fn.decoders.image(files), size=(8, 8))

    batch = next(definition(batch_size=4))
    alone = [pipeline.run() for pipeline in map(single, folders)]
    for number, name in enumerate(["shapes", "images"]):
        expected = np.concatenate([outputs[number].as_array() for outputs in alone])
        np.testing.assert_array_equal(batch[name], expected)
    pipelines = [single(folder, device_id=device) for device, folder in enumerate(folders)]
    listed = next(DALIGenericIterator(pipelines, ["shapes", "images"], reader_name="files", sharding=TWO_DEVICES))
    jax.tree.map(np.testing.assert_array_equal, listed, batch)
