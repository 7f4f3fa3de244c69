"""Parquet files, as PyArrow writes them; what is damaged is named."""

import base64
import random
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
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
from penstock.sources.formats import parquet_source
from penstock.sources.formats.parquet_source import ParquetSource
from penstock.testing import check_bad_samples, check_source


def table(count=7, first=0):
    numbers = range(first, first + count)
    images = [{"bytes": b"i" * n, "path": f"{n}.jpg"} for n in numbers]
    return pa.table({
        "image": pa.array(images, pa.struct([("bytes", pa.binary()), ("path", pa.string())])),
        "text": pa.array([f"é{n}" for n in numbers]).dictionary_encode(),
        "label": pa.array(numbers, pa.int16()),
        "flag": pa.array([n % 2 == 0 for n in numbers]),
        "boxes": pa.array([[0.5 * n] * (n % 3) for n in numbers], pa.list_(pa.float32())),
        "place": pa.array([[n, -n] for n in numbers], pa.list_(pa.int64(), 2)),
        "dotted.name": pa.array(numbers, pa.float64()),
    })  # fmt: skip


def source(*paths, columns=("image.bytes", "image.path", "text", "label", "flag", "boxes", "place", "dotted.name")):
    return ParquetSource(tuple(map(str, paths)), columns)


def test_columns_of_all_kinds(tmp_path, monkeypatch):
    pq.write_table(table(), tmp_path / "a", row_group_size=3)
    pq.write_table(table(4, 7), tmp_path / "b", row_group_size=3)
    found = source(tmp_path / "a", tmp_path / "b")
    check_source(found)
    assert len(found) == 11
    columns = found.read(np.array([10, 2, 10, 0]), [None] * 8)
    assert [bytes(value).decode() for value in columns[0]] == ["i" * 10, "ii", "i" * 10, ""]
    assert [bytes(value).decode() for value in columns[1]] == ["10.jpg", "2.jpg", "10.jpg", "0.jpg"]
    assert [bytes(value).decode() for value in columns[2]] == ["é10", "é2", "é10", "é0"]
    assert [(c.dtype.name, c.tolist()) for c in (columns[3], columns[4], columns[7])] == [
        ("int16", [10, 2, 10, 0]), ("bool", [True] * 4), ("float64", [10.0, 2.0, 10.0, 0.0])
    ]  # fmt: skip
    assert [value.tolist() for value in columns[5]] == [[5.0], [1.0, 1.0], [5.0], []]
    assert columns[6].tolist() == [[10, -10], [2, -2], [10, -10], [0, 0]]
    assert found.describe(8) == f"{tmp_path / 'b'} at row 1"
    assert found.reads_same_samples(source(tmp_path / "a", tmp_path / "b"))
    assert not found.reads_same_samples(source(tmp_path / "a", tmp_path / "b", columns=("label",)))
    monkeypatch.setattr(parquet_source, "_KEPT", 0)
    check_source(found := source(tmp_path / "a", tmp_path / "b"))
    assert len(found._tables) == 1


def test_rows_and_groups_that_are_bad_are_named(tmp_path):
    lists = pa.array([[1], [2], [None]], pa.list_(pa.int32()))
    gaps = pa.table({"x": [b"a", None, b"c"], "y": lists, "z": pa.array(["a", "bc", ""], pa.large_string())})
    pq.write_table(gaps, tmp_path / "gaps")
    check_bad_samples(source(tmp_path / "gaps", columns=None), [1, 2])
    assert [bytes(each) for each in source(tmp_path / "gaps", columns=("z",)).read(np.arange(3), [None])[0]] == [
        b"a", b"bc", b""
    ]  # fmt: skip
    values = pa.table({"x": pa.array(np.random.default_rng(1).bytes(4000) for _ in range(6))})
    pq.write_table(values, tmp_path / "a", row_group_size=2, compression="zstd", use_dictionary=False)
    data = bytearray((tmp_path / "a").read_bytes())
    begin = pq.read_metadata(tmp_path / "a").row_group(1).column(0).data_page_offset
    data[begin : begin + 4000] = bytes(4000)
    (tmp_path / "damaged").write_bytes(data)
    check_bad_samples(source(tmp_path / "damaged", columns=("x",)), [2, 3])
    found = source(tmp_path / "a", columns=("x",))
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(RuntimeError, match=r"sample 4 .*a at row 4. cannot be read: the file has been written to"):
        found.read(np.array([4]), [None])


def test_threads_that_ask_for_one_row_group_decode_it_once(tmp_path, monkeypatch):
    pq.write_table(table(), tmp_path / "a")
    found = source(tmp_path / "a", columns=("label",))
    decode, calls, begin = found._decoded, [], threading.Barrier(4)
    monkeypatch.setattr(found, "_decoded", lambda group: calls.append(group) or decode(group))

    def read(index):
        begin.wait()
        return found.read(np.array([index]), [None])[0].tolist()

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(read, range(4))) == [[0], [1], [2], [3]]
    assert calls == [0]


