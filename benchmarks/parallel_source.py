"""Scaling of `external_source(parallel=True)` with a function that needs 2 ms of CPU time per sample.

Pipelines with one and with several worker processes take turns. The benchmark prints two figures per number of workers,
as medians of the rounds: the throughput relative to one worker ("delivered"), and the relative throughput of as many
processes that only do this work ("attainable"), which is the limit of the machine at that time.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from penstock.types import SampleInfo

SECONDS = 2e-3

_ALONE = """
import sys, time
sys.path[:] = {path!r}
from parallel_source import busy
sys.stdin.read(1)
for _ in range({samples}):
    busy()
"""


def busy() -> float:
    """Keep Python busy for `SECONDS` of CPU time."""
    number, end = 0.0, time.thread_time() + SECONDS
    while time.thread_time() < end:
        for _ in range(50):
            number = number * 0.5 + 1.0
    return number


def sample(info: SampleInfo) -> np.ndarray:
    """Return an image after keeping Python busy."""
    return np.full((32, 32, 3), busy() + info.idx_in_epoch % 2, np.float32)


def delivered(workers: int, samples: int, batch: int = 64) -> float:
    """Return the seconds per sample of a pipeline."""
    from penstock import Pipeline, fn

    pipeline = Pipeline(batch, 2, py_num_workers=workers)
    with pipeline:
        pipeline.set_outputs(fn.external_source(sample, batch=False, parallel=True, prefetch_queue_depth=2))
    for _ in range(4):
        pipeline.run()
    batches = -(-samples // batch)
    start = time.perf_counter()
    for _ in range(batches):
        pipeline.run()
    seconds = time.perf_counter() - start
    pipeline.close()
    return seconds / (batches * batch)


def attainable(workers: int, samples: int) -> float:
    """Return the seconds per sample of `workers` processes that only do the work."""
    program = _ALONE.format(path=sys.path, samples=samples // workers)
    processes = [
        subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, text=True) for _ in range(workers)
    ]
    time.sleep(1)  # until all of them have started and wait for input
    start = time.perf_counter()
    for process in processes:
        process.stdin.write("x")
        process.stdin.flush()
    for process in processes:
        process.communicate()
    return (time.perf_counter() - start) / (samples // workers * workers)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=2000, help="per turn")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, nargs="+", default=[2])
    options = parser.parse_args()
    print(f"{'workers':>8}{'delivered':>12}{'attainable':>12}{'ms per sample':>15}")
    for workers in options.workers:
        rounds = [
            [measure(count, options.samples) for measure in (delivered, attainable) for count in (1, workers)]
            for _ in range(options.rounds)
        ]
        scales = [statistics.median(times[n] / times[n + 1] for times in rounds) for n in (0, 2)]
        milliseconds = 1e3 * statistics.median(times[1] for times in rounds)
        print(f"{workers:>8}{scales[0]:>11.2f}x{scales[1]:>11.2f}x{milliseconds:>15.2f}")


if __name__ == "__main__":
    main()
