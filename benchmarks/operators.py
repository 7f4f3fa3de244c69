"""What each image operator costs: CPU time per image against DALI on the CPU, and against what one would take by hand.

    python benchmarks/operators.py [--workloads NAME ...] [--sizes 224 32] [--rounds 5] [--images 1024]

A workload is one operator on images in memory, uint8 HWC, in batches of 256 at the iterator, on two threads. "library"
is OpenCV, or Pillow where OpenCV has no such thing, image by image in a pool of two threads, then `jax.device_put`. At
the end stands a table of the ratios of CPU times. Operators that DALI has for GPUs alone have none to it.

Targets for nine operators in ten: at most 1.0 of DALI's CPU time at 224 pixels, and 0.5 at 32.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import jax
import numpy as np
from by_hand import indices
from data import Arrays
from measure import BATCH, Batches, SkippedError, Times, arguments, compare, epochs, selected
from operator_workloads import WORKLOADS, Workload


def pixels(size: int) -> Arrays:
    """Images that are smooth and noisy as photographs are, with labels: some 38 MB, one batch of 224 pixels."""
    rng = np.random.default_rng(0)
    count = BATCH * max(1, 224 // size) ** 2
    coarse = rng.integers(0, 226, (count, -(-size // 8), -(-size // 8), 3)).astype(np.uint8)
    images = np.repeat(np.repeat(coarse, 8, axis=1), 8, axis=2)[:, :size, :size]
    images += rng.integers(0, 30, images.shape, np.uint8)
    return Arrays(images, np.zeros((count, 1), np.int32))


def penstock(data: Arrays, workload: Workload, size: int, threads: int) -> Batches:
    """This library."""
    from penstock import data_iterator, fn, types

    @data_iterator(output_map=["images"], reader_name="reader")
    def images():
        return workload.define(fn.readers.arrays(data.images, layout="HWC", name="reader"), fn, types, size)

    return epochs(images(batch_size=BATCH, num_threads=threads, seed=1))


def dali(data: Arrays, workload: Workload, size: int, threads: int) -> Batches:
    """NVIDIA DALI's CPU backend and its iterator for JAX."""
    from nvidia.dali import fn, types
    from nvidia.dali.plugin.jax import data_iterator

    order = indices(len(data.images), BATCH, np.random.default_rng(1))

    @data_iterator(output_map=["images"])
    def images():
        given = fn.external_source(lambda: data.images[next(order)], batch=True, layout="HWC", no_copy=True)
        return workload.define(given, fn, types, size)

    try:
        return iter(images(batch_size=BATCH, num_threads=threads, device_id=None, seed=1))
    except (AttributeError, RuntimeError, TypeError, ValueError) as error:
        raise SkippedError(f"not on DALI's CPU backend: {str(error).strip().splitlines()[0][:80]}") from error


def library(data: Arrays, workload: Workload, size: int, threads: int) -> Batches:
    """OpenCV, or Pillow, image by image in a pool."""
    import cv2

    if workload.library is None:
        raise SkippedError("no library has it")
    cv2.setNumThreads(1)
    compute = workload.library

    def batches() -> Batches:
        with ThreadPoolExecutor(threads) as pool:
            while True:
                first = compute(cv2, data.images[0], size)
                out = np.empty((BATCH, *first.shape), first.dtype)

                def part(rows, out=out):
                    for row in rows:
                        out[row] = compute(cv2, data.images[row], size)

                list(pool.map(part, np.array_split(np.arange(BATCH), 4 * threads)))
                yield jax.device_put(out)

    return batches()


CONTENDERS = {"DALI": dali, "penstock": penstock, "library": library}


def table(results: dict[tuple[str, int], dict[str, Times]], sizes: list[int]) -> None:
    """Print the ratios of penstock's CPU time to the others'."""
    print("\n| operator | " + " | ".join(f"{n}: us, x DALI, x library" for n in sizes) + " |")
    print("|---" * (len(sizes) + 1) + "|")
    for name in dict.fromkeys(name for name, _ in results):
        cells: list[str] = []
        for size in sizes:
            times = results[name, size]
            mine = times.get("penstock")
            if mine is None:
                cells.append("")
                continue
            others = [times.get(other) for other in ("DALI", "library")]
            ratios = [f"{mine.ratio(other):.2f}" if other else "-" for other in others]
            cells.append(f"{1e6 * float(np.median(mine.cpu)):.1f}, {', '.join(ratios)}")
        print(f"| `{name}` | " + " | ".join(cells) + " |")
    for size, limit in ((224, 1.0), (32, 0.5)):
        found = [
            t["penstock"].ratio(t["DALI"])
            for (_, n), t in results.items()
            if n == size and {"DALI", "penstock"} <= {*t}
        ]
        if found:
            print(
                f"{size} pixels: {sum(r <= limit for r in found)} of {len(found)} operators at most {limit} of DALI's"
            )


def main() -> None:
    """Run the workloads."""
    parser = arguments(__doc__, images=4 * BATCH)
    parser.add_argument("--sizes", type=int, nargs="+", default=[224, 32])
    options = parser.parse_args()
    results: dict[tuple[str, int], dict[str, Times]] = {}
    images = options.images
    for size in options.sizes:
        data = pixels(size)
        options.images = max(images, images * 224**2 // size**2)  # or what it costs to end a turn would show
        for name in selected(WORKLOADS, options.workloads):
            contenders = {
                title: partial(make, data, WORKLOADS[name], size, options.threads[0])
                for title, make in CONTENDERS.items()
            }
            results[name, size] = compare(f"{name}, {size} pixels", contenders, options, ["DALI", "library"])
    table(results, options.sizes)


if __name__ == "__main__":
    main()
