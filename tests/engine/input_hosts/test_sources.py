"""Caches, tables, object stores and videos: hosts and worker processes return the batches of threads."""

from __future__ import annotations

import functools
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import served_sources
from input_hosts import hosts
from taken_batches import same, taken

from penstock.testing import write_photographs

pytest.importorskip("grpc")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    return write_photographs(tmp_path_factory.mktemp("photographs"), samples_per_class=6)


@pytest.fixture(scope="module")
def served():
    with hosts(1, program=served_sources.__file__) as (host,):
        yield host


class Quiet(SimpleHTTPRequestHandler):
    """Handler that prints nothing."""

    def log_message(self, *arguments):
        pass


@pytest.fixture
def arguments(request, photographs, tmp_path):
    """The arguments of a definition."""
    files = sorted(str(path) for path in Path(photographs).rglob("*.*"))
    match request.param:
        case "cached":
            yield {"folder": str(photographs)}
        case "rows":
            pyarrow = pytest.importorskip("pyarrow")
            parquet = pytest.importorskip("pyarrow.parquet")
            images = [Path(file).read_bytes() for file in files]
            path = str(tmp_path / "table.parquet")
            parquet.write_table(pyarrow.table({"image": images, "label": range(len(files))}), path, row_group_size=5)
            yield {"path": path}
        case "objects":
            pytest.importorskip("obstore")
            server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=photographs))
            threading.Thread(target=server.serve_forever).start()
            root = f"http://127.0.0.1:{server.server_port}"
            yield {"urls": [f"{root}/{Path(file).relative_to(photographs)}" for file in files]}
            server.shutdown()
            server.server_close()
        case "clips":
            av = pytest.importorskip("av")
            paths = [str(tmp_path / f"{number}.avi") for number in range(3)]
            for path in paths:
                with av.open(path, "w") as file:
                    stream = file.add_stream("mjpeg", rate=25, width=32, height=16, pix_fmt="yuvj420p")
                    for shade in range(8):
                        pixels = np.full((16, 32, 3), 30 * shade + paths.index(path), np.uint8)
                        file.mux(stream.encode(av.VideoFrame.from_ndarray(pixels)))
                    file.mux(stream.encode())
            yield {"paths": paths}


@pytest.mark.parametrize(
    ("name", "arguments"),
    [(name, name) for name in ("cached", "rows", "objects", "clips")],
    indirect=["arguments"],
)
def test_batches_do_not_depend_on_the_workers(name, arguments, served):
    make = functools.partial(getattr(served_sources, name), batch_size=8, seed=5, **arguments)
    with make(input_hosts=[]) as threads:
        count = 2 * len(list(threads)) + 1  # from the second epoch on, the cache delivers
    with make(input_hosts=[]) as threads:
        expected = taken(threads, count)
    for options in ({"input_hosts": [served.address]}, {"num_processes": 1, "input_hosts": []}):
        with make(**options) as it:
            assert same(taken(it, count), expected)
            if options["input_hosts"]:
                assert it._cursor.run._context.executor._pool.hosts[0].rows > 0
                assert "rows in this process" not in it.explain()
