"""The network of Flax's README with Linen and with NNX, and its loss and update."""

from __future__ import annotations

import flax.linen
import jax
import jax.numpy as jnp
import optax
from flax import nnx
from flax.training.train_state import TrainState

CLASSES = 10


class LinenCNN(flax.linen.Module):
    """Two convolutions with average pooling and two dense layers; returns log-probabilities of the classes."""

    @flax.linen.compact
    def __call__(self, x):
        """Return log-probabilities of the classes."""
        for features in (32, 64):
            x = flax.linen.relu(flax.linen.Conv(features, (3, 3))(x))
            x = flax.linen.avg_pool(x, (2, 2), strides=(2, 2))
        x = flax.linen.relu(flax.linen.Dense(256)(x.reshape(len(x), -1)))
        return flax.linen.log_softmax(flax.linen.Dense(CLASSES)(x))


class NnxCNN(nnx.Module):
    """The same network for images of 28x28."""

    def __init__(self, rngs):
        self.first, self.second = nnx.Conv(1, 32, (3, 3), rngs=rngs), nnx.Conv(32, 64, (3, 3), rngs=rngs)
        self.dense, self.last = nnx.Linear(7 * 7 * 64, 256, rngs=rngs), nnx.Linear(256, CLASSES, rngs=rngs)

    def __call__(self, x):
        """Return log-probabilities of the classes."""
        for convolution in (self.first, self.second):
            x = nnx.avg_pool(nnx.relu(convolution(x)), (2, 2), strides=(2, 2))
        return nnx.log_softmax(self.last(nnx.relu(self.dense(x.reshape(len(x), -1)))))


def summed_loss(logits, labels):
    """Return the cross entropy, summed over the rows. Log-probabilities are valid logits."""
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).sum()


def linen(rate, seed):
    """Return the state, the logits, and a function from a loss of logits to value, gradient and update."""
    module = LinenCNN()
    params = jax.jit(module.init)(jax.random.split(jax.random.key(seed))[1], jnp.ones((1, 28, 28, 1)))["params"]
    state = TrainState.create(apply_fn=module.apply, params=params, tx=optax.adam(rate))

    def logits(state, images):
        return state.apply_fn({"params": state.params}, images / 255)

    def gradient(state, batch, loss):
        return jax.value_and_grad(lambda params: loss(logits(state.replace(params=params), batch["images"])))(
            state.params
        )

    def update(state, gradient):
        return state.apply_gradients(grads=gradient)

    return state, logits, gradient, update


def nnx_(rate, seed):
    """Return the same for NNX. The state is the pair of model and optimizer."""
    model = NnxCNN(nnx.Rngs(seed))
    state = model, nnx.Optimizer(model, optax.adam(rate), wrt=nnx.Param)

    def logits(state, images):
        return state[0](images / 255)

    def gradient(state, batch, loss):
        return nnx.value_and_grad(lambda model: loss(model(batch["images"] / 255)))(state[0])

    def update(state, gradient):
        model, optimizer = state
        optimizer.update(model, gradient)
        return model, optimizer

    return state, logits, gradient, update


INTERFACES = {"linen": linen, "nnx": nnx_}
