"""Images per second for 1 to 64 threads, on a machine with few cores: decoding and compiled loops are replaced by waits.

    python benchmarks/scaling.py FOLDER [--threads 1 2 4 ...] [--decode MICROSECONDS] [--kernels MICROSECONDS]

A wait releases the GIL and needs no core, as decoding and compiled loops would on a machine with a core per thread.
What remains is Python: it holds the GIL, and limits the images per second of any number of threads. The program prints

    images/s    measured
    of linear   measured, divided by the number of threads times the rate of one thread
    Python us   CPU time per image of all threads: what one image costs under the GIL, and what is left of the work
    of limit    measured, divided by the limit 1 / Python us

Images per second grow until they reach the limit. FOLDER contains JPEGs, flat or in one folder per class.
"""

from __future__ import annotations

import argparse
import ctypes
import time
from pathlib import Path
from typing import Any

import jax
from data import jpegs
from measure import BATCH, epochs, now, settle
from pipelines import imagenet as pipeline

from penstock.image.codecs import libjpeg_turbo
from penstock.image.codecs.exif_orientation import swaps_axes
from penstock.image.execute.pass_executor import PassExecutor

_wait = ctypes.CDLL(None).usleep  # functions of ctypes release the GIL


def replace_work(decode: int, kernels: int) -> None:
    """Replace decoding and compiled loops by waits of so many microseconds per image."""
    original = libjpeg_turbo.decode

    def wait_and_return(data: Any, header: Any, output_type: Any, fast_idct: Any, memory: Any, *rest: Any) -> Any:
        if memory is None:  # only pixels that go into prepared memory have a known size
            return original(data, header, output_type, fast_idct, memory, *rest)
        _wait(decode)
        width = header.height if swaps_axes(header.orientation) else header.width
        return memory.reshape(-1, width, header.channels)

    def wait(self: PassExecutor, rows: slice) -> None:
        del self
        _wait(kernels * (rows.stop - rows.start))

    libjpeg_turbo.decode = wait_and_return
    PassExecutor.run = wait  # type: ignore[method-assign]


def rate(folder: Path, threads: int, images: int) -> tuple[float, float]:
    """Return images per second and CPU seconds per image."""
    from penstock import data_iterator, fn, types

    @data_iterator(output_map=["images", "labels"])
    def definition():
        return pipeline(*jpegs(folder), "bytes", fn, types)

    batches = epochs(definition(batch_size=BATCH, num_threads=threads, seed=1, prefetch_queue_depth=4))
    for _ in range(3):
        next(batches)
    settle()
    cpu, wall = now()
    count = -(-images // BATCH)
    for _ in range(count):
        batch = next(batches)
    jax.block_until_ready(batch)
    wall = time.perf_counter() - wall
    cpu = settle()[0] - cpu
    return count * BATCH / wall, cpu / count / BATCH


def main() -> None:
    """Print one line per number of threads."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32, 64])
    parser.add_argument("--images", type=int, default=20 * BATCH, help="images per number of threads")
    parser.add_argument("--decode", type=int, default=2000, help="microseconds per image")
    parser.add_argument("--kernels", type=int, default=500, help="microseconds per image and pass")
    options = parser.parse_args()
    replace_work(options.decode, options.kernels)
    print(f"{'threads':>8}{'images/s':>12}{'of linear':>12}{'Python us':>12}{'of limit':>12}")
    single = 0.0
    for threads in options.threads:
        images, cpu = rate(options.folder, threads, options.images)
        single = single or images / threads
        print(
            f"{threads:>8}{images:>12,.0f}{images / threads / single:>12.2f}{cpu * 1e6:>12.1f}{images * cpu:>12.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
