"""Two augmented views of each photograph, as in self-supervised training, and a third with RandAugment.

Both views are augmented independently: crop, flip, color, blur. A row of `views.png` shows a photograph, its two views
and the result of RandAugment. The program prints how similar two views of one photograph and two different photographs
are.

    python examples/two_views.py [--data FOLDER-OF-CLASSES] [--batch-size 16] [--devices 2]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import jax
import numpy as np
from photographs import write_photographs
from PIL import Image

from penstock import data_iterator, fn, train, types
from penstock.auto_aug import rand_augment

SIZE = 96


def view(jpegs):
    """Return one view of each photograph, with the augmentations of SimCLR."""
    images = fn.decoders.image_random_crop(jpegs, random_area=[0.3, 1.0])
    images = fn.resize(images, size=[SIZE, SIZE])
    images = fn.flip(images, horizontal=fn.random.coin_flip())
    if fn.random.coin_flip(probability=0.8, dtype=types.BOOL):
        images = fn.color_twist(
            images,
            brightness=fn.random.uniform(range=[0.6, 1.4]),
            contrast=fn.random.uniform(range=[0.6, 1.4]),
            saturation=fn.random.uniform(range=[0.6, 1.4]),
            hue=fn.random.uniform(range=[-36, 36]),
        )
    if fn.random.coin_flip(probability=0.2, dtype=types.BOOL):
        images = fn.saturation(images, saturation=0.0)
    if fn.random.coin_flip(dtype=types.BOOL):
        images = fn.gaussian_blur(images, sigma=fn.random.uniform(range=[0.1, 2.0]))
    return images


def views(folder):
    """Return each photograph, two views of it, and RandAugment's."""
    jpegs, _ = fn.readers.file(file_root=folder, name="photographs", random_shuffle=True)
    plain = fn.resize(fn.decoders.image(jpegs), size=[SIZE, SIZE])
    one, other = view(jpegs), view(jpegs)
    random = rand_augment.rand_augment(plain, n=2, m=15, shape=(SIZE, SIZE))
    return {"plain": plain, "one": one, "other": other, "random": random}


def alike(one: np.ndarray, other: np.ndarray) -> float:
    """Return the mean correlation of the pixels of two batches, photograph by photograph."""
    rows = [batch.reshape(len(batch), -1).astype(np.float32) for batch in (one, other)]
    rows = [batch - batch.mean(axis=1, keepdims=True) for batch in rows]
    rows = [batch / np.linalg.norm(batch, axis=1, keepdims=True) for batch in rows]
    return float((rows[0] * rows[1]).sum(axis=1).mean())


def main() -> None:
    """Read an epoch, compare views, and draw a batch."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with one folder of photographs per class")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--devices", type=int, default=2)
    arguments = parser.parse_args()
    jax.config.update("jax_num_cpu_devices", arguments.devices)
    folder = arguments.data or write_photographs(Path(tempfile.mkdtemp()) / "photographs")
    make = data_iterator(views, sharding=train.batch_sharding(), enable_conditionals=True)
    iterator = make(folder, batch_size=arguments.batch_size, seed=1)
    for number, batch in enumerate(iterator):
        if number == 0:
            first = {name: np.asarray(array) for name, array in batch.items()}
    print(f"{number + 1} batches of {first['one'].shape}")
    print(f"two views of one photograph: {alike(first['one'], first['other']):.2f}")
    print(f"views of two photographs: {alike(first['one'], np.roll(first['other'], 1, axis=0)):.2f}")
    rows = [
        np.concatenate([array[row] for array in first.values()], axis=1) for row in range(min(8, len(first["one"])))
    ]
    path = Path("out") / "two_views" / "views.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.concatenate(rows)).save(path)
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
