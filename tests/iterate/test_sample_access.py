"""Tests of `sample`: one sample by its index, equal to its row in the batch of an epoch."""

import jax
import numpy as np
import pytest
from counted_data import counted
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from penstock import LastBatchPolicy, data_iterator, fn, peekable_data_iterator, types
from penstock.errors import SampleError, StateError, UsageError

FILL, DROP, PARTIAL, PAD = LastBatchPolicy


def noisy(x):
    """Return outputs that tell the sample, its random numbers, and the sample of another reader in its row."""
    other = fn.readers.arrays(np.arange(7), random_shuffle=True, name="other")
    return x, x + fn.random.uniform(range=[0.0, 0.5]), other


def training(count=10, batch_size=4, policy=FILL, options=None, **reader):
    """Return an iterator whose first output is the index of the sample in the data set."""
    options = options or {}

    @data_iterator(output_map=["x", "noisy", "other"], reader_name="r", last_batch_policy=policy, **options)
    def definition():
        return noisy(fn.readers.arrays(np.arange(count), name="r", **reader))

    return definition(batch_size=batch_size, seed=3)


def rows(batch):
    """Return the rows of a batch as dictionaries of NumPy values."""
    arrays = {name: np.asarray(array) for name, array in batch.items()}
    arrays = {name: array.reshape(-1) if array.ndim > 1 else array for name, array in arrays.items()}
    return [{name: array[row] for name, array in arrays.items()} for row in range(len(arrays["x"]))]


def shown(iterator):
    """Return the first row of each sample in one epoch."""
    result = {}
    for batch in iterator:
        for row in rows(batch):
            result.setdefault(int(row["x"]), row)
    return result


def equal(sample, row):
    assert sample.keys() == row.keys()
    assert all(isinstance(array, jax.Array) for array in sample.values())
    return all(sample[name].dtype == row[name].dtype and np.array_equal(sample[name], row[name]) for name in row)


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("policy", LastBatchPolicy, ids=lambda policy: policy.name)
def test_a_sample_equals_its_row(policy, shuffle):
    expected = training(policy=FILL if policy is DROP else policy, random_shuffle=shuffle)
    iterator = training(policy=policy, random_shuffle=shuffle)
    next(iterator)
    state = iterator.get_state()
    for epoch in range(3):
        samples = shown(expected)
        assert len(samples) == 10
        # Of the second reader, epochs with a dropped batch pass as many positions as those with a filled one.
        assert all(equal(iterator.sample(index, epoch), row) for index, row in samples.items())
    assert iterator.get_state() == state


def test_a_dropped_sample_is_computed_at_the_end_of_the_epoch_too():
    iterator = training(policy=DROP, random_shuffle=True)
    expected = {index: iterator.sample(index) for index in range(10)}
    dropped = expected.keys() - shown(iterator).keys()
    assert iterator.at_end
    assert len(dropped) == 2
    assert all(
        equal(iterator.sample(index), {k: np.asarray(v) for k, v in expected[index].items()}) for index in dropped
    )
    assert iterator.at_end


def explicit(count):
    return NamedSharding(jax.make_mesh((count,), ("batch",)), P("batch"))


@pytest.mark.parametrize(
    "options",
    [{"sharding": explicit(4)}, {"devices": jax.devices()[:4]}, {"pmap_compatible": True}],
    ids=["sharding", "devices", "pmap"],
)
def test_a_sample_is_the_same_on_several_devices(options):
    samples, iterator = shown(training(12, random_shuffle=True)), training(12, random_shuffle=True, options=options)
    assert all(equal(iterator.sample(index), row) for index, row in samples.items())


@pytest.mark.parametrize("mode", ["global", "contiguous"])
@pytest.mark.parametrize("stick", [True, False])
def test_definitions_that_read_a_shard_per_block(mode, stick):
    @data_iterator(output_map=["x", "noisy", "other"], reader_name="r", sharding=explicit(2))
    def definition(shard_id, num_shards):
        options = {"shard_mode": mode} | ({"stick_to_shard": stick} if mode == "contiguous" else {})
        x = fn.readers.arrays(
            np.arange(11), name="r", random_shuffle=True, shard_id=shard_id, num_shards=num_shards, **options
        )
        return noisy(x)

    iterator, other = definition(batch_size=4, seed=1), definition(batch_size=4, seed=1)
    for epoch in range(3):
        samples = shown(other)
        assert len(samples) == 11
        assert all(equal(iterator.sample(index, epoch), row) for index, row in samples.items())


def test_a_program_that_reads_one_shard_has_its_samples():
    iterator = training(8, 2, shard_id=1, num_shards=2, random_shuffle=True)
    samples = shown(training(8, 2, shard_id=1, num_shards=2, random_shuffle=True))
    assert len(samples) == 4
    assert all(equal(iterator.sample(index), row) for index, row in samples.items())
    for index in set(range(8)) - samples.keys():
        with pytest.raises(UsageError, match="a shard of the data set"):
            iterator.sample(index)


@pytest.mark.parametrize(("index", "epoch"), [(3, 0), (15_000_003, 0), (3, 3_000_000)])
def test_every_sample_costs_a_batch(index, epoch):
    data, iterator = counted()
    before = data.reads
    assert int(iterator.sample(index, epoch)["x"]) == index
    assert data.reads - before == 4


