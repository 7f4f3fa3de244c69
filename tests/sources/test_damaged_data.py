"""Files that are damaged, cut, replaced or written to: an error that names them, never a crash."""

import os
import random
import subprocess
import sys

import lmdb
import numpy as np
import pytest
from mutations import MUTATIONS, mutated

from penstock.errors import SampleError, SourceError
from penstock.sources.formats import joined_records
from penstock.sources.formats.caffe.caffe2_source import Caffe2Source, write_caffe2
from penstock.sources.formats.caffe.fast_tensor_protos import parse_common
from penstock.sources.formats.caffe.tensor_protos import parse_tensor_protos
from penstock.sources.formats.lmdb.lmdb_records import LmdbRecords
from penstock.sources.formats.protobuf_wire import encode_bytes, encode_int
from penstock.types import LabelType


def caffe2(*paths):
    return Caffe2Source(tuple(map(str, paths)), LabelType.SINGLE_LABEL, 1, 0, False, True)


def tensor(kind, *fields, dims=(1,)):
    return encode_bytes(1, b"".join([encode_int(1, d) for d in dims]) + encode_int(2, kind) + b"".join(fields))


RECORDS = [
    tensor(4, encode_bytes(6, b"a jpeg" * 30)) + tensor(2, encode_int(4, 300)),
    tensor(4, encode_bytes(6, b"jpeg"), dims=()) + tensor(2, encode_bytes(4, b"\xac\x02"), dims=()),
    tensor(3, encode_bytes(5, bytes(24)), dims=(2, 4, 3)) + tensor(1, encode_bytes(3, b"\0\0\x80\x3f" * 4)),
    tensor(4, encode_bytes(6, b"x")) + tensor(10, encode_int(10, 2**40)) + tensor(2, encode_bytes(4, b"\1\2\3\4")),
]


def test_both_parsers_tell_one_truth_of_damaged_records():
    rng = random.Random(7)
    common = 0
    for number in range(MUTATIONS):
        record = mutated(RECORDS[number % len(RECORDS)], rng)
        short = parse_common([record])
        try:
            tensors = parse_tensor_protos(record)
            values = [tensors[0].image() if tensors else None, *(each.numbers() for each in tensors[1:])]
        except ValueError:
            assert short is None, record
            continue
        if short is not None:
            common += 1
            image, label = values
            assert (bytes(image), label.tolist()) == (bytes(short[0][0]), short[1][0].tolist()), record
            assert label.dtype == np.int32
    assert common > MUTATIONS // 50


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("joined", [True, False])
def test_common_records_are_found_in_a_row(together, joined, monkeypatch):
    if not together:
        monkeypatch.setattr(joined_records, "_SMALL", 0)
    images, labels = [b"abc", b"jpeg" * 1000, b"x" * 130], [[5], [-1], [70_000]]
    records = [
        tensor(4, encode_bytes(6, image)) + tensor(2, encode_int(4, *label))
        for image, label in zip(images, labels, strict=True)
    ]
    if joined:
        ends = np.cumsum([len(record) for record in records])
        both = joined_records.JoinedRecords(np.frombuffer(b"".join(records), np.uint8), ends)
        assert [bytes(record) for record in both] == [bytes(both[n]) for n in range(3)] == records
        found = parse_common(both)
    else:
        found = parse_common(records)
    assert found is not None
    assert ([bytes(image) for image in found[0]], found[1].tolist()) == (images, labels)
    assert parse_common([*records, RECORDS[2]]) is None


def test_a_label_with_another_length_is_not_common():
    image = tensor(4, encode_bytes(6, b"jpeg"))
    for length in range(8):
        label = b"\x80" * (length - 1) + b"\0" * bool(length)
        for said in range(8):
            record = image + encode_bytes(1, b"\x10\x02\x22" + bytes([said]) + label)
            assert (parse_common([record]) is not None) == (said == length and 1 <= length <= 5)


