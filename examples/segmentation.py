"""Augment photographs and their masks: the same crop, rotation and flip, with nearest-neighbor interpolation for masks.

The program writes `masks.png`: photographs, each with its classes as an overlay.

    python examples/segmentation.py [--batch-size 16] [--devices 2]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import jax
import numpy as np
from PIL import Image
from scenes import COLOURS, write_scenes

from penstock import data_iterator, fn, train, types

SIZE = 160
IGNORE = 255  # class of pixels outside the photograph


def segmentation(folder):
    """Return augmented images and the class of each pixel."""
    images, _ = fn.readers.file(file_root=folder, dir_filters="images", random_shuffle=True, name="scenes")
    masks, _ = fn.readers.file(file_root=folder, dir_filters="masks", random_shuffle=True)
    images = fn.decoders.image_random_crop(images, random_area=[0.4, 1.0])
    images = fn.resize(images, size=[SIZE, SIZE])
    images = fn.rotate(images, angle=fn.random.uniform(range=[-20, 20]), keep_size=True, fill_value=0)
    images = fn.flip(images, horizontal=fn.random.coin_flip())
    masks = fn.follow.masks(fn.decoders.image(masks, output_type=types.GRAY), images, fill_value=IGNORE)
    return {"images": images, "masks": masks}


def main() -> None:
    """Read an epoch, compare masks and colors, and draw a batch."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--devices", type=int, default=2)
    arguments = parser.parse_args()
    jax.config.update("jax_num_cpu_devices", arguments.devices)
    folder = write_scenes(Path(tempfile.mkdtemp()))
    make = data_iterator(segmentation, reader_name="scenes", sharding=train.batch_sharding())
    iterator = make(folder, batch_size=arguments.batch_size, seed=1)
    batches = [[np.asarray(batch["images"]), np.asarray(batch["masks"])] for batch in iterator]
    images, masks = (np.concatenate(each) for each in zip(*batches, strict=True))
    print(f"images {images.shape}, masks {masks.shape}, classes {np.unique(masks).tolist()}")
    palette = np.array([(0, 0, 0), *COLOURS], np.int32)
    objects = (masks[..., 0] > 0) & (masks[..., 0] != IGNORE)
    distance = np.abs(images.astype(np.int32) - palette[masks[..., 0] * objects]).sum(axis=-1)
    print(f"pixels of objects that have their colour: {(distance[objects] < 60).mean():.3f}")
    over = np.where(objects[..., None], 255 - images, images // 2)
    rows = [np.concatenate([images[n], over[n], images[n + 1], over[n + 1]], axis=1) for n in range(0, 8, 2)]
    path = Path("out") / "segmentation" / "masks.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.concatenate(rows)).save(path)
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
