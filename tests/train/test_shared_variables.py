"""Tests of NNX states in which a variable is at two places."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

from penstock import train
from penstock.errors import UsageError

X = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
DATA = {"x": X, "y": np.sin(X)}


class Tied(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Linear(4, 4, use_bias=False, rngs=rngs)
        self.second = self.first

    def __call__(self, x):
        return self.second(jnp.tanh(self.first(x)))


def gradient(model, batch):
    return nnx.value_and_grad(lambda model: ((model(batch["x"]) - batch["y"]) ** 2).mean())(model)


def advance(model, optimizer, batch):
    value, gradients = gradient(model, batch)
    optimizer.update(gradients)
    return value


def pair_step(state, batch):
    return state, advance(*state, batch)


def optimizer_step(optimizer, batch):
    return optimizer, advance(optimizer.model, optimizer, batch)


def pair(model):
    return model, nnx.ModelAndOptimizer(model, optax.sgd(0.1), wrt=nnx.Param)


def untied():
    return pair(nnx.Linear(4, 4, rngs=nnx.Rngs(0)))


def losses(step, state, **options):
    one = train.batch_sharding(train.data_mesh(jax.devices()[:1]))
    data = train.batches(DATA, 16, shuffle=True, sharding=one)
    return train.fit(step(one), state, data, steps=6, **options).history.steps["loss"]


def plain(step):
    return lambda sharding: nnx.jit(step)


def parallel(step):
    return lambda sharding: train.data_parallel(step, sharding)


@pytest.mark.parametrize(
    ("use", "places"),
    [
        (lambda folder: train.data_parallel(pair_step)(untied(), DATA), ("[0].bias", "[1].model.bias")),
        (lambda folder: train.replicate(Tied(nnx.Rngs(0))), (".first.kernel", ".second.kernel")),
        (
            lambda folder: train.accumulate_gradients(gradient, accumulate=2)(Tied(nnx.Rngs(0)), DATA),
            (".first.kernel", ".second.kernel"),
        ),
        (
            lambda folder: losses(plain(pair_step), pair(Tied(nnx.Rngs(0))), callbacks=[train.Checkpoint(folder)]),
            ("[0].first.kernel", "[0].second.kernel"),
        ),
        (lambda folder: train.restore_weights(folder, Tied(nnx.Rngs(0))), (".first.kernel", ".second.kernel")),
    ],
)
def test_variable_at_two_places_is_refused(use, places, tmp_path):
    with pytest.raises(UsageError, match="at two places") as caught:
        use(tmp_path)
    assert " and ".join(places) in str(caught.value)


def test_optimizer_with_its_model_alone_is_trained():
    values = losses(parallel(optimizer_step), untied()[1])
    np.testing.assert_allclose(values, losses(plain(pair_step), untied()), rtol=1e-5)
    assert values[-1] < values[0]


def test_split_state_keeps_weights_tied(tmp_path):
    graph, state = nnx.split(pair(Tied(nnx.Rngs(0))))

    def step(state, batch):
        model, optimizer = nnx.merge(graph, state)
        value = advance(model, optimizer, batch)
        return nnx.state((model, optimizer)), value

    values = losses(parallel(step), state, callbacks=[train.Checkpoint(tmp_path)])
    np.testing.assert_allclose(values, losses(plain(pair_step), pair(Tied(nnx.Rngs(0)))), rtol=1e-5)
    model, _ = nnx.merge(graph, train.restore_weights(tmp_path, state))
    assert model.first is model.second
