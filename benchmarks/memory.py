"""How many batches an iterator keeps in memory, over the depth of its queue.

    python benchmarks/memory.py FOLDER [--depths N ...] [--workloads imagenet cifar] [--only NAME ...]

FOLDER holds JPEGs, flat or in a folder per class; CIFAR-10 is made of random pixels. A loop takes batch after batch and
keeps the last one, as a training does, but waits each time until all that is prepared ahead is there. The most that the
process holds meanwhile, less what it held after a few tiny batches, is given in batches. So is what it holds at the end
more than after a third of the loop. Each combination is measured in a process of its own.

Target: at most the depth + 2 batches. What threads decode or read into comes on top: a quarter of a batch for each of
them.
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

WORKLOADS = {"imagenet": (256, 3 * 224 * 224 * 4), "cifar": (2048, 3 * 32 * 32 * 4)}
"""Rows of a batch, and the bytes of an image in it. A batch of CIFAR is large, to stand out from what else there is."""

LIBRARIES = ("penstock", "DALI")
TINY = 8


class Held(NamedTuple):
    """How many batches were held: at most, at the end more than after a third; and the process' bytes at most."""

    most: float
    growth: float
    process: int


def held(library: str, workload: str, folder: Path, depth: int, batches: int) -> Held:
    """What this process holds while it takes some batches."""
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
    taken = iterate(rows=rows)
    batch = jax.block_until_ready(next(taken))
    Path("/proc/self/clear_refs").write_text("5")  # the most that was held begins anew, without what planning took
    after = []
    for _ in range(batches):
        batch = jax.block_until_ready(next(taken))  # the one before it is held until here
        settle()
        after.append(_status("VmRSS"))
    del batch
    most = _status("VmHWM")
    return Held((most - before) / rows / size, (after[-1] - after[batches // 3]) / rows / size, most)


def _status(name: str) -> int:
    match = re.search(rf"^{name}:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    if match is None:
        raise SystemExit("this benchmark needs Linux, which says in /proc what a process holds")
    return int(match[1]) * 1024


def main() -> None:
    """Measure all combinations."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--depths", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--batches", type=int, default=15, help="per combination")
    parser.add_argument("--workloads", nargs="+", default=[], metavar="NAME", help="these workloads alone")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these libraries alone")
    options = parser.parse_args()
    print(f"{'':<22}{'depth':>7}{'batches':>9}{'allowed':>9}{'growth':>8}{'process MB':>12}")
    for workload in selected(WORKLOADS, options.workloads):
        for library in selected(LIBRARIES, options.only):
            for depth in options.depths:
                with ProcessPoolExecutor(1, get_context("spawn")) as pool:
                    try:
                        found = pool.submit(held, library, workload, options.folder, depth, options.batches).result()
                    except ImportError as error:
                        print(f"{library}: skipped, {error}")
                        break
                name = f"{workload}, {library}"
                numbers = f"{depth:>7}{found.most:>9.2f}{depth + 2:>9}{found.growth:>8.2f}{found.process / 1e6:>12,.0f}"
                print(f"{name:<22}{numbers}", flush=True)


if __name__ == "__main__":
    main()
