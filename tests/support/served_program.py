"""Program that tests serve: definitions at module level, as `penstock serve` needs them."""

from __future__ import annotations

import numpy as np

from penstock import data_iterator, fn

POLICY = {"output_map": ["images", "labels", "valid"], "on_error": "skip", "max_bad_rate": (1.0, 100)}


def definition(folder):
    """A shuffled mixture of photographs of several sizes, random numbers, and samples that fail."""
    files, labels = fn.readers.mix(
        fn.readers.file(file_root=folder, flat_labels=True),
        fn.readers.file(file_root=folder, flat_labels=True, dir_filters="circle"),
        weights=[0.7, 0.3],
        random_shuffle=True,
    )
    images = fn.resize(fn.decoders.image_random_crop(files), size=[8, 8])

    def fail(image, label, rng):
        if label == 1 and rng.integers(4) == 0:
            raise ValueError("unlucky")
        return image + rng.integers(0, 3, image.shape, np.uint8)

    images = fn.python_function(images, labels, function=fail)
    return {"images": fn.crop_mirror_normalize(images, mirror=fn.random.coin_flip()), "labels": labels}


training = data_iterator(definition, auto_reset=True, **POLICY)


@data_iterator
def numbers(count, factor=1):
    """Multiples of the numbers up to `count`."""
    return {"x": fn.readers.arrays(np.arange(count), random_shuffle=True) * factor}


def branching(count):
    """Numbers, some of them negative. It is decorated where it is used, with conditionals."""
    number = fn.readers.arrays(np.arange(count), random_shuffle=True)
    if number > 17:
        number = -number
    return {"x": number}


@data_iterator
def failing(count):
    """Numbers, of which one is refused."""

    def refuse(number):
        if number == 17:
            raise ValueError("unlucky")
        return number

    read = fn.readers.arrays(np.arange(count), random_shuffle=True)
    return {"x": fn.python_function(read, function=refuse, dtype=np.int64, ndim=0)}
