"""Augment photographs and their boxes: random crop while decoding, resize, rotation, flip, color.

The batches are ready for training a detector: images, dense arrays of boxes with a mask, and classes. The program
writes `boxes.png`, the augmented images with their boxes, and prints how well the boxes fit.

    python examples/detection.py [--batch-size 16] [--devices 2]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import jax
import numpy as np
from PIL import Image, ImageDraw
from scenes import CLASSES, COLOURS, write_scenes

from penstock import data_iterator, fn, train

SIZE = 160


def detection(folder):
    """Return augmented images with their boxes and classes."""
    files, boxes, classes = fn.readers.coco(
        file_root=folder / "images", annotations_file=folder / "scenes.json", random_shuffle=True, name="scenes"
    )
    images = fn.decoders.image_random_crop(files, random_area=[0.4, 1.0])
    images = fn.resize(images, size=[SIZE, SIZE])
    images = fn.rotate(images, angle=fn.random.uniform(range=[-15, 15]), keep_size=True, fill_value=0)
    images = fn.flip(images, horizontal=fn.random.coin_flip())
    images = fn.color_twist(images, brightness=fn.random.uniform(range=[0.7, 1.3]))
    boxes, box_valid, classes = fn.follow.boxes(boxes, images, classes, max_boxes=6, min_visible=0.3, min_size=4)
    return {"images": images, "boxes": boxes, "box_valid": box_valid, "classes": classes}


def drawn(image: np.ndarray, boxes: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return an image with its boxes drawn."""
    picture = Image.fromarray(image)
    draw = ImageDraw.Draw(picture)
    for (left, top, width, height), number in zip(boxes.tolist(), classes.tolist(), strict=True):
        draw.rectangle((left, top, left + width - 1, top + height - 1), outline="magenta", width=2)
        draw.text((left + 3, top + 1), CLASSES[number - 1], fill="magenta")
    return np.asarray(picture)


def filled(image: np.ndarray, box: np.ndarray, number: int) -> float:
    """Return the share of a class's color inside its box, out of all within 12 pixels of the box."""
    distance = np.abs(image.astype(int) / np.maximum(image.max(axis=-1, keepdims=True), 1) * 240 - COLOURS[number - 1])
    there = distance.sum(axis=-1) < 90
    left, top = np.floor(box[:2]).astype(int)
    right, bottom = np.ceil(box[:2] + box[2:]).astype(int)
    around = there[max(top - 12, 0) : bottom + 12, max(left - 12, 0) : right + 12].sum()
    return float(there[top:bottom, left:right].sum() / max(around, 1))


def main() -> None:
    """Read an epoch, measure how the boxes fit, and draw a batch."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--devices", type=int, default=2)
    arguments = parser.parse_args()
    jax.config.update("jax_num_cpu_devices", arguments.devices)
    folder = write_scenes(Path(tempfile.mkdtemp()))
    make = data_iterator(detection, sharding=train.batch_sharding())
    count, fits, pictures = 0, list[float](), list[np.ndarray]()
    for batch in make(folder, batch_size=arguments.batch_size, seed=2):
        for image, padded, valid, numbers in zip(*map(np.asarray, batch.values()), strict=True):
            boxes, classes = padded[valid], numbers[valid]
            count += len(boxes)
            fits += [filled(image, box, number) for box, number in zip(boxes, classes.tolist(), strict=True)]
            pictures.append(drawn(image, boxes, classes))
    print(f"{len(pictures)} images with {count} boxes")
    print(f"of the colour around a box, the part inside: {np.median(fits):.2f}")
    path = Path("out") / "detection" / "boxes.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.concatenate([np.concatenate(pictures[row : row + 4], axis=1) for row in (0, 4, 8)])).save(path)
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