def test_an_index_counts_the_samples_of_a_subset():
    iterator = training(10, 2, subset=[7, 3, 5, 1], random_shuffle=True)
    assert [int(iterator.sample(index, 2)["x"]) for index in range(4)] == [7, 3, 5, 1]
    with pytest.raises(UsageError, match=r"no such sample(.|\n)*index=4(.|\n)*0 to 3"):
        iterator.sample(4)
    with pytest.raises(UsageError, match="at least 0"):
        iterator.sample(-1)


def test_an_index_counts_the_samples_of_a_concatenation():
    @data_iterator
    def definition():
        return {"x": fn.readers.mix(fn.readers.arrays([1, 2, 3]), fn.readers.arrays([4, 5]), random_shuffle=True)}

    iterator = definition(batch_size=2, seed=1)
    assert [int(iterator.sample(index, 3)["x"]) for index in range(5)] == [1, 2, 3, 4, 5]


def test_the_next_batch_is_not_computed_twice():
    @peekable_data_iterator(output_map=["x"], reader_name="r")
    def definition():
        return fn.readers.arrays(np.arange(4), name="r")

    iterator = definition(batch_size=2)
    coming = iterator.peek_async()
    assert iterator.sample(1)["x"] == 1
    assert coming.result()["x"].tolist() == next(iterator)["x"].tolist() == [0, 1]


def test_padding_repeats_do_not_hide_the_sample():
    iterator = training(5, 4, pad_last_batch=True)
    assert int(iterator.sample(4)["x"]) == 4
    sample = training(5, 4, PAD).sample(4)
    assert bool(sample["valid"]) is True


@pytest.mark.parametrize("policy", ["replace", "skip"])
def test_a_tolerated_bad_sample_is_what_the_batch_has(policy):
    def checked(number):
        if number == 5:
            raise ValueError("five")
        return number

    names = ["x", "valid"] if policy == "skip" else ["x"]

    @data_iterator(output_map=names, reader_name="r", max_bad_rate=(1.0, 8), on_error=policy)
    def definition():
        x = fn.readers.arrays(np.arange(8), name="r")
        return fn.python_function(x, function=checked, dtype=types.INT64, ndim=0)

    iterator = definition(batch_size=2, seed=1)
    sample = iterator.sample(5)
    row = np.asarray(iterator.batch_at(0, 2)["x"])[1]
    assert int(sample["x"]) == row != 5
    assert policy == "replace" or bool(sample["valid"]) is False
    assert iterator.stats()["bad samples"] == definition(batch_size=2, seed=1).stats()["bad samples"]


def test_a_bad_sample_of_the_batch_is_an_error():
    def checked(number):
        if number == 5:
            raise ValueError("five")
        return number

    @data_iterator(output_map=["x"], reader_name="r")
    def definition():
        x = fn.readers.arrays(np.arange(8), name="r")
        return fn.python_function(x, function=checked, dtype=types.INT64, ndim=0)

    iterator = definition(batch_size=2)
    with pytest.raises(SampleError, match="five"):
        iterator.sample(5)
    assert int(iterator.sample(6)["x"]) == 6
    assert next(iterator)["x"].tolist() == [0, 1]


def weighted():
    return fn.readers.arrays(np.arange(4), name="r", weights=[1.0, 2.0, 1.0, 1.0], random_shuffle=True)


def mixed():
    parts = [fn.readers.arrays(np.arange(4)), fn.readers.arrays(np.arange(4, 8))]
    return fn.readers.mix(*parts, weights=[3, 1], random_shuffle=True, name="r")


@pytest.mark.parametrize("definition", [weighted, mixed])
def test_readers_that_draw_samples_are_refused(definition):
    iterator = data_iterator(definition, ["x"], reader_name="r")(batch_size=2)
    with pytest.raises(UsageError, match=r"draws samples(.|\n)*batch_at"):
        iterator.sample(0)


def test_separate_data_per_block_are_refused():
    @data_iterator(output_map=["x"], reader_name="r", sharding=explicit(2))
    def definition(shard_id, num_shards):
        return fn.readers.arrays(np.arange(4) + 10 * shard_id, name="r")

    with pytest.raises(UsageError, match="separate data"):
        definition(batch_size=2).sample(0)


def test_no_reader_determines_the_epoch():
    @data_iterator(output_map=["x"], size=8)
    def definition():
        return fn.readers.arrays(np.arange(8), name="r")

    with pytest.raises(UsageError, match=r"reader that determines the epoch(.|\n)*reader_name"):
        definition(batch_size=2).sample(0)


def test_external_sources_serve_the_iterator_alone():
    @data_iterator(output_map=["x", "y"], reader_name="r")
    def definition():
        y = fn.external_source(lambda info: np.int64(info.idx_in_epoch), batch=False, dtype=types.INT64)
        return fn.readers.arrays(np.arange(8), name="r"), y

    iterator = definition(batch_size=2)
    assert int(iterator.sample(1)["y"]) == 1
    with pytest.raises(StateError, match=r"external source(.|\n)*seek"):
        iterator.sample(5)
