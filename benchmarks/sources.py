"""Cost of user-defined sources, compared with `readers.arrays` and DALI's `external_source` on the CPU.

    python benchmarks/sources.py [--workloads batches samples] [--only NAME ...]

The workloads deliver images of CIFAR-10's size and their labels unchanged: `batches` is a function that returns slices
of two arrays, `samples` a function that receives a SampleInfo and returns one sample.

Targets for CPU time: `batches` at most 1.1 of `readers.arrays` in order; `samples` at most 1.0 of DALI's. See
parallel_source.py for the scaling of worker processes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from data import Arrays, cifar10
from measure import BATCH, Batches, arguments, compare, epochs, selected


def batches_of(data: Arrays) -> Callable[[int], Any]:
    """Return a function that returns batches, and starts again at the end of the data."""
    count = len(data.images) // BATCH

    def batch(number: int) -> Any:
        rows = slice(number % count * BATCH, (number % count + 1) * BATCH)
        return data.images[rows], data.labels[rows]

    return batch


def samples_of(data: Arrays) -> Callable[[Any], Any]:
    """Return a function that returns samples, and starts again at the end of the data."""

    def sample(info: Any) -> Any:
        index = info.idx_in_epoch % len(data.images)
        return data.images[index], data.labels[index]

    return sample


SOURCES: Mapping[str, Any] = {"batches": (batches_of, {"batch": True}), "samples": (samples_of, {"batch": False})}


def penstock(data: Arrays, workload: str, threads: int, **options: Any) -> Batches:
    """Return batches of Penstock's `external_source`."""
    from penstock import data_iterator, fn

    make, how = SOURCES[workload]

    @data_iterator(output_map=["images", "labels"])
    def training():
        return tuple(fn.external_source(make(data), num_outputs=2, layout=["HWC", ""], **how, **options))

    return iter(training(batch_size=BATCH, num_threads=threads))


def arrays(data: Arrays, _: str, threads: int) -> Batches:
    """Return batches of `readers.arrays` in order."""
    from penstock import data_iterator, fn

    @data_iterator(output_map=["images", "labels"], reader_name="reader")
    def training():
        return fn.readers.arrays(tuple(data), layout=("HWC", ""), name="reader")

    return epochs(training(batch_size=BATCH, num_threads=threads))


def dali(data: Arrays, workload: str, threads: int, **options: Any) -> Batches:
    """Return batches of DALI's `external_source`."""
    from nvidia.dali import fn
    from nvidia.dali.plugin.jax import data_iterator

    make, how = SOURCES[workload]

    @data_iterator(output_map=["images", "labels"])
    def training():
        return tuple(fn.external_source(make(data), num_outputs=2, layout=["HWC", ""], **how, **options))

    return iter(training(batch_size=BATCH, num_threads=threads, device_id=None))


CONTENDERS = {
    "readers.arrays": arrays,
    "DALI": dali,
    "DALI, no_copy": partial(dali, no_copy=True),
    "penstock": penstock,
    "penstock, no_copy": partial(penstock, no_copy=True),
}


def main() -> None:
    """Run the workloads."""
    options = arguments(__doc__, images=100 * BATCH).parse_args()
    selected(CONTENDERS, options.only)
    data = cifar10(None)
    for workload in selected(SOURCES, options.workloads):
        for threads in options.threads:
            contenders = {name: partial(make, data, workload, threads) for name, make in CONTENDERS.items()}
            compare(f"{workload}, {threads} threads", contenders, options, ["readers.arrays", "DALI"])


if __name__ == "__main__":
    main()
