"""Number of batches that an iterator keeps in memory, for several prefetch depths.

    python benchmarks/memory.py FOLDER [--depths N ...] [--workloads imagenet cifar] [--only NAME ...]

FOLDER contains JPEGs, flat or in one folder per class; CIFAR-10 consists of random pixels. A loop takes batches and
keeps the last one, as a training loop does, but waits each time until prefetching has finished. The first figure is the
peak memory of the process minus its memory after a few tiny batches, in batches. The growth is the memory at the end
minus the memory after a third of the loop. Each combination runs in a separate process.

Target: at most depth + 2 batches. The buffers of decoding and reading threads come on top: a quarter of a batch per
thread.
"""

from __future__ import annotations

import argparse
import gc
import re
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import imagenet
import jax
import small_images
from data import cifar10, jpegs
from measure import Batches, selected, settle

# Rows of a batch and bytes of an image. CIFAR batches are large, so that they stand out from other allocations.
WORKLOADS = {"imagenet": (256, 3 * 224 * 224 * 4), "cifar": (2048, 3 * 32 * 32 * 4)}

LIBRARIES = ("penstock", "DALI")
TINY = 8


class MemoryUsage(NamedTuple):
    """Peak and growth in batches, and peak of the process in bytes."""

    peak: float
    growth: float
    process: int


def measure_memory(library: str, workload: str, folder: Path, depth: int, batches: int) -> MemoryUsage:
    """Measure the memory of this process while it takes `batches` batches."""
    rows, size = WORKLOADS[workload]
    benchmark, data, task = (
        (imagenet, jpegs(folder), "train") if workload == "imagenet" else (small_images, cifar10(None), "slice")
    )
    iterate: Callable[..., Batches] = partial(getattr(benchmark, library.lower()), data, task, 2, depth=depth)
    tiny = iterate(rows=TINY)
    for _ in range(3):
        batch = next(tiny)
    jax.block_until_ready(batch)
    del tiny, batch
    gc.collect()
    before = _status("VmRSS")
    iterator = iterate(rows=rows)
    batch = jax.block_until_ready(next(iterator))
    Path("/proc/self/clear_refs").write_text("5")  # resets VmHWM, which includes the memory of planning
    after = []
    for _ in range(batches):
        batch = jax.block_until_ready(next(iterator))  # keeps the previous batch until here
        settle()
        after.append(_status("VmRSS"))
    del batch
    peak = _status("VmHWM")
    return MemoryUsage((peak - before) / rows / size, (after[-1] - after[batches // 3]) / rows / size, peak)


def _status(name: str) -> int:
    match = re.search(rf"^{name}:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    if match is None:
        raise SystemExit("this benchmark needs Linux: it reads the memory of the process from /proc")
    return int(match[1]) * 1024


def main() -> None:
    """Measure all combinations."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--depths", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--batches", type=int, default=15, help="per combination")
    parser.add_argument("--workloads", nargs="+", default=[], metavar="NAME", help="run only these workloads")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="run only these libraries")
    options = parser.parse_args()
    print(f"{'':<22}{'depth':>7}{'batches':>9}{'allowed':>9}{'growth':>8}{'process MB':>12}")
    for workload in selected(WORKLOADS, options.workloads):
        for library in selected(LIBRARIES, options.only):
            for depth in options.depths:
                with ProcessPoolExecutor(1, get_context("spawn")) as pool:
                    try:
                        arguments = library, workload, options.folder, depth, options.batches
                        usage = pool.submit(measure_memory, *arguments).result()
                    except ImportError as error:
                        print(f"{library}: skipped, {error}")
                        break
                name = f"{workload}, {library}"
                numbers = f"{depth:>7}{usage.peak:>9.2f}{depth + 2:>9}{usage.growth:>8.2f}{usage.process / 1e6:>12,.0f}"
                print(f"{name:<22}{numbers}", flush=True)


if __name__ == "__main__":
    main()
