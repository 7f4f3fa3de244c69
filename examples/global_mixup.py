"""Mix pictures across devices and processes: DALI's tutorial for JAX functions on several GPUs.

    penstock launch -n 2 examples/global_mixup.py               # two processes with one device each, as in the tutorial
    penstock launch -n 2 --devices 4 examples/global_mixup.py   # four devices per process, which DALI cannot run
    python examples/global_mixup.py --devices 8                 # one process, eight devices

Even shards read pictures of a temple, odd shards pictures of a flower. A JAX function with a collective, which is part
of the pipeline, mixes each picture with the one at the same position in the neighboring shard. Each process draws the
samples of its devices: out/global_mixup/process_0.png and so on.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

import jax
import matplotlib as mpl
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from PIL import Image
from sklearn.datasets import load_sample_image

import penstock.launch
from penstock import data_iterator, fn

mpl.use("Agg")
import matplotlib.pyplot as plt

SAMPLES = 8  # pictures of each kind, and rows per device


def main() -> None:
    """Compute a batch and draw it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, help="number of devices that a single process emulates")
    devices = parser.parse_args().devices
    if devices is not None:
        jax.config.update("jax_num_cpu_devices", devices)
    penstock.launch.initialize()

    folder = Path("out/global_mixup")
    temples, flowers = (write_pictures(folder, name) for name in ("china", "flower"))
    count = jax.device_count()
    sharding = NamedSharding(Mesh(jax.devices(), ("batch",)), PartitionSpec("batch"))
    neighbours = [shard ^ 1 if shard ^ 1 < count else shard for shard in range(count)]

    @fn.jax_function(sharding=sharding)
    @jax.jit
    @partial(jax.shard_map, mesh=sharding.mesh, in_specs=sharding.spec, out_specs=sharding.spec)
    @jax.vmap
    def mixed_with_neighbour(picture):
        mixed = 0.5 * picture + 0.5 * jax.lax.pshuffle(picture, "batch", neighbours)
        return mixed.astype(np.uint8)

    @data_iterator(sharding=sharding)
    def pictures(shard_id, num_shards):
        print(f"shard {shard_id} of {num_shards} reads {'flowers' if shard_id % 2 else 'temples'}")
        encoded, _ = fn.readers.file(files=flowers if shard_id % 2 else temples)
        images = fn.resize(fn.decoders.image(encoded, device="mixed"), size=(122, 122))
        return {"pictures": mixed_with_neighbour(images)}

    batch = next(pictures(batch_size=SAMPLES * count, num_threads=4))["pictures"]
    target = folder / f"process_{jax.process_index()}.png"
    draw(target, batch)
    print(f"{batch.shape} on {count} devices of {jax.process_count()} processes; {target}")


def write_pictures(folder: Path, name: str) -> list[str]:
    """Write crops of a photograph as JPEGs of different sizes, unless they exist. Return their paths."""
    paths = [folder / name / f"{number}.jpg" for number in range(SAMPLES)]
    for number, path in enumerate(paths):
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            size = 200 + 20 * number
            left, top = 45 * number, 10 * number
            cutting = load_sample_image(f"{name}.jpg")[top : top + size, left : left + size]
            part = path.with_suffix(f".{jax.process_index()}")  # several processes may write it at once
            Image.fromarray(cutting).save(part, "JPEG", quality=95)
            part.replace(path)
    return [str(path) for path in paths]


def draw(path: Path, batch: jax.Array) -> None:
    """Draw a line of pictures for each local device."""
    shards = sorted(batch.addressable_shards, key=lambda shard: shard.index[0].start or 0)
    figure, grid = plt.subplots(len(shards), SAMPLES, figsize=(SAMPLES * 1.2, len(shards) * 1.35), squeeze=False)
    for line, shard in zip(grid, shards, strict=True):
        for axes, picture in zip(line, np.asarray(shard.data), strict=True):
            axes.imshow(picture)
            axes.axis("off")
        line[0].set_title(f"{shard.device}, rows {shard.index[0].start or 0} and on", fontsize=8, loc="left")
    figure.tight_layout()
    figure.savefig(path, dpi=100)
    plt.close(figure)


if __name__ == "__main__":
    main()
