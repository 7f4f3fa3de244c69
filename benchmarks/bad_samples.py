"""Cost of `on_error` if no sample is bad: the same pipelines with "raise", "replace" and "skip".

The contenders differ only in `on_error` and take turns in one process; compare the ratios of their CPU times. "raise
again" shows the noise between two identical contenders. "skip" also delivers a mask.

    python benchmarks/bad_samples.py [--images 2048] [--rounds 9] [--photographs FOLDER]
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from measure import BATCH, arguments, compare, epochs, selected

from penstock import data_iterator, fn, types


def photographs(folder):
    """Return photographs prepared for ImageNet training."""
    files = sorted(map(str, folder.rglob("*.JPEG")))
    jpegs, labels = fn.readers.file(files=files, random_shuffle=True, name="reader")
    images = fn.decoders.image_random_crop(jpegs, output_type=types.RGB)
    images = fn.resize(images, size=[224, 224])
    return fn.crop_mirror_normalize(images, mean=128.0, std=64.0, mirror=fn.random.coin_flip()), labels


def small_images(folder):
    """Return augmented images of 32 x 32 pixels from memory."""
    del folder
    images = np.random.default_rng(0).integers(0, 256, (8192, 32, 32, 3), np.uint8)
    data = fn.readers.arrays(images, layout="HWC", random_shuffle=True, name="reader")
    images = fn.crop_mirror_normalize(data, crop=(28, 28), mean=128.0, std=64.0, mirror=fn.random.coin_flip())
    return images, fn.random.uniform()


WORKLOADS = {"photographs": photographs, "small images": small_images}


def main() -> None:
    """Run the benchmark."""
    parser = arguments(__doc__, 2048)
    parser.add_argument(
        "--photographs", type=Path, help="folder of JPEG files; without it, only small images are measured"
    )
    options = parser.parse_args()
    possible = [name for name in WORKLOADS if name != "photographs" or options.photographs]
    for name in selected(possible, options.workloads):

        def contender(on_error, definition=WORKLOADS[name]):
            names = ["images", "labels", *(["valid"] if on_error == "skip" else [])]
            make = data_iterator(definition, names, reader_name="reader", on_error=on_error)
            return lambda: epochs(make(options.photographs, batch_size=BATCH, num_threads=options.threads[0], seed=1))

        policies = {"raise": "raise", "raise again": "raise", "replace": "replace", "skip": "skip"}
        contenders = {title: contender(on_error) for title, on_error in policies.items()}
        times = compare(f"{name}, batches of {BATCH}", contenders, options, ["raise"])
        for title in ("raise again", "replace", "skip"):
            if title in times and "raise" in times:
                print(f"  {title}: {times[title].ratio(times['raise']) - 1:+.2%} CPU time")


if __name__ == "__main__":
    main()
