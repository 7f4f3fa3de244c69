"""What readers say of object stores that do not give what is asked."""

import os
import re
import sys

import numpy as np
import pytest

from penstock import fn, pipeline_def, tfrecord
from penstock.errors import MissingExtraError, SampleError, SourceError, SourceNotFoundError
from penstock.sources.files.class_folders import list_class_folders, list_files
from penstock.sources.files.file_lists import files_from_paths
from penstock.sources.files.path_arguments import as_shards
from penstock.sources.storage import object_store
from penstock.sources.storage.byte_range import ByteRange

FILTERS = (("*.jpg",), (), False)


@pytest.mark.parametrize(
    ("path", "kind", "said"),
    [
        ("s3://no-such-bucket-at-all/a", SourceNotFoundError, "the bucket 'no-such-bucket-at-all' does not exist"),
        ("{url}/missing.jpg", SourceNotFoundError, "there is no such object"),
        ("{url}/a//b.jpg", SourceError, "the key 'a//b.jpg' has an empty part between two slashes"),
        ("https://127.0.0.1:1/a.jpg?X-Amz-Signature=1", SourceError, "a path with a query"),
        ("http://127.0.0.1:1/a.jpg", SourceError, "error sending request"),
        ("ftp://host/a.jpg", SourceError, "it is not the path of an object"),
    ],
)
def test_a_file_that_cannot_be_opened(s3, path, kind, said):
    with pytest.raises(SourceError, match=re.escape(said)) as caught:
        files_from_paths("", (path.format(url=s3.url),), None)
    assert type(caught.value) is kind


@pytest.mark.parametrize(
    ("root", "kind", "said"),
    [
        ("s3://no-such-bucket-at-all/a", SourceNotFoundError, "the bucket 'no-such-bucket-at-all' does not exist"),
        ("{url}/nothing", SourceError, "no files found in"),
        ("http://127.0.0.1:1/folder", SourceError, "cannot list directories"),
    ],
)
def test_a_folder_that_cannot_be_listed(s3, root, kind, said):
    with pytest.raises(SourceError, match=re.escape(said)) as caught:
        list_class_folders(root.format(url=s3.url), *FILTERS)
    assert type(caught.value) is kind


def test_credentials_that_are_wrong_or_missing(s3, monkeypatch):
    s3.put("a.jpg", b"a")
    s3.proxy.fail("403")
    with pytest.raises(SourceError, match=r"refuses.*AWS_ACCESS_KEY_ID"):
        files_from_paths("", (s3.url + "/a.jpg",), None)
    s3.proxy.fail("403")
    with pytest.raises(SourceError, match=r"refuses \(InvalidAccessKeyId.*AWS_ACCESS_KEY_ID"):
        list_class_folders(s3.url, *FILTERS)
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(SourceError, match="no credentials are found in the environment; set AWS_ACCESS_KEY_ID"):
        files_from_paths("", (s3.url + "/a.jpg",), None)


def test_credentials_that_are_rotated_while_a_reader_is_open(s3, monkeypatch):
    s3.put("c/a.jpg", b"a")
    source = list_class_folders(s3.url, *FILTERS)
    s3.proxy.fail("403", "403", at="a.jpg")
    with pytest.raises(SampleError, match=r"refuses.*AWS_ACCESS_KEY_ID"):  # the environment is the same
        source.content(0)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "rotated")
    assert source.content(0).tobytes() == b"a"
    s3.proxy.fail("403", at="a.jpg")
    with pytest.raises(SampleError, match="refuses"):
        source.content(0)


@pytest.mark.parametrize("fault", ["503", "reset", "truncate"])
def test_a_request_that_fails_is_repeated_so_often(s3, fault):
    s3.put("c/a.jpg", bytes(range(256)) * 40)
    source = list_class_folders(s3.url, *FILTERS)
    s3.proxy.forget()
    s3.proxy.fail(fault, fault, at="a.jpg")
    assert source.content(0).tobytes() == bytes(range(256)) * 40
    assert len(s3.proxy.asked) == 3
    s3.proxy.fail(*[fault] * 3, at="a.jpg")
    with pytest.raises(SampleError, match="the store does not give it") as caught:
        source.content(0)
    assert (caught.value.index, caught.value.path) == (0, s3.url + "/c/a.jpg")
    assert len(s3.proxy.asked) == 6


