"""The input pipelines of ImageNet training and evaluation, as users of DALI write them, for folders of JPEGs.

    python examples/imagenet_input.py                  96 crops of the two photographs of scikit-learn
    python examples/imagenet_input.py --data FOLDER    FOLDER/<class>/<image>.JPEG

Prints the plans and the throughput, and draws a training batch with the device of each row in out/imagenet_input. The
evaluation counts each image once: its last batch is padded and masked. Without an accelerator, it runs on eight
emulated CPU devices; `--devices 1` uses one. The batches are the same on any number of devices.

Expected (two CPU cores): a few seconds for the photographs; 300 to 600 images/s for 400 images of ImageNet.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from photographs import write_photographs
from pictures import batch_by_device

from penstock import data_iterator, fn, types
from penstock.plugin.base_iterator import LastBatchPolicy

OUT = Path("out/imagenet_input")
MEAN, STD = [123.675, 116.28, 103.53], [58.395, 57.12, 57.375]


def training(root):
    """Return random crops of shuffled images, randomly mirrored and normalized."""
    jpegs, labels = fn.readers.file(file_root=root, random_shuffle=True, flat_labels=True, name="reader")
    images = fn.decoders.image_random_crop(jpegs, device="mixed", output_type=types.RGB)
    images = fn.resize(images, size=[224, 224])
    images = fn.crop_mirror_normalize(
        images, dtype=types.FLOAT, output_layout="CHW", mean=MEAN, std=STD, mirror=fn.random.coin_flip()
    )
    return images, labels.gpu()


def evaluation(root):
    """Return the center of each image, in order."""
    jpegs, labels = fn.readers.file(file_root=root, flat_labels=True, name="reader")
    images = fn.decoders.image(jpegs, device="mixed", output_type=types.RGB)
    images = fn.resize(images, resize_shorter=256)
    images = fn.crop_mirror_normalize(
        images, dtype=types.FLOAT, output_layout="CHW", crop=(224, 224), mean=MEAN, std=STD
    )
    return images, labels.gpu()


def main():
    """Run both pipelines: plan, epochs, picture."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, help="folder with one folder of JPEGs per class")
    parser.add_argument("--devices", type=int, default=8, help="maximum number of devices")
    parser.add_argument("--batch-size", type=int, default=64, help="global batch size")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    jax.config.update("jax_num_cpu_devices", options.devices)  # no effect with an accelerator
    devices = jax.devices()[: options.devices]
    OUT.mkdir(parents=True, exist_ok=True)
    root = options.data or write_photographs(OUT / "photographs")

    named = {
        "output_map": ["images", "labels"],
        "reader_name": "reader",
        "sharding": NamedSharding(Mesh(np.array(devices), ("batch",)), PartitionSpec("batch")),
    }
    made = {"root": root, "batch_size": options.batch_size, "num_threads": options.threads, "seed": 0}
    train = data_iterator(training, **named)(**made)
    test = data_iterator(evaluation, **named, last_batch_policy=LastBatchPolicy.PAD)(**made)
    print(train.explain(), test.explain(), sep="\n\n", end="\n\n")

    for name, iterator in (("training", train), ("evaluation", test)):
        start, images = time.perf_counter(), 0
        for _ in range(options.epochs):
            for batch in iterator:
                jax.block_until_ready(batch)
                images += int(batch["valid"].sum()) if "valid" in batch else len(batch["labels"])
        rate = images / (time.perf_counter() - start)
        print(f"{name}: {options.epochs} epochs of {len(iterator)} batches, {images} images, {rate:,.0f} images/s")

    batch = next(iter(train))
    spread = batch["images"].transpose(0, 2, 3, 1) * np.float32(STD) / 255 + np.float32(MEAN) / 255
    batch_by_device(OUT / "batch_by_device.png", spread, batch["labels"], columns=8)
    print(f"picture: {OUT / 'batch_by_device.png'}")


if __name__ == "__main__":
    main()
