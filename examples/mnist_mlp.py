"""The network of DALI's JAX tutorials: 784-1024-1024-10, tanh, plain SGD, in nothing but JAX.

The seeds are those of the tutorials, too: a second `init_model()` in one process goes on in the same stream of random
numbers and gives other weights.
"""

from __future__ import annotations

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

LAYERS = (784, 1024, 1024, 10)
LEARNING_RATE = 0.001

_stream = np.random.RandomState(0)  # the stream that the published numbers were made with


def init_model(layers=LAYERS, scale=0.1):
    """Weights and biases, normal with standard deviation `scale`, drawn layer by layer."""
    drawn = [(scale * _stream.randn(into, out), scale * _stream.randn(out)) for into, out in pairwise(layers)]
    return jax.tree.map(np.float32, drawn)


def predict(model, images):
    """Logarithms of the class probabilities."""
    values = images
    for weights, bias in model[:-1]:
        values = jnp.tanh(values @ weights + bias)
    weights, bias = model[-1]
    scores = values @ weights + bias
    return scores - logsumexp(scores, axis=1, keepdims=True)


def loss(model, batch):
    """Mean cross entropy against one-hot labels."""
    return -jnp.mean(jnp.sum(predict(model, batch["images"]) * batch["labels"], axis=1))


def _descend(model, gradients, rate):
    return jax.tree.map(lambda value, gradient: value - rate * gradient, model, gradients)


def update(model, batch, rate=LEARNING_RATE):
    """One step of SGD, and the loss before it, as if there were one device."""
    value, gradients = jax.value_and_grad(loss)(model, batch)
    return _descend(model, gradients, rate), value


def update_of_a_device(model, batch, rate=LEARNING_RATE):
    """The same for one of several devices, for `jax.pmap`: gradients are averaged over the axis "batch"."""
    value, gradients = jax.value_and_grad(loss)(model, batch)
    gradients = jax.lax.pmean(gradients, "batch")
    return _descend(model, gradients, rate), jax.lax.pmean(value, "batch")


def right(model, batch):
    """Which images of a batch are classified rightly."""
    return jnp.argmax(predict(model, batch["images"]), axis=1) == batch["labels"]
