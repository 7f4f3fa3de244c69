"""Input hosts: CPU time against threads of the trainer, and batches while hosts fail.

    python benchmarks/hosts.py FOLDER         CPU time per image of ImageNet training with uint8 batches
    python benchmarks/hosts.py --faults 100 --batches 2000

FOLDER contains JPEGs, flat or in one folder per class. Iterators with `num_threads=2` and with a `penstock serve`
process on this machine take turns. The benchmark prints the CPU time of the trainer and of all processes, relative to
the local one; the targets are 0.25 and 1.4.

With `--faults`, three hosts get SIGKILL (and start again), SIGSTOP (and SIGCONT after up to 12 seconds), and resets of
their connections at random times, and every batch is compared with that of threads. Exits with 1 if a batch differs,
or takes longer than 10 seconds.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, suppress
from functools import cached_property
from itertools import islice
from pathlib import Path

import numpy as np
import psutil

from penstock import data_iterator, fn, types
from penstock.testing import write_photographs


@data_iterator(auto_reset=True)
def imagenet(paths):
    """Return random crops of shuffled images as bytes."""
    files, labels = fn.readers.file(files=paths, labels=[0] * len(paths), random_shuffle=True, flat_labels=True)
    images = fn.decoders.image_random_crop(files, output_type=types.RGB)
    images = fn.resize(images, size=[224, 224])
    return {"images": fn.flip(images, horizontal=fn.random.coin_flip()), "labels": labels}


@data_iterator(output_map=["images", "labels", "valid"], auto_reset=True, on_error="skip", max_bad_rate=(1.0, 100))
def training(folder):
    """Return shuffled photographs of two data sets, some of which fail."""
    files, labels = fn.readers.mix(
        fn.readers.file(file_root=folder, flat_labels=True),
        fn.readers.file(file_root=folder, flat_labels=True, dir_filters="circle"),
        weights=[0.7, 0.3],
        random_shuffle=True,
    )
    images = fn.resize(fn.decoders.image_random_crop(files), size=[16, 16])

    def fail(image, label, rng):
        if label == 1 and rng.integers(8) == 0:
            raise ValueError("unlucky")
        return image

    return {"images": fn.python_function(images, labels, function=fail), "labels": labels}


class Host:
    """A process of `penstock serve`.

    Args:
        definition: Name of the definition in this file.
        port: Its port; 0 lets the system choose.
    """

    def __init__(self, definition: str, port: int = 0) -> None:
        self._definition, self._process = definition, None
        self.start(port)

    @cached_property
    def port(self) -> int:
        """Its port. Waits until it listens."""
        return int(self._process.stdout.readline().rpartition(":")[2])

    def start(self, port: int) -> None:
        """Start the process, without waiting until it listens."""
        command = [sys.executable, "-m", "penstock.cli", "serve", f"{__file__}:{self._definition}"]
        self._process = subprocess.Popen(
            [*command, "--listen", f"127.0.0.1:{port}", "--threads", "2"],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "JAX_PLATFORMS": "cpu"},
        )

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    def restart(self) -> None:
        """Kill the process and start it again at its port."""
        self.end()
        self.start(self.port)

    def cpu_seconds(self) -> float:
        """Return the CPU time of the process."""
        times = psutil.Process(self._process.pid).cpu_times()
        return times.user + times.system

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()


class Forwarder:
    """Port that forwards connections to another port, and can reset them.

    Args:
        target: The other port.
    """

    def __init__(self, target: int) -> None:
        self._target, self._open = target, set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def reset(self) -> int:
        """Reset all connections. Returns their number."""
        sockets = list(self._open)
        for one in sockets:
            with suppress(OSError):
                # Without the time to linger, closing sends a reset.
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                one.shutdown(socket.SHUT_RD)
                one.close()
        self._open.difference_update(sockets)
        return len(sockets)

    def end(self) -> None:
        """End the threads."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # which ends `accept`; closing does not
        self._listener.close()
        self.reset()

    def _accept(self) -> None:
        while True:
            try:
                inner, _ = self._listener.accept()
            except OSError:
                return
            try:
                outer = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                inner.close()
                continue
            self._open |= {inner, outer}
            for pair in ((inner, outer), (outer, inner)):
                threading.Thread(target=self._copy, args=pair, daemon=True).start()

    def _copy(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                target.sendall(data)
        for one in (source, target):
            self._open.discard(one)
            with suppress(OSError):
                one.close()


def forever(iterator):
    """Yield the batches of all epochs."""
    while True:
        yield from iterator


def compare(folder: Path, rounds: int, batches: int) -> None:
    """Print the CPU time per image of the trainer and of all processes, for threads and for a host."""
    paths = sorted(str(path) for path in folder.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))
    host = Host("imagenet")
    try:
        options = {"paths": paths, "batch_size": 64, "seed": 1, "num_threads": 2}
        contenders = {
            "threads": imagenet(**options, input_hosts=[]),
            "host": imagenet(**options, input_hosts=[f"grpc://127.0.0.1:{host.port}"]),
        }
        streams = {name: forever(iterator) for name, iterator in contenders.items()}
        own: dict[str, list[float]] = {name: [] for name in contenders}
        total: dict[str, list[float]] = {name: [] for name in contenders}
        walls: dict[str, list[float]] = {name: [] for name in contenders}
        for _ in range(rounds + 1):  # the first round compiles
            for name, stream in streams.items():
                for _ in islice(stream, 4):  # those that were prepared in the turn of the other
                    pass
                start = time.perf_counter(), time.process_time(), host.cpu_seconds()
                for _ in islice(stream, batches):
                    pass
                wall, trainer, served = (
                    (end - begin) / (64 * batches)
                    for end, begin in zip(
                        (time.perf_counter(), time.process_time(), host.cpu_seconds()), start, strict=True
                    )
                )
                own[name].append(trainer)
                total[name].append(trainer + served)
                walls[name].append(wall)
                contenders[name]._cursor.run._loader._discard()  # noqa: SLF001  # the turn of the other begins idle
        for name in contenders:
            trainer, everything, wall = (statistics.median(values[name][1:]) * 1e3 for values in (own, total, walls))
            print(f"{name:>8}: {trainer:.2f} ms CPU of the trainer per image, {everything:.2f} of all, {wall:.2f} wall")
        for name, values, goal in (("trainer", own, 0.25), ("total", total, 1.4)):
            ratios = [one / other for one, other in zip(values["host"][1:], values["threads"][1:], strict=True)]
            median = statistics.median(ratios)
            print(f"{name:>8}: {median:.2f} of threads ({min(ratios):.2f} to {max(ratios):.2f}); target {goal}")
        print(contenders["host"].explain().splitlines()[-1].strip())
        for iterator in contenders.values():
            iterator.close()
    finally:
        host.end()


