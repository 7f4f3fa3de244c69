"""Accumulated gradients are those of the whole batch."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

from penstock import train
from penstock.errors import UsageError
from tests.train.stateful_models import DATA, NnxNet, X, arrays_of


def mlp_training(accumulate=4):
    model, optimizer = eqx.nn.MLP(6, "scalar", 32, 2, key=jax.random.key(0)), optax.sgd(0.05)

    @eqx.filter_value_and_grad
    def gradient(model, batch):
        return ((jax.vmap(model)(batch["x"]) - batch["y"]) ** 2).mean()

    def step(state, batch):
        model, moments = state
        value, slopes = train.accumulate_gradients(gradient, accumulate=accumulate)(model, batch)
        updates, moments = optimizer.update(slopes, moments)
        return (eqx.apply_updates(model, updates), moments), value

    return step, (model, optimizer.init(eqx.filter(model, eqx.is_inexact_array)))


@pytest.mark.slow
@pytest.mark.parametrize("devices", [1, 2, 8])
def test_accumulation_equals_a_larger_batch(devices):
    rows = train.batch_sharding(train.data_mesh(jax.devices()[:devices]))
    losses, states = [], []
    for accumulate in (1, 4):
        step, state = mlp_training(accumulate)
        batches = train.batches(DATA, 32, shuffle=True, sharding=rows)
        loop = train.fit(train.data_parallel(step, rows), state, batches, steps=20)
        losses.append(loop.history.steps["loss"])
        states.append([leaf for leaf in jax.tree.leaves(loop.state) if eqx.is_inexact_array(leaf)])
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)
    assert losses[0][-1] < 0.9 * losses[0][0]
    for whole, parts in zip(*states, strict=True):
        assert np.abs(parts - whole).max() <= 1e-5 * np.abs(whole).max()


def test_parts_take_rows_of_every_device():
    """No row moves between devices: the gradients are the only communication."""
    rows = train.batch_sharding()

    def loss(weights, batch):
        return ((jnp.tanh(batch["x"] @ weights)).sum(axis=1) ** 2).mean()

    gradient = train.accumulate_gradients(jax.value_and_grad(loss), accumulate=4)
    whole = train.replicated_sharding()
    program = jax.jit(gradient, in_shardings=(whole, rows), out_shardings=whole)
    text = program.lower(np.ones((6, 5), np.float32), {"x": X}).compile().as_text()
    assert "all-reduce" in text
    for movement in ("all-gather", "all-to-all", "collective-permute"):
        assert movement not in text


@pytest.mark.slow
def test_averages_of_modules_advance_as_in_small_batches():
    @nnx.value_and_grad
    def gradient(model, batch):
        return ((model(batch["x"]) - batch["y"]) ** 2).mean()

    accumulated, small = NnxNet(nnx.Rngs(0)), NnxNet(nnx.Rngs(0))
    train.accumulate_gradients(gradient, accumulate=4)(accumulated, DATA)
    for number in range(4):
        gradient(small, {name: rows[number::4] for name, rows in DATA.items()})
    for one, other in zip(arrays_of(accumulated), arrays_of(small), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)
    assert int(accumulated.dropout.rngs.count[...]) == 4


@pytest.mark.parametrize(
    ("gradient", "message"),
    [
        (lambda model, batch: batch["x"].mean(), r"accumulate must divide the rows(.|\n)*accumulate=3(.|\n)*\(64, 6\)"),
        (lambda model, batch: {"count": batch["x"].shape[0]}, r"floating-point(.|\n)*'count'"),
    ],
)
def test_misuse_is_named(gradient, message):
    with pytest.raises(UsageError, match=message):
        train.accumulate_gradients(gradient, accumulate=3 if "rows" in message else 4)(0.0, DATA)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16, jnp.float32])
def test_many_parts_of_a_narrow_dtype(dtype):
    """The sum of 512 ones is 512, although in bfloat16 it stalls at 256."""

    def loss(weights, batch):
        return (weights * batch["x"].astype(dtype)).mean()

    gradient = train.accumulate_gradients(jax.value_and_grad(loss), accumulate=512)
    value, slope = gradient(dtype(1), {"x": np.ones(512, np.float32)})
    assert (value, slope) == (1, 1)
    assert value.dtype == slope.dtype == dtype


def test_keyword_arguments_reach_the_gradient():
    def loss(weights, batch, *, scale):
        return (weights * batch["x"]).mean() * scale, 0.5

    gradient = train.accumulate_gradients(jax.value_and_grad(loss, has_aux=True), accumulate=4)
    (value, aux), slope = gradient(np.float32(1), {"x": np.ones(8, np.float32)}, scale=3.0)
    assert (value, aux, slope) == (3, 0.5, 3)
