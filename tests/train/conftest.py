"""Small network that compiles quickly, and a counter of compilations."""

import logging

import jax
import jax.numpy as jnp
import numpy as np
import pytest


@pytest.fixture
def compilations(caplog):
    """Return a function that counts XLA compilations of a program by name."""
    caplog.set_level(logging.DEBUG, logger="jax._src.interpreters.pxla")
    with jax.log_compiles():
        yield lambda name: sum(f"Compiling jit({name})" in record.getMessage() for record in caplog.records)


@pytest.fixture
def weights():
    """Return the weights of two dense layers as a dictionary on the host."""
    rng = np.random.default_rng(3)
    return {
        "in": rng.normal(size=(4, 16)).astype(np.float32),
        "out": rng.normal(size=(16, 2)).astype(np.float32) * 0.3,
    }


@pytest.fixture
def samples():
    """Return 61 rows of inputs and targets."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(61, 4)).astype(np.float32)
    return {"x": x, "y": np.stack([np.sin(x).sum(1), np.cos(x).sum(1)], axis=1).astype(np.float32)}


def _errors(weights, batch):
    return ((jnp.tanh(batch["x"] @ weights["in"]) @ weights["out"] - batch["y"]) ** 2).mean(axis=1)


@pytest.fixture(scope="session")
def errors():
    """Return a metric: the squared error of each row."""
    return _errors


@pytest.fixture(scope="session")
def sgd():
    """Return a gradient descent step for one device with the loss before the update."""

    def step(weights, batch):
        loss, gradient = jax.value_and_grad(lambda weights: _errors(weights, batch).mean())(weights)
        return jax.tree.map(lambda value, slope: value - 0.05 * slope, weights, gradient), {"loss": loss}

    return step
