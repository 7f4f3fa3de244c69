"""Tests of operators with a state that persists across batches."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from penstock import Pipeline, data_iterator, fn
from penstock.errors import StateError

NUMBERS = np.random.default_rng(0).normal(size=(24, 3)).astype(np.float32)
DEVICES = np.array(jax.devices())


def running_mean(state, x):
    """Return the running mean of all batches, and the batch minus the mean."""
    count, mean = state["count"] + 1, state["mean"]
    mean = mean + (x.mean(axis=0) - mean) / count.astype(jnp.float32)
    return {"count": count, "mean": mean}, (x - mean[None], jnp.broadcast_to(count, x.shape[:1]))


BEGINNING = {"count": np.int32(0), "mean": np.zeros(3)}


def definition():
    x = fn.readers.arrays(NUMBERS, name="r", random_shuffle=True)
    return fn.jax_function(running_mean, num_outputs=2, state=BEGINNING)(x)


def make(devices=1, **options):
    sharding = NamedSharding(Mesh(DEVICES[:devices], ("batch",)), P("batch"))
    return data_iterator(definition, ["x", "count"], reader_name="r", sharding=sharding, **options)


def batches(iterator, count):
    return [{name: np.asarray(array) for name, array in next(iterator).items()} for _ in range(count)]


def expected(iterator_seed, steps):
    plain = data_iterator(lambda: fn.readers.arrays(NUMBERS, name="r", random_shuffle=True), ["x"], reader_name="r")
    iterator, mean, result = plain(batch_size=8, seed=iterator_seed), np.zeros(3, np.float32), []
    for count in range(1, steps + 1):
        try:
            x = np.asarray(next(iterator)["x"])
        except StopIteration:
            iterator.reset()
            x = np.asarray(next(iterator)["x"])
        mean = mean + (x.mean(axis=0) - mean) / np.float32(count)
        result.append(x - mean)
    return result


@pytest.mark.parametrize("devices", [1, 8])
def test_state_persists_across_batches_and_epochs(devices):
    iterator = make(devices)(batch_size=8, seed=2)
    found = [np.asarray(batch["x"]) for _ in range(2) for batch in iterator]
    for one, other in zip(found, expected(2, 6), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("done", range(7))
@pytest.mark.parametrize("prepare", [True, False])
def test_operator_state_is_part_of_checkpoint(done, prepare):
    original = make(prepare_first_batch=prepare, auto_reset=True)(batch_size=8, seed=2)
    stream = []
    states = {}
    for _ in range(3):
        iter(original)
        while True:
            states.setdefault(len(stream), (original.get_state(), original.checkpoints()[0]))
            batch = next(original, None)
            if batch is None:
                break
            stream.append(np.asarray(batch["x"]))
    state, text = states[done]
    for devices, given in ((1, state), (8, json.loads(text))):
        other = make(devices, auto_reset=True)(batch_size=8)
        other.set_state(given)
        iter(other)
        rest = [np.asarray(batch["x"]) for _ in range(2) for batch in other][: len(stream) - done]
        for one, two in zip(rest, stream[done:], strict=False):
            np.testing.assert_allclose(one, two, atol=0 if devices == 1 else 1e-6)
        assert rest


def test_definition_per_shard_may_recreate_state():
    sharding = NamedSharding(Mesh(DEVICES, ("batch",)), P("batch"))

    @data_iterator(output_map=["x"], sharding=sharding)
    def definition(shard_id, num_shards):
        x = fn.readers.arrays(NUMBERS, shard_id=shard_id, num_shards=num_shards)
        return fn.jax_function(lambda state, x: (state + x.sum(axis=0), x + state[None]), state=np.zeros(3))(x)

    iterator = definition(batch_size=8)
    next(iterator)
    np.testing.assert_allclose(next(iterator)["x"], NUMBERS[8:16] + NUMBERS[:8].sum(axis=0), atol=1e-5)


def test_random_access_is_refused_with_reason():
    iterator = make()(batch_size=8, seed=2)
    next(iterator)
    state = {name: value for name, value in iterator.get_state().items() if name != "operators"}
    other = make()(batch_size=8)
    other.set_state(state)
    with pytest.raises(StateError, match="depends on all batches before it") as caught:
        next(other)
    assert "jax_function(running_mean" in str(caught.value.where)
    other.set_state({**state, "row": 0, "totals": [0]})  # the beginning is known
    assert np.array_equal(next(other)["count"], [1] * 8)


def test_states_of_other_operators_are_refused():
    iterator = make()(batch_size=8, seed=2)
    state = iterator.get_state()
    with pytest.raises(StateError, match="belongs to other operators"):
        iterator.set_state({**state, "operators": [[np.float32(0)]]})


@pytest.mark.parametrize("operators", [[[np.float32(0)]], [1, 2], 3, None, [[{"dtype": "int32"}]]])
def test_a_refused_state_leaves_the_iterator_where_it_is(operators):
    definition_of_numbers = data_iterator(
        lambda: fn.jax_function(lambda total, x: (total + 1, x + total), state=np.int32(0))(fn.readers.arrays([1, 2])),
        ["x"],
        size=None,
        on_error="replace",
    )
    iterator = definition_of_numbers(batch_size=1, seed=2)
    next(iterator)
    before = iterator.get_state()
    bad = {**before["bad"], "rows": 1000}
    with pytest.raises(StateError, match="operators"):
        iterator.set_state({**before, "seed": 1, "bad": bad, "operators": operators})
    assert iterator.get_state() == before
    assert next(iterator)["x"].tolist() == [3]


def test_saved_state_is_never_overwritten():
    iterator = make()(batch_size=8, seed=2)
    next(iterator)
    state = iterator.get_state()
    before = [np.array(leaf) for leaf in state["operators"][0]]
    batches(iterator, 2)
    assert all(np.array_equal(one, two) for one, two in zip(before, state["operators"][0], strict=True))
    assert int(state["operators"][0][0]) == 1


def test_user_state_is_copied():
    mine = {"count": np.int32(0), "mean": np.zeros(3, np.float32)}
    with Pipeline(batch_size=8, seed=1) as pipeline:
        x = fn.readers.arrays(NUMBERS)
        pipeline.set_outputs(*fn.jax_function(running_mean, num_outputs=2, state=mine)(x))
    mine["mean"] += 100
    first = np.asarray(pipeline.run()[0].as_tensor())
    assert np.abs(first).max() < 10
    pipeline.run()
    assert mine["count"] == 0
    assert mine["mean"].tolist() == [100, 100, 100]


def test_moving_average_model_as_state():
    def follow(average, x):
        average = jax.tree.map(lambda a, b: 0.5 * a + 0.5 * b, average, {"w": x.mean(axis=0)})
        return average, x @ average["w"]

    with Pipeline(batch_size=8, seed=1) as pipeline:
        x = fn.readers.arrays(NUMBERS)
        pipeline.set_outputs(fn.jax_function(follow, state={"w": np.zeros(3, np.float32)})(x))
    average = np.zeros(3, np.float32)
    for step in range(3):
        x = NUMBERS[8 * step : 8 * step + 8]
        average = 0.5 * average + 0.5 * x.mean(axis=0)
        np.testing.assert_allclose(pipeline.run()[0].as_array(), x @ average, atol=1e-6)
