"""Train a network on CIFAR-10 with rocAL's API: rocAL's JAX notebook, data-parallel in both of its ways.

One pipeline per device. With a sharding, batches are global arrays; without one, they have the layout of `jax.pmap`.
The differences from the notebook: `penstock.rocal` replaces `amd.rocal`, and `NamedSharding` replaces
`PositionalSharding`, which JAX has removed.

    python examples/rocal_cifar10.py FOLDER      FOLDER is cifar-10-batches-bin, with data_batch_1.bin to test_batch.bin

Without an accelerator, it runs on eight emulated CPU devices.

Expected (two CPU cores, ten minutes): test accuracy near .20 .23 .25 .26 .27 after the five epochs of each half.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from mnist_mlp import init_model, right, update, update_of_a_device

from penstock.rocal import fn, types
from penstock.rocal.pipeline import Pipeline
from penstock.rocal.plugin.jax import ROCALJaxIterator

LAYERS = (3 * 32 * 32, 1024, 1024, 10)
HALF = [0.5 * 255] * 3


def pipeline(folder, prefix, batch_size, shard=0, shards=1, **reader):
    """Return images between -1 and 1 in the planar layout of the files."""
    made = Pipeline(
        batch_size=batch_size, num_threads=2, device_id=shard, seed=shard + 42, rocal_cpu=False, prefetch_queue_depth=3
    )
    with made:
        images = fn.readers.cifar10(
            file_root=folder,
            filename_prefix=prefix,
            shard_id=shard,
            num_shards=shards,
            last_batch_policy=types.LAST_BATCH_DROP,
            **reader,
        )
        images = fn.crop_mirror_normalize(
            images,
            output_layout=types.NCHW,
            output_dtype=types.FLOAT,
            crop=(32, 32),
            mirror=0,
            mean=HALF,
            std=HALF,
        )
        made.set_outputs(images)
    made.build()
    return made


@partial(jax.jit, static_argnames="axes")
def as_batch(images, labels, axes):
    """Return the input of the network: flat images and one-hot labels, with the same leading axes."""
    return {"images": images.reshape(*images.shape[:axes], -1), "labels": jax.nn.one_hot(labels, 10)}


def train(name, model, step, training, validation, axes, one_device, options):
    """Run all epochs and print the test accuracy after each."""
    classified = jax.jit(right)
    for epoch in range(1, options.epochs + 1):
        for images, labels in training:
            model, _ = step(model, as_batch(images, labels, axes), options.rate)
        training.reset()
        tested = one_device(model)
        batches = ({**as_batch(images, labels, 1), "labels": labels} for images, labels in validation)
        correct = sum(int(classified(tested, batch).sum()) for batch in batches)
        validation.reset()
        print(f"{name}: epoch {epoch}, test accuracy {correct / validation.size:.4f}", flush=True)


def main():
    """Train with a sharding and with pmap."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="cifar-10-batches-bin")
    parser.add_argument("--devices", type=int, default=8, help="maximum number of devices")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch", type=int, default=16, help="images per device")
    parser.add_argument("--rate", type=float, default=0.001, help="learning rate")
    options = parser.parse_args()
    jax.config.update("jax_num_cpu_devices", options.devices)
    devices = jax.devices()[: options.devices]
    count = len(devices)

    def training():
        made = partial(pipeline, options.folder, "data_batch_", options.batch, shards=count, random_shuffle=True)
        return [made(shard=number) for number in range(count)]

    validation = ROCALJaxIterator(pipeline(options.folder, "test_batch", options.batch))

    sharding = NamedSharding(Mesh(np.array(devices), ("batch",)), PartitionSpec("batch"))
    sharded = ROCALJaxIterator(training(), sharding)
    print(f"{len(sharded)} training and {len(validation)} test batches on {count} {devices[0].platform} devices")

    def on_first_device(model):
        return jax.device_put(model, devices[0])

    train("sharding", init_model(LAYERS), jax.jit(update), sharded, validation, 1, on_first_device, options)

    def first_copy(model):
        return jax.tree.map(lambda value: value[0], model)

    stacked = jax.tree.map(lambda value: np.stack([value] * count), init_model(LAYERS))
    step = jax.pmap(update_of_a_device, axis_name="batch", in_axes=(0, 0, None))
    train("pmap", stacked, step, ROCALJaxIterator(training()), validation, 2, first_copy, options)


if __name__ == "__main__":
    main()
