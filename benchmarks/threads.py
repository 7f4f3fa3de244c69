"""Throughput with `num_threads=None`, compared with fixed numbers of threads.

    python benchmarks/threads.py --photographs FOLDER --digits FOLDER [--threads 1 2 3 4]

FOLDER of photographs contains JPEGs, that of digits the IDX files of MNIST. Workloads: `imagenet` (the training
pipeline of imagenet.py), `mnist` (JPEG records) and `tiny` (the same in batches of 8, for which more than one thread
is a loss).

Target: at least 0.97 of the images per second of the best fixed number, which the last line of each table shows.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from data import Arrays, jpegs, mnist, write_jpeg_records
from measure import BATCH, Batches, Times, arguments, compare, epochs, selected
from pipelines import imagenet as imagenet_pipeline
from pipelines import mnist as mnist_pipeline

WORKLOADS = ("imagenet", "mnist", "tiny")
AUTOMATIC = "None"


def photographs(files: Any, threads: int | None) -> Batches:
    """Return batches of photographs."""
    from penstock import data_iterator, fn, types

    @data_iterator(output_map=["images", "labels"], reader_name="reader")
    def training():
        return imagenet_pipeline(*files, "train", fn, types)

    return epochs(training(batch_size=BATCH, num_threads=threads, seed=1))


def digits(records: Path, threads: int | None, rows: int = BATCH) -> Batches:
    """Return batches of digits, in steps of at least 256 images."""
    from penstock import data_iterator, fn, types

    @data_iterator(output_map=["images", "labels"], reader_name="reader")
    def training():
        encoded, labels = fn.readers.caffe2(path=str(records), random_shuffle=True, name="reader")
        return mnist_pipeline(fn.decoders.image(encoded, output_type=types.GRAY), labels, fn, types)

    batches = epochs(training(batch_size=rows, num_threads=threads, seed=1))
    if rows == BATCH:
        return batches
    return ([next(batches) for _ in range(BATCH // rows)] for _ in iter(int, 1))


def share_of_best(times: Mapping[str, Times]) -> float:
    """Return the images per second with None as a share of those with the best fixed number, the median of rounds."""
    fixed = {name: statistics.median(own.wall) for name, own in times.items() if name != AUTOMATIC}
    best = times[min(fixed, key=lambda name: fixed[name])]
    return statistics.median(b / own for b, own in zip(best.wall, times[AUTOMATIC].wall, strict=True))


def main() -> None:
    """Run the workloads."""
    parser = arguments(__doc__, images=2 * BATCH)
    parser.add_argument("--photographs", type=Path)
    parser.add_argument("--digits", type=Path)
    parser.set_defaults(threads=[1, 2, 3, 4])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        records = Path(scratch) / "records"
        if options.digits:
            data = mnist(options.digits)
            write_jpeg_records(Arrays(data.images[:20_000], data.labels[:20_000]), records)
        for workload in selected(WORKLOADS, options.workloads):
            if not (options.photographs if workload == "imagenet" else options.digits):
                continue
            if workload == "imagenet":
                make = partial(photographs, jpegs(options.photographs))
            else:
                make = partial(digits, records, rows=BATCH if workload == "mnist" else 8)
            contenders = {str(threads): partial(make, threads=threads) for threads in [*options.threads, None]}
            times = compare(f"{workload}, by num_threads", contenders, options)
            print(f"  None reaches {share_of_best(times):.2f} of the best fixed number", flush=True)


if __name__ == "__main__":
    main()
