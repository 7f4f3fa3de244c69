"""Images per second for 1 to 64 threads on few cores: decoding and compiled loops are replaced by waits.

    python benchmarks/scaling.py FOLDER [--threads 1 2 4 ...] [--backend simplejpeg turbojpeg]
        [--decode MICROSECONDS] [--kernels MICROSECONDS]

A wait releases the GIL and needs no core, as decoding and compiled loops would on a machine with a core per thread.
What remains is Python, which holds the GIL, and the system calls that read files. The program first states the GIL
budget: the time under the GIL per photograph and per JPEG of 28 x 28 pixels. This is the CPU time in user mode of one
thread if decoding and compiled loops do nothing. Then it prints, per number of threads,

    images/s    the fastest of all rounds
    of linear   divided by the number of threads times the rate of one thread
    rows        photographs per chunk: more threads compute smaller chunks, whose Python takes about as long
    budget      the GIL budget with such chunks, in microseconds
    of limit    images/s divided by the limit of the GIL: 1 / (budget * slowdown)

The slowdown is measured, too: the time of one thread besides its waits, divided by the same without waits. After a
wait, the core has slept and its caches hold other data, so Python takes longer. Images per second grow until they come
close to the limit.

FOLDER contains JPEGs, flat or in one folder per class.
"""

from __future__ import annotations

import argparse
import ctypes
import resource
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import jax
import numpy as np
import simplejpeg
from data import Arrays, jpegs, write_jpeg_records
from measure import BATCH, Batches, epochs, now, settle
from pipelines import imagenet, mnist

from penstock.core.cpu_limits import CpuLimits
from penstock.engine.host import host_program
from penstock.engine.host.chunk_scheduler import ChunkScheduler
from penstock.image.codecs import libjpeg_turbo, turbojpeg_loop
from penstock.image.execute.pass_executor import PassExecutor
from penstock.native.compiled import BoundCode, Compiled
from penstock.native.loop_chain import LoopChain

# Batches to prefetch. For 64 threads, these are chunks of 64 photographs. Until the first batches are done, their
# chunks are smaller.
DEPTH = 16


class Waits:
    """Waits in place of work.

    Attributes:
        seconds: Time of all waits. Only for one thread at a time.
    """

    _sleep = ctypes.CDLL(None).usleep  # functions of ctypes release the GIL

    def __init__(self) -> None:
        self.seconds = 0.0

    def wait(self, microseconds: int) -> None:
        """Wait without the GIL."""
        if microseconds:
            start = time.perf_counter()
            self._sleep(microseconds)
            self.seconds += time.perf_counter() - start


@contextmanager
def replaced_work(decode: int, kernels: int) -> Generator[Waits]:
    """Replace decoding and compiled loops by waits of so many microseconds per image, or by nothing."""
    waits = Waits()
    decode_jpeg, pixels = simplejpeg.decode_jpeg, SimpleNamespace(shape=mock.ANY)

    def wait_and_succeed(*arguments: Any, **options: Any) -> Any:
        if "min_height" in options:  # a file that is decoded alone, such as one to plan for
            return decode_jpeg(*arguments, **options)
        waits.wait(decode)
        return pixels

    def wait(_self: PassExecutor, rows: slice, _memory: Any) -> None:
        waits.wait(kernels * (rows.stop - rows.start))

    class WaitingCode(BoundCode):
        """Replacement of the machine code that decodes many files."""

        def __init__(self, code: BoundCode, left: Any) -> None:
            self.entry, self.block, self.name, self._arrays = code.entry, code.block, code.name, left

        def __call__(self, first: int, last: int, _memory: Any = None) -> None:
            waits.wait(decode * (last - first))
            self._arrays[first:last] = False

    bind = Compiled.bind

    def bind_to_wait(loop: Compiled[..., Any], *bound: Any) -> Any:
        code = bind(loop, *bound)
        return WaitingCode(code, bound[-1]) if loop.__name__ == turbojpeg_loop.decode_files.__name__ else code

    def wait_for_groups(chain: LoopChain, group: int) -> int:
        bounds, passes = chain._bounds, len(chain._loops) - 1  # noqa: SLF001  # no option of users
        waits.wait((decode + kernels * passes) * int(bounds[-1] - bounds[group]))
        return len(bounds) - 1

    shorten = libjpeg_turbo._with_height  # noqa: SLF001  # no public function makes the copy alone

    def shorten_header(data: Any, frame: int, height: int) -> Any:
        return shorten(data[: frame + 7], frame, height)  # NumPy copies the file itself without the GIL

    with (
        mock.patch.object(simplejpeg, "decode_jpeg", wait_and_succeed),
        mock.patch.object(libjpeg_turbo, "_with_height", shorten_header),
        mock.patch.object(Compiled, "bind", bind_to_wait),
        mock.patch.object(PassExecutor, "run", wait),
        mock.patch.object(LoopChain, "run", wait_for_groups),
        mock.patch.object(LoopChain, "pays_off", return_value=True),
        # As on a machine with a core per thread: more threads than CPUs only start when waits have been measured.
        mock.patch.object(host_program, "cpu_limits", return_value=CpuLimits(4096, 4096, None)),
    ):
        yield waits


