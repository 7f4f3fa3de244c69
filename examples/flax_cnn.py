"""Train a convolutional network data-parallel: Flax Linen or NNX, with a sharding, with pmap, or on one device.

    python examples/flax_cnn.py                             the digits of scikit-learn, no download
    python examples/flax_cnn.py --data FOLDER               MNIST or Fashion-MNIST, in its four IDX files
    python examples/flax_cnn.py --flax nnx --mode pmap      NNX instead of Linen, pmap instead of a sharding

The task is that of the multi-GPU notebook of "Probabilistic Machine Learning": batches of 256 on eight devices, Adam
with the very large learning rate 0.2, and a loss that is summed over the rows of a device and averaged over devices.
The first epoch therefore diverges and its loss is meaningless; `--rate 0.001` learns better. All modes compute the
same.

Expected (two CPU cores, eight emulated devices):
    digits   8 epochs of 5 batches at rate 0.001: half a minute, test accuracy at least 0.93
    MNIST    5 epochs of 234 batches: seven minutes; at rate 0.001, test accuracy at least 0.985
"""

from __future__ import annotations

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp
from digits import digit_arrays
from flax_models import INTERFACES, summed_loss

from penstock import data_iterator, fn, train
from penstock.plugin.base_iterator import LastBatchPolicy

OUT = Path("out/flax_cnn")
PARTS = 8  # a mean over this many devices is a sum over the batch, divided by this; in all modes


def images(path, split, shuffle):
    """Return uint8 images and their classes."""
    if path is None:
        return fn.readers.arrays(digit_arrays(split), name="reader", random_shuffle=shuffle)
    return fn.readers.mnist(path=path, split=split, flat_labels=True, name="reader", random_shuffle=shuffle)


def main(arguments=None):
    """Train, evaluate after each epoch, and plot the curves."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, help="folder with the four IDX files")
    parser.add_argument("--flax", choices=INTERFACES, default="linen")
    parser.add_argument("--mode", choices=("sharding", "pmap", "single"), default="sharding")
    parser.add_argument("--rate", type=float, help="learning rate of Adam")
    parser.add_argument("--batch-size", type=int, default=256, help="global batch size")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--steps", type=int, help="number of steps, instead of epochs")
    parser.add_argument("--shuffle", action="store_true", help="shuffle each epoch; the notebook does not")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--checkpoints", type=Path, help="folder to save to and to resume from")
    options = parser.parse_args(arguments)
    jax.config.update("jax_num_cpu_devices", 8)
    devices = jax.devices()[: 1 if options.mode == "single" else None]
    rate = options.rate or (0.2 if options.data else 0.001)

    state, logits, gradient, update = INTERFACES[options.flax](rate, options.seed)

    def step(state, batch):
        loss, slope = gradient(state, batch, lambda values: summed_loss(values, batch["labels"]) / PARTS)
        return update(state, slope), {"loss": loss}

    def step_of_a_device(state, batch):
        loss, slope = gradient(state, batch, lambda values: summed_loss(values, batch["labels"]))
        loss, slope = jax.lax.pmean((loss, slope), "batch")
        return update(state, slope), {"loss": loss}

    def right(state, batch):
        return jnp.argmax(logits(state, batch["images"]), axis=1) == batch["labels"]

    named = {"output_map": ["images", "labels"]}
    sharding = train.batch_sharding(train.data_mesh(devices))
    split = {"devices": devices} if options.mode == "pmap" else {"sharding": sharding}
    make = data_iterator(images, **named, **split, last_batch_policy=LastBatchPolicy.DROP)
    batches = make(
        path=options.data, split="train", shuffle=options.shuffle, batch_size=options.batch_size, seed=options.seed
    )
    make = data_iterator(images, **named, sharding=sharding, last_batch_policy=LastBatchPolicy.PAD)
    test = make(path=options.data, split="test", shuffle=False, batch_size=200)

    callbacks = [
        train.Evaluate(
            right, test, "test_accuracy", select_state=train.unreplicate_from_pmap if options.mode == "pmap" else None
        ),
        train.ProgressBar("images"),
        train.StopOnSignal(),
        *([train.Checkpoint(options.checkpoints)] if options.checkpoints else []),
    ]
    if options.mode == "pmap":
        compiled = jax.pmap(step_of_a_device, "batch", devices=devices, donate_argnums=0)
        state = train.replicate_for_pmap(state, devices)
    else:
        compiled = train.data_parallel(step, sharding)
    epochs = None if options.steps else options.epochs or (5 if options.data else 8)
    loop = train.fit(compiled, state, batches, epochs=epochs, steps=options.steps, callbacks=callbacks)
    loop.history.plot(OUT / "learning_curves.png")
    for number, epoch in enumerate(loop.history.epochs, 1):
        loss = epoch["loss"] * len(batches)
        print(f"epoch {number}: loss {loss:.3f} in all, test accuracy {epoch['test_accuracy']:.4f}")
    return loop


if __name__ == "__main__":
    main()
