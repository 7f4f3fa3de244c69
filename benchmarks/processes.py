"""Worker processes: throughput against threads, and batches under random kills.

    python benchmarks/processes.py            images per second with a function that holds the GIL
    python benchmarks/processes.py --kills 100 --batches 2000

Iterators with `num_threads=2` and with `num_processes=2` take turns in one program, and the benchmark prints the median
of the ratios. With `--kills`, workers get SIGKILL at random times, and every batch is compared with that of threads.
Exits with 1 if a batch differs.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import statistics
import time
from contextlib import suppress
from itertools import islice

import numpy as np

from penstock import data_iterator, fn


def busy(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return an image after about 2 ms of Python that holds the GIL."""
    number = 0
    for step in range(30_000):
        number = (number * 31 + step) & 0xFFFF
    return image + np.uint8(number + rng.integers(2))


@data_iterator(auto_reset=True)
def training(function):
    """Return images that a Python function has changed."""
    images = fn.readers.arrays(
        np.arange(2000 * 192, dtype=np.uint32).view(np.uint8).reshape(2000, 16, 16, 3), random_shuffle=True
    )
    return {"images": fn.python_function(images, function=function) if function else images}


def forever(iterator):
    """Yield the batches of all epochs."""
    while True:
        yield from iterator


def compare(rounds: int, batches: int) -> None:
    """Print the images per second of threads and processes, and their ratio."""
    contenders = {
        "2 threads": training(function=busy, batch_size=64, seed=1, num_threads=2),
        "2 processes": training(function=busy, batch_size=64, seed=1, num_processes=2),
    }
    streams = {name: forever(iterator) for name, iterator in contenders.items()}
    rates: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds + 1):  # the first round starts the workers
        for name, stream in streams.items():
            for _ in islice(stream, 4):  # those that were prepared in the turn of the other
                pass
            start = time.perf_counter()
            for _ in islice(stream, batches):
                pass
            rates[name].append(64 * batches / (time.perf_counter() - start))
    for name, values in rates.items():
        print(f"{name:>12}: {statistics.median(values[1:]):.0f} images per second")
    ratios = [one / other for one, other in zip(rates["2 processes"][1:], rates["2 threads"][1:], strict=True)]
    print(f"       ratio: {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")


def light(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return an image with noise."""
    return image + rng.integers(0, 9, image.shape, np.uint8)


def kill(kills: int, batches: int, seed: int) -> bool:
    """Kill random workers while batches are computed. Returns True if all batches are those of threads."""
    chance = random.Random(seed)
    moments = sorted(chance.sample(range(10, batches - 10), kills))
    expected = forever(training(function=light, batch_size=16, seed=1))
    iterator = training(function=light, batch_size=16, seed=1, num_processes=2)
    delivered = forever(iterator)
    executor = iterator._cursor.run._context.executor  # noqa: SLF001  # users cannot reach the workers
    wrong = sent = 0
    longest = 0.0
    for number in range(batches):
        while moments and moments[0] <= number and executor.pids:
            moments.pop(0)
            with suppress(ProcessLookupError):
                os.kill(chance.choice(executor.pids), signal.SIGKILL)
                sent += 1
        start = time.perf_counter()
        batch = next(delivered)
        longest = max(longest, time.perf_counter() - start)
        wrong += not np.array_equal(batch["images"], next(expected)["images"])
    print(f"{batches} batches, {sent} kills, {wrong} batches differ; the longest wait was {longest:.1f} s")
    print(iterator.explain().splitlines()[-1])
    return not wrong


def main() -> None:
    """Run the benchmark, or the kills."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=20, help="per turn; with --kills in all")
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.kills:
        raise SystemExit(not kill(options.kills, options.batches, options.seed))
    compare(options.rounds, options.batches)


if __name__ == "__main__":
    main()
