"""Tests of mixtures, weights and subsets in iterators: epochs, states, shards, bad samples, errors."""

from pathlib import Path

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from penstock import LastBatchPolicy, Pipeline, data_iterator, fn, pipeline_def
from penstock.errors import ArgumentTypeError, DefinitionError, SampleError, StateError
from penstock.testing import check_iterator
from penstock.testing.iterator_checks import same_batches

A, B, C = np.arange(10), np.arange(100, 107), np.arange(200, 203)


def sharding(count):
    return NamedSharding(Mesh(np.array(jax.devices()[:count]), ("batch",)), P("batch"))


def mixed(weights=(3, 2, 1), *, datasets=(A, B, C), devices=1, policy=LastBatchPolicy.FILL, batch_size=8, **options):
    """Return an iterator over a mixture of arrays."""
    state = {name: options.pop(name) for name in ("on_error",) if name in options}

    def definition(shard_id, num_shards):
        parts = [fn.readers.arrays(each, name=f"part {n}") for n, each in enumerate(datasets)]
        shard = {"shard_id": shard_id, "num_shards": num_shards}
        return fn.readers.mix(*parts, weights=weights, name="r", **shard, **options)

    iterator = data_iterator(
        definition, ["x"], reader_name="r", sharding=sharding(devices), last_batch_policy=policy, **state
    )
    return iterator(batch_size=batch_size, seed=3, num_threads=1)


def epochs(iterator, count=1):
    """Return the samples of each epoch."""
    return [np.concatenate([np.asarray(batch["x"]) for batch in iterator]).tolist() for _ in range(count)]


