"""Tests of single-device steps on eight devices."""

import contextlib
import dataclasses
import functools

import equinox as eqx
import flax.linen
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx
from flax.training.train_state import TrainState
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from penstock import train
from penstock.errors import UsageError

OPTIMISER = optax.sgd(0.1, momentum=0.9)


@pytest.fixture(autouse=True)
def standard_promotion():
    with jax.numpy_dtype_promotion("standard"):  # Optax and Flax are written for it
        yield


def take(samples, rows):
    return {name: values[:rows] for name, values in samples.items()}


def close(one, other, rtol=1e-6):
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=rtol, atol=rtol / 10)


def test_means_match_single_device(sgd, weights, samples, compilations):
    batch, alone = take(samples, 48), weights
    step = train.data_parallel(sgd)
    state = weights
    for _ in range(3):
        alone, one = sgd(alone, batch)
        state, metrics = step(state, jax.device_put(batch, train.batch_sharding()))
        close(metrics["loss"], one["loss"])
    close(state, alone)
    assert compilations("step") == 1
    assert state["in"].sharding == train.replicated_sharding()


def gradients(errors, weights, batch):
    return jax.grad(lambda weights: errors(weights, batch).mean())(weights)


def by_jit(errors, weights, batch):
    step = train.data_parallel(lambda weights, batch: (weights, gradients(errors, weights, batch)))
    return step(weights, batch)[1]


def by_shard_map(errors, weights, batch):
    def step(weights, batch):
        return weights, jax.lax.pmean(gradients(errors, weights, batch), "batch")

    return train.data_parallel(step, axis_name="batch")(weights, batch)[1]


def by_pmap(errors, weights, batch):
    data = jax.tree.map(lambda rows: rows.reshape(8, -1, *rows.shape[1:]), batch)
    mapped = jax.pmap(
        lambda weights, batch: jax.lax.pmean(gradients(errors, weights, batch), "batch"), axis_name="batch"
    )
    return train.unreplicate_from_pmap(mapped(train.replicate_for_pmap(weights), data))


@pytest.mark.parametrize("route", [by_jit, by_shard_map, by_pmap])
def test_gradients_are_not_multiplied_by_device_count(route, errors, weights, samples):
    batch = take(samples, 48)
    ratio = jax.tree.map(
        lambda found, right: float(jnp.vdot(found, right) / jnp.vdot(right, right)),
        route(errors, weights, batch),
        gradients(errors, weights, batch),
    )
    close(ratio, {"in": 1.0, "out": 1.0}, rtol=1e-5)


def test_devices_compute_only_their_rows(sgd, weights, samples):
    rows = []

    def step(weights, batch):
        rows.append(batch["x"].shape[0])
        return sgd(weights, batch)

    train.data_parallel(step, axis_name="batch")
    batch = jax.device_put(take(samples, 48), train.batch_sharding())
    program = jax.jit(sgd).lower(train.replicate(weights), batch).compile()
    whole = jax.jit(sgd).lower(weights, take(samples, 48)).compile()
    assert program.cost_analysis()["flops"] < whole.cost_analysis()["flops"] / 4


def test_caller_state_is_kept_and_internal_copy_is_donated(sgd, weights, samples):
    batch = take(samples, 48)
    step = train.data_parallel(sgd)
    before = jax.tree.map(np.copy, weights)
    mine = jax.tree.map(jnp.asarray, weights)
    first, _ = step(mine, batch)
    second, _ = step(first, batch)
    jax.block_until_ready(second)
    assert not any(leaf.is_deleted() for leaf in jax.tree.leaves(mine))
    assert all(leaf.is_deleted() for leaf in jax.tree.leaves(first))
    close(mine, before, rtol=0)
    kept = train.data_parallel(sgd, donate=False)
    third, _ = kept(second, batch)
    jax.block_until_ready(third)
    assert not any(leaf.is_deleted() for leaf in jax.tree.leaves(second))


class Dense(flax.linen.Module):
    @flax.linen.compact
    def __call__(self, x):
        return flax.linen.Dense(2)(x)


def linen_state():
    module = Dense()
    params = module.init(jax.random.key(0), jnp.ones((1, 4)))["params"]
    return TrainState.create(apply_fn=module.apply, params=params, tx=OPTIMISER)


def linen_step(state, batch):
    loss = lambda params: ((state.apply_fn({"params": params}, batch["x"]) - batch["y"]) ** 2).mean()  # noqa: E731  # as users write it
    value, gradient = jax.value_and_grad(loss)(state.params)
    return state.apply_gradients(grads=gradient), value


def equinox_state():
    model = eqx.nn.MLP(4, 2, 8, 1, key=jax.random.key(1))
    return eqx.nn.Sequential([model, eqx.nn.Dropout(0.5, inference=True)]), OPTIMISER.init(
        eqx.filter(model, eqx.is_inexact_array)
    )


