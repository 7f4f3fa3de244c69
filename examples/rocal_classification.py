"""Read photographs for a classifier with rocAL's API: rocAL's sample program, on a current JAX.

Random crops of JPEGs, resized to 224 x 224, randomly mirrored and normalized, as float16 NHWC, with one pipeline per
device. `penstock.rocal` replaces `amd.rocal`, and `NamedSharding` replaces `PositionalSharding`, which JAX has removed.

    python examples/rocal_classification.py FOLDER      FOLDER has one folder of JPEGs per class

Expected (two CPU cores, 400 photographs of ImageNet): 300 to 500 images/s.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import jax
from jax.experimental import mesh_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from penstock.rocal import fn, types
from penstock.rocal.pipeline import pipeline_def
from penstock.rocal.plugin.jax import ROCALPeekableIterator


@pipeline_def(num_threads=2, seed=7, rocal_cpu=True, tensor_layout=types.NHWC, tensor_dtype=types.FLOAT16)
def photographs(folder, shard, shards):
    """Return the images. The iterator adds the labels."""
    jpegs, _ = fn.readers.file(file_root=folder)
    images = fn.decoders.image_slice(
        jpegs, file_root=folder, output_type=types.RGB, shard_id=shard, num_shards=shards, random_shuffle=True
    )
    images = fn.resize(images, resize_width=224, resize_height=224, output_layout=types.NHWC, output_dtype=types.UINT8)
    return fn.crop_mirror_normalize(
        images,
        output_layout=types.NHWC,
        output_dtype=types.FLOAT16,
        crop=(224, 224),
        mirror=fn.random.coin_flip(probability=0.5),
        mean=[0.485 * 255, 0.456 * 255, 0.406 * 255],
        std=[0.229 * 255, 0.224 * 255, 0.225 * 255],
    )


def main():
    """Run some epochs and print their batches."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--devices", type=int, default=8, help="maximum number of devices")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=8, help="images per device")
    options = parser.parse_args()
    jax.config.update("jax_num_cpu_devices", options.devices)
    count = min(options.devices, jax.device_count())

    mesh = Mesh(mesh_utils.create_device_mesh((count, 1), jax.devices()[:count]), ("batch", "model"))
    sharding = NamedSharding(mesh, PartitionSpec("batch"))
    pipelines = [photographs(options.folder, k, count, batch_size=options.batch, device_id=k) for k in range(count)]
    iterator = ROCALPeekableIterator(pipelines, sharding)
    images, labels = iterator.element_spec
    print(f"{len(iterator)} batches: images {images.dtype}{images.shape}, labels {labels.dtype}{labels.shape}")

    for epoch in range(1, options.epochs + 1):
        start, seen = time.perf_counter(), set()
        for images, labels in iterator:
            images.block_until_ready()
            seen |= set(labels.tolist())
        seconds = time.perf_counter() - start
        print(
            f"epoch {epoch}: {iterator.size / seconds:,.0f} images/s, {len(seen)} classes, "
            f"{len(images.sharding.device_set)} devices, mean {float(images.mean(dtype='float32')):.3f}"
        )
        iterator.reset()


if __name__ == "__main__":
    main()
