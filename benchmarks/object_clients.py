"""Cost of object store clients: CPU time of this process per fetched photograph.

The clients take turns. Each fetches complete objects from a server that responds after 20 ms (`object_server.py`), 64
at a time; the CPU time of the server does not count. "penstock" adds its checks to obstore. s3fs is measured if it is
installed.

    python benchmarks/object_clients.py FOLDER [--images 2000] [--rounds 5] [--latency 20]
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import http.client
import importlib
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import obstore
import obstore.store

from penstock.sources.storage.byte_range import ByteRange
from penstock.sources.storage.object_store import fetch


def clients(port: int, stack: contextlib.ExitStack) -> dict[str, Callable[[str], object]]:
    """Return functions that fetch an object of the bucket. Their connections are closed with `stack`."""
    connections = threading.local()

    def by_hand(key: str) -> bytes:
        if not hasattr(connections, "client"):
            connections.client = http.client.HTTPConnection("127.0.0.1", port)
            stack.callback(connections.client.close)
        connections.client.request("GET", f"/bucket/{quote(key)}")
        return connections.client.getresponse().read()

    store = obstore.store.S3Store("bucket", client_options={"allow_http": True})
    functions: dict[str, Callable[[str], object]] = {
        "penstock": lambda key: fetch(ByteRange(f"s3://bucket/{key}")),
        "obstore": lambda key: obstore.get(store, key).bytes(),
        "http.client": by_hand,
    }
    try:
        s3fs = importlib.import_module("s3fs")
    except ImportError:
        return functions
    files = s3fs.S3FileSystem(anon=True, endpoint_url=f"http://127.0.0.1:{port}")
    return functions | {"s3fs": lambda key: files.cat_file(f"bucket/{key}")}


def measure_clients(port: int, keys: list[str], rounds: int) -> dict[str, list[float]]:
    """Return the CPU milliseconds per request of each client, one value per round."""
    os.environ.update(AWS_ENDPOINT_URL=f"http://127.0.0.1:{port}", AWS_SKIP_SIGNATURE="true", AWS_REGION="us-east-1")
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(64) as threads:
        contenders = {name: functools.partial(threads.map, get, keys) for name, get in clients(port, stack).items()}
        times: dict[str, list[float]] = {name: [] for name in contenders}
        for number in range(rounds + 1):
            for name, run in contenders.items():
                start = time.process_time()
                for _ in run():
                    pass
                if number:  # The first round opens connections.
                    times[name].append(1000 * (time.process_time() - start) / len(keys))
    return times


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder of files")
    parser.add_argument("--images", type=int, default=2000, help="per client and round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--latency", type=float, default=20, help="delay of each response in milliseconds")
    options = parser.parse_args()
    names = sorted(path.name for path in options.folder.iterdir())
    copies = -(-options.images // len(names))
    keys = [f"{copy}/{name}" for copy in range(copies) for name in names][: options.images]
    program = [sys.executable, str(Path(__file__).with_name("object_server.py"))]
    program += [str(options.folder), str(copies), str(options.latency)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            times = measure_clients(int(server.stdout.readline()), keys, options.rounds)
        finally:
            server.kill()
    for name, values in times.items():
        print(
            f"{name:12} {statistics.median(values):.2f} ms of CPU time per request "
            f"({min(values):.2f} to {max(values):.2f})"
        )


if __name__ == "__main__":
    main()
