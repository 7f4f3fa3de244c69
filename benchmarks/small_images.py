"""Cost of augmenting small images in memory (CIFAR-10), compared with DALI on the CPU and other libraries.

    python benchmarks/small_images.py [--cifar FOLDER] [--workloads NAME ...] [--only NAME ...]

Workloads:

    slice                random window of 32 x 32, up to 4 pixels outside of the image; mirrored, float32 NCHW
    crop                 margin of 4 on each side, then a random crop; mirrored, float32 NCHW
    pad                  margin of 8 at the bottom and on the right, then a random crop; mirrored, float32 NCHW
    random_resized_crop  to 32 x 32, uint8 NHWC
    resize               to 64 x 64, uint8 NHWC

FOLDER contains the binary files of CIFAR-10 (`data_batch_1.bin` ...); without it, the pixels are random.

Targets for CPU time on two threads: the first three at most 0.5 of DALI's and 1.2 of the hand-written loop, the other
two at most 0.5 of DALI's.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
from by_hand import indices
from data import Arrays, cifar10
from measure import BATCH, REFERENCES, Batches, arguments, compare, epochs, selected
from pipelines import CIFAR_WORKLOADS, cifar
from small_images_by_hand import by_hand
from small_images_frameworks import grain, one_jax_function, tf_data, torch_data_loader


def penstock(data: Arrays, workload: str, threads: int, *, rows: int = BATCH, depth: int = 2) -> Batches:
    """Return batches of Penstock."""
    from penstock import data_iterator, fn, types

    @data_iterator(output_map=["images", "labels"], reader_name="reader")
    def training():
        images, labels = fn.readers.arrays(tuple(data), layout=("HWC", ""), random_shuffle=True, name="reader")
        return cifar(images, workload, fn, types), labels

    return epochs(training(batch_size=rows, num_threads=threads, seed=1, prefetch_queue_depth=depth))


def dali(data: Arrays, workload: str, threads: int, *, rows: int = BATCH, depth: int = 2) -> Batches:
    """Return batches of NVIDIA DALI's CPU backend and its JAX iterator.

    DALI does not have a reader for arrays. The fastest replacement is an external source that gathers a batch with one
    NumPy expression and passes it without a copy: it takes less than 1 us per image.
    """
    from nvidia.dali import fn, types
    from nvidia.dali.plugin.jax import data_iterator

    order = indices(len(data.images), rows, np.random.default_rng(1))

    def gather():
        index = next(order)
        return data.images[index], data.labels[index]

    @data_iterator(output_map=["images", "labels"])
    def training():
        layout = ["HWC", ""]
        images, labels = fn.external_source(gather, num_outputs=2, batch=True, layout=layout, no_copy=True)
        return cifar(images, workload, fn, types), labels

    return iter(training(batch_size=rows, num_threads=threads, device_id=None, seed=1, prefetch_queue_depth=depth))


CONTENDERS = {
    "DALI": dali,
    "penstock": penstock,
    "by hand": by_hand,
    "by hand, aligned": partial(by_hand, aligned=True),
    "one jax_function": one_jax_function,
    "Grain": grain,
    "torch DataLoader": torch_data_loader,
    "tf.data": tf_data,
}


def main() -> None:
    """Run the workloads."""
    parser = arguments(__doc__, images=50 * BATCH)
    parser.add_argument(
        "--cifar", type=Path, metavar="FOLDER", help="binary files of CIFAR-10; random pixels by default"
    )
    options = parser.parse_args()
    selected(CONTENDERS, options.only)
    data = cifar10(options.cifar)
    for workload in selected(CIFAR_WORKLOADS, options.workloads):
        for threads in options.threads:
            contenders = {name: partial(make, data, workload, threads) for name, make in CONTENDERS.items()}
            compare(f"CIFAR-10, {workload}, {threads} threads", contenders, options, REFERENCES)


if __name__ == "__main__":
    main()