def survive(faults: int, batches: int, seed: int) -> bool:
    """Disturb random hosts while batches are computed. Returns True if all are those of threads, within 10 seconds."""
    chance = random.Random(seed)
    moments = sorted(chance.sample(range(10, batches - 10), faults))
    counts = dict.fromkeys(("killed", "stopped", "reset"), 0)
    wrong, longest = 0, 0.0
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "photographs"
        write_photographs(folder, samples_per_class=40)
        hosts = [Host("training") for _ in range(3)]
        for host in hosts:
            stack.callback(host.end)
        ports = [Forwarder(host.port) for host in hosts]
        for port in ports:
            stack.callback(port.end)
        local = training(folder=str(folder), batch_size=64, seed=1, num_threads=1, input_hosts=[])
        expected = forever(local)
        addresses = [f"grpc://127.0.0.1:{port.port}" for port in ports]
        iterator = training(folder=str(folder), batch_size=64, seed=1, num_threads=1, input_hosts=addresses)
        delivered = forever(iterator)
        for number in range(batches):
            while moments and moments[0] <= number:
                moments.pop(0)
                index, kind = chance.randrange(3), chance.choice(tuple(counts))
                counts[kind] += 1
                if kind == "killed":
                    hosts[index].restart()
                elif kind == "stopped":
                    hosts[index].send(signal.SIGSTOP)
                    timer = threading.Timer(chance.uniform(0.2, 12), hosts[index].send, [signal.SIGCONT])
                    timer.daemon = True
                    timer.start()
                else:
                    ports[index].reset()
            start = time.perf_counter()
            batch = next(delivered)
            longest = max(longest, time.perf_counter() - start)
            other = next(expected)
            wrong += not all(np.array_equal(batch[name], other[name]) for name in other)
        done = ", ".join(f"{count} {kind}" for kind, count in counts.items())
        print(f"{batches} batches, hosts {done}; {wrong} batches differ; the longest wait was {longest:.1f} s")
        print(iterator.explain().splitlines()[-1].strip())
        iterator.close()
        local.close()
    return not wrong and longest < 10


def main() -> None:
    """Run the benchmark, or the faults."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="folder of JPEGs")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=20, help="per turn; with --faults in all")
    parser.add_argument("--faults", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.faults:
        raise SystemExit(not survive(options.faults, options.batches, options.seed))
    if options.folder is None:
        parser.error("FOLDER is needed without --faults")
    compare(options.folder, options.rounds, options.batches)


if __name__ == "__main__":
    main()
