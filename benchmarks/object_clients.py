"""What a client of an object store costs: CPU time of this process for each photograph that it fetches.

The clients take turns. Each fetches whole objects from a server that answers after 20 ms (`object_server.py`), 64 at
once; the server's CPU time is not counted. "penstock" adds its own checks to obstore. s3fs is measured where it is
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
    """Functions that fetch an object of the bucket, and what is to be closed after them."""
    connections = threading.local()

    def by_hand(key: str) -> bytes:
        if not hasattr(connections, "made"):
            connections.made = http.client.HTTPConnection("127.0.0.1", port)
            stack.callback(connections.made.close)
        connections.made.request("GET", f"/bucket/{quote(key)}")
        return connections.made.getresponse().read()

    store = obstore.store.S3Store("bucket", client_options={"allow_http": True})
    found: dict[str, Callable[[str], object]] = {
        "penstock": lambda key: fetch(ByteRange(f"s3://bucket/{key}")),
        "obstore": lambda key: obstore.get(store, key).bytes(),
        "http.client": by_hand,
    }
    try:
        s3fs = importlib.import_module("s3fs")
    except ImportError:
        return found
    files = s3fs.S3FileSystem(anon=True, endpoint_url=f"http://127.0.0.1:{port}")
    return found | {"s3fs": lambda key: files.cat_file(f"bucket/{key}")}


def measured(port: int, keys: list[str], rounds: int) -> dict[str, list[float]]:
    """Per client the CPU time of a request in milliseconds, for each round."""
    os.environ.update(AWS_ENDPOINT_URL=f"http://127.0.0.1:{port}", AWS_SKIP_SIGNATURE="true", AWS_REGION="us-east-1")
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(64) as threads:
        contenders = {name: functools.partial(threads.map, get, keys) for name, get in clients(port, stack).items()}
        times: dict[str, list[float]] = {name: [] for name in contenders}
        for number in range(rounds + 1):
            for name, run in contenders.items():
                start = time.process_time()
                for _ in run():
                    pass
                if number:  # the first round opens connections
                    times[name].append(1000 * (time.process_time() - start) / len(keys))
    return times


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="of files")
    parser.add_argument("--images", type=int, default=2000, help="per client and round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--latency", type=float, default=20, help="milliseconds before each answer")
    options = parser.parse_args()
    names = sorted(path.name for path in options.folder.iterdir())
    copies = -(-options.images // len(names))
    keys = [f"{copy}/{name}" for copy in range(copies) for name in names][: options.images]
    program = [sys.executable, str(Path(__file__).with_name("object_server.py"))]
    program += [str(options.folder), str(copies), str(options.latency)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            times = measured(int(server.stdout.readline()), keys, options.rounds)
        finally:
            server.kill()
    for name, each in times.items():
        print(f"{name:12} {statistics.median(each):.2f} ms of CPU a request ({min(each):.2f} to {max(each):.2f})")


if __name__ == "__main__":
    main()