def test_files_that_cannot_be_read(tmp_path):
    pq.write_table(table(), tmp_path / "a")
    pq.write_table(table().slice(0, 0), tmp_path / "empty")
    pq.write_table(pa.table({"label": ["x"]}), tmp_path / "other")
    (tmp_path / "short").write_bytes((tmp_path / "a").read_bytes()[:-9])
    (tmp_path / "text").write_text("no parquet")
    for paths, columns, message in (
        (["short"], None, "short' cannot be read as a Parquet file"),
        (["text"], None, "text' cannot be read as a Parquet file"),
        (["empty"], ("label",), "are empty"),
        (["a"], None, "the column 'image' of .* cannot be read"),
        (["a"], ("lable",), r"does not contain a column 'lable'(.|\n)*did you mean 'label'"),
        (["a"], ("image.byte",), "does not contain a column 'image.byte'"),
        (["a"], ("label.x",), "does not contain a column 'label.x'"),
        (["a", "other"], ("label",), "the column 'label' of .*other' has a different type"),
    ):
        with pytest.raises(SourceError, match=message):
            source(*(tmp_path / path for path in paths), columns=columns)
    with pytest.raises(SourceNotFoundError, match="does not exist"):
        source(tmp_path / "none")


def test_a_schema_that_says_that_lists_have_fewer_than_no_numbers(tmp_path):
    """PyArrow believes it; the numbers are then not what it says, as in any damaged file."""
    pq.write_table(pa.table({"x": pa.array([range(77)], pa.list_(pa.int32(), 77))}), tmp_path / "good")
    schema = pq.read_metadata(tmp_path / "good").metadata[b"ARROW:schema"]
    wrong = base64.b64decode(schema).replace((77).to_bytes(4, "little"), b"\xff" * 4)
    data = (tmp_path / "good").read_bytes().replace(schema, base64.b64encode(wrong))
    (tmp_path / "bad").write_bytes(data)
    assert source(tmp_path / "good", columns=("x",)).read(np.array([0]), [None])[0].tolist() == [list(range(77))]
    with Pipeline(batch_size=1) as pipeline:
        pipeline.set_outputs(*fn.readers.parquet(paths=tmp_path / "bad").values())
    with pytest.raises(SampleError, match="sample 0 "):
        pipeline.run()


def test_damaged_row_counts(tmp_path):
    pq.write_table(pa.table({"x": np.arange(77)}), tmp_path / "a")
    data, count, wrong = (tmp_path / "a").read_bytes(), b"\x9a\x01", b"\x9b\x01"  # 77 and -78 as zigzag varints
    places = [at for at in range(len(data)) if data[at : at + 2] == count]
    said = []
    for at in places:
        (tmp_path / "a").write_bytes(data[:at] + wrong + data[at + 2 :])
        try:
            source(tmp_path / "a", columns=("x",)).read(np.arange(77), [None])
        except PenstockError as error:
            said.append(str(error))
    assert sum("row groups do not have its number of rows" in message for message in said) == 2


def test_mutated_files_are_errors_or_read(tmp_path):
    rng, outcomes, path = random.Random(3), {"read": 0, "refused": 0}, tmp_path / "a"
    for number in range(MUTATIONS // 8):
        pq.write_table(table(), path, row_group_size=3, compression=("none", "snappy")[number % 2])
        path.write_bytes(mutated(path.read_bytes(), rng))
        try:
            found = source(path)
            columns = found.read(np.arange(len(found)), [None] * 8)
        except PenstockError:
            outcomes["refused"] += 1
        else:
            outcomes["read"] += 1
            assert sum(value.nbytes for value in columns[0]) <= 10**4
    assert min(outcomes.values()) > MUTATIONS // 200


def test_definitions(tmp_path, monkeypatch):
    pq.write_table(table(), tmp_path / "a")
    for options in ({"paths": []}, {"paths": tmp_path / "a", "columns": []}):
        with Pipeline(batch_size=1), pytest.raises(DefinitionError, match="is empty"):
            fn.readers.parquet(**options)
    with Pipeline(batch_size=3) as pipeline:
        row = fn.readers.parquet(paths=[tmp_path / "a"], columns=["label", "image.bytes"], shard_id=1, num_shards=2)
        pipeline.set_outputs(*row.values())
    labels, images = pipeline.run()
    assert labels.as_array().tolist() == [len(image) for image in images]
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with Pipeline(batch_size=1), pytest.raises(MissingExtraError, match=r"penstock\[parquet\]"):
        fn.readers.parquet(paths=tmp_path / "a", columns="flag")


def test_files_by_folder_glob_and_pattern(tmp_path):
    for number in range(3):
        pq.write_table(pa.table({"n": [number]}), tmp_path / f"s-{number}.parquet")
    (tmp_path / "README.md").write_text("not a shard")

    def read(paths):
        with Pipeline(batch_size=3) as pipeline:
            pipeline.set_outputs(fn.readers.parquet(paths=paths)["n"])
        return pipeline.run()[0].as_array().tolist()

    assert read(tmp_path) == read(f"{tmp_path}/s-*.parquet") == read(f"{tmp_path}/s-{{0..2}}.parquet") == [0, 1, 2]
    with pytest.raises(SourceError, match="no file matches"):
        read(f"{tmp_path}/x-*.parquet")
