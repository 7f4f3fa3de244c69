"""Read two data sets from an object store, mixed three to one, with a cache on the local disk.

Without arguments, the program starts a small web server with photographs of scikit-learn and counts its requests. With
two folders or lists in a store, it reads those:

    python examples/from_a_store.py [s3://bucket/photographs gs://bucket/drawings.txt] [--epochs 3] [--cache FOLDER]
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import os
import tempfile
import threading
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
from photographs import write_photographs

from penstock import data_iterator, fn, types


@data_iterator
def training(sources):
    """Mix exactly three photographs of the first data set with one of the second, over any range of samples."""
    readers = [
        fn.readers.file(
            **{"file_list" if source.endswith(".txt") else "file_root": source},
            flat_labels=True,
            name=f"data set {number}",
        )
        for number, source in enumerate(sources)
    ]
    jpegs, labels = fn.readers.mix(*readers, weights=[3, 1], random_shuffle=True, name="mixture")
    images = fn.decoders.image_random_crop(jpegs, output_type=types.RGB)
    images = fn.resize(images, size=[96, 96])
    return {"images": fn.crop_mirror_normalize(images, mean=128.0, std=64.0), "labels": labels}


@contextlib.contextmanager
def served(folder: Path, requests: collections.Counter[str]):
    """Return the URL of a web server for the files of a folder. It sends ETags, which the cache requires."""

    class Files(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            data = (folder / self.path.strip("/")).read_bytes()
            tag = f'"{zlib.crc32(data):08x}"'
            status = 304 if self.headers.get("If-None-Match") == tag else 200
            if self.command == "GET":
                requests["unchanged" if status == 304 else "fetched"] += 1
            self.send_response(status)
            self.send_header("ETag", tag)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if self.command == "GET" and status == 200:
                self.wfile.write(data)

        do_HEAD = do_GET  # noqa: N815  # as the library names it

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002  # as the library names it
            del format, arguments

    server = ThreadingHTTPServer(("127.0.0.1", 0), Files)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def main() -> None:
    """Read some epochs and print what was fetched."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="*", help="two folders of classes, or lists (.txt) of paths and labels")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--cache", type=Path, help="folder of the disk cache")
    arguments = parser.parse_args()
    work = Path(tempfile.mkdtemp())
    os.environ.update(PENSTOCK_CACHE_SIZE="10GB", PENSTOCK_CACHE_DIR=str(arguments.cache or work / "cache"))
    with contextlib.ExitStack() as stack:
        requests: collections.Counter[str] = collections.Counter()
        sources = arguments.sources
        if not sources:
            folder = write_photographs(work / "photographs")
            for label, name in enumerate(("china", "flower")):
                paths = sorted((folder / name).iterdir())
                (folder / f"{name}.txt").write_text("".join(f"{name}/{path.name} {label}\n" for path in paths))
            address = stack.enter_context(served(folder, requests))
            sources = [f"{address}/china.txt", f"{address}/flower.txt"]
        iterator = training(sources=sources, batch_size=arguments.batch_size, num_threads=2, seed=1)
        print(iterator.explain())
        for epoch in range(arguments.epochs):
            labels = np.concatenate([np.asarray(batch["labels"]) for batch in iterator])
            print(f"epoch {epoch}: {np.bincount(labels).tolist()} photographs by class")
        iterator.close()
        if requests:
            print(f"the server sent {requests['fetched']} files and reported {requests['unchanged']} as unchanged")


if __name__ == "__main__":
    main()
