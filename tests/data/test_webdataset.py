"""Tar files, against the readers of WebDataset and of Python; what is damaged is named."""

import io
import os
import random
import tarfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mutations import MUTATIONS, mutated
from webdataset.tariterators import group_by_keys, tar_file_iterator

from penstock import Pipeline, fn
from penstock.data.webdataset import Components, WebdatasetSource
from penstock.errors import DefinitionError, PenstockError, SampleError, SourceError
from penstock.testing import check_source

UINT8, INT32 = np.dtype(np.uint8), np.dtype(np.int32)


def tar(members, form=tarfile.PAX_FORMAT):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as file:
        for name, data in members:
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            file.addfile(entry, io.BytesIO(data))
    return out.getvalue()


def source(*paths, ext=("jpg", "cls"), missing="empty", dtypes=None, indexes=()):
    wanted = Components(tuple(frozenset(each.split(";")) for each in ext), True, missing)
    kinds = tuple(dtypes or [UINT8] * len(ext))
    return WebdatasetSource(tuple(map(str, paths)), tuple(map(str, indexes)), wanted, kinds)


def read(found):
    columns = found.read(np.arange(len(found)), [None] * len(found.specs))
    return [[bytes(part) for part in row] for row in zip(*columns, strict=True)]


def pairs(count, first=0):
    return [(f"d/{n}.{ext}", ext.encode() * (n + 1)) for n in range(first, first + count) for ext in ("jpg", "cls")]


@given(
    names=st.lists(
        st.tuples(st.sampled_from(["a", "b/a", "é" * 80]), st.integers(0, 3), st.sampled_from(["jpg", "cls", "x.y"])),
        min_size=1,
        max_size=12,
        unique=True,
    ),
    form=st.sampled_from([tarfile.PAX_FORMAT, tarfile.GNU_FORMAT]),
)
def test_samples_are_those_of_webdatasets_own_library(tmp_path_factory, names, form):
    names = sorted(names, key=lambda name: name[:2])
    members = [(f"{folder}{number}.{ext}", f"{folder}{number}{ext}".encode()) for folder, number, ext in names]
    path = tmp_path_factory.mktemp("tar") / "a.tar"
    path.write_bytes(tar(members, form))
    with path.open("rb") as stream:
        groups = list(group_by_keys({**each, "__url__": ""} for each in tar_file_iterator(stream)))
    expected = [[group.get(ext, b"") for ext in ("jpg", "cls", "x.y")] for group in groups]
    assert read(source(path, ext=("jpg", "cls", "x.y"))) == expected


def test_sources(tmp_path):
    one, two = tmp_path / "a.tar", tmp_path / "b.tar"
    one.write_bytes(tar(pairs(4)))
    two.write_bytes(tar([*pairs(3, 4), ("d/9.jpg", b"alone")]))
    found = source(one, two)
    check_source(found)
    assert len(found) == 8
    assert found.describe(4) == f"{two} at byte 512"
    assert read(found)[7] == [b"alone", b""]
    check_source(source(one, two, missing="skip"))
    assert len(source(one, two, missing="skip")) == 7
    with pytest.raises(SourceError, match=r"the sample at byte .* has no file that ends in cls"):
        source(one, two, missing="error")
    assert found.same_data(source(one, two))
    assert not found.same_data(source(one, two, ext=("jpg",)))
    assert found.fingerprint() != source(two, one).fingerprint()
    with pytest.raises(SampleError, match=r"sample 0 .* has 3 bytes for output 1") as caught:
        read(source(one, dtypes=(UINT8, INT32)))
    assert (caught.value.index, caught.value.path) == (0, str(one))


