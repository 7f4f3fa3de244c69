"""Memory of an iterator: batches for several prefetch depths, and megabytes of the process for several threads.

    python benchmarks/memory.py FOLDER [--depths N ...] [--workloads imagenet cifar float32 uint8] [--only NAME ...]

FOLDER contains JPEGs, flat or in one folder per class; CIFAR-10 consists of random pixels. A loop takes batches and
keeps the last one, as a training loop does, but waits each time until prefetching has finished. The first figure is the
peak memory of the process minus its memory after a few tiny batches, in batches. The growth is the memory at the end
minus the memory after a third of the loop. Each combination runs in a separate process.

The second table has the proportional set size (PSS) of the process minus that after `import jax`: the largest that the
loop sees, for photographs as float32 and as uint8, depth 2, and several numbers of threads (`--threads`).

Targets: at most depth + 2 batches, where the buffers of decoding and reading threads come on top, and at most depth + 2
batches and 150 MB above `import jax`.
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

import jax
from data import cifar10, jpegs
from measure import BATCH, Batches, epochs, selected, settle
from pipelines import imagenet as pipeline

# Rows of a batch and bytes of an image. CIFAR batches are large, so that they stand out from other allocations.
WORKLOADS = {"imagenet": (256, 3 * 224 * 224 * 4), "cifar": (2048, 3 * 32 * 32 * 4)}

# Workload of `pipelines.imagenet` and bytes of a batch.
PROCESS_WORKLOADS = {"float32": ("train", BATCH * 3 * 224 * 224 * 4), "uint8": ("bytes", BATCH * 3 * 224 * 224)}
PROCESS_DEPTH, PROCESS_MB = 2, 150

LIBRARIES = ("penstock", "DALI")
TINY = 8


class MemoryUsage(NamedTuple):
    """Peak and growth in batches, and peak of the process in bytes."""

    peak: float
    growth: float
    process: int


def measure_memory(library: str, workload: str, folder: Path, depth: int, batches: int) -> MemoryUsage:
    """Measure the memory of this process while it takes `batches` batches."""
    import imagenet
    import small_images

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


def measure_process(workload: str, folder: Path, threads: int, batches: int) -> int:
    """Return the largest PSS of this process above that after `import jax`, while it takes `batches` batches."""
    before = _status("Pss", "smaps_rollup")
    # Not by way of the module `imagenet`, which also imports the libraries of the hand-written loops.
    from penstock import data_iterator, fn, types

    @data_iterator(output_map=["images", "labels"], reader_name="reader")
    def definition():
        return pipeline(*jpegs(folder), workload, fn, types)

    iterator = epochs(definition(batch_size=BATCH, num_threads=threads, seed=1, prefetch_queue_depth=PROCESS_DEPTH))
    peak = 0
    for _ in range(batches):
        batch = jax.block_until_ready(next(iterator))  # keeps the previous batch until here
        settle()
        peak = max(peak, _status("Pss", "smaps_rollup"))
    del batch
    return peak - before


def _status(name: str, file: str = "status") -> int:
    match = re.search(rf"^{name}:\s+(\d+) kB$", Path("/proc/self", file).read_text(), re.MULTILINE)
    if match is None:
        raise SystemExit("this benchmark needs Linux: it reads the memory of the process from /proc")
    return int(match[1]) * 1024


def main() -> None:
    """Measure all combinations."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--depths", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2, 8], help="of the second table")
    parser.add_argument("--batches", type=int, default=15, help="per combination")
    parser.add_argument("--workloads", nargs="+", default=[], metavar="NAME", help="run only these workloads")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="run only these libraries")
    options = parser.parse_args()
    workloads = selected((*WORKLOADS, *PROCESS_WORKLOADS), options.workloads)
    print(f"{'':<22}{'depth':>7}{'batches':>9}{'allowed':>9}{'growth':>8}{'process MB':>12}")
    for workload in (name for name in workloads if name in WORKLOADS):
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
    print(f"\n{'':<22}{'threads':>7}{'above import jax, MB':>22}{'allowed':>9}")
    for name in (name for name in workloads if name in PROCESS_WORKLOADS):
        workload, size = PROCESS_WORKLOADS[name]
        for threads in options.threads:
            with ProcessPoolExecutor(1, get_context("spawn")) as pool:
                used = pool.submit(measure_process, workload, options.folder, threads, options.batches).result()
            allowed = (PROCESS_DEPTH + 2) * size / 1e6 + PROCESS_MB
            print(f"{name:<22}{threads:>7}{used / 1e6:>22,.0f}{allowed:>9,.0f}", flush=True)


if __name__ == "__main__":
    main()
