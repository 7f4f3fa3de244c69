"""Where records lie is found once per state of a file, and again whenever what was kept is not right."""

import io
import os
import tarfile

import numpy as np
import pytest

from penstock.errors import SourceError
from penstock.sources.formats import recordio_source
from penstock.sources.formats.tar import webdataset_source
from penstock.sources.formats.tfrecord import tfrecord_source
from penstock.sources.formats.tfrecord.example_message import encode_example

COUNT = 300


def tar(path, count=COUNT):
    with tarfile.open(path, "w") as file:
        for number in range(count):
            for extension in ("a", "b"):
                entry = tarfile.TarInfo(f"{number}.{extension}")
                entry.size = 3
                file.addfile(entry, io.BytesIO(b"%03d" % number))
    settle(path)


def settle(path, seconds=1e9):
    os.utime(path, (seconds, seconds))


def opened(path, *wanted, missing="error"):
    components = webdataset_source.Components(tuple(frozenset((each,)) for each in wanted or ("a",)), True, missing)
    return webdataset_source.WebdatasetSource(
        (str(path),), (), components, (np.dtype(np.uint8),) * len(components.wanted)
    )


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "penstock" / "indexes"


@pytest.fixture
def walks(monkeypatch):
    """How often a tar file is walked through."""
    found = []
    real = webdataset_source._members

    def counted(*given):
        found.append(1)
        return real(*given)

    monkeypatch.setattr(webdataset_source, "_members", counted)
    return found


def test_a_file_is_walked_through_once(tmp_path, cache, walks):
    tar(path := tmp_path / "x.tar")
    prints = {opened(path).fingerprint() for _ in range(3)}
    assert (len(walks), len(prints), len(list(cache.iterdir()))) == (1, 1, 1)
    assert bytes(opened(path).read(np.array([7]), [None])[0][0]) == b"007"
    (tmp_path / "y.tar").symlink_to(path)
    opened(tmp_path / "y.tar")
    assert len(walks) == 1
    opened(path, "b")
    opened(path, "a", missing="skip")
    opened(path, "b", "a")
    assert len(walks) == 4, "what else is looked for is found anew"


def test_another_state_of_the_file_is_another_file(tmp_path, cache, walks):
    tar(path := tmp_path / "x.tar")
    opened(path)
    settle(path, 1.1e9)
    opened(path)
    tar(path, COUNT + 50)
    assert len(opened(path)) == COUNT + 50
    assert (len(walks), len(list(cache.iterdir()))) == (3, 1)
    path.touch()
    for _ in range(2):
        opened(path)
    assert len(walks) == 5, "what was just written to may change again without showing it"


@pytest.mark.parametrize("how", ["cut", "flipped", "empty", "other"])
def test_an_entry_that_is_damaged_does_not_count(tmp_path, cache, walks, how):
    tar(path := tmp_path / "x.tar")
    before = opened(path).fingerprint()
    (entry,) = cache.iterdir()
    content = bytearray(entry.read_bytes())
    content[-9] ^= 4
    entry.write_bytes({"cut": bytes(content[:-8]), "flipped": content, "empty": b"", "other": b"[]\n"}[how])
    assert opened(path).fingerprint() == before
    assert opened(path).fingerprint() == before
    assert len(walks) == 2


def test_small_files_and_damaged_ones_are_not_kept_and_no_place_for_it_is_no_error(tmp_path, cache, walks):
    tar(path := tmp_path / "x.tar", 20)
    opened(path)
    tar(path)
    path.write_bytes(path.read_bytes()[:-20000])
    settle(path)
    with pytest.raises(SourceError):
        opened(path)
    assert not cache.exists()
    cache.parent.parent.mkdir(exist_ok=True)
    cache.parent.write_text("a file")
    tar(path)
    assert len(opened(path)) == len(opened(path)) == COUNT
    assert len(walks) == 4


def test_records_are_kept_too(tmp_path, cache, monkeypatch):
    tfrecord_source.write_tfrecord(tmp_path / "x", [encode_example({"x": [1]})] * COUNT)
    (tmp_path / "y").write_bytes(((0xCED7230A).to_bytes(4, "little") + (24).to_bytes(4, "little") + bytes(24)) * COUNT)
    settle(tmp_path / "x")
    settle(tmp_path / "y")
    for number, (module, name, made) in enumerate(
        [
            (tfrecord_source, "x", lambda path: tfrecord_source.TFRecordSource((path,), (), ())),
            (recordio_source, "y", lambda path: recordio_source.RecordIOSource((path,), ())),
        ]
    ):
        assert len(made(str(tmp_path / name))) == COUNT
        assert len(list(cache.iterdir())) == number + 1
        monkeypatch.setattr(module, "HeaderReader", None)
        assert len(made(str(tmp_path / name))) == COUNT
