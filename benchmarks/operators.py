"""Cost of each image operator: CPU time per image, compared with DALI on the CPU and with OpenCV or Pillow.

    python benchmarks/operators.py [--workloads NAME ...] [--sizes 224 32] [--rounds 5] [--images 1024]

A workload is one operator on images in memory, uint8 HWC, in batches of 256 at the iterator, on two threads. "library"
is OpenCV, or Pillow for operators that OpenCV does not have, one image at a time in a pool of two threads, then
`jax.device_put`. The last output is a table of ratios of CPU times. Operators that DALI only has for GPUs do not have a
ratio to DALI.

Targets for nine of ten operators: at most 1.0 of DALI's CPU time at 224 pixels, and 0.5 at 32.
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
    """Draw images, as smooth and noisy as photographs, with labels: about 38 MB, one batch at 224 pixels."""
    rng = np.random.default_rng(0)
    count = BATCH * max(1, 224 // size) ** 2
    coarse = rng.integers(0, 226, (count, -(-size // 8), -(-size // 8), 3)).astype(np.uint8)
    images = np.repeat(np.repeat(coarse, 8, axis=1), 8, axis=2)[:, :size, :size]
    images += rng.integers(0, 30, images.shape, np.uint8)
    return Arrays(images, np.zeros((count, 1), np.int32))


def penstock(data: Arrays, workload: Workload, size: int, threads: int) -> Batches:
    """Return batches of Penstock."""
    from penstock import data_iterator, fn, types

    @data_iterator(output_map=["images"], reader_name="reader")
    def images():
        return workload.define(fn.readers.arrays(data.images, layout="HWC", name="reader"), fn, types, size)

    return epochs(images(batch_size=BATCH, num_threads=threads, seed=1))


def dali(data: Arrays, workload: Workload, size: int, threads: int) -> Batches:
    """Return batches of NVIDIA DALI's CPU backend and its JAX iterator."""
    from nvidia.dali import fn, types
    from nvidia.dali.plugin.jax import data_iterator

    order = indices(len(data.images), BATCH, np.random.default_rng(1))

    @data_iterator(output_map=["images"])
    def images():
        inputs = fn.external_source(lambda: data.images[next(order)], batch=True, layout="HWC", no_copy=True)
        return workload.define(inputs, fn, types, size)

    try:
        return iter(images(batch_size=BATCH, num_threads=threads, device_id=None, seed=1))
    except (AttributeError, RuntimeError, TypeError, ValueError) as error:
        raise SkippedError(f"not on DALI's CPU backend: {str(error).strip().splitlines()[0][:80]}") from error


def library(data: Arrays, workload: Workload, size: int, threads: int) -> Batches:
    """Return batches of OpenCV or Pillow, one image at a time in a thread pool."""
    import cv2

    if workload.library is None:
        raise SkippedError("not in OpenCV or Pillow")
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
    """Print the ratios of Penstock's CPU time to that of the others."""
    print("\n| Operator | " + " | ".join(f"{n} pixels: us, x DALI, x library" for n in sizes) + " |")
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
        to_dali = [
            t["penstock"].ratio(t["DALI"])
            for (_, n), t in results.items()
            if n == size and {"DALI", "penstock"} <= {*t}
        ]
        if to_dali:
            count = sum(ratio <= limit for ratio in to_dali)
            print(f"{size} pixels: {count} of {len(to_dali)} operators need at most {limit} of DALI's time")


def main() -> None:
    """Run the workloads."""
    parser = arguments(__doc__, images=4 * BATCH)
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=[224, 32], help="heights and widths of the images in pixels"
    )
    options = parser.parse_args()
    results: dict[tuple[str, int], dict[str, Times]] = {}
    images = options.images
    for size in options.sizes:
        data = pixels(size)
        options.images = max(images, images * 224**2 // size**2)  # otherwise the cost of ending a turn would dominate
        for name in selected(WORKLOADS, options.workloads):
            contenders = {
                title: partial(make, data, WORKLOADS[name], size, options.threads[0])
                for title, make in CONTENDERS.items()
            }
            results[name, size] = compare(f"{name}, {size} pixels", contenders, options, ["DALI", "library"])
    table(results, options.sizes)


if __name__ == "__main__":
    main()