def test_an_object_that_changes_or_goes(s3):
    for name in "abc":
        s3.put(f"c/{name}.jpg", name.encode())
    source = list_class_folders(s3.url, *FILTERS)
    s3.put("c/b.jpg", b"B")
    s3.delete("c/c.jpg")
    _, errors = source.read_tolerant(np.arange(3), [None, None])
    assert sorted(errors) == [1, 2]
    assert "has been written to since the data set was opened" in str(errors[1])
    assert "there is no such object" in str(errors[2])


@pytest.mark.filterwarnings("ignore:.*fork")  # of JAX and of Python 3.12
def test_a_forked_child_cannot_read_what_its_parent_has_read(s3):
    s3.put("a", b"a")
    object_store.head(s3.url + "/a")
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            object_store.head(s3.url + "/a")
        except SourceError as error:
            os.write(writer, str(error).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as said:
        assert 'get_context("spawn") or "forkserver"' in said.read()
    os.waitpid(child, 0)


def test_markers_of_folders_are_not_files(s3):
    for key in ("t/", "t/cat/", "t/cat/1.bin", "t/dog/", "t/dog/2.bin"):
        s3.mark(key) if key.endswith("/") else s3.put(key, b"data")
    assert [item.path for item in object_store.list_prefix(s3.url + "/t/cat/")[1]] == [s3.url + "/t/cat/1.bin"]
    assert object_store.list_prefix(s3.url + "/t") == (["cat", "dog"], [])
    assert len(list_class_folders(s3.url + "/t", ("*",), (), False)) == 2
    assert len(list_files(s3.url + "/t", "*")) == 2
    assert as_shards(s3.url + "/t/cat/*", "") == (s3.url + "/t/cat/1.bin",)


def test_hidden_objects_are_no_shards(s3):
    for name in ("a.tar", "._a.tar", "b.txt"):
        s3.put(f"t/{name}", b"data")
    for path in ("/t/", "/t/*.tar"):
        assert as_shards(s3.url + path, ".tar") == (s3.url + "/t/a.tar",)
    assert as_shards(s3.url + "/t/.*", ".tar") == (s3.url + "/t/._a.tar",)


@pytest.mark.parametrize("path", ["/[tu]/a.tar", "/*/*.tar", "/*/"])
def test_wildcards_in_folders_are_refused(path, s3):
    for key in ("t/a.tar", "[t]/a.tar"):
        s3.put(key, b"data")
    assert as_shards(s3.url + "/[t]/*.tar", ".tar") == (s3.url + "/[t]/a.tar",)
    with pytest.raises(SourceNotFoundError, match="only the last part of a remote path may have wildcards"):
        as_shards(s3.url + path, ".tar")


def test_parts_of_objects(s3):
    s3.put("a", b"0123456789")
    found = object_store.head(s3.url + "/a")
    assert found.size == 10
    assert object_store.fetch(ByteRange(found.path, 2, 5, found.etag))[0].tobytes() == b"234"
    with pytest.raises(OSError, match="it is cut short: 2 of 12 bytes came"):
        object_store.fetch(ByteRange(found.path, 8, 20, found.etag))
    assert object_store.fetch(ByteRange(found.path), unless=found.etag) is None


def test_without_the_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    with pytest.raises(MissingExtraError, match=r"penstock\[stores\]"):
        files_from_paths("", ("s3://bucket/a",), None)


@pytest.mark.parametrize(
    ("reader", "arguments"),
    [
        ("tfrecord", {"path": "{}/a", "features": {"label": tfrecord.FixedLenFeature([1], tfrecord.int64, -1)}}),
        ("array_record", {"paths": "{}/a"}),
        ("caffe", {"path": "{}/a"}),
        ("caffe2", {"path": "{}/a/"}),
        ("cifar10", {"file_root": "{}/a"}),
        ("mnist", {"path": "{}/a"}),
    ],
)
def test_a_record_file_that_is_missing(reader, arguments, s3):
    @pipeline_def(batch_size=1)
    def definition():
        given = {name: value.format(s3.url) if isinstance(value, str) else value for name, value in arguments.items()}
        found = getattr(fn.readers, reader)(**given)
        return tuple(found.values()) if isinstance(found, dict) else found

    with pytest.raises(SourceNotFoundError, match=r"there is no such object|: no file"):
        definition()
