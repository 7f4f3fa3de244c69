"""Small networks with batch normalization and dropout, in three libraries, each with its training state and step."""

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from penstock import train

RNG = np.random.default_rng(0)
X = RNG.normal(size=(64, 6)).astype(np.float32) * 3 + 1
DATA = {"x": X, "y": np.sin(X.sum(1)).astype(np.float32)}


class NnxNet(nnx.Module):
    def __init__(self, rngs):
        self.hidden, self.out = nnx.Linear(6, 32, rngs=rngs), nnx.Linear(32, 1, rngs=rngs)
        self.norm, self.dropout = nnx.BatchNorm(32, rngs=rngs), nnx.Dropout(0.2, rngs=rngs)

    def __call__(self, x):
        return self.out(self.dropout(nnx.relu(self.norm(self.hidden(x)))))[:, 0]


def nnx_training():
    model = NnxNet(nnx.Rngs(0))

    def step(state, batch):
        model, optimizer = state
        loss, gradient = nnx.value_and_grad(lambda model: ((model(batch["x"]) - batch["y"]) ** 2).mean())(model)
        optimizer.update(model, gradient)
        return (model, optimizer), loss

    return step, (model, nnx.Optimizer(model, optax.sgd(0.05), wrt=nnx.Param))


class LinenNet(nn.Module):
    @nn.compact
    def __call__(self, x, *, train):
        x = nn.BatchNorm(use_running_average=not train)(nn.Dense(32)(x))
        return nn.Dense(1)(nn.Dropout(0.2, deterministic=not train)(nn.relu(x)))[:, 0]


def linen_training():
    network, optimizer = LinenNet(), optax.sgd(0.05)
    state = jax.jit(lambda key, x: network.init(key, x, train=False))(jax.random.key(0), X[:1])
    state = {**state, "moments": optimizer.init(state["params"]), "key": jax.random.key(1), "step": jnp.int32(0)}

    def step(state, batch):
        def loss(params):
            variables = {"params": params, "batch_stats": state["batch_stats"]}
            rngs = {"dropout": jax.random.fold_in(state["key"], state["step"])}
            output, changed = network.apply(variables, batch["x"], train=True, mutable=["batch_stats"], rngs=rngs)
            return ((output - batch["y"]) ** 2).mean(), changed

        (value, changed), gradient = jax.value_and_grad(loss, has_aux=True)(state["params"])
        updates, moments = optimizer.update(gradient, state["moments"])
        params = optax.apply_updates(state["params"], updates)
        return {**state, **changed, "params": params, "moments": moments, "step": state["step"] + 1}, value

    return step, state


class EquinoxNet(eqx.Module):
    hidden: eqx.nn.Linear
    norm: eqx.nn.BatchNorm
    dropout: eqx.nn.Dropout
    out: eqx.nn.Linear

    def __init__(self, key):
        first, second = jax.random.split(key)
        self.hidden, self.out = eqx.nn.Linear(6, 32, key=first), eqx.nn.Linear(32, "scalar", key=second)
        self.norm, self.dropout = eqx.nn.BatchNorm(32, axis_name="batch", mode="ema"), eqx.nn.Dropout(0.2)

    def __call__(self, x, averages, key):
        x, averages = self.norm(self.hidden(x), averages)
        return self.out(self.dropout(jax.nn.relu(x), key=key)), averages


def equinox_training():
    optimizer = optax.sgd(0.05)
    model, averages = eqx.nn.make_with_state(EquinoxNet)(jax.random.key(0))
    moments = optimizer.init(eqx.filter(model, eqx.is_inexact_array))

    def step(state, batch):
        model, averages, moments, key, number = state
        keys = jax.random.split(jax.random.fold_in(key, number), len(batch["x"]))

        def loss(model):
            over_rows = jax.vmap(model, in_axes=(0, None, 0), out_axes=(0, None), axis_name="batch")
            output, changed = over_rows(batch["x"], averages, keys)
            return ((output - batch["y"]) ** 2).mean(), changed

        (value, averages), gradient = eqx.filter_value_and_grad(loss, has_aux=True)(model)
        updates, moments = optimizer.update(gradient, moments)
        return (eqx.apply_updates(model, updates), averages, moments, key, number + 1), value

    return step, (model, averages, moments, jax.random.key(1), jnp.int32(0))


TRAININGS = [nnx_training, linen_training, equinox_training]


def arrays_of(state):
    """Return the arrays of a state on the host, keys as numbers."""

    def plain(leaf):
        return np.asarray(jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf)

    return [plain(leaf) for leaf in jax.tree.leaves(state) if hasattr(leaf, "dtype")]


def run(training, devices=1, steps=20, rows=16, callbacks=()):
    step, state = training()
    rows_on = train.batch_sharding(train.data_mesh(jax.devices()[:devices]))
    batches = train.batches(DATA, rows, shuffle=True, sharding=rows_on)
    return train.fit(train.data_parallel(step, rows_on), state, batches, steps=steps, callbacks=callbacks)