OPTIONS = [
    {},
    {"random_shuffle": True},
    {"random_shuffle": True, "epoch_size": 13, "batch_size": 4},
    {"weights": None, "random_shuffle": True},
    {"weights": None, "epoch_size": 7, "batch_size": 4},
    {"random_shuffle": True, "pad_last_batch": True, "policy": LastBatchPolicy.PAD},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_mixture_batches_are_same_on_any_shards_and_from_any_state(options):
    alone = check_iterator(lambda: mixed(**options), epochs=2)
    for devices in (2, 4):
        other = mixed(**options, devices=devices)
        for batches in alone:
            assert same_batches(batches, [jax.tree.map(np.asarray, batch) for batch in other])


@given(st.integers(0, 200), st.integers(1, 30), st.integers(0, 2))
@settings(max_examples=5, deadline=None)
def test_mixture_resumes_at_any_position(start, epoch, which):
    weights = [(1, 1, 1), (0.2, 0.5, 0.3), (5, 0, 1)][which]
    options = {"weights": weights, "random_shuffle": True, "epoch_size": epoch, "batch_size": 1}
    first = mixed(**options)
    state = first.get_state() | {"epoch": start // epoch, "row": start % epoch, "totals": [start]}
    first.set_state(state)
    order = mixed(**options | {"epoch_size": 400, "policy": LastBatchPolicy.DROP})
    order.set_state(order.get_state() | {"row": start, "totals": [start]})
    assert int(next(first)["x"][0]) == int(next(order)["x"][0]), "epochs do not change what stands where"


def test_concatenation_visits_every_sample_once():
    iterator = mixed(None, random_shuffle=True, policy=LastBatchPolicy.PARTIAL, batch_size=7)
    every = sorted(np.concatenate([A, B, C]).tolist())
    first, second = epochs(iterator, 2)
    assert sorted(first) == sorted(second) == every
    assert first != second
    assert iterator.visits_each_sample_once
    assert epochs(mixed(None, policy=LastBatchPolicy.PARTIAL)) == [every]


def test_mixture_epoch_has_total_number_of_samples():
    iterator = mixed([2, 1, 0], policy=LastBatchPolicy.PARTIAL, batch_size=5)
    first, second = epochs(iterator, 2)
    assert [len(first), len(second), iterator.size] == [17, 17, 17]
    stream = np.array(first + second)
    assert stream[stream < 100].tolist() == [*range(10), *range(10), 0, 1, 2], (
        "two of three, in order, from epoch to epoch"
    )
    assert not iterator.visits_each_sample_once


def test_mixture_reports_epoch_size():
    with Pipeline(batch_size=4) as pipeline:
        numbers = fn.readers.mix(fn.readers.arrays(A), fn.readers.arrays(B), weights=[1, 1], epoch_size=40, name="r")
        part = fn.readers.arrays(A, subset=slice(3), name="part")
        pipeline.set_outputs(numbers, part)
    assert pipeline.reader_meta("r")["epoch_size"] == pipeline.epoch_size("r") == 40
    assert pipeline.reader_meta("part")["epoch_size"] == 3


def test_plan_lists_mixed_data_sets():
    assert (
        "20 samples: 0.5 of readers.arrays 'part 0' (10 samples) + 0.3333 of readers.arrays 'part 1' (7 samples) + "
        "0.1667 of readers.arrays 'part 2' (3 samples), shuffled in each epoch"
    ) in mixed(random_shuffle=True).explain()
    assert "20 samples: readers.arrays 'part 0' (10 samples) + readers.arrays" in mixed(None).explain()

    @data_iterator(output_map=["x", "y"], size=4)
    def parts():
        return fn.readers.arrays(A, subset=slice(6)), fn.readers.arrays(A, weights=A)

    text = parts(batch_size=2).explain()
    assert "6 of 10 samples, in order" in text
    assert "10 samples, drawn by weights" in text


def test_state_identifies_mixture():
    state = mixed([3, 2, 1]).get_state()
    mixed([6, 4, 2]).set_state(state | {"definition": mixed([6, 4, 2]).get_state()["definition"]})
    for other in (mixed([3, 2, 2]), mixed([3, 2, 1], epoch_size=30), mixed(datasets=(A, B, C + 1)), mixed(None)):
        with pytest.raises(StateError, match="another dataset"):
            other.set_state(state)

    def drawn(weights, subset):
        def definition():
            return fn.readers.arrays(A, weights=weights, subset=subset, name="r")

        return data_iterator(definition, ["x"], reader_name="r")(batch_size=2)

    state = drawn([1, 2, 3], [5, 6, 7]).get_state()
    drawn([2, 4, 6], np.arange(10) // 5 * (np.arange(10) < 8) > 0).set_state(state)
    for weights, subset in (([1, 2, 4], [5, 6, 7]), ([1, 2, 3], [5, 6, 8])):
        with pytest.raises(StateError, match="another dataset"):
            drawn(weights, subset).set_state(state)


def test_mixtures_of_images_and_masks_stay_aligned():
    @data_iterator(output_map=["images", "masks", "others"], reader_name="images")
    def pairs():
        def mix(sign, weights, name):
            return fn.readers.mix(
                *(fn.readers.arrays(sign * each) for each in (A, B)), weights=weights, random_shuffle=True, name=name
            )

        return mix(1, [2, 1], "images"), mix(-1, [2, 1], "masks"), mix(1, [1, 1], "others")

    iterator = pairs(batch_size=5, seed=1)
    for batch in iterator:
        assert np.array_equal(batch["images"], -np.asarray(batch["masks"]))
    text = iterator.explain()
    assert "in step with readers.mix 'images'" in text
    assert "not in step with readers.mix 'images', which has another order" in text


@pytest.mark.parametrize("on_error", ["skip", "replace"])
def test_bad_sample_of_mixture_is_masked_or_replaced_from_same_data_set(tmp_path, on_error):
    paths = {name: [str(tmp_path / f"{name}{n}") for n in range(4)] for name in "ab"}
    for path in (*paths["a"], *paths["b"]):
        Path(path).write_text(path[-2])
    Path(paths["b"][1]).unlink()

    def definition():
        both = [fn.readers.file(files=each) for each in paths.values()]
        return fn.pad(fn.readers.mix(*both, weights=[1, 1], on_error=on_error, name="r")[0], shape=[1])

    names = ["x", "valid"] if on_error == "skip" else ["x"]
    make = data_iterator(definition, names, reader_name="r", prepare_first_batch=False, max_bad_rate=(1.0, 1000))
    (batch,) = make(batch_size=8)
    made = bytes(np.asarray(batch["x"]).ravel())
    if on_error == "skip":
        assert [bool(valid) for valid in batch["valid"]] == [True] * 3 + [False] + [True] * 4
        assert made[:3] + made[4:] == b"abaabab"
    else:
        assert made == b"abababab"


def test_bad_sample_is_named_with_index_in_its_data_set(tmp_path):
    with Pipeline(batch_size=2) as pipeline:
        files = fn.readers.file(files=[__file__, str(tmp_path / "gone")])
        pipeline.set_outputs(*fn.readers.mix(fn.readers.file(files=[__file__]), files))
    with pytest.raises(SampleError, match=r"sample 2 of.*gone"):
        [pipeline.run() for _ in range(2)]


def test_mixture_of_named_outputs_has_names():
    with Pipeline(batch_size=4) as pipeline:
        one = fn.readers.arrays({"x": A, "y": A * 2})
        other = fn.readers.arrays({"y": B * 2, "z": B, "x": B})
        made = fn.readers.mix(one, {"x": other["x"], "y": other["y"]}, weights=[1, 1])
        lists = fn.readers.mix((one["x"], one["y"]), (other["z"], other["x"]), weights=[1, 1])
        pipeline.set_outputs(made["x"], made["y"], *lists)
    x, y, first, second = (output.as_array().tolist() for output in pipeline.run())
    assert x == [0, 100, 1, 101]
    assert y == [0, 200, 2, 202]
    assert first == [0, 100, 1, 101]
    assert second == [0, 100, 2, 101]


def test_classes_are_balanced_with_one_reader_per_class():
    labels = np.array([0] * 90 + [1] * 9 + [2])
    with Pipeline(batch_size=30) as pipeline:
        classes = [fn.readers.arrays(labels, subset=labels == number) for number in range(3)]
        pipeline.set_outputs(fn.readers.mix(*classes, weights=[1, 1, 1], random_shuffle=True))
    assert np.bincount(pipeline.run()[0].as_array()).tolist() == [10, 10, 10]


def both():
    return fn.readers.mix(fn.readers.arrays(A), fn.readers.arrays(B), weights=[1, 1])


def test_samples_have_source_information():
    with Pipeline(batch_size=3) as pipeline:
        numbers = both()
        pipeline.set_outputs(numbers, numbers.source_info())
    made, places = pipeline.run()
    assert made.as_array().tolist() == [0, 100, 1]
    assert [bytes(place).decode() for place in places] == [f"row {n} of arrays" for n in (0, 0, 1)]


def test_debug_mode_matches_pipeline():
    made = [pipeline_def(both, batch_size=4, debug=debug)() for debug in (False, True)]
    for _ in range(2):
        plain, debugged = (pipeline.run()[0].as_array().tolist() for pipeline in made)
        assert plain == debugged


def weighted(weights):
    return lambda: fn.readers.mix(fn.readers.arrays(A), fn.readers.arrays(B), weights=weights)


def drawn(**options):
    return lambda: fn.readers.arrays(A, **options)


def together(*makers, **options):
    return lambda: fn.readers.mix(*(make() for make in makers), **options)


REFUSED = [
    (lambda: fn.readers.mix(), DefinitionError, "nothing to read"),
    (lambda: fn.readers.mix(A), ArgumentTypeError, "outputs of one reader"),
    (
        lambda: fn.readers.mix([drawn()(), fn.readers.arrays(B)], weights=[1, 1]),
        ArgumentTypeError,
        "*readers for a list",
    ),
    (lambda: fn.readers.mix((drawn()(), fn.readers.arrays(B))), ArgumentTypeError, "outputs of one reader"),
    (together(lambda: drawn()() + 1), DefinitionError, "not values computed from them"),
    (together(drawn(), drawn(random_shuffle=True)), DefinitionError, "random_shuffle of readers.arrays"),
    (together(drawn(seed=3)), DefinitionError, "seed of readers.arrays"),
    (together(drawn(shard_id=1, num_shards=2)), DefinitionError, "shard_id, num_shards of"),
    (together(drawn(weights=A)), DefinitionError, "cannot be concatenated"),
    (
        together(drawn(), lambda: fn.readers.arrays(A.astype(np.int32))),
        DefinitionError,
        "int32[] of readers.arrays",
    ),
    (together(drawn(), lambda: fn.readers.arrays(A[:, None])), DefinitionError, "another kind"),
    (together(drawn(), lambda: fn.readers.arrays((A, A))), DefinitionError, "number of values"),
    (together(drawn(), lambda: fn.readers.arrays({"x": A})), DefinitionError, "the same output names"),
    (weighted([1]), DefinitionError, "a number for each reader"),
    (weighted([[1, 2]]), DefinitionError, "a number for each reader"),
    (weighted([1, -0.5]), DefinitionError, "-0.5 for reader 1"),
    (weighted([float("nan"), 1]), DefinitionError, "nan for reader 0"),
    (weighted([1, float("inf")]), DefinitionError, "inf for reader 1"),
    (weighted([0, 0]), DefinitionError, "all weights are 0"),
    (weighted("ab"), ArgumentTypeError, "weights are numbers"),
    (weighted([True, False]), ArgumentTypeError, "weights=[1.0, 0.0]"),
    (together(drawn(), epoch_size=0), DefinitionError, "epoch_size is out of range"),
    (together(drawn(), epoch_size=2.5), ArgumentTypeError, "epoch_size"),
    (together(drawn(), shard_id=0, num_shards=11), DefinitionError, "more shards than samples"),
    (
        together(drawn(), epoch_size=9, num_shards=2, shard_id=0, shard_mode="contiguous"),
        DefinitionError,
        "contiguous shards cannot be combined",
    ),
    (drawn(weights=[1, 2]), DefinitionError, "a number for each sample"),
    (drawn(weights=A - 1), DefinitionError, "-1.0 for sample 0"),
    (drawn(weights=A * 0), DefinitionError, "no sample is left"),
    (drawn(weights=A, subset=slice(3)), DefinitionError, "expected: 3"),
    (
        drawn(weights=A, num_shards=2, shard_id=0, stick_to_shard=True),
        DefinitionError,
        "contiguous shards cannot be combined",
    ),
    (drawn(subset=range(11)), DefinitionError, "0 to 10"),
    (drawn(subset=slice(0)), DefinitionError, "leaves no sample"),
]


@pytest.mark.parametrize(("definition", "kind", "says"), REFUSED, ids=map(str, range(len(REFUSED))))
def test_invalid_mixtures_raise_while_tracing(definition, kind, says):
    with pytest.raises(kind) as caught, (pipeline := Pipeline(batch_size=2)):
        pipeline.set_outputs(definition())
    assert says in str(caught.value)
    assert "test_mixing.py" in str(caught.value)