@pytest.mark.parametrize(
    "record",
    [
        tensor(4, encode_bytes(6, b"jpeg")) + encode_bytes(1, b"\x08\x01\x10\x02\x22\x03\xac\x02"),
        tensor(4, encode_bytes(6, b"jpeg")) + encode_bytes(1, b"\x08\x01\x10\x02\x22\x01\xac\x02"),
        tensor(4, encode_bytes(6, b"jpeg")) + encode_bytes(1, b"\x10\x02\x20" + b"\x80" * 10 + b"\x01"),
        tensor(4, encode_bytes(6, b"jpeg")) + encode_bytes(1, b"\x10\x02\x22\x01\x80"),
        tensor(3, encode_bytes(5, bytes(4)), dims=(2**62, 4, 1)) + tensor(2, encode_int(4, 1)),
        tensor(3, encode_bytes(5, bytes(4)), dims=(2**63, 2**63, 4)) + tensor(2, encode_int(4, 1)),
        tensor(4, encode_int(4, 1)) + tensor(2, encode_int(4, 1)),
        tensor(4, encode_bytes(6, b"jpeg")) + tensor(2, encode_bytes(6, b"label")),
        tensor(4, encode_bytes(6, b"jpeg")) + tensor(2, encode_int(3, 5)),
        encode_bytes(1, encode_bytes(2, b"\4") + encode_bytes(6, b"jpeg")) + tensor(2, encode_int(4, 1)),
    ],
)
def test_a_bad_record_is_named(record, tmp_path):
    good = RECORDS[2 if b"\x10\x03" in record else 0]
    environment = lmdb.open(str(tmp_path / "db"))
    with environment.begin(write=True) as transaction:
        transaction.put(b"1", tensor(3, encode_bytes(5, bytes(24)), dims=(2, 4, 3)) + tensor(2, encode_int(4, 1))
                        if good is RECORDS[2] else good)  # fmt: skip
        transaction.put(b"2", record)
    environment.close()
    source = caffe2(tmp_path / "db")
    with pytest.raises(SampleError, match=r"sample 1 .* at key 2") as caught:
        source.read(np.array([0, 1]), [None, None])
    assert caught.value.index == 1
    assert caught.value.path == str(tmp_path / "db" / "data.mdb")
    assert caught.value.source == f"{tmp_path / 'db'} at key 2"


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    """Short values in leaf pages, long ones in pages of their own, three levels of pages."""
    path = tmp_path_factory.mktemp("lmdb") / "db"
    rng = random.Random(3)
    environment = lmdb.open(str(path), map_size=1 << 28)
    with environment.begin(write=True) as transaction:
        for number in range(400):
            size = rng.choice((0, 1, 30, 400, 5000))
            transaction.put(b"%08d" % number + b"k" * (number % 440), rng.randbytes(size))
    environment.close()
    return path


def test_the_reader_equals_the_library(database):
    environment = lmdb.open(str(database), readonly=True, lock=False)
    with environment.begin() as transaction:
        right = list(transaction.cursor())
    assert environment.stat()["depth"] == 3
    environment.close()
    records = LmdbRecords(str(database))
    assert len(records) == len(right) == 400
    assert [(records.key(n), bytes(v)) for n, v in enumerate(records.get(np.arange(400)))] == right
    assert [bytes(records.get(np.array([n]))[0]) for n in range(400)] == [value for _, value in right]


def test_a_named_database_is_not_damaged(tmp_path):
    environment = lmdb.open(str(tmp_path), max_dbs=1)
    with environment.begin(write=True) as transaction:
        transaction.put(b"1", b"x", db=environment.open_db(b"images", transaction))
    environment.close()
    with pytest.raises(SourceError, match=r"data.mdb' contains a named database, 'images'(.|\n)*file of their own"):
        LmdbRecords(str(tmp_path))


@pytest.mark.parametrize("psize", [512, 1024, 65536])
def test_databases_that_were_changed_often(psize, tmp_path, monkeypatch):
    rng, right = random.Random(psize), {}
    environment = lmdb.open(str(tmp_path), map_size=1 << 26)
    for _ in range(30):
        with environment.begin(write=True) as transaction:
            for _ in range(40):
                key = b"%d" % rng.randrange(300)
                if rng.randrange(3):
                    right[key] = rng.randbytes(rng.choice((3, 700, 9000)))
                    transaction.put(key, right[key])
                elif right.pop(key, None) is not None:
                    transaction.delete(key)
    environment.close()
    records = LmdbRecords(str(tmp_path))
    found = {records.key(n): bytes(v) for n, v in enumerate(records.get(np.arange(len(records))))}
    assert found == right


def read_all(path):
    records = LmdbRecords(str(path))
    return records.get(np.arange(len(records)))