def equinox_step(state, batch):
    model, moments = state

    def loss(mlp):
        whole = eqx.nn.Sequential([mlp, model[1]])
        return ((jax.vmap(whole)(batch["x"]) - batch["y"]) ** 2).mean()

    value, gradient = eqx.filter_value_and_grad(loss)(model[0])
    updates, moments = OPTIMISER.update(gradient, moments)
    return (eqx.nn.Sequential([eqx.apply_updates(model[0], updates), model[1]]), moments), value


def nnx_state():
    model = nnx.Linear(4, 2, rngs=nnx.Rngs(0))
    return model, nnx.Optimizer(model, OPTIMISER, wrt=nnx.Param)


def nnx_step(state, batch):
    model, optimizer = state
    value, gradient = nnx.value_and_grad(lambda model: ((model(batch["x"]) - batch["y"]) ** 2).mean())(model)
    optimizer.update(model, gradient)
    return (model, optimizer), value


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "plain"), [(linen_state, linen_step), (equinox_state, equinox_step), (nnx_state, nnx_step)]
)
def test_states_of_flax_and_equinox(make, plain, samples, compilations):
    batch = take(samples, 48)
    alone, state = make(), make()
    step = train.data_parallel(plain)
    for _ in range(2):
        alone, _ = plain(alone, batch)
        state, value = step(state, batch)
    found, right = jax.tree.leaves(train.unreplicate(state)), jax.tree.leaves(alone)
    for leaf, other in zip(found, right, strict=True):
        if isinstance(leaf, jax.Array):
            close(leaf, other, 1e-5)
        else:
            assert leaf is other
    assert value.shape == ()
    assert compilations(plain.__name__) == 1


def test_model_sharded_over_devices(sgd, weights, samples, compilations):
    mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("batch", "model"), axis_types=(AxisType.Auto,) * 2)
    spread = {"in": PartitionSpec(None, "model"), "out": PartitionSpec("model")}
    spread = {name: NamedSharding(mesh, spec) for name, spec in spread.items()}
    step = train.data_parallel(sgd, NamedSharding(mesh, PartitionSpec("batch")), state_sharding=spread)
    batch, state, alone = take(samples, 48), weights, weights
    for _ in range(3):
        state, metrics = step(state, batch)
        alone, one = sgd(alone, batch)
    close((state, metrics), (alone, one), rtol=1e-5)
    assert {name: leaf.sharding for name, leaf in state.items()} == spread
    assert state["in"].addressable_data(0).shape == (4, 8)
    assert compilations("step") == 1


def test_step_without_metrics():
    step = train.data_parallel(lambda state, batch: state + batch.sum())
    assert float(step(np.float32(1), np.ones(8, np.float32))) == 9
    pair = train.data_parallel(lambda state, batch: (state[0] + batch.sum(), state[1] + 1))
    state = pair((np.float32(1), np.float32(2)), np.ones(8, np.float32))
    assert [float(part) for part in state] == [9, 3]


def test_python_numbers_changed_by_step_become_arrays(compilations):
    @dataclasses.dataclass
    class Counted:
        steps: int
        rate: float
        training: bool
        total: jax.Array

    jax.tree_util.register_dataclass(Counted)

    def counting(state, batch):
        assert isinstance(state.rate, float)
        total = state.total + state.rate * batch.sum() if state.training else state.total
        return dataclasses.replace(state, steps=state.steps + 1, total=total)

    step = train.data_parallel(counting)
    state = Counted(0, 0.5, True, np.float32(0))
    for _ in range(3):
        state = step(state, np.ones(8, np.float32))
    assert (int(state.steps), state.rate, state.training, float(state.total)) == (3, 0.5, True, 12)
    assert compilations("counting") == 1


def test_weak_types_stay(compilations):
    """A number of JAX does not widen weights of 16 bits, neither in the first step nor in the second."""

    def decayed(state, batch):
        return {**state, "w": state["w"] * state["decay"], "count": state["count"] + 1, "total": state["total"] * 1}

    step = train.data_parallel(decayed)
    state = {"w": jnp.ones(2, jnp.bfloat16), "decay": jnp.asarray(0.5), "count": jnp.asarray(0), "total": np.float32(2)}
    for _ in range(3):
        state = step(state, np.ones(8, np.float32))
    assert (state["w"].tolist(), state["w"].dtype, int(state["count"])) == ([0.125, 0.125], jnp.bfloat16, 3)
    assert [state[name].weak_type for name in ("w", "decay", "count", "total")] == [False, True, True, False]
    assert compilations("decayed") == 1
    copy = train.unreplicate(train.replicate(state))
    assert [copy[name].weak_type for name in ("w", "decay", "count", "total")] == [False, True, True, False]


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (lambda s, b: {"w": s["w"].astype(jnp.float16)}, "float16[2] at ['w']"),
        (lambda s, b: {"w": s["w"][:1]}, "float32[1] at ['w']"),
        (lambda s, b: s["w"], "a step returns the new state"),
        (lambda s, b: (s, 1, 2), "or a pair of the new state and metrics"),
    ],
)
def test_changed_state_structure_is_refused(step, words):
    with pytest.raises(UsageError) as raised:
        train.data_parallel(step)({"w": np.ones(2, np.float32)}, np.ones(8, np.float32))
    assert words in str(raised.value)