def photographs(folder: Path, threads: int, backend: str, depth: int = DEPTH) -> Batches:
    """Return batches of photographs for a training."""
    from penstock import data_iterator, fn, types

    @data_iterator(output_map=["images", "labels"])
    def definition():
        return imagenet(*jpegs(folder), "bytes", fn, types, backend=backend)

    return epochs(definition(batch_size=BATCH, num_threads=threads, seed=1, prefetch_queue_depth=depth))


def digits(records: Path, threads: int, backend: str) -> Batches:
    """Return batches of JPEGs of 28 x 28 pixels."""
    from penstock import data_iterator, fn, types

    @data_iterator(output_map=["images", "labels"])
    def definition():
        data, labels = fn.readers.caffe2(path=str(records), random_shuffle=True)
        return mnist(fn.decoders.image(data, output_type=types.GRAY, backend=backend), labels, fn, types)

    return epochs(definition(batch_size=BATCH, num_threads=threads, seed=1, prefetch_queue_depth=DEPTH))


def deliver(batches: Batches, count: int) -> None:
    """Wait for some batches."""
    for _ in range(count):
        jax.block_until_ready(next(batches))


def rate(batches: Batches, threads: int, images: int) -> float:
    """Return images per second of so many threads, for `images` images if there are 64, and fewer for fewer."""
    deliver(batches, min(threads, DEPTH) + 2)
    # Without a pause here, in which the threads would prepare batches that then count as delivered at once.
    start, count = now()[1], max(3, -(-images * min(threads, 64) // (64 * BATCH)))
    deliver(batches, count)
    return count * BATCH / (now()[1] - start)


def user_seconds(batches: Batches, images: int) -> float:
    """Return the CPU time per image in user mode."""
    deliver(batches, DEPTH + 2)
    settle()
    user, count = resource.getrusage(resource.RUSAGE_SELF).ru_utime, -(-images // BATCH)
    deliver(batches, count)
    settle()
    return (resource.getrusage(resource.RUSAGE_SELF).ru_utime - user) / count / BATCH


def gil_budgets(folder: Path, backend: str, options: argparse.Namespace) -> tuple[float, float]:
    """Return the seconds for which one thread holds the GIL: its user CPU time without decoding and loops.

    Returns:
        Seconds per photograph, and per JPEG of 28 x 28 pixels.
    """
    with tempfile.TemporaryDirectory() as scratch:
        records = Path(scratch) / "records"
        write_small_jpegs(records)
        makers = partial(photographs, folder, 1, backend), partial(digits, records, 1, backend)
        with replaced_work(0, 0):
            large, small = [min(user_seconds(make(), options.images) for _ in range(options.rounds)) for make in makers]
    return large, small


@contextmanager
def recorded_chunks() -> Generator[list[int]]:
    """Record the number of chunks of each batch."""
    chunks, counts = ChunkScheduler.chunks, list[int]()

    def record(scheduler: ChunkScheduler, rows: int, workers: int, ahead: int) -> int:
        counts.append(chunks(scheduler, rows, workers, ahead))
        return counts[-1]

    with mock.patch.object(ChunkScheduler, "chunks", record):
        yield counts


def chunks_of(count: int) -> AbstractContextManager[Any]:
    """Divide all batches into `count` chunks."""
    return mock.patch.object(ChunkScheduler, "chunks", return_value=count)


def write_figure(curves: Mapping[str, Mapping[int, tuple[float, float]]], path: Path) -> None:
    """Draw images per second by the number of threads, the linear rate, and the limit of the GIL, per backend."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({"svg.hashsalt": "scaling", "font.size": 9}):
        figure = Figure(figsize=(5.5, 3.6), layout="constrained")
        axes = figure.subplots()
        for number, (backend, points) in enumerate(curves.items()):
            threads, rates = list(points), [rate for rate, _ in points.values()]
            if number == 0:
                axes.plot(
                    threads, [rates[0] / threads[0] * count for count in threads], ":", color="gray", label="linear"
                )
            axes.plot(threads, rates, "o-", color=f"C{number}", label=backend)
            limits = [limit for _, limit in points.values()]
            axes.plot(threads, limits, "--", color=f"C{number}", label=f"limit of the GIL, {backend}")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        axes.set_xticks(threads, list(map(str, threads)))
        ticks = [2**power * 125 for power in range(1, 11)]
        axes.set_yticks(ticks, [f"{tick:,}" for tick in ticks])
        axes.set_xlabel("threads")
        axes.set_ylabel("photographs per second")
        axes.legend(frameon=False)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def write_small_jpegs(path: Path) -> None:
    """Write JPEGs of 28 x 28 pixels to an LMDB."""
    pixels = np.random.default_rng(0).integers(0, 256, (2 * BATCH, 28, 28, 1), np.uint8)
    write_jpeg_records(Arrays(pixels, np.arange(2 * BATCH, dtype=np.int32) % 10), path)


def slowdown(folder: Path, backend: str, options: argparse.Namespace) -> float:
    """Return how many times longer Python takes after waits: the time of one thread besides them, against none."""
    seconds: list[float] = []
    for decode, kernels, count in ((options.decode, options.kernels, 4 * BATCH), (0, 0, options.images)):
        with replaced_work(decode, kernels) as waits, chunks_of(1):
            batches = photographs(folder, 1, backend, depth=1)
            deliver(batches, 3)
            before, start = waits.seconds, now()[1]
            deliver(batches, count // BATCH)
            seconds.append((now()[1] - start - (waits.seconds - before)) / (count // BATCH * BATCH))
    return seconds[0] / seconds[1]


def curve(folder: Path, backend: str, options: argparse.Namespace) -> dict[int, tuple[float, float]]:
    """Print and return photographs per second, and those of the limit of the GIL, by the number of threads."""
    longer = slowdown(folder, backend, options)
    print(f"After a wait, Python takes {longer:.1f} times as long.")
    print(f"{'threads':>8}{'images/s':>12}{'of linear':>12}{'rows':>8}{'budget':>8}{'of limit':>12}")
    points: dict[int, tuple[float, float]] = {}
    for threads in options.threads:
        with replaced_work(options.decode, options.kernels), recorded_chunks() as counts:
            makers = [partial(photographs, folder, threads, backend)] * options.rounds
            best = max(rate(make(), threads, options.images) for make in makers)
        count = counts[-1]  # the first ones are higher
        with replaced_work(0, 0), chunks_of(count):
            makers = [partial(photographs, folder, 1, backend)] * options.rounds
            budget = min(user_seconds(make(), options.images) for make in makers)
        limit = 1 / (budget * longer)
        points[threads] = best, limit
        first = next(iter(points))
        linear = best / threads / (points[first][0] / first)
        print(f"{threads:>8}{best:>12,.0f}{linear:>12.2f}{BATCH // count:>8}", end="")
        print(f"{budget * 1e6:>8.0f}{best / limit:>12.2f}", flush=True)
    return points


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the GIL budget, and a line per number of threads."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2, 4, 8, 16, 32, 64])
    parser.add_argument("--images", type=int, default=40 * BATCH, help="images for 64 threads; fewer take fewer")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--decode", type=int, default=2000, help="microseconds per image")
    parser.add_argument("--kernels", type=int, default=500, help="microseconds per image and pass")
    parser.add_argument("--figure", type=Path, help="file to draw the curves to, such as scaling.svg")
    parser.add_argument("--backend", nargs="+", default=["simplejpeg"], choices=["simplejpeg", "turbojpeg"])
    options = parser.parse_args(arguments)
    curves: dict[str, Mapping[int, tuple[float, float]]] = {}
    for backend in options.backend:
        budgets = gil_budgets(options.folder, backend, options)
        print(f"{backend}, GIL budget: {budgets[0] * 1e6:.0f} us per photograph, ", end="")
        print(f"{budgets[1] * 1e6:.1f} us per JPEG of 28 x 28 pixels")
        curves[backend] = curve(options.folder, backend, options)
    if options.figure is not None:
        write_figure(curves, options.figure)


if __name__ == "__main__":
    main()
