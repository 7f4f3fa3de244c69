"""A complete training that takes seconds, for kills.py: 20 steps of a small convolutional network in float32.

    JAX_NUM_CPU_DEVICES=8 python benchmarks/small_training.py FOLDER

It has what a large one has: augmentation, batch normalization over the global batch, dropout, momentum, a schedule, an
average of the parameters, exact evaluation, and checkpoints of which the best is kept, in the background.
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from penstock import LastBatchPolicy, data_iterator, fn, train

EPOCHS, ROWS = 5, 16


class Network(nnx.Module):
    """Two convolutions and a linear layer."""

    def __init__(self, rngs):
        self.first, self.second = (nnx.Conv(*sizes, (3, 3), rngs=rngs) for sizes in ((3, 8), (8, 8)))
        self.norm, self.drop = nnx.BatchNorm(8, momentum=0.9, rngs=rngs), nnx.Dropout(0.2, rngs=rngs)
        self.head = nnx.Linear(8, 4, rngs=rngs)

    def __call__(self, x):
        """Return logits."""
        x = nnx.relu(self.second(nnx.relu(self.norm(self.first(x)))))
        return self.head(self.drop(x.mean(axis=(1, 2))))


def images(data, augment):
    """Return normalized images, randomly cropped and mirrored in the training."""
    data = fn.readers.arrays(data, layout={"x": "HWC", "y": ""}, random_shuffle=augment, name="reader")
    position = {name: fn.random.uniform(range=(0.0, 1.0)) for name in ("crop_pos_x", "crop_pos_y") if augment}
    mirror = fn.random.coin_flip() if augment else 0
    x = fn.crop_mirror_normalize(
        data["x"], crop=(16, 16), **position, mirror=mirror, mean=[128.0] * 3, std=[64.0] * 3, output_layout="HWC"
    )
    return x, data["y"]


def step(state, batch):
    """Take one step. Returns the loss."""
    model, optimizer, average = state

    def loss(model):
        targets = optax.smooth_labels(jax.nn.one_hot(batch["y"], 4), 0.1)
        return optax.softmax_cross_entropy(model(batch["x"]), targets).mean()

    value, gradients = nnx.value_and_grad(loss)(model)
    optimizer.update(model, gradients)
    average = jax.tree.map(lambda mean, new: 0.9 * mean + 0.1 * new, average, nnx.state(model, nnx.Param))
    return (model, optimizer, average), value


def right(state, batch):
    """Return for each row if the answer is right."""
    state[0].eval()
    return state[0](batch["x"]).argmax(axis=1) == batch["y"]


def main(folder):
    """Train, evaluate after each epoch, and save every third step."""
    rng = np.random.default_rng(0)
    y = np.arange(4 * ROWS, dtype=np.int32) % 4
    data = {"x": (rng.integers(0, 200, (4 * ROWS, 20, 20, 3)) + 14 * y[:, None, None, None]).astype(np.uint8), "y": y}
    named = {"output_map": ["x", "y"], "reader_name": "reader", "sharding": train.batch_sharding()}
    training = data_iterator(images, **named, last_batch_policy=LastBatchPolicy.DROP)
    training = training(data=data, augment=True, batch_size=ROWS, seed=1)
    test = data_iterator(images, **named, last_batch_policy=LastBatchPolicy.PAD)
    test = test(data=data, augment=False, batch_size=ROWS)

    model = Network(nnx.Rngs(0))
    schedule = optax.warmup_cosine_decay_schedule(0.0, 0.1, 2, EPOCHS * len(training))
    optimizer = nnx.Optimizer(model, optax.sgd(schedule, momentum=0.9, nesterov=True), wrt=nnx.Param)
    average = jax.tree.map(jnp.copy, nnx.state(model, nnx.Param))
    best = train.Checkpoint(
        folder, save_interval_steps=3, max_to_keep=1, monitor="val", mode="max", enable_async_checkpointing=True
    )
    callbacks = [train.Evaluate(right, test, "val"), best]
    return train.fit(
        train.data_parallel(step), (model, optimizer, average), training, epochs=EPOCHS, callbacks=callbacks
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
