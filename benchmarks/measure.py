"""Measurement: contenders take turns in one process, and the ratios of their CPU times are compared.

A contender is a function that returns an iterator over batches of `jax.Array`s. In each turn it delivers a number of
batches. A turn ends when all threads are idle: the batches that they have prefetched by then replace those that were
ready when the turn began, so a turn is charged for exactly the batches that it delivered.

Absolute times on a shared machine mean little. The ratio of two contenders in the same round is more reliable; the
benchmarks print the median of these ratios over all rounds.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import glob
import itertools
import os
import random
import statistics
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax

from penstock.errors import ResourceError

BATCH = 256

# Contenders whose CPU times are the denominators by default.
REFERENCES = ("DALI", "by hand", "by hand, aligned")
Batches = Iterator[Any]
Contender = Callable[[], Batches]


class SkippedError(Exception):
    """A contender cannot run a workload. The message is printed."""


@dataclass
class Times:
    """Seconds per image of one contender, one entry per round."""

    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)

    def ratio(self, other: Times) -> float:
        """Return the median ratio of this CPU time to another, over all rounds."""
        return statistics.median(own / reference for own, reference in zip(self.cpu, other.cpu, strict=True))

    def rate_ratio(self, other: Times) -> float:
        """Return the median ratio of this throughput to another, over all rounds."""
        return statistics.median(reference / own for own, reference in zip(self.wall, other.wall, strict=True))


def arguments(description: str, images: int) -> argparse.ArgumentParser:
    """Return a parser of the arguments that all benchmarks accept.

    Args:
        description: Docstring of the program.
        images: Default number of images per turn.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=images, help=f"images per turn, rounded up to batches of {BATCH}")
    parser.add_argument("--rounds", type=int, default=5, help="turns per contender")
    parser.add_argument("--threads", type=int, nargs="+", default=[2], help="numbers of threads to measure")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="run only these contenders")
    parser.add_argument("--workloads", nargs="+", default=[], metavar="NAME", help="run only these workloads")
    return parser


def selected(names: Iterable[str], wanted: Sequence[str]) -> list[str]:
    """Return the names that are in `wanted`, in their original order; all names if `wanted` is empty."""
    names = list(names)
    unknown = sorted(set(wanted) - set(names))
    if unknown:
        raise SystemExit(f"unknown names: {', '.join(unknown)}; choose from {', '.join(names)}")
    return [name for name in names if not wanted or name in wanted]


def epochs(iterator: Iterable[Any]) -> Batches:
    """Chain the epochs of an iterator."""
    return itertools.chain.from_iterable(itertools.repeat(iterator))


def compare(
    title: str, contenders: Mapping[str, Contender], options: argparse.Namespace, references: Sequence[str] = ()
) -> dict[str, Times]:
    """Run contenders in turn and print their CPU time per image.

    Args:
        title: Title of the table.
        contenders: Contenders by name.
        options: Parsed arguments.
        references: Contenders whose CPU times are the denominators; the first contender if none of them runs.
    """
    print(f"\n{title}", flush=True)
    bystanders = _children()  # such as the server of a store
    running: dict[str, Batches] = {}
    for name, make in contenders.items():
        if options.only and name not in options.only:
            continue
        try:
            batches = make()
            jax.block_until_ready(next(batches))
        except (ImportError, ResourceError, SkippedError) as error:
            print(f"  {name}: skipped, {error}")
        else:
            running[name] = batches
    count = -(-options.images // BATCH)
    times = {name: Times() for name in running}
    for number in range(options.rounds + 1):
        # In random order, because a turn depends on what the previous one has left in the caches of the CPU.
        for name in random.Random(number).sample(list(running), len(running)):
            cpu, wall = turn(running[name], count, bystanders)
            if number:  # The first round is the warm-up.
                times[name].cpu.append(cpu / count / BATCH)
                times[name].wall.append(wall / count / BATCH)
    running.clear()
    gc.collect()
    if not times:
        return times
    report(times, [name for name in references if name in times] or list(times)[:1])
    return times


def turn(batches: Batches, count: int, bystanders: Collection[int] = ()) -> tuple[float, float]:
    """Return CPU and wall-clock seconds for `count` batches, until all threads and worker processes are idle.

    Args:
        batches: The batches of a contender.
        count: Number of batches.
        bystanders: Child processes that are not workers.
    """
    workers = [pid for pid in _children() if pid not in bystanders]
    cpu, wall = now(workers)
    for _ in range(count):
        batch = next(batches)
    jax.block_until_ready(batch)
    del batch
    ended = settle(workers=workers)
    return ended[0] - cpu, ended[1] - wall


def now(workers: Iterable[int] = ()) -> tuple[float, float]:
    """Return CPU seconds of all threads and of worker processes, and wall-clock seconds."""
    return time.process_time() + sum(map(_cpu_seconds, workers)), time.perf_counter()


def _children() -> set[int]:
    """Return the processes that this one has started. Empty on systems other than Linux."""
    found: set[int] = set()
    for task in glob.glob("/proc/self/task/*/children"):  # noqa: PTH207  # as in _runnable
        with contextlib.suppress(OSError), open(task) as file:  # noqa: PTH123
            found.update(map(int, file.read().split()))
    return found


def _cpu_seconds(pid: int) -> float:
    """Return CPU seconds of a process; 0 if it has ended."""
    try:
        with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123  # as in _runnable
            user, system = file.read().rpartition(")")[2].split()[11:13]
    except OSError:
        return 0.0
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def settle(limit: float = 30.0, workers: Sequence[int] = ()) -> tuple[float, float]:
    """Wait until all other threads and worker processes are idle, for at most `limit` seconds.

    Threads count as idle after a pause of 50 ms: those that wait for a store with a latency of 20 ms continue earlier.

    Returns:
        Value of `now` when a thread was last active.
    """
    ended = now(workers)
    latest, quiet = ended[1] + limit, 0
    while quiet < 10 and time.perf_counter() < latest:
        before = now(workers)[0]
        time.sleep(0.005)
        moment = now(workers)
        if moment[0] - before > 0.0005 or _runnable():
            ended, quiet = moment, 0
        else:
            quiet += 1
    return ended


def _runnable() -> bool:
    """Return True if another thread runs or waits for a CPU. Always False on systems other than Linux."""
    for task in glob.glob("/proc/self/task/*/stat"):  # noqa: PTH207  # pathlib would cost as much as the measured work
        try:
            with open(task) as file:  # noqa: PTH123  # same reason
                state = file.read().rpartition(")")[2].split()[0]
        except OSError:  # the thread has ended
            continue
        if state in "RD" and f"/{threading.get_native_id()}/" not in task:
            return True
    return False


def report(times: Mapping[str, Times], references: Sequence[str]) -> None:
    """Print CPU time per image, its ratios to the references, the throughput, and its ratio to the first reference."""
    widths = [max(13, len(name) + 4) for name in references]
    columns = "".join(f"{f'x {name}':>{width}}" for name, width in zip(references, widths, strict=True))
    print(f"  {'':<22}{'CPU us/image':>13}{columns}{'images/s':>11}{f'x {references[0]}':>{widths[0]}}")
    for name, own in times.items():
        ratios = "".join(
            f"{own.ratio(times[other]):>{width}.2f}" for other, width in zip(references, widths, strict=True)
        )
        cpu, wall = statistics.median(own.cpu), statistics.median(own.wall)
        rate = own.rate_ratio(times[references[0]])
        print(f"  {name:<22}{cpu * 1e6:>13.1f}{ratios}{1 / wall:>11,.0f}{rate:>{widths[0]}.2f}", flush=True)