def test_other_mistakes_are_reported(sgd, weights, samples):
    with pytest.raises(UsageError, match="cannot share the rows"):
        train.data_parallel(sgd)(weights, take(samples, 50))
    with pytest.raises(UsageError, match="must be hashable"):
        train.data_parallel(sgd)({"w": np.ones(2), "s": {1, 2}}, take(samples, 48))
    with pytest.raises(UsageError, match="not the axis of the mesh"):
        train.data_parallel(sgd, axis_name="data")


@jax.tree_util.register_pytree_node_class
class StaticArray:
    def __init__(self, weight, fixed):
        self.weight, self.fixed = weight, fixed

    def tree_flatten(self):
        return (self.weight,), self.fixed

    @classmethod
    def tree_unflatten(cls, fixed, weights):
        return cls(*weights, fixed)


def test_arrays_in_static_fields_are_refused():
    state, batch = StaticArray(np.float32(1), np.arange(2)), {"x": np.ones(8, np.float32)}

    def copied(state, batch):
        return StaticArray(state.weight, state.fixed.copy())

    for step in (train.data_parallel(copied), copied):
        with pytest.raises(UsageError, match=r"a static field of the state contains an array(.|\n)*fix: "):
            train.fit(step, state, [batch], epochs=1)


def test_axis_name_is_all_axes_that_split_the_batch():
    mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
    numbers = np.arange(8, dtype=np.float32)
    for split in ("data", ("data", "model")):
        rows = NamedSharding(mesh, PartitionSpec(split))

        def step(state, batch, split=split):
            return state + jax.lax.psum(batch.sum(), split)

        state = train.data_parallel(step, rows, axis_name=split)(np.float32(0), numbers)
        assert [float(shard.data) for shard in state.addressable_shards] == [numbers.sum()] * 8
        for wrong in {"data", "model", ("data", "model")} - {split}:
            with pytest.raises(UsageError, match="splits the batch"):
                train.data_parallel(step, rows, axis_name=wrong)


@pytest.mark.parametrize("around", [False, True])
def test_explicit_mesh_axes(around):
    """Explicit axes refuse indivisible parts, and `shard_map` over arrays without a sharding."""
    mesh = jax.make_mesh((8,), ("batch",), axis_types=(AxisType.Explicit,))
    rows = NamedSharding(mesh, PartitionSpec("batch"))
    numbers = np.arange(32, dtype=np.float32).reshape(16, 2)

    def part(state, batch):
        return state + jax.lax.dynamic_slice(batch, (0, 0), (3, 2)).sum()

    def alone(state, batch):
        return state + jax.lax.psum(batch.sum(), "batch")

    with jax.set_mesh(mesh) if around else contextlib.nullcontext():
        for batch in (numbers, jax.device_put(numbers, rows)):
            for sharding in (rows, train.batch_sharding()):
                state = train.data_parallel(part, sharding)(train.replicate(np.float32(0), replicated(mesh)), batch)
                assert float(state) == numbers[:3].sum()
            assert float(train.data_parallel(alone, rows, axis_name="batch")(np.float32(0), batch)) == numbers.sum()


@pytest.mark.parametrize("around", [False, True])
def test_explicit_mesh_axes_in_fit_and_evaluate(around):
    mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Explicit,) * 2)
    rows = NamedSharding(mesh, PartitionSpec("data"))
    x, y = np.arange(100, dtype=np.float32).reshape(50, 2), np.arange(50) % 2

    def value(weights, batch):  # indexing by two arrays, which Explicit axes refuse
        return (batch["x"] + weights[None])[jax.numpy.arange(len(batch["y"])), batch["y"]]

    @functools.partial(train.data_parallel, sharding=rows)
    def step(weights, batch):
        return weights + value(weights, batch).mean(), {"loss": value(weights, batch).mean()}

    with jax.set_mesh(mesh) if around else contextlib.nullcontext():
        data = train.batches((x, y), 16, sharding=rows)
        assert train.evaluate(value, np.zeros(2, np.float32), data) == x[np.arange(50), y].mean()
        callbacks = [train.Evaluate(value, train.batches((x, y), 16, sharding=rows))]
        loop = train.fit(step, np.zeros(2, np.float32), data, steps=2, callbacks=callbacks)
        alone = train.fit(
            train.data_parallel(step.__wrapped__), np.zeros(2, np.float32), train.batches((x, y), 16), steps=2
        )
    np.testing.assert_array_equal(loop.state, alone.state)


def test_batch_with_other_sharding_is_refused(sgd, weights, samples):
    halves = train.batch_sharding(train.data_mesh(jax.devices()[:2]))
    with pytest.raises(UsageError, match="another sharding than the step") as caught:
        train.data_parallel(sgd)(weights, jax.device_put(take(samples, 48), halves))
    assert f"{__file__}:" in str(caught.value)


def replicated(mesh):
    return NamedSharding(mesh, PartitionSpec())


def test_indivisible_array_is_refused():
    with pytest.raises(UsageError, match=r"cannot share an array in this way\n  given:    shape \(2,\)"):
        train.replicate(np.ones(2), train.batch_sharding())
