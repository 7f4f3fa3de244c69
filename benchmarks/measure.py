"""How the benchmarks measure: contenders take turns in one process, and the ratios of their CPU times count.

A contender is a function that returns an iterator over batches of `jax.Array`s, as its users would take them. In a turn
it delivers some batches. The turn ends when its threads are idle again: what they have prepared ahead by then replaces
what was ready when the turn began, so that a turn is charged with exactly the batches that it delivered.

Absolute times on a shared machine mean little. The ratio of two contenders in the same round means more, and the median
of these ratios over all rounds is what is printed.
"""

from __future__ import annotations

import argparse
import gc
import glob
import itertools
import random
import statistics
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax

BATCH = 256

REFERENCES = ("DALI", "by hand", "by hand, aligned")
"""To whose CPU times the others' are compared, as a rule."""

Batches = Iterator[Any]
Contender = Callable[[], Batches]


class SkippedError(Exception):
    """A contender cannot do a workload, for a reason that is printed."""


@dataclass
class Times:
    """Seconds per image of one contender, one entry per round."""

    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)

    def ratio(self, other: Times) -> float:
        """The median, over the rounds, of this CPU time in terms of another."""
        return statistics.median(mine / theirs for mine, theirs in zip(self.cpu, other.cpu, strict=True))


def arguments(description: str, images: int) -> argparse.ArgumentParser:
    """The arguments that all benchmarks take.

    Args:
        description: the docstring of the program.
        images: how many images a turn has, unless the user says otherwise.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=images, help=f"per turn, rounded up to batches of {BATCH}")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, nargs="+", default=[2])
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these contenders alone")
    parser.add_argument("--workloads", nargs="+", default=[], metavar="NAME", help="these workloads alone")
    return parser


def selected(names: Iterable[str], wanted: Sequence[str]) -> list[str]:
    """The names that are wanted, in their own order; all of them if nothing is."""
    names = list(names)
    unknown = sorted(set(wanted) - set(names))
    if unknown:
        raise SystemExit(f"no such name: {', '.join(unknown)}; there are {', '.join(names)}")
    return [name for name in names if not wanted or name in wanted]


def epochs(iterator: Iterable[Any]) -> Batches:
    """Epoch after epoch of an iterator that ends with each."""
    return itertools.chain.from_iterable(itertools.repeat(iterator))


def compare(
    title: str, contenders: Mapping[str, Contender], options: argparse.Namespace, references: Sequence[str] = ()
) -> dict[str, Times]:
    """Let contenders take turns, and print what a batch costs each of them.

    Args:
        title: what they compute.
        contenders: by name.
        options: what `arguments` parsed.
        references: contenders to whose CPU times the others' are compared; the first of all, if none of them runs.
    """
    print(f"\n{title}", flush=True)
    running: dict[str, Batches] = {}
    for name, make in contenders.items():
        if options.only and name not in options.only:
            continue
        try:
            batches = make()
            jax.block_until_ready(next(batches))
        except (ImportError, SkippedError) as error:
            print(f"  {name}: skipped, {error}")
        else:
            running[name] = batches
    count = -(-options.images // BATCH)
    times = {name: Times() for name in running}
    for number in range(options.rounds + 1):
        # in another order each time: a turn pays for what the one before has left in the processor's caches
        for name in random.Random(number).sample(list(running), len(running)):
            cpu, wall = turn(running[name], count)
            if number:  # the first round warms up
                times[name].cpu.append(cpu / count / BATCH)
                times[name].wall.append(wall / count / BATCH)
    running.clear()
    gc.collect()
    if not times:
        return times
    report(times, [name for name in references if name in times] or list(times)[:1])
    return times


def turn(batches: Batches, count: int) -> tuple[float, float]:
    """CPU and wall-clock seconds for some batches; both until no thread works any more."""
    cpu, wall = now()
    for _ in range(count):
        batch = next(batches)
    jax.block_until_ready(batch)
    del batch
    ended = settle()
    return ended[0] - cpu, ended[1] - wall


def now() -> tuple[float, float]:
    """CPU seconds of all threads of this process, and wall-clock seconds."""
    return time.process_time(), time.perf_counter()


def settle(limit: float = 30.0) -> tuple[float, float]:
    """Wait until no other thread of this process works any more, or for so many seconds.

    Threads that wait for a store that answers after 20 ms will go on: a pause counts as the end after 50 ms.

    Returns:
        What `now` was when one of them was last seen to work.
    """
    ended = now()
    latest, quiet = ended[1] + limit, 0
    while quiet < 10 and time.perf_counter() < latest:
        before = time.process_time()
        time.sleep(0.005)
        moment = now()
        if moment[0] - before > 0.0005 or _runnable():
            ended, quiet = moment, 0
        else:
            quiet += 1
    return ended


def _runnable() -> bool:
    """Whether another thread runs, or waits for a processor that other programs keep busy; known on Linux alone."""
    for task in glob.glob("/proc/self/task/*/stat"):  # noqa: PTH207  # paths would cost as much as what is measured
        try:
            with open(task) as file:  # noqa: PTH123  # likewise
                state = file.read().rpartition(")")[2].split()[0]
        except OSError:  # it has ended
            continue
        if state in "RD" and f"/{threading.get_native_id()}/" not in task:
            return True
    return False


def report(times: Mapping[str, Times], references: Sequence[str]) -> None:
    """Print CPU time per image, its ratios to the references, and the rate."""
    widths = [max(13, len(name) + 4) for name in references]
    columns = "".join(f"{f'x {name}':>{width}}" for name, width in zip(references, widths, strict=True))
    print(f"  {'':<22}{'CPU us/image':>13}{columns}{'images/s':>11}")
    for name, mine in times.items():
        ratios = "".join(
            f"{mine.ratio(times[other]):>{width}.2f}" for other, width in zip(references, widths, strict=True)
        )
        cpu, wall = statistics.median(mine.cpu), statistics.median(mine.wall)
        print(f"  {name:<22}{cpu * 1e6:>13.1f}{ratios}{1 / wall:>11,.0f}", flush=True)
