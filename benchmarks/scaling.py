"""Images per second for 1 to 64 threads on few cores: decoding and compiled loops are replaced by waits.

    python benchmarks/scaling.py FOLDER [--threads 1 2 4 ...] [--backend simplejpeg turbojpeg]
        [--decode MICROSECONDS] [--kernels MICROSECONDS]

A wait releases the GIL and needs no core, as decoding and compiled loops would on a machine with a core per thread.
What remains is Python, which holds the GIL, and the system calls that read files. The program first states the GIL
budget: the time under the GIL per photograph and per JPEG of 28 x 28 pixels. This is the CPU time in user mode of one
thread if decoding and compiled loops do nothing. Then it prints, per number of threads,

    images/s    the fastest of all rounds
    of linear   divided by the number of threads times the rate of one thread
    of limit    divided by the limit of the GIL: 1 / GIL budget

Images per second grow until they reach the limit. FOLDER contains JPEGs, flat or in one folder per class.
"""

from __future__ import annotations

import argparse
import ctypes
import resource
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
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

from penstock.image.codecs import libjpeg_turbo, turbojpeg_loop
from penstock.image.execute.pass_executor import PassExecutor
from penstock.native.compiled import Compiled

# Batches to prefetch. Until the first batches are done, their chunks are smaller than those of later ones.
DEPTH = 4

_wait = ctypes.CDLL(None).usleep  # functions of ctypes release the GIL


@contextmanager
def replaced_work(decode: int, kernels: int) -> Generator[None]:
    """Replace decoding and compiled loops by waits of so many microseconds per image, or by nothing."""
    decode_jpeg, pixels = simplejpeg.decode_jpeg, SimpleNamespace(shape=mock.ANY)

    def wait_and_succeed(*arguments: Any, **options: Any) -> Any:
        if "min_height" in options:  # a file that is decoded alone, such as one to plan for
            return decode_jpeg(*arguments, **options)
        if decode:
            _wait(decode)
        return pixels

    def wait(_self: PassExecutor, rows: slice, _memory: Any) -> None:
        if kernels:
            _wait(kernels * (rows.stop - rows.start))

    class DecodeFiles:
        """Replacement of the loop that decodes many files."""

        def __init__(self, loop: Compiled[..., None]) -> None:
            self._loop = loop

        def variant(self, **constants: bool) -> DecodeFiles:
            return DecodeFiles(self._loop.variant(**constants))

        def bind(self, *bound: Any) -> Callable[[int, int], None]:
            self._loop.bind(*bound)  # only its Python counts
            left = bound[-1]

            def wait_for_all(first: int, last: int) -> None:
                if decode:
                    _wait(decode * (last - first))
                left[first:last] = False

            return wait_for_all

    shorten = libjpeg_turbo._with_height  # noqa: SLF001  # no public function makes the copy alone

    def shorten_header(data: Any, frame: int, height: int) -> Any:
        return shorten(data[: frame + 7], frame, height)  # NumPy copies the file itself without the GIL

    with (
        mock.patch.object(simplejpeg, "decode_jpeg", wait_and_succeed),
        mock.patch.object(libjpeg_turbo, "_with_height", shorten_header),
        mock.patch.object(turbojpeg_loop, "decode_files", DecodeFiles(turbojpeg_loop.decode_files)),
        mock.patch.object(PassExecutor, "run", wait),
    ):
        yield


def photographs(folder: Path, threads: int, backend: str) -> Batches:
    """Return batches of photographs for a training."""
    from penstock import data_iterator, fn, types

    @data_iterator(output_map=["images", "labels"])
    def definition():
        return imagenet(*jpegs(folder), "bytes", fn, types, backend=backend)

    return epochs(definition(batch_size=BATCH, num_threads=threads, seed=1, prefetch_queue_depth=DEPTH))


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


def rate(batches: Batches, images: int) -> float:
    """Return images per second."""
    deliver(batches, DEPTH + 2)
    # Without a pause here, in which the threads would prepare batches that then count as delivered at once.
    start, count = now()[1], -(-images // BATCH)
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


def write_figure(rates: Mapping[int, float], budget: float, path: Path) -> None:
    """Draw images per second by the number of threads, the linear rate, and the limit of the GIL."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({"svg.hashsalt": "scaling", "font.size": 9}):
        figure = Figure(figsize=(5.5, 3.2), layout="constrained")
        axes = figure.subplots()
        threads = list(rates)
        linear = rates[threads[0]] / threads[0]
        axes.plot(threads, [linear * number for number in threads], ":", color="gray", label="linear")
        axes.axhline(1 / budget, color="tab:red", linestyle="--", label=f"limit of the GIL, {budget * 1e6:.0f} us")
        axes.plot(threads, list(rates.values()), "o-", color="tab:blue", label="measured")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        axes.set_xticks(threads, list(map(str, threads)))
        ticks = [2**power * 125 for power in range(1, 9)]
        axes.set_yticks(ticks, [f"{tick:,}" for tick in ticks])
        axes.set_ylim(min(rates.values()) / 1.5, 1.8 / budget)
        axes.set_xlabel("threads")
        axes.set_ylabel("photographs per second")
        axes.legend(frameon=False)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def write_small_jpegs(path: Path) -> None:
    """Write JPEGs of 28 x 28 pixels to an LMDB."""
    pixels = np.random.default_rng(0).integers(0, 256, (2 * BATCH, 28, 28, 1), np.uint8)
    write_jpeg_records(Arrays(pixels, np.arange(2 * BATCH, dtype=np.int32) % 10), path)


def curve(folder: Path, backend: str, options: argparse.Namespace, budget: float) -> dict[int, float]:
    """Print and return photographs per second by the number of threads."""
    print(f"{'threads':>8}{'images/s':>12}{'of linear':>12}{'of limit':>12}")
    rates: dict[int, float] = {}
    with replaced_work(options.decode, options.kernels):
        for threads in options.threads:
            best = max(rate(photographs(folder, threads, backend), options.images) for _ in range(options.rounds))
            rates[threads] = best
            first = next(iter(rates))
            linear = best / threads / (rates[first] / first)
            print(f"{threads:>8}{best:>12,.0f}{linear:>12.2f}{best * budget:>12.2f}", flush=True)
    return rates


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the GIL budget, and a line per number of threads."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2, 4, 8, 16, 32, 64])
    parser.add_argument("--images", type=int, default=20 * BATCH, help="images per number of threads")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--decode", type=int, default=2000, help="microseconds per image")
    parser.add_argument("--kernels", type=int, default=500, help="microseconds per image and pass")
    parser.add_argument("--figure", type=Path, help="file to draw the curve to, such as scaling.svg")
    parser.add_argument("--backend", nargs="+", default=["simplejpeg"], choices=["simplejpeg", "turbojpeg"])
    options = parser.parse_args(arguments)
    if options.figure is not None and len(options.backend) > 1:
        parser.error("--figure draws the curve of one --backend")
    for backend in options.backend:
        budgets = gil_budgets(options.folder, backend, options)
        print(f"{backend}, GIL budget: {budgets[0] * 1e6:.0f} us per photograph, ", end="")
        print(f"{budgets[1] * 1e6:.1f} us per JPEG of 28 x 28 pixels")
        rates = curve(options.folder, backend, options, budgets[0])
        if options.figure is not None:
            write_figure(rates, budgets[0], options.figure)


if __name__ == "__main__":
    main()
