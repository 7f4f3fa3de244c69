"""The network of DALI's JAX tutorials: 784-1024-1024-10, tanh, plain SGD, in pure JAX.

The seeds are also those of the tutorials: a second `init_model()` in one process continues the same stream of random
numbers and returns different weights.
"""

from __future__ import annotations

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

LAYERS = (784, 1024, 1024, 10)
LEARNING_RATE = 0.001

_stream = np.random.RandomState(0)  # the generator behind the published numbers


def init_model(layers=LAYERS, scale=0.1):
    """Return weights and biases, normal with standard deviation `scale`, drawn layer by layer."""
    drawn = [(scale * _stream.randn(into, out), scale * _stream.randn(out)) for into, out in pairwise(layers)]
    return jax.tree.map(np.float32, drawn)


def predict(model, images):
    """Return log-probabilities of the classes."""
    values = images
    for weights, bias in model[:-1]:
        values = jnp.tanh(values @ weights + bias)
    weights, bias = model[-1]
    scores = values @ weights + bias
    return scores - logsumexp(scores, axis=1, keepdims=True)


def loss(model, batch):
    """Return the mean cross entropy against one-hot labels."""
    return -jnp.mean(jnp.sum(predict(model, batch["images"]) * batch["labels"], axis=1))


def _descend(model, gradients, rate):
    return jax.tree.map(lambda value, gradient: value - rate * gradient, model, gradients)


def update(model, batch, rate=LEARNING_RATE):
    """Take one step of SGD as on a single device. Return the loss before the update."""
    value, gradients = jax.value_and_grad(loss)(model, batch)
    return _descend(model, gradients, rate), value


def update_of_a_device(model, batch, rate=LEARNING_RATE):
    """Take the same step on one of several devices under `jax.pmap`; averages gradients over the axis "batch"."""
    value, gradients = jax.value_and_grad(loss)(model, batch)
    gradients = jax.lax.pmean(gradients, "batch")
    return _descend(model, gradients, rate), jax.lax.pmean(value, "batch")


def right(model, batch):
    """Return for each image if it is classified correctly."""
    return jnp.argmax(predict(model, batch["images"]), axis=1) == batch["labels"]
