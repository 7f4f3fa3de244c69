"""Cost of ImageNet training from cached images of 256 pixels, from the second epoch on.

    python benchmarks/cache.py FOLDER [--images 1024] [--rounds 5] [--only NAME ...]

All contenders crop 224 x 224 pixels at random, mirror and normalize them to float32 NCHW:

    no cache     photographs are decoded, and resized to a shorter side of 256, in each epoch
    memory       `fn.cache` keeps the resized images in memory
    files        `fn.cache` keeps them in files
    crops        photographs are decoded in each epoch, each only where its random crop is, as in `imagenet.py`

The warm-up round reads as many files as a round, so that the measured rounds find all of them in the cache.

Target: at most 0.45 of the CPU time without the cache.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from data import Files, jpegs
from measure import BATCH, Batches, arguments, compare, epochs
from pipelines import IMAGENET_MEAN, IMAGENET_STD, imagenet


def batches(files: Files, cache: dict[str, Any] | None, threads: int, rows: int = BATCH) -> Batches:
    """Return batches of random crops of resized photographs.

    Args:
        files: The photographs.
        cache: Arguments of `fn.cache`; None without a cache.
        threads: Number of threads.
        rows: Number of rows of a batch.
    """
    from penstock import data_iterator, fn

    @data_iterator
    def definition():
        encoded, labels = fn.readers.file(files=files.paths, labels=files.labels, random_shuffle=True)
        images = fn.resize(fn.decoders.image(encoded), resize_shorter=256)
        if cache is not None:
            images = fn.cache(images, **cache)
        images = fn.random_resized_crop(images, size=(224, 224))
        mirror = fn.random.coin_flip()
        images = fn.crop_mirror_normalize(images, mirror=mirror, mean=IMAGENET_MEAN, std=IMAGENET_STD)
        return {"images": images, "labels": labels}

    return epochs(definition(batch_size=rows, num_threads=threads, seed=1))


def crops(files: Files, threads: int) -> Batches:
    """Return batches of random crops, of which photographs are decoded in part."""
    from penstock import data_iterator, fn, types

    make = data_iterator(lambda: imagenet(*files, "train", fn, types), ["images", "labels"])
    return epochs(make(batch_size=BATCH, num_threads=threads, seed=1))


def main() -> None:
    """Run the benchmark."""
    parser = arguments(__doc__, images=4 * BATCH)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    paths, labels = jpegs(options.folder)
    files = Files(paths[: options.images], labels[: options.images])
    with tempfile.TemporaryDirectory() as folder:
        caches = {"no cache": None, "memory": {"memory": "8 GiB"}, "files": {"path": folder}}
        for threads in options.threads:
            contenders = {name: partial(batches, files, cache, threads) for name, cache in caches.items()}
            contenders["crops"] = partial(crops, files, threads)
            compare(f"{len(files.paths)} photographs, {threads} threads", contenders, options, ["no cache", "crops"])


if __name__ == "__main__":
    main()
