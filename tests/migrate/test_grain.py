"""What docs/how-to/migrate/grain.md says of Grain, compared with it."""

from types import SimpleNamespace

import numpy as np
import pytest
from migration_tables import correspondences, unknown_names
from PIL import Image

from penstock import LastBatchPolicy, data_iterator, fn
from penstock.testing import write_photographs

grain = pytest.importorskip("grain", reason="Grain is not installed (dependency group test-all)")

PAGE = "grain.md"


def numbers(**options):
    @data_iterator(**options)
    def definition(data):
        return {"x": fn.readers.items(data, random_shuffle=True)}

    return definition


@pytest.mark.parametrize("row", correspondences(PAGE), ids=str)
def test_every_name_exists(row):
    dataset = grain.MapDataset.range(20)
    names = {
        "grain": grain,
        "dataset": dataset,
        "grain_iterator": iter(dataset.to_iter_dataset()),
        "f": lambda x, *_: x,
        "items": list(range(10)),
        "sampler": grain.samplers.SequentialSampler(num_records=10),
        "sharding": SimpleNamespace(),
        "state": {"next_index": 0},
    }
    assert row.theirs
    for code in row.theirs:
        assert unknown_names(code, names) == []
        if "path" not in code and "device_put" not in code:  # files and devices are not needed to know the names
            eval(code, names)


def test_an_order_repeats_without_repeat_and_changes_with_it():
    dataset = grain.MapDataset.range(10).seed(1).shuffle()
    assert list(dataset) == list(dataset) != list(range(10))
    first, second = np.array(list(dataset.repeat(2))).reshape(2, 10).tolist()
    assert first != second
    assert sorted(first) == sorted(second) == list(range(10))

    iterator = numbers(last_batch_policy=LastBatchPolicy.PARTIAL)(data=np.arange(10), batch_size=4, seed=1)
    ours = [sum((batch["x"].tolist() for batch in iterator), []) for _ in range(2)]
    assert ours[0] != ours[1]
    assert sorted(ours[0]) == sorted(ours[1]) == list(range(10))
    assert first not in ours


def test_a_process_of_grain_has_a_contiguous_part():
    shards = [
        grain.samplers.IndexSampler(
            10, shuffle=True, seed=1, num_epochs=1, shard_options=grain.sharding.ShardOptions(shard, 2)
        )
        for shard in range(2)
    ]
    keys = [sorted(sampler[index].record_key for index in range(shard, 10, 2)) for shard, sampler in enumerate(shards)]
    assert keys == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]


def test_last_batches():
    assert [len(batch) for batch in grain.MapDataset.range(10).batch(4)] == [4, 4, 2]
    sizes = {"FILL": [4, 4, 4], "PARTIAL": [4, 4, 2], "DROP": [4, 4], "PAD": [4, 4, 4]}
    for policy, expected in sizes.items():
        iterator = numbers(last_batch_policy=LastBatchPolicy[policy])(data=np.arange(10), batch_size=4)
        assert [len(batch["x"]) for batch in iterator] == expected
    filled = [batch["x"].tolist() for batch in numbers()(data=np.arange(10), batch_size=4)]
    assert filled[2][2:] == filled[0][:2]


def test_random_numbers_of_grain_belong_to_positions():
    dataset = grain.MapDataset.range(20).seed(1).shuffle().random_map(lambda x, rng: (x, float(rng.random())))
    one, many = (
        list(dataset.to_iter_dataset(grain.ReadOptions(num_threads=threads, prefetch_buffer_size=4)))
        for threads in (1, 4)
    )
    assert one == many == [dataset[index] for index in range(20)]


def test_shares_of_mixtures():
    parts = np.arange(60), np.arange(100, 120)
    theirs = list(grain.MapDataset.mix([grain.MapDataset.source(part) for part in parts], weights=[0.75, 0.25]))

    @data_iterator
    def mixture():
        return {"x": fn.readers.mix(*map(fn.readers.arrays, parts), weights=[0.75, 0.25])}

    ours = next(mixture(batch_size=80))["x"]
    for stream in (np.array(theirs), np.asarray(ours)):
        shares = np.cumsum(stream >= 100) - 0.25 * np.arange(1, 81)
        assert np.abs(shares).max() <= 1


def test_a_map_dataset_is_a_data_set():
    dataset = grain.MapDataset.range(10).map(lambda x: {"a": np.int32(x), "b": np.float32([x, 2 * x])})

    @data_iterator
    def doubled():
        return fn.readers.items(dataset)

    batch = next(doubled(batch_size=10))
    assert batch["a"].tolist() == list(range(10))
    assert batch["b"][:, 1].tolist() == list(range(0, 20, 2))


def test_pixels_of_pillow(tmp_path):
    for path in sorted(write_photographs(tmp_path, samples_per_class=2).rglob("*.jpg")):
        image = Image.open(path)
        np.testing.assert_array_equal(fn.decoders.image(path), np.asarray(image))
        theirs = np.asarray(image.resize((60, 48), Image.Resampling.BILINEAR), np.float64)
        difference = np.abs(theirs - fn.resize(np.asarray(image), size=(48, 60)))
        assert difference.max() <= 4
        assert difference[2:-2, 2:-2].max() <= 1
