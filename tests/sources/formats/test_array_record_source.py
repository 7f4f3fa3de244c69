"""ArrayRecord files, as the library writes them; what is damaged is named."""

import random
import sys

import numpy as np
import pytest
from mutations import MUTATIONS, mutated

from penstock import Pipeline, fn
from penstock.errors import (
    DefinitionError,
    MissingExtraError,
    PenstockError,
    SampleError,
    SourceError,
    SourceNotFoundError,
)
from penstock.sources.formats import array_record_source
from penstock.sources.formats.array_record_source import ArrayRecordSource
from penstock.sources.formats.tfrecord.example_message import encode_example
from penstock.sources.formats.tfrecord.feature_specs import FixedLenFeature, VarLenFeature, float32, int64
from penstock.testing import check_bad_samples, check_source

library = pytest.importorskip("array_record.python.array_record_module", reason="not built for this system")


def write(path, records, options="group_size:1"):
    writer = library.ArrayRecordWriter(str(path), options)
    for record in records:
        writer.write(record)
    writer.close()
    return path


def source(*paths):
    return ArrayRecordSource(tuple(map(str, paths)))


@pytest.mark.parametrize(
    "options", ["group_size:1", "group_size:4", "group_size:2,uncompressed", "group_size:1,brotli:3"]
)
def test_records(tmp_path, monkeypatch, options):
    records = [bytes([65 + n]) * n for n in range(9)]
    paths = [write(tmp_path / "a", records[:6], options), write(tmp_path / "b", []), write(tmp_path / "c", records[6:])]
    found = source(*paths)
    check_source(found)
    assert [bytes(each) for each in found.read(np.array([8, 2, 8, 0]), [None])[0]] == [records[n] for n in (8, 2, 8, 0)]
    assert (found.describe(7), found.path(7)) == (f"{paths[2]} at record 1", str(paths[2]))
    assert found.reads_same_samples(source(*paths))
    assert not found.reads_same_samples(source(*paths[::-1]))
    assert found.fingerprint() != source(*paths[::-1]).fingerprint()
    monkeypatch.setattr(array_record_source, "_MAX_OPEN", 1)
    check_source(found := source(*paths))
    assert len(found._readers) == 1


def test_features_of_examples(tmp_path):
    features = (("label", FixedLenFeature((), int64, 9)), ("x", FixedLenFeature([2, 2], float32, None)))
    examples = [encode_example({"label": [n], "x": [n + 0.5] * 4}) for n in range(5)]
    path = write(tmp_path / "a", [*examples, encode_example({"x": [1.0]})])
    found = ArrayRecordSource((str(path),), features)
    check_bad_samples(found, [5])
    labels, x = found.read(np.array([4, 0]), [None] * 2)
    assert (labels.tolist(), x[1].tolist()) == ([4, 0], [[0.5, 0.5]] * 2)
    assert found.reads_same_samples(ArrayRecordSource((str(path),), features))
    assert not found.reads_same_samples(source(path))
    with pytest.raises(SampleError, match=r"sample 5 .*a at record 5. .* feature 'x': it has 1 values"):
        found.read(np.array([5]), [None] * 2)
    with pytest.raises(SourceError, match=r"first record cannot be read: .* feature 'y': it is missing"):
        ArrayRecordSource((str(path),), (("y", FixedLenFeature((), int64, None)),))
    for options, message in (
        ({"features": {}}, "features is empty"),
        ({"features": {"x": VarLenFeature(1, "")}}, "string"),
    ):
        with Pipeline(batch_size=1), pytest.raises(DefinitionError, match=f"fn.readers.array_record.*{message}"):
            fn.readers.array_record(paths=path, **options)


def test_records_that_are_damaged_are_named(tmp_path):
    records = [random.Random(n).randbytes(900) for n in range(6)]
    data = bytearray(write(tmp_path / "a", records, "group_size:1,uncompressed").read_bytes())
    for number in (2, 3):
        data[data.index(records[number]) + 5] ^= 1
    (tmp_path / "damaged").write_bytes(data)
    check_bad_samples(source(tmp_path / "damaged"), [2, 3])
    found = source(tmp_path / "a")
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(RuntimeError, match=r"sample 4 .*a at record 4. cannot be read: the file has been written to"):
        found.read(np.array([4]), [None])


def test_files_that_cannot_be_read(tmp_path):
    data = write(tmp_path / "a", [b"x" * 99] * 9).read_bytes()
    for content in (b"", b"text" * 999, data[:-9], data[: len(data) // 2], bytes(len(data))):
        (tmp_path / "bad").write_bytes(content)
        with pytest.raises(SourceError, match="bad' cannot be read as an ArrayRecord file"):
            source(tmp_path / "a", tmp_path / "bad")
    with pytest.raises(SourceError, match="are empty"):
        source(write(tmp_path / "none", []))
    for path in ("missing", "."):
        with pytest.raises(SourceNotFoundError, match="does not exist"):
            source(tmp_path / path)


def test_mutated_files_are_errors_or_read(tmp_path):
    rng, outcomes = random.Random(6), {"same": 0, "refused": 0}
    records = [rng.randbytes(n % 4 * 30) for n in range(8)]
    data = write(tmp_path / "a", records).read_bytes()
    used = data[: 1 << 16].rstrip(b"\0"), data[1 << 16 :].rstrip(b"\0")  # the rest is zeros
    for number in range(MUTATIONS // 4):
        head, tail = (mutated(part, rng)[: 1 << 16] if place == number % 2 else part for place, part in enumerate(used))
        (tmp_path / "a").write_bytes(head.ljust(1 << 16, b"\0") + tail.ljust(1 << 16, b"\0"))
        try:
            found = source(tmp_path / "a")
            rows, errors = found.read_tolerant(np.arange(len(found)), [None])
        except PenstockError:
            outcomes["refused"] += 1
            continue
        assert all(row in errors or bytes(value) == records[row] for row, value in enumerate(rows[0]))
        outcomes["same"] += 1
    assert min(outcomes.values()) > MUTATIONS // 100


def test_definitions(tmp_path, monkeypatch):
    path = write(tmp_path / "a", [b"x", b"yy", b"zzz", b""])
    with Pipeline(batch_size=1), pytest.raises(DefinitionError, match="paths is empty"):
        fn.readers.array_record(paths=[])
    with Pipeline(batch_size=2) as pipeline:
        pipeline.set_outputs(fn.readers.array_record(paths=[path], shard_id=1, num_shards=2))
    assert [bytes(each) for each in pipeline.run()[0]] == [b"zzz", b""]
    monkeypatch.setitem(sys.modules, "array_record.python.array_record_module", None)
    with pytest.raises(MissingExtraError, match=r"penstock\[array-record\]"):
        source(path)