def test_indexes(tmp_path):
    path, index = tmp_path / "a.tar", tmp_path / "a.idx"
    path.write_bytes(tar(pairs(2)))
    index.write_text("v1.1 2\njpg 512 3 cls 1536 3\njpg 2560 6\n")
    assert read(source(path, indexes=[index])) == [[b"jpg", b"cls"], [b"jpgjpg", b""]]
    index.write_text("v1.2 2\r\npng 512 1 x jpg 512 3 x jpg 0 0 x\r\n jpeg 2560 6 \tx  cls 3072 1 x")
    assert read(source(path, indexes=[index], ext=["jpeg;jpg", "png"])) == [[b"jpg", b"j"], [b"jpgjpg", b""]]
    assert read(source(path, indexes=[index], ext=["cls", "jpeg"], missing="skip")) == [[b"d", b"jpgjpg"]]
    for content, message in (
        ("", "is no index"),
        ("v1.2 1\njpg 512 3\n", "is no index"),
        ("v1.2 2\njpg 512 3 d/0.jpg\n", "is no index"),
        ("v9 1\njpg 512 3 d/0.jpg\n", "is no index"),
        ("v1.2 1\njpg five 3 d/0.jpg\n", "is no index"),
        ("v1.2 1\njpg 51200 3 d/0.jpg\n", "goes beyond its end"),
        ("v1.2 1\njpg 512 -3 d/0.jpg\n", "is no index"),
        ("v1.2 1\njpg 512 1234567890123456789 d/0.jpg\n", "is no index"),
        ("v1.2 2\njpg 512 3 d/0.jpg\n\n\ncls 1536 3 d/0.cls\n", "is no index"),
        ("v1.1 1\n" + "".join(f"e{n} 512 3 " for n in range(300)), "is no index"),
    ):
        index.write_text(content)
        with pytest.raises(SourceError, match=message):
            source(path, indexes=[index])
    with pytest.raises(SourceError, match="there is no index"):
        source(path, indexes=[tmp_path / "none"])


def test_damaged_files(tmp_path):
    data, path = tar(pairs(3)), tmp_path / "bad.tar"
    for content, message in (
        (b"", "no tar file"),
        (b"text " * 999, "no tar file"),
        (b"\x1f\x8b" + data, "compressed with gzip"),
        (data[:700], "cut short|damaged"),
        (data[:1536], "cut short or damaged at byte 1024|damaged"),
        (data[:1024], "cut short or damaged at byte 1024"),
        (data[:1030] + b"x" + data[1031:], "cut short or damaged at byte 1024"),
        (tar([("a.jpg", b"1"), ("a.jpg", b"2")]), "'a.jpg' is there twice"),
        (tar([(".a.jpg", b"1")]), "have no samples"),
    ):
        path.write_bytes(content)
        with pytest.raises(SourceError, match=message):
            source(path)
    path.write_bytes(data)
    found = source(path)
    os.truncate(path, 600)
    with pytest.raises(SampleError, match=r"sample 1 .* written to since") as caught:
        found.read(np.array([1]), [None] * 2)
    assert (caught.value.index, caught.value.path) == (1, str(path))


def test_mutated_files_are_errors_or_whole(tmp_path):
    rng, path = random.Random(8), tmp_path / "a.tar"
    outcomes = {"read": 0, "refused": 0}
    good = [tar([*pairs(3), ("é" * 90 + ".jpg", b"long")], form) for form in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT)]
    for number in range(MUTATIONS // 2):
        changed = mutated(good[number % 2][:-8192], rng) + bytes(8192)
        path.write_bytes(changed)
        try:
            rows = read(source(path))
        except PenstockError:
            outcomes["refused"] += 1
        else:
            outcomes["read"] += 1
            assert sum(len(part) for row in rows for part in row) <= len(changed)
    assert min(outcomes.values()) > MUTATIONS // 100


def test_a_definition_says_what_is_read(tmp_path):
    path = tmp_path / "a.tar"
    path.write_bytes(tar(pairs(2)))
    for options, message in (
        ({"ext": []}, "ext is empty"),
        ({"paths": []}, "paths is empty"),
        ({"missing_component_behavior": "ignore"}, "no such missing_component_behavior"),
        ({"index_paths": [path, path]}, "an index per file"),
        ({"dtypes": ["int32", "int32", "int32"]}, "a type per extension"),
    ):
        with Pipeline(batch_size=1), pytest.raises(DefinitionError, match=message):
            fn.readers.webdataset(**{"paths": path, "ext": ["jpg", "cls"], **options})