def test_damaged_databases_are_errors(database, tmp_path):
    data = (database / "data.mdb").read_bytes()
    rng, file = random.Random(11), tmp_path / "data.mdb"
    outcomes = {"read": 0, "refused": 0}
    file.write_bytes(data)
    for number in range(MUTATIONS):
        with file.open("r+b") as opened:
            page = 4096 * rng.choice((0, 1, *range(2, len(data) // 4096)))
            places = [page + rng.choice((rng.randrange(16), rng.randrange(160), rng.randrange(4096))) for _ in range(3)]
            for place in places:
                opened.seek(place)
                opened.write(bytes([rng.choice((0, 1, 255, rng.randrange(256)))]))
            if number % 20 == 0:
                opened.truncate(rng.randrange(len(data)))
        try:
            read_all(tmp_path)
            outcomes["read"] += 1  # a value was hit, or nothing that is read
        except (SourceError, SampleError):
            outcomes["refused"] += 1
        with file.open("r+b") as opened:  # as it was
            if number % 20 == 0:
                opened.write(data)
            for place in places:
                opened.seek(place)
                opened.write(data[place : place + 1])
    assert len(read_all(tmp_path)) == 400
    assert min(outcomes.values()) > MUTATIONS // 10


def test_pages_that_lead_in_circles(database, tmp_path):
    data = bytearray((database / "data.mdb").read_bytes())
    root = LmdbRecords(str(database))._root
    page = root.root * root.page
    pointer = int.from_bytes(data[page + 16 : page + 18], "little")
    data[page + pointer : page + pointer + 6] = root.root.to_bytes(6, "little")
    (tmp_path / "data.mdb").write_bytes(data)
    with pytest.raises(SourceError, match="damaged"):
        LmdbRecords(str(tmp_path))


TRUNCATE = """
import sys, os
import numpy as np
from penstock import Pipeline, fn
from penstock.errors import PenstockError
kind, path, file, keep = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
with Pipeline(batch_size=8, num_threads=2, seed=1) as pipeline:
    if kind == "lmdb":
        pipeline.set_outputs(*fn.readers.caffe2(path=path, random_shuffle=True))
    elif kind == "mapped":
        pipeline.set_outputs(fn.readers.arrays(np.load(file, mmap_mode="r")[10:], random_shuffle=True))
    else:
        pipeline.set_outputs(*fn.readers.mnist(path=path, split="test", random_shuffle=True))
pipeline.run()
os.truncate(file, keep)
try:
    for _ in range(100):
        pipeline.run()
    print("READ")
except PenstockError as error:
    print("REFUSED", type(error).__name__, error)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "keep"), [("lmdb", 1 << 18), ("lmdb", 0), ("mapped", 1 << 18), ("idx", 1 << 14), ("idx", 0)]
)
def test_a_file_that_is_cut_while_it_is_read(kind, keep, tmp_path):
    if kind == "lmdb":
        write_caffe2(tmp_path, ((bytes(8000), n % 10) for n in range(400)))
        file = tmp_path / "data.mdb"
    elif kind == "mapped":
        file = tmp_path / "rows.npy"
        np.save(file, np.zeros((400, 8000), np.uint8))
    else:
        file = tmp_path / "t10k-images-idx3-ubyte"
        file.write_bytes(bytes([0, 0, 8, 3]) + np.array([400, 28, 28], ">u4").tobytes() + bytes(400 * 784))
        labels = bytes([0, 0, 8, 1]) + np.array([400], ">u4").tobytes() + bytes(400)
        (tmp_path / "t10k-labels-idx1-ubyte").write_bytes(labels)
    command = [sys.executable, "-c", TRUNCATE, kind, str(tmp_path), str(file), str(keep)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    if kind != "idx":
        kinds = ("SourceError", "SampleError") if kind == "lmdb" else ("SourceError",)
        assert done.stdout.split()[:2] in [["REFUSED", each] for each in kinds], done.stdout
        assert str(tmp_path) in done.stdout
    else:
        assert done.stdout.startswith("READ"), "the data are in memory"


def test_a_database_that_is_written_to_while_it_is_read(tmp_path):
    write_caffe2(tmp_path, [(b"one", 1), (b"two", 2)])
    source = caffe2(tmp_path)
    source.read(np.array([0, 1]), [None, None])
    write_caffe2(tmp_path, [(b"three", 3)])
    with pytest.raises(SourceError, match="has been written to since it was opened"):
        source.read(np.array([0, 1]), [None, None])
    assert source.describe(0).endswith("at key 00000000")
    del source
    assert bytes(caffe2(tmp_path).read(np.array([0]), [None, None])[0][0]) == b"three"


def test_a_damaged_record_of_the_second_database_is_named_with_its_number(tmp_path):
    for name in ("a", "b"):
        write_caffe2(tmp_path / name, ((bytes(20_000), n) for n in range(4)))
    source = caffe2(tmp_path / "a", tmp_path / "b")
    file = tmp_path / "b" / "data.mdb"
    os.truncate(file, file.stat().st_size - 12_000)
    with pytest.raises(SampleError, match=r"^sample 7 \(.*b at key 00000003\) cannot be read: .* are left") as caught:
        source.read(np.arange(8), [None, None])
    assert (caught.value.index, caught.value.path) == (7, str(file))


def test_reading_needs_no_package(tmp_path):
    write_caffe2(tmp_path, [(b"one", 1)])
    code = (
        "import sys; sys.modules['lmdb'] = None\nfrom penstock.sources.formats.lmdb.lmdb_records import LmdbRecords\n"
    )
    code += f"print(len(LmdbRecords({str(tmp_path)!r})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == "1"
