"""Tests of pipelines without a seed: readers use the order of seed 0, and augmentations differ."""

import json
import subprocess
import sys

import numpy as np
import pytest

from penstock import Pipeline, data_iterator, fn, pipeline_def
from penstock.rocal import pipeline as rocal

COUNT, ROWS = 40, 4
VALUES = np.arange(COUNT, dtype=np.int32)
SHUFFLED = {"random_shuffle": True}
READERS = {
    "arrays": lambda **shard: fn.readers.arrays(VALUES, **SHUFFLED, **shard),
    "items": lambda **shard: fn.readers.items(Squares(), **SHUFFLED, **shard),
    "weights": lambda **shard: fn.readers.arrays(VALUES, weights=VALUES + 1.0, **SHUFFLED, **shard),
    "joined": lambda **shard: fn.readers.mix(*halves(), **SHUFFLED, **shard),
    "mixed": lambda **shard: fn.readers.mix(*halves(), weights=[3, 1], **SHUFFLED, **shard),
    "no seed of its own": lambda **shard: fn.readers.arrays(VALUES, seed=-1, **SHUFFLED, **shard),
    "a seed of its own": lambda **shard: fn.readers.arrays(VALUES, seed=9, **SHUFFLED, **shard),
}


class Squares:
    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        return VALUES[index] ** 2


def halves():
    return fn.readers.arrays(VALUES[:20]), fn.readers.arrays(VALUES[20:])


def numbers(pipeline, batches=15):
    return [pipeline.run()[0].as_array().ravel().tolist() for _ in range(batches)]


def defined(name, rows=ROWS, **options):
    shard = {key: options.pop(key) for key in ("shard_id", "num_shards") if key in options}

    @pipeline_def(batch_size=rows, num_threads=1)
    def definition():
        return READERS[name](**shard)

    return definition(**options)


@pytest.mark.parametrize("debug", [False, True], ids=["planned", "debug"])
@pytest.mark.parametrize("seed", [None, -1, 5])
@pytest.mark.parametrize("name", READERS)
def test_separate_shard_pipelines_yield_slices_of_one_batch(name, seed, debug):
    shards = [numbers(defined(name, seed=seed, shard_id=k, num_shards=2, debug=debug)) for k in range(2)]
    whole = numbers(defined(name, 2 * ROWS, seed=seed))
    assert [sum(parts, []) for parts in zip(*shards, strict=True)] == whole


def test_without_a_seed_the_order_is_that_of_seed_0():
    assert numbers(defined("arrays")) == numbers(defined("arrays")) == numbers(defined("arrays", seed=0))
    assert numbers(defined("arrays")) != numbers(defined("arrays", seed=1))


def augmented(**options):
    @data_iterator(output_map=["x", "u"], reader_name="r", auto_reset=True)
    def definition():
        return fn.readers.arrays(VALUES, random_shuffle=True, name="r"), fn.random.uniform()

    return definition(batch_size=ROWS, num_threads=1, **options)


def taken(iterator, name, count=12):
    found = []
    while len(found) < count:
        found += [
            np.asarray(batch[name]).tolist() for _, batch in zip(range(count - len(found)), iterator, strict=False)
        ]
    return found


def test_augmentations_differ():
    first, second = augmented(), augmented()
    assert taken(first, "x") == taken(second, "x")
    first, second = augmented(), augmented()
    assert taken(first, "u") != taken(second, "u")


@pytest.mark.parametrize("options", [{}, {"seed": 7}])
def test_state_contains_both_seeds(options):
    first, second = augmented(**options), augmented()
    taken(first, "x", 3)
    state = json.loads(json.dumps(first.get_state()))
    assert (state["seed"] == 7, state["order_seed"]) == (bool(options), options.get("seed", 0))
    for name in ("x", "u"):
        second.set_state(state)
        first.set_state(state)
        assert taken(second, name) == taken(first, name)
    assert second.get_state() == first.get_state()


def test_state_with_one_seed_uses_it_for_order():
    seeded, other = augmented(seed=7), augmented()
    taken(seeded, "x", 3)
    older = {name: value for name, value in seeded.get_state().items() if name != "order_seed"}
    for name in ("x", "u"):
        other.set_state(older)
        seeded.set_state(older)
        assert taken(other, name) == taken(seeded, name)
    other.set_state(older)
    assert (other.get_state()["seed"], other.get_state()["order_seed"]) == (7, 7)


def test_a_serialized_pipeline_keeps_order_and_augmentations():
    def definition():
        return fn.readers.arrays(VALUES, random_shuffle=True) + fn.random.uniform()

    for options in ({}, {"seed": 7}):
        pipeline = pipeline_def(definition)(batch_size=ROWS, **options)
        text = pipeline.serialize()
        expected = numbers(pipeline)
        assert numbers(Pipeline.deserialize(text)) == expected
        empty = Pipeline(batch_size=ROWS)
        empty.deserialize_and_build(text)
        assert numbers(empty) == expected
    drawn = defined("arrays").serialize()
    assert numbers(Pipeline.deserialize(drawn, seed=1)) == numbers(defined("arrays", seed=1))
    older = json.loads(drawn)  # of a pipeline whose seed was that of the order, too, whether it was given or drawn
    del older["pipeline"]["seed_is_given"]
    older["pipeline"]["seed"] = 7
    assert numbers(Pipeline.deserialize(json.dumps(older))) == numbers(defined("arrays", seed=7))


def test_rocal_may_set_the_seed_later():
    def pipeline(seed):
        with rocal.Pipeline(batch_size=ROWS, seed=seed) as made:
            made.set_outputs(fn.readers.arrays(VALUES, random_shuffle=True))
        return made

    def first(pipeline):
        return np.asarray(pipeline.run()[0]).tolist()

    later = pipeline(-1)
    later.set_seed(3)
    assert first(later) == first(pipeline(3))
    assert first(pipeline(-1)) == first(pipeline(0))


PROGRAM = """
import sys
import numpy as np
from penstock import fn, pipeline_def

@pipeline_def(batch_size=5)
def definition(shard):
    return fn.readers.arrays(np.arange(40), random_shuffle=True, shard_id=shard, num_shards=2)

pipeline = definition(int(sys.argv[1]))
print([pipeline.run()[0].as_array().tolist() for _ in range(3 * 4)])
"""


def test_separate_programs_cover_every_epoch():
    outputs = [
        subprocess.run([sys.executable, "-c", PROGRAM, shard], check=True, capture_output=True, text=True).stdout
        for shard in ("0", "1")
    ]
    batches = [sum(parts, []) for parts in zip(*map(json.loads, outputs), strict=True)]
    for epoch in range(3):
        assert sorted(sum(batches[4 * epoch : 4 * epoch + 4], [])) == list(range(40))
