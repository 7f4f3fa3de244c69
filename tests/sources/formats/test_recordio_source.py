"""RecordIO files; DALI reads the same ones in tests/dali/test_readers.py. What is damaged is named."""

import contextlib
import random
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mutations import MUTATIONS, mutated
from mxnet_records import GOLDEN, SEVERAL, SINGLE

from penstock import Pipeline, fn, ops
from penstock.errors import DefinitionError, PenstockError, SourceError, SourceNotFoundError
from penstock.sources.formats.recordio_source import RecordIOSource, encode_record, parse_record, write_recordio
from penstock.testing import check_bad_samples, check_source

MAGIC = struct.pack("<I", 0xCED7230A)


def source(*paths, indexes=()):
    return RecordIOSource(tuple(map(str, paths)), tuple(map(str, indexes)))


@given(
    st.lists(st.sampled_from([MAGIC, b"abcd", b"x"]), max_size=12).map(b"".join),
    st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=4),
)
def test_a_record_is_what_was_packed(image, labels):
    data = encode_record(image, labels)
    assert len(data) % 4 == 0
    found, numbers = parse_record(np.frombuffer(data + b"more", np.uint8))
    assert (bytes(found), numbers.tolist(), numbers.dtype) == (image, labels, np.float32)


def test_files_with_and_without_an_index(tmp_path):
    records = [encode_record(MAGIC * n + b"i" * n, [n + 0.5], n) for n in range(5)]
    index = write_recordio(tmp_path / "a.rec", records[:3])
    other = write_recordio(tmp_path / "b.rec", records[3:])
    paths = [tmp_path / "a.rec", tmp_path / "b.rec"]
    walked, indexed = source(*paths), source(*paths, indexes=[index, other])
    for found in (walked, indexed):
        check_source(found)
        images, labels = found.read(np.array([4, 0]), [None, None])
        assert [bytes(image) for image in images] == [MAGIC * 4 + b"iiii", b""]
        assert labels.tolist() == [[4.5], [0.5]]
    assert indexed.reads_same_samples(walked)
    assert indexed.fingerprint() == walked.fingerprint()
    assert walked.describe(3) == f"{paths[1]} at byte 0"
    assert walked.path(3) == str(paths[1])
    (tmp_path / "all.idx").write_text(
        "".join(f"{n}\t{at}\n" for n, at in enumerate(np.cumsum([0, *map(len, records)])[:-1]))
    )
    assert source(*paths, indexes=[tmp_path / "all.idx"]).reads_same_samples(walked)
    (tmp_path / "part.idx").write_text(f"7\t{len(records[0] + records[1])}\n3\t0\n")  # one of three is left out
    part = source(paths[0], indexes=[tmp_path / "part.idx"])
    assert part.read(np.arange(2), [None, None])[1].tolist() == [[0.5], [2.5]]


@pytest.mark.parametrize(
    ("name", "indexes", "expected"),
    [("mxnet.rec", ["mxnet.idx"], SINGLE), ("mxnet.rec", [], SINGLE), ("walked.rec", [], SEVERAL)],
)
def test_files_that_mxnet_has_written(name, indexes, expected, tmp_path):
    found = source(GOLDEN / name, indexes=[GOLDEN / index for index in indexes])
    check_source(found)
    contents, labels = found.read(np.arange(len(expected)), [None, None])
    assert [bytes(content) for content in contents] == [content for content, _ in expected]
    assert [each.tolist() for each in labels] == [numbers for _, numbers in expected]
    own = [encode_record(content, numbers, number) for number, (content, numbers) in enumerate(expected)]
    index = write_recordio(tmp_path / "own.rec", own)
    if indexes:
        assert (tmp_path / "own.rec").read_bytes() == (GOLDEN / name).read_bytes()
        assert Path(index).read_text() == (GOLDEN / indexes[0]).read_text()


def test_labels_that_differ_in_number(tmp_path):
    write_recordio(tmp_path / "a", [encode_record(b"x", [1.0] * n) for n in (2, 1, 3)])
    check_source(found := source(tmp_path / "a"))
    assert [len(each) for each in found.read(np.arange(3), [None, None])[1]] == [2, 1, 3]


