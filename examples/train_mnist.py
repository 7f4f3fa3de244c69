"""Train a network on handwritten digits, data-parallel, in both ways of DALI's multi-GPU tutorial for JAX.

First with automatic parallelization: batches are global arrays with a sharding, and `jax.jit` splits the work. Then
with `jax.pmap`: the same pipeline returns the layout of pmap.

    python examples/train_mnist.py                     the digits of scikit-learn, no download
    python examples/train_mnist.py --data FOLDER       MNIST: FOLDER/training and FOLDER/testing are Caffe2 LMDBs

Without an accelerator, it runs on eight emulated CPU devices; `--devices 1` uses one.

Expected (two CPU cores):
    digits   8 epochs of 16 batches, batch size 96, learning rate 0.02: half a minute, test accuracy at least 0.95
    MNIST    5 epochs of 300 batches, batch size 200, learning rate 0.001, as in the tutorial: five minutes, test
             accuracy .674 .784 .824 .846 .860 after the epochs of the first half, .689 .783 .822 .844 .858 after
             those of the second, all within .01
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

import jax
from digits import write_digits
from mnist_mlp import init_model, right, update, update_of_a_device
from pictures import batch_by_device, learning_curves

from penstock import data_iterator, fn, train, types
from penstock.plugin.base_iterator import LastBatchPolicy

IMAGE_SIZE = 28
CLASSES = 10
OUT = Path("out/train_mnist")


def training_pipeline(data_path, num_shards, shard_id):
    """Return shuffled images, flat and between 0 and 1, and one-hot labels."""
    jpegs, labels = fn.readers.caffe2(
        path=data_path, random_shuffle=True, name="reader", num_shards=num_shards, shard_id=shard_id
    )
    images = fn.decoders.image(jpegs, device="mixed", output_type=types.GRAY)
    images = fn.crop_mirror_normalize(images, dtype=types.FLOAT, std=[255.0], output_layout="CHW")
    images = fn.reshape(images, shape=[IMAGE_SIZE * IMAGE_SIZE])
    return images, fn.one_hot(labels.gpu(), num_classes=CLASSES)


def validation_pipeline(data_path):
    """Return images in order and their labels."""
    jpegs, labels = fn.readers.caffe2(path=data_path, name="reader")
    images = fn.decoders.image(jpegs, device="mixed", output_type=types.GRAY)
    images = fn.crop_mirror_normalize(images, dtype=types.FLOAT, std=[255.0], output_layout="CHW")
    return fn.reshape(images, shape=[IMAGE_SIZE * IMAGE_SIZE]), fn.squeeze(labels.gpu(), axes=[0])


def main():
    """Train in both ways; print the plan and draw the pictures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, help="folder with the LMDBs training and testing")
    parser.add_argument("--devices", type=int, default=8, help="maximum number of devices")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--seed", type=int, default=0, help="seed of the shuffle")
    options = parser.parse_args()
    jax.config.update("jax_num_cpu_devices", options.devices)  # no effect with an accelerator
    devices = jax.devices()[: options.devices]
    OUT.mkdir(parents=True, exist_ok=True)

    print(f"data: {options.data or 'the digits of scikit-learn, as JPEGs in ' + str(OUT / 'digits')}", flush=True)
    data = options.data or write_digits(OUT / "digits")
    options.rate, batch_size, test_batch = (0.001, 200, 200) if options.data else (0.02, 96, 96)
    options.epochs = options.epochs or (5 if options.data else 8)
    named = {"output_map": ["images", "labels"], "reader_name": "reader"}
    made = {"data_path": data / "training", "batch_size": batch_size, "seed": options.seed}

    sharding = train.batch_sharding(train.data_mesh(devices))
    sharded = data_iterator(training_pipeline, **named, sharding=sharding)(**made)
    pmapped = data_iterator(training_pipeline, **named, devices=devices)(**made)
    tested = data_iterator(validation_pipeline, **named, sharding=sharding, last_batch_policy=LastBatchPolicy.PAD)
    validation = tested(data_path=data / "testing", batch_size=test_batch)
    batches = f"{len(sharded)} training and {len(validation)} test batches"
    print(f"{batches} on {len(devices)} {devices[0].platform} devices", flush=True)

    split = train.data_parallel(partial(update, rate=options.rate), sharding)
    mapped = jax.pmap(partial(update_of_a_device, rate=options.rate), "batch", devices=devices, donate_argnums=0)
    halves = {
        "sharding": (split, init_model(), sharded, None),
        "pmap": (mapped, train.replicate_for_pmap(init_model(), devices), pmapped, train.unreplicate_from_pmap),
    }
    losses, accuracies = {}, {}
    for name, (step, model, batches, take) in halves.items():
        print(f"with {name}:", flush=True)
        test = train.Evaluate(right, validation, "test accuracy", take)
        callbacks = [test, train.ProgressBar("images")]
        history = train.fit(step, model, batches, epochs=options.epochs, callbacks=callbacks).history
        losses[name] = history.steps["loss"]
        accuracies[name] = [epoch["test accuracy"] for epoch in history.epochs]

    print()
    print(sharded.explain())
    learning_curves(OUT / "learning_curves.png", losses, accuracies)
    batch_by_device(OUT / "batch_by_device.png", **next(iter(sharded)))
    print(f"pictures: {OUT / 'learning_curves.png'}, {OUT / 'batch_by_device.png'}")
    for name, values in accuracies.items():
        print(f"{name}: test accuracy {values[-1]:.4f} after {options.epochs} epochs")


if __name__ == "__main__":
    main()
