"""Files of web servers, which know more or less of HTTP."""

import hashlib
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import numpy as np
import pytest

from penstock import Pipeline, fn, tfrecord
from penstock.errors import SampleError, SourceError
from penstock.sources.files.file_lists import files_from_paths
from penstock.sources.formats.tfrecord.example_message import encode_example
from penstock.sources.formats.tfrecord.tfrecord_source import write_tfrecord
from penstock.sources.storage import object_store
from penstock.sources.storage.byte_range import ByteRange
from penstock.sources.storage.disk_cache import fetch_cached
from penstock.sources.storage.file_stamps import file_state

pytest.importorskip("obstore")


def handler(files, lacks, asked):
    """What answers a request, without some of what servers know."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version, wbufsize = "HTTP/1.1", -1

        def log_message(self, *args):
            pass

        def do_GET(self):
            asked.append(self.command)
            data = files.get(self.path)
            statuses = [int(item.partition(" ")[2] or 405) for item in lacks if item.startswith("HEAD")]
            if data is None or (self.command == "HEAD" and statuses):
                self.send_error(404 if data is None else statuses[0])
                return
            tag = f'{"W/" if "strong ETag" in lacks else ""}"{hashlib.md5(data).hexdigest()}"'
            tag = tag.strip('"') if "quotes" in lacks else tag
            status, first, last = 200, 0, len(data) - 1
            if "ETag" not in lacks and self.headers.get("if-match", tag) != tag:
                status = 412
            elif "ETag" not in lacks and self.headers.get("if-none-match") == tag:
                status = 304
            elif "ranges" not in lacks and (wanted := re.match(r"bytes=(\d+)-(\d+)", self.headers.get("range", ""))):
                status, first, last = 206, int(wanted[1]), min(int(wanted[2]), last)
            self.send_response(status)
            if "ETag" not in lacks:
                self.send_header("ETag", tag)
            if "Last-Modified" not in lacks:
                second = 0 if "new times" in lacks else len(data) % 60
                self.send_header("Last-Modified", f"Sun, 01 Nov 2026 00:00:{second:02} GMT")
            if status == 206:
                self.send_header("Content-Range", f"bytes {first}-{last}/{len(data)}")
            part = data[first : last + 1] if status < 300 else b""
            if "Content-Length" not in lacks and not (self.command == "HEAD" and "size in HEAD" in lacks):
                self.send_header("Content-Length", str(len(part)))
            self.close_connection = "Content-Length" in lacks
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(part)

        do_HEAD = do_GET  # noqa: N815  # as the library names it

    return Handler


@pytest.fixture
def web(request, tmp_path):
    """A server without what the test names: `url`, `files`, and the methods `asked`."""
    records = tmp_path / "records"
    write_tfrecord(records, [encode_example({"label": [n]}) for n in range(40)])
    files = {"/a.jpg": b"one", "/b%20c/%C3%A4.jpg": b"two", "/records": records.read_bytes()}
    asked = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler(files, request.param, asked))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield SimpleNamespace(url=f"http://127.0.0.1:{server.server_address[1]}", files=files, asked=asked)
    server.shutdown()
    thread.join()
    server.server_close()


def opened(web):
    return files_from_paths("", (web.url + "/a.jpg", web.url + "/b c/ä.jpg"), None)


def labels(web):
    with Pipeline(batch_size=20, num_threads=1) as pipeline:
        label = tfrecord.FixedLenFeature([1], tfrecord.int64, -1)
        records = fn.readers.tfrecord(path=web.url + "/records", features={"label": label}, random_shuffle=True, seed=1)
        pipeline.set_outputs(records["label"])
    found = [int(label) for _ in range(2) for label in pipeline.run()[0].as_array().ravel()]
    pipeline.close()
    return sorted(found)


TOLD = [
    (),
    ("HEAD",),
    ("HEAD 400",),
    ("HEAD 403",),
    ("HEAD 501",),
    ("size in HEAD",),
    ("ETag",),
    ("strong ETag",),
    ("quotes",),
    ("HEAD", "ETag"),
]


@pytest.mark.parametrize("web", [("ETag", "Last-Modified")], indirect=True, ids=str)
def test_a_size_does_not_identify_content(web, tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_CACHE_SIZE", "1MB")
    monkeypatch.setenv("PENSTOCK_CACHE_DIR", str(tmp_path / "cache"))
    for content in (b"one", b"two"):
        web.files["/a.jpg"] = content
        found = object_store.head(web.url + "/a.jpg")
        assert fetch_cached(ByteRange(found.path, etag=found.etag)).tobytes() == content
        assert file_state([(found.path, found.etag)]) is None


@pytest.mark.parametrize("web", TOLD, indirect=True, ids=str)
def test_files_records_and_changes(web):
    source = opened(web)
    assert [data.tobytes() for data in source.read(np.arange(2), [None, None])[0]] == [b"one", b"two"]
    assert labels(web) == list(range(40))


@pytest.mark.parametrize("web", [*TOLD, ("ETag", "Last-Modified"), ("ETag", "new times")], indirect=True, ids=str)
def test_what_is_kept_is_asked_for_again_where_it_may_have_changed(web, tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_CACHE_SIZE", "1MB")
    monkeypatch.setenv("PENSTOCK_CACHE_DIR", str(tmp_path / "cache"))
    for content in (b"one", b"one", b"other"):
        web.files["/a.jpg"] = content
        assert opened(web).content(0).tobytes() == content


@pytest.mark.parametrize("web", [*TOLD, ("ETag", "new times"), ("ETag", "Last-Modified")], indirect=True, ids=str)
def test_a_record_file_that_was_written_to(web):
    with Pipeline(batch_size=20, num_threads=1) as pipeline:
        label = tfrecord.FixedLenFeature([1], tfrecord.int64, -1)
        pipeline.set_outputs(fn.readers.tfrecord(path=web.url + "/records", features={"label": label})["label"])
    web.files["/records"] += b"more"
    with pytest.raises(SampleError, match="has been written to since the data set was opened"):
        pipeline.run()
    pipeline.close()


@pytest.mark.parametrize(
    ("web", "said"),
    [
        (("ranges",), "the server gives whole files only, and parts"),
        (("Content-Length",), "Content-Length Header missing"),
    ],
    indirect=["web"],
    ids=str,
)
def test_what_a_server_must_know(web, said):
    with pytest.raises(SourceError, match=said):
        labels(web)
    if "Content-Length" not in said:
        assert opened(web).content(0).tobytes() == b"one"