def test_a_bad_record_is_named(tmp_path):
    good = encode_record(b"a jpeg", [1.0])
    bad = {
        "several labels": encode_record(b"a jpeg", [1.0, 2.0]),
        "no header": struct.pack("<II", 0xCED7230A, 8) + bytes(8),
        "too many labels": encode_record(b"a jpeg", [1.0])[:8] + b"\xff" + encode_record(b"a jpeg", [1.0])[9:],
    }
    write_recordio(tmp_path / "a", [good, *bad.values(), good])
    check_bad_samples(source(tmp_path / "a"), [1, 2, 3])
    with Pipeline(batch_size=2) as pipeline:
        pipeline.set_outputs(*fn.readers.mxnet(path=tmp_path / "a"))
    with pytest.raises(PenstockError, match=r"sample 1 .* at byte 40.* it has 2 labels, but the first record has one"):
        pipeline.run()


def test_damaged_files(tmp_path):
    good = encode_record(b"a jpeg", [1.0])
    for content, message in (
        (b"", "are empty"),
        (good[:5], "5 bytes follow the last record"),
        (good * 2 + good[:-4], "cut short: its last record begins at byte 80 and goes beyond 116"),
        (b"text " * 99, "a record does not begin there .byte 0"),
        (good + b"\0\0\0\0" + good, "a record does not begin there .byte 40"),
        (encode_record(MAGIC + b"abcd", [1.0])[:32], "has no last part"),
        (struct.pack("<II", 0xCED7230A, 3 << 29 | 4) + b"abcd", "a part has kind 3 where a record begins"),
    ):
        (tmp_path / "bad").write_bytes(content)
        with pytest.raises(SourceError, match=message):
            source(tmp_path / "bad")
    with pytest.raises(SourceNotFoundError, match="there is no file"):
        source(tmp_path / "none")


def test_an_index_of_another_file(tmp_path):
    path, index = tmp_path / "a.rec", tmp_path / "a.idx"
    write_recordio(path, [encode_record(b"x" * 40, [1.0])] * 3)
    for content, message in (
        ("0\t4\n", "a record does not begin there"),
        ("0\t0\n1\t8\n", "it is cut short"),
        ("0\t0\n1\t999\n", "belongs to a different file"),
        ("0\t0\n1\t-8\n", "belongs to a different file"),
        ("0\t0\n1\t0\n", "belongs to a different file"),
        ("0\n", "is not an index"),
        ("a\tb\n", "is not an index"),
        ("", "are empty"),
    ):
        index.write_text(content)
        with pytest.raises(SourceError, match=message):
            source(path, indexes=[index])
    index.write_text("0\t0\n1\t999\n")
    with pytest.raises(SourceError, match="belongs to a different file"):
        source(path, path, indexes=[index])
    index.write_text("0\t0\n1\t76\n2\t150\n")  # the last one begins elsewhere
    check_bad_samples(source(path, indexes=[index]), [1, 2])
    with pytest.raises(SourceError, match="does not exist"):
        source(path, indexes=[tmp_path / "none"])


def test_mutated_files_are_errors_or_read(tmp_path):
    rng, outcomes = random.Random(5), {"read": 0, "refused": 0}
    data = b"".join(encode_record(MAGIC * (n % 2) + rng.randbytes(n), [1.0] * (n % 3 + 2)) for n in range(6))
    for _ in range(MUTATIONS // 2):
        (tmp_path / "a").write_bytes(mutated(data, rng))
        try:
            found = source(tmp_path / "a")
            found.read(np.arange(len(found)), [None, None])
            outcomes["read"] += 1  # an image or a label was hit
        except PenstockError:
            outcomes["refused"] += 1
        with contextlib.suppress(ValueError):
            parse_record(np.frombuffer(mutated(data[:72], rng), np.uint8))
    assert min(outcomes.values()) > MUTATIONS // 50


def test_definitions(tmp_path):
    index = write_recordio(tmp_path / "a.rec", [encode_record(b"ab", [4.0])])
    for options, message in (
        ({"path": []}, "path is empty"),
        ({"path": [tmp_path / "a.rec"] * 3, "index_path": [index] * 2}, "one entry per file"),
    ):
        with Pipeline(batch_size=1), pytest.raises(DefinitionError, match=message):
            fn.readers.mxnet(**options)
    with Pipeline(batch_size=1) as pipeline:
        _, labels = ops.MXNetReader(path=str(tmp_path / "a.rec"), index_path=index)()
        _, again = ops.readers.MXNet(path=[str(tmp_path / "a.rec")], index_path=[index])()
        pipeline.set_outputs(labels, again)
    assert [each.as_array().tolist() for each in pipeline.run()] == [[[4.0]]] * 2
