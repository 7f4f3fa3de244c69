"""Tests of `penstock pack`: contents, resuming after a kill, errors."""

import errno
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import jax
import numpy as np
import pytest
from array_record.python.array_record_module import ArrayRecordReader
from PIL import Image
from webdataset import autodecode, tariterators

from penstock import Pipeline, fn, tfrecord, types
from penstock.cli import main
from penstock.errors import DefinitionError
from penstock.pack import Reencoding
from penstock.pack.shard_formats import ArrayRecord, Tar
from penstock.sources.formats.recordio_source import encode_record, write_recordio
from penstock.sources.formats.tfrecord.example_message import decode_feature, locate_features

COUNT = 23


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Create a folder of JPEGs and a PNG of three classes, each image with a different color."""
    root = tmp_path_factory.mktemp("photos")
    for number in range(COUNT):
        folder = root / f"class{number % 3}"
        folder.mkdir(exist_ok=True)
        image = Image.new("RGB", (60 + number, 40), (10 * number, 0, 0))
        image.save(folder / (f"{number:02d}.png" if number == 5 else f"{number:02d}.JPEG"))
    return root


@pytest.fixture(scope="module")
def contents(photos):
    """Return the bytes of each file with its class as text."""
    return {path.read_bytes(): path.parent.name[-1].encode() for path in photos.rglob("*.*")}


def pack(*words):
    return main(["pack", *map(str, words)])


def run(*words):
    """Pack and check that it succeeds."""
    assert pack(*words, "--threads", 3) == 0


def members(folder):
    """Return the files in all tars of a folder, read with `tarfile`."""
    found = {}
    for path in sorted(folder.glob("*.tar")):
        with tarfile.open(path) as archive:
            found |= {entry.name: archive.extractfile(entry).read() for entry in archive}
    return found


def samples(folder):
    """Return the values of each sample by extension."""
    found = {}
    for name, data in members(folder).items():
        key, _, extension = name.partition(".")
        found.setdefault(key, {})[extension] = data
    return found


def test_image_folder_to_tars(photos, contents, tmp_path, capsys):
    run(photos, tmp_path, "--samples-per-shard", 6)
    assert "23 samples in 4 shards, verified" in capsys.readouterr().out
    names = [f"data-0000{n}-of-00004" for n in range(4)]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [*(n + ".tar" for n in names), *(n + ".idx" for n in names), "pack.jsonl"]
    )
    packed = samples(tmp_path)
    assert list(packed) == [f"{number:09d}" for number in range(COUNT)]
    assert {s.get("jpg") or s["png"]: s["cls"] for s in packed.values()} == contents
    assert sum("png" in sample for sample in packed.values()) == 1
    order = [list(contents).index(sample.get("jpg") or sample["png"]) for sample in packed.values()]
    assert order != sorted(order), "they are shuffled"
    tars = sorted(map(str, tmp_path.glob("*.tar")))
    by_library = []
    for tar in tars:
        with open(tar, "rb") as file:  # noqa: PTH123  # a name
            streams = [{"url": tar, "stream": file}]
            by_library += tariterators.group_by_keys(tariterators.tar_file_expander(streams))
    decoded = [autodecode.Decoder([])(sample)["cls"] for sample in by_library]
    assert decoded == [int(sample["cls"]) for sample in packed.values()]
    for indexes in ({}, {"index_paths": sorted(map(str, tmp_path.glob("*.idx")))}):
        with Pipeline(batch_size=COUNT) as pipeline:
            images, classes = fn.readers.webdataset(paths=tars, ext=["jpg;png", "cls"], **indexes)
            pipeline.set_outputs(images, classes)
        read = zip(*pipeline.run(), strict=True)
        assert [(bytes(i), bytes(c)) for i, c in read] == [
            (sample.get("jpg") or sample["png"], sample["cls"]) for sample in packed.values()
        ]


def test_image_folder_to_array_records(photos, contents, tmp_path):
    run(photos, tmp_path, "--format", "array_record", "--samples-per-shard", 9)
    found = {}
    label, image = tfrecord.FixedLenFeature((), tfrecord.int64, 0), tfrecord.FixedLenFeature((), tfrecord.string, "")
    for path in sorted(tmp_path.glob("data-*-of-00003.array_record")):
        for record in ArrayRecordReader(str(path)).read_all():
            example, data = memoryview(record), np.frombuffer(record, np.uint8)
            features = locate_features(example, {b"label": label, b"image": image})
            number = decode_feature(label, features[b"label"], example, data)
            found[decode_feature(image, features[b"image"], example, data).tobytes()] = str(int(number)).encode()
    assert found == contents


def red(image):
    """Return the red values that identify the photos."""
    return round(float(image[..., 0].mean()) / 10)


def test_packed_tars_are_read_with_one_call(photos, tmp_path):
    run(photos, tmp_path, "--samples-per-shard", 6)
    with Pipeline(batch_size=COUNT) as pipeline:
        images, classes = fn.readers.webdataset(paths=tmp_path, ext=["jpg;png", "cls"], decode=True)
        pipeline.set_outputs(images, classes)
    images, classes = pipeline.run()
    numbers = [red(np.asarray(image)) for image in images]
    assert sorted(numbers) == list(range(COUNT))
    assert [np.asarray(image).shape for image in images] == [(40, 60 + number, 3) for number in numbers]
    assert classes.as_array().tolist() == [number % 3 for number in numbers]
    pipeline.close()


def test_packed_array_records_are_read_with_one_call(photos, tmp_path):
    run(photos, tmp_path, "--format", "array_record", "--names", "image,label", "--samples-per-shard", 9)
    features = {
        "label": tfrecord.FixedLenFeature((), tfrecord.int64, -1),
        "image": tfrecord.FixedLenFeature((), tfrecord.string, ""),
    }
    with Pipeline(batch_size=COUNT) as pipeline:
        data = fn.readers.array_record(paths=tmp_path, features=features)
        assert list(data) == list(features)
        pipeline.set_outputs(fn.decoders.image(data["image"]), data["label"])
    images, labels = pipeline.run()
    numbers = [red(np.asarray(image)) for image in images]
    assert sorted(numbers) == list(range(COUNT))
    assert labels.as_array().tolist() == [number % 3 for number in numbers]
    pipeline.close()


@pytest.mark.parametrize("form", ["tar", "array_record"])
def test_packed_values_of_definition_are_read_back(program, tmp_path, form):
    run(f"{program}:everything", tmp_path, "--in-order", "--format", form, "--samples-per-shard", 7)
    features = {
        "bin": tfrecord.FixedLenFeature((), tfrecord.string, ""),
        "number": tfrecord.FixedLenFeature((), tfrecord.int64, -1),
        "wave.npy": tfrecord.FixedLenFeature((2, 3), tfrecord.int64, None),
    }
    with Pipeline(batch_size=20) as pipeline:
        if form == "tar":
            kinds = [None, types.INT32, None]
            data = fn.readers.webdataset(paths=tmp_path, ext=list(features), dtypes=kinds, decode=True)
        else:
            data = fn.readers.array_record(paths=tmp_path, features=features).values()
        pipeline.set_outputs(*data)
    files, numbers, waves = pipeline.run()
    assert [bytes(file) for file in files] == [bytes([n]) * 3000 for n in range(20)]
    assert numbers.as_array().ravel().tolist() == list(range(20))
    assert waves.as_array().tolist() == [[[n] * 3] * 2 for n in range(20)]
    pipeline.close()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.int32(3), b"3"),
        (np.array([-4]), b"-4"),
        (np.uint8(55), b"55"),
        (np.bool_(True), b"1"),
        (np.array([7], np.float32), b"7"),
        (np.float64(-2.0), b"-2"),
        (np.array([5], jax.numpy.bfloat16), b"5"),
        (np.frombuffer(b"7", np.uint8), b"7"),  # a file that was read as bytes
        (np.frombuffer(b"12\n", np.uint8), b"12\n"),
        (np.empty(0, np.uint8), b""),
    ],
    ids=repr,
)
def test_whole_numbers_are_packed_as_text(value, text):
    assert Tar().members("0", {"cls": np.asarray(value)}) == [("0.cls", text)]


@pytest.mark.parametrize(
    "value",
    [
        *(np.float32(0.5), np.float64("nan"), np.array([np.inf]), np.array([1.0, 2.0])),
        *(np.array([1, 2]), np.empty(0, np.int32), np.array([3], np.uint8), np.frombuffer(b"cat", np.uint8)),
    ],
    ids=repr,
)
@pytest.mark.parametrize("name", ["cls", "a.id"])
def test_other_values_of_names_of_numbers_are_refused(value, name):
    with pytest.raises(DefinitionError, match=f"'{name}' stores a whole number as text") as caught:
        Tar().members("0", {name: np.asarray(value)})
    assert str(np.asarray(value).dtype) in str(caught.value)


def test_labels_of_bytes_are_read_back(program, tmp_path):
    run(f"{program}:bytes_as_classes", tmp_path, "--in-order")
    assert [sample["cls"] for sample in samples(tmp_path).values()] == [b"50", b"200"]
    run(f"{program}:texts_as_classes", tmp_path / "texts", "--in-order")
    assert [sample["cls"] for sample in samples(tmp_path / "texts").values()] == [b"50", b"7"]


def test_labels_that_may_be_numbers_or_text_are_refused(program, tmp_path, capsys):
    assert pack(f"{program}:arrays_as_classes", tmp_path, "--in-order") == 2
    assert "'cls' stores a whole number as text, and a uint8 array may be" in capsys.readouterr().err


def test_files_of_arrays_are_not_encoded_again(tmp_path):
    waves = [np.arange(4), np.ones(6, int)]
    for number, wave in enumerate(waves):
        np.save(tmp_path / f"{number}.npy", wave)
    (tmp_path / "list.txt").write_text("0.npy 0\n1.npy 1\n")
    run(tmp_path / "list.txt", tmp_path / "packed", "--in-order")
    with Pipeline(batch_size=2) as pipeline:
        pipeline.set_outputs(fn.readers.webdataset(paths=tmp_path / "packed", ext="npy", decode=True))
    (read,) = pipeline.run()
    assert all(np.array_equal(array, wave) for array, wave in zip(read, waves, strict=True))
    pipeline.close()
    raw = np.array([147, 78], np.uint8)
    assert np.array_equal(np.load(io.BytesIO(Tar().members("0", {"npy": raw})[0][1])), raw)


@pytest.mark.parametrize(
    ("value", "kind"),
    [(np.uint64(2**63 + 5), "int64"), (np.array([1.0, 1e300]), "float32"), (np.array([-1e39]), "float32")],
    ids=repr,
)
def test_numbers_that_do_not_fit_into_examples_are_refused(value, kind):
    with pytest.raises(DefinitionError, match=f"an Example message stores 'x' as {kind}"):
        ArrayRecord().members("0", {"x": np.asarray(value), "y": np.asarray(0)})


def test_largest_numbers_of_examples_are_kept():
    values = {"x": np.uint64(2**63 - 1), "y": np.array([np.inf, -np.inf, 3e38])}
    ((_, record),) = ArrayRecord().members("0", {name: np.asarray(value) for name, value in values.items()})
    features = {
        b"x": tfrecord.FixedLenFeature((), tfrecord.int64, 0),
        b"y": tfrecord.VarLenFeature(tfrecord.float32, 0.0),
    }
    located, data = locate_features(memoryview(record), features), np.frombuffer(record, np.uint8)
    x, y = (decode_feature(feature, located[name], memoryview(record), data) for name, feature in features.items())
    assert (int(x), y.tolist()) == (2**63 - 1, [np.inf, -np.inf, float(np.float32(3e38))])


def test_labels_of_floats_are_read_back(tmp_path):
    write_recordio(tmp_path / "a.rec", [encode_record(b"image", [float(n)]) for n in range(3)])
    program = tmp_path / "records.py"
    program.write_text(f"""
from penstock import fn

def records():
    images, labels = fn.readers.mxnet(path=[{str(tmp_path / "a.rec")!r}])
    return {{"bin": images, "cls": labels}}
""")
    run(f"{program}:records", tmp_path / "packed", "--in-order")
    with Pipeline(batch_size=3) as pipeline:
        pipeline.set_outputs(fn.readers.webdataset(paths=tmp_path / "packed", ext="cls", dtypes=types.INT32))
    assert pipeline.run()[0].as_array().ravel().tolist() == [0, 1, 2]
    pipeline.close()


PROGRAM = """
import os, time
import numpy as np
from penstock import fn, pipeline_def

class Numbers:
    def __len__(self):
        return 20
    def __getitem__(self, index):
        if "HANG" in os.environ and index == int(os.environ["HANG"]):
            time.sleep(1000)
        return {"bin": bytes([index]) * 3000, "number": np.int32(index), "wave.npy": np.full((2, 3), index)}

def everything():
    return fn.readers.items(Numbers())

@pipeline_def(batch_size=4)
def some():
    data = fn.readers.items(Numbers(), subset=slice(7), random_shuffle=True)
    return data["bin"]

def computed():
    return fn.readers.items(Numbers())["number"] + 1

def takes(data):
    return data

def numbered():
    return {1: fn.readers.items(Numbers())["number"]}

def two():
    return {"a": fn.readers.arrays([1, 2]), "b": fn.readers.arrays([1, 2])}

def arrays_as_classes():
    return {"cls": fn.readers.items([np.array([50], np.uint8)] * 2, subset=slice(1))}

def texts_as_classes():
    return {"cls": fn.readers.items([b"50", b"7"])}

def bytes_as_classes():
    classes = np.array([[50], [200]], np.uint8)
    return {"cls": fn.readers.arrays(classes)}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("program") / "numbers_of_mine.py"
    path.write_text(PROGRAM)
    return path


def test_user_definition_is_packed(program, tmp_path):
    run(f"{program}:everything", tmp_path / "all", "--in-order", "--title", "train")
    (tar,) = (tmp_path / "all").glob("train-00000-of-00001.tar")
    with Pipeline(batch_size=20) as pipeline:
        numbers = fn.readers.webdataset(paths=str(tar), ext=["number"], dtypes=[types.INT32])
        pipeline.set_outputs(numbers)
    assert pipeline.run()[0].as_array().ravel().tolist() == list(range(20))
    third = samples(tmp_path / "all")["000000003"]
    assert np.load(io.BytesIO(third["wave.npy"])).tolist() == [[3, 3, 3]] * 2
    run(f"{program}:some", tmp_path / "some", "--format", "array_record", "--names", "x", "--samples-per-shard", 4)
    paths = sorted(map(str, (tmp_path / "some").glob("*.array_record")))
    with Pipeline(batch_size=7) as pipeline:
        pipeline.set_outputs(fn.readers.array_record(paths=paths))
    assert sorted(bytes(record) for record in pipeline.run()[0]) == [bytes([n]) * 3000 for n in range(7)]


@pytest.mark.parametrize("form", ["tar", "array_record"])
def test_output_does_not_depend_on_threads_and_depends_on_seed(photos, tmp_path, form):
    options = "--samples-per-shard", 5, "--format", form
    for name, more in (("one", ("--threads", 1)), ("three", ("--threads", 3)), ("other", ("--seed", 1))):
        assert pack(photos, tmp_path / name, *options, *more) == 0
    one, three, other = (
        [p.read_bytes() for p in sorted((tmp_path / n).glob("data*"))] for n in ("one", "three", "other")
    )
    if form == "tar":
        assert one == three
    assert one != other


def test_large_images_are_downsized_and_small_ones_kept(photos, tmp_path):
    run(photos, tmp_path / "30", "--resize-shorter", 30)
    run(photos, tmp_path / "50", "--resize-shorter", 50)
    run(photos, tmp_path / "q", "--quality", 60)
    before, small, kept, anew = (
        [Image.open(io.BytesIO(s.get("jpg") or s["png"])) for s in samples(tmp_path / name).values()]
        for name in ("30", "30", "50", "q")
    )
    assert {min(image.size) for image in small} == {30}
    assert {image.format for image in before + anew} == {"JPEG"}
    assert {min(image.size) for image in kept + anew} == {40}
    assert sum(image.format == "PNG" for image in kept) == 1, "as it was"
    reds = sorted(np.asarray(image)[15, 15, 0] for image in small)
    assert np.abs(np.array(reds, int) - 10 * np.arange(COUNT)).max() <= 3
    assert max(round(image.width * 4 / 3) for image in small) in range(COUNT + 57, COUNT + 62)


def encoded(values, form):
    file = io.BytesIO()
    Image.fromarray(values).save(file, form)
    return file.getvalue()


GRADIENT = np.tile(np.linspace(0, 65535, 64).astype(np.uint16), (48, 1))


@pytest.mark.parametrize(
    "data",
    [
        *(encoded(GRADIENT, form) for form in ("PNG", "TIFF", "JPEG2000")),
        *(b"P5 64 48 %d\n" % white + (GRADIENT * (white / 65535)).astype(">u2").tobytes() for white in (65535, 1023)),
    ],
    ids=["PNG", "TIFF", "JPEG 2000", "PGM", "PGM of 10 bits"],
)
def test_gray_images_of_16_bits_are_scaled_to_8(data):
    for recoding in (Reencoding(quality=100), Reencoding(resize_shorter=24, quality=100)):
        image = np.asarray(Image.open(io.BytesIO(recoding(data)[0])))
        means = GRADIENT.reshape(len(image), -1, image.shape[1], 64 // image.shape[1]).mean(axis=(1, 3)) / 257
        # The filter weights the values at the edges differently.
        assert np.abs(image - means)[:, 2:-2].max() <= 2


def test_images_without_a_white_level_are_refused():
    for kind in ("float32", "int32"):
        with pytest.raises(ValueError, match="their white level is unknown"):
            Reencoding(quality=90)(encoded(GRADIENT.astype(kind), "TIFF"))
    data = bytearray(encoded(np.zeros((8, 8, 3), np.uint8), "JPEG2000"))
    depths = data.index(b"\xff\x4f\xff\x51") + 42
    data[depths : depths + 9 : 3] = bytes([11]) * 3
    with pytest.raises(ValueError, match="12 bits per channel"):
        Reencoding(quality=90)(bytes(data))


def entries(folder):
    return [json.loads(line) for line in (folder / "pack.jsonl").read_text().splitlines()]


def test_killed_run_resumes(program, tmp_path):
    command = [sys.executable, "-m", "penstock.cli", "pack", f"{program}:everything", str(tmp_path / "killed")]
    options = ["--in-order", "--samples-per-shard", "4", "--threads", "1"]
    process = subprocess.Popen(
        [*command, *options], env={**os.environ, "HANG": "13"}, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + 100
        # 13 is the second sample of the fourth shard, so three shards get done: a line each, below that of the pack
        ledger = tmp_path / "killed" / "pack.jsonl"
        while not (ledger.exists() and ledger.read_bytes().count(b"\n") == 4):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    done = {path: path.stat() for path in (tmp_path / "killed").glob("data-*.tar")}
    assert len(done) == 3
    run(f"{program}:everything", tmp_path / "killed", *options[:3])
    run(f"{program}:everything", tmp_path / "whole", *options[:3])
    assert members(tmp_path / "killed") == members(tmp_path / "whole")
    assert sorted(p.name for p in (tmp_path / "killed").iterdir()) == sorted(
        p.name for p in (tmp_path / "whole").iterdir()
    )
    assert all(path.stat().st_ino == before.st_ino for path, before in done.items()), "complete ones are kept"
    assert all(path.stat().st_mtime_ns == before.st_mtime_ns for path, before in done.items())


def test_truncated_log_and_missing_shards_are_repaired(photos, tmp_path):
    options = photos, tmp_path, "--samples-per-shard", 6
    run(*options)
    before = members(tmp_path)
    ledger = tmp_path / "pack.jsonl"
    ledger.write_bytes(ledger.read_bytes()[:-9])
    (tmp_path / "data-00001-of-00004.tar").unlink()
    index = tmp_path / "data-00000-of-00004.idx"
    lines = index.read_text()
    index.unlink()
    (tmp_path / ".data-00002-of-00004.tar.partial.tar").write_text("half")
    run(*options)
    assert (members(tmp_path), index.read_text()) == (before, lines)
    assert {entry["shard"] for entry in entries(tmp_path)[1:]} == {0, 1, 2, 3}
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("form", ["tar", "array_record"])
def test_modified_shard_is_detected_and_rewritten(photos, tmp_path, capsys, form):
    options = photos, tmp_path, "--samples-per-shard", 6, "--format", form
    run(*options)
    (first, second, *_) = sorted(path for path in tmp_path.glob("data*") if path.suffix != ".idx")
    damaged = bytearray(first.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    first.write_bytes(damaged)
    second.write_bytes(second.read_bytes()[:1000])
    assert pack(*options) == 1
    said = capsys.readouterr().err
    assert "2 of 4 shards are not what was written" in said
    assert "run the same command again" in said
    assert not first.exists()
    run(*options)
    assert first.stat().st_size == len(damaged)


def test_modified_index_is_detected_and_rewritten(photos, tmp_path, capsys):
    run(photos, tmp_path)
    (index,) = tmp_path.glob("*.idx")
    text = index.read_text()
    index.write_text(text.replace("cls", "jpg"))
    assert pack(photos, tmp_path) == 1
    assert "its index data-00000-of-00001.idx does not list its files" in capsys.readouterr().err
    run(photos, tmp_path)
    assert index.read_text() == text


def test_changed_files_are_refused_if_their_shard_is_complete(photos, tmp_path, capsys):
    root = tmp_path / "photos"
    shutil.copytree(photos, root)
    options = root, tmp_path / "out", "--samples-per-shard", 6, "--in-order"
    run(*options)
    before = members(tmp_path / "out")
    (changed,) = root.rglob("04.JPEG")
    data = bytearray(changed.read_bytes())
    data[-9] ^= 1
    changed.write_bytes(data)
    assert pack(*options) == 2
    assert "its samples have changed since they were packed" in capsys.readouterr().err
    assert members(tmp_path / "out") == before
    # As after a bad sample, which ends packing before its shard is complete: the user repairs the file and continues.
    (tmp_path / "out" / "data-00001-of-00004.tar").unlink()
    run(*options)
    assert bytes(data) in members(tmp_path / "out").values()


def test_changed_values_are_refused(program, tmp_path, capsys):
    options = tmp_path / "out", "--in-order"
    run(f"{program}:everything", *options)
    other = program.with_name("other.py")
    # The first and the last sample are the same.
    other.write_text(program.read_text().replace("np.int32(index)", "np.int32(index in (0, 19) and index)"))
    assert pack(f"{other}:everything", *options) == 2
    assert "its samples have changed since they were packed" in capsys.readouterr().err
    run(f"{program}:everything", *options)


def test_names_of_files_that_are_not_extensions(photos, tmp_path):
    files = ["portrait of Mr. Smith", "a." + "y" * 120, "b.cls", "c.JPEG"]
    image = next(photos.rglob("*.JPEG")).read_bytes()
    for name in files:
        (tmp_path / name).write_bytes(image)
    (tmp_path / "list.txt").write_text("".join(f"{name} {label}\n" for label, name in enumerate(files)))
    run(tmp_path / "list.txt", tmp_path / "out", "--in-order")
    assert [sorted(sample) for sample in samples(tmp_path / "out").values()] == [["bin", "cls"]] * 3 + [["cls", "jpg"]]
    (tar,), (index,) = ([*map(str, (tmp_path / "out").glob(pattern))] for pattern in ("*.tar", "*.idx"))
    with Pipeline(batch_size=4) as pipeline:
        pipeline.set_outputs(*fn.readers.webdataset(paths=tar, index_paths=index, ext=["jpg;bin", "cls"]))
    images, classes = pipeline.run()
    assert [bytes(read) for read in images] == [image] * 4
    assert [bytes(read) for read in classes] == [b"0", b"1", b"2", b"3"]


def test_bad_samples_end_packing_or_are_skipped(photos, tmp_path, capsys, monkeypatch):
    started = []
    monkeypatch.setattr(subprocess, "Popen", lambda *words, **_: started.append(words))
    root = tmp_path / "photos"
    (root / "a").mkdir(parents=True)
    good = next(photos.rglob("*.JPEG")).read_bytes()
    for number in range(9):
        (root / "a" / f"{number}.jpg").write_bytes(good)
    (root / "a" / "3.jpg").write_bytes(good[:200])
    (root / "a" / "5.jpg").write_text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 99 99\n%%EndComments\n")
    options = root, tmp_path / "out", "--resize-shorter", 20, "--samples-per-shard", 3
    assert pack(*options) == 1
    said = capsys.readouterr().err
    assert "cannot be resized or encoded" in said
    assert ".jpg" in said
    assert not [path for path in (tmp_path / "out").iterdir() if path.name.startswith(".")], "nothing half-written"
    assert pack(root, tmp_path / "skip", *options[2:], "--on-error", "skip") == 0
    said = capsys.readouterr()
    assert "7 samples in 3 shards, 2 left out" in said.out
    assert said.err.count("left out: sample") == 2
    assert len(samples(tmp_path / "skip")) == 7
    assert not started, "Ghostscript draws what begins like PostScript"


@pytest.mark.parametrize("form", ["tar", "array_record"])
def test_damaged_images_are_bad_samples(tmp_path, capsys, form):
    folder = tmp_path / "photos" / "class"
    folder.mkdir(parents=True)
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 60, 3), np.uint8))
    intact = set()
    for extension in ("jpg", "png", "webp"):
        path = folder / f"intact.{extension}"
        noise.save(path)
        intact.add(path.read_bytes())
        (folder / f"truncated.{extension}").write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        (folder / f"empty.{extension}").touch()
        (folder / f"page.{extension}").write_text("<html>")
    # Decoders need no end marker in PNGs.
    short = folder / "short.png"
    short.write_bytes((folder / "intact.png").read_bytes()[:-12])
    assert pack(folder.parent, tmp_path / "out", "--format", form) == 1
    assert "cannot be decoded: " in capsys.readouterr().err
    run(folder.parent, tmp_path / "skipped", "--format", form, "--on-error", "skip")
    assert "4 samples in 1 shards, 9 left out" in capsys.readouterr().out
    if form == "tar":
        packed = {data for name, data in members(tmp_path / "skipped").items() if not name.endswith("cls")}
        assert packed == {*intact, short.read_bytes()}


def test_shards_without_samples(photos, tmp_path, capsys):
    (tmp_path / "bad.jpg").touch()
    shutil.copy(next(photos.rglob("*.JPEG")), tmp_path / "good.jpg")
    (tmp_path / "list.txt").write_text("bad.jpg 0\nbad.jpg 1\ngood.jpg 2\ngood.jpg 3\n")
    options = "--in-order", "--samples-per-shard", 2, "--on-error", "skip", "--quality", 90
    run(tmp_path / "list.txt", tmp_path / "out", *options)
    with Pipeline(batch_size=2) as pipeline:
        labels = fn.readers.webdataset(paths=tmp_path / "out", index_paths=tmp_path / "out", ext="cls", decode=True)
        pipeline.set_outputs(labels)
    assert pipeline.run()[0].as_array().tolist() == [2, 3]
    pipeline.close()
    (tmp_path / "list.txt").write_text("bad.jpg 0\n")
    assert pack(tmp_path / "list.txt", tmp_path / "none", *options) == 1
    said = capsys.readouterr()
    assert "all 1 samples were left out" in said.err


def test_full_disk_leaves_no_partial_files(photos, tmp_path, capsys, monkeypatch):
    synced, real = [], os.fsync

    def full(descriptor):
        synced.append(descriptor)
        if len(synced) > 4:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(descriptor)

    options = photos, tmp_path, "--samples-per-shard", 6, "--threads", 1
    monkeypatch.setattr(os, "fsync", full)
    assert pack(*options) == 1
    said = capsys.readouterr().err
    assert "cannot be written: No space left on device" in said
    assert "complete shards are kept" in said
    kept = sorted(path.name for path in tmp_path.iterdir())
    assert kept in (["pack.jsonl"], ["data-00000-of-00004.idx", "data-00000-of-00004.tar", "pack.jsonl"])
    monkeypatch.undo()
    run(*options[:-2])
    assert len(samples(tmp_path)) == COUNT


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["nowhere", "out"], 2, "the folder or file does not exist: 'nowhere'"),
        (["none.py:f", "out"], 2, "the file does not exist: 'none.py'"),
        (["PROGRAM:g", "out"], 2, "has no function 'g'"),
        (["PROGRAM:takes", "out"], 2, "takes must not need arguments"),
        (["PROGRAM:computed", "out", "--names", "x"], 2, "before anything is computed"),
        (["PROGRAM:two", "out"], 2, "values of readers.arrays, readers.arrays"),
        (["PROGRAM:some", "out"], 2, "each value needs a name"),
        (["PHOTOS", "out", "--names", "jpg"], 2, "2 names"),
        (["PHOTOS", "out", "--names", "x,x"], 2, "the names of values must be distinct"),
        (["PHOTOS", "out", "--names", "my image,cls"], 2, "names of values in tar files must be extensions"),
        (["PHOTOS", "out", "--names", "x" * 33 + ",cls"], 2, "at most 32"),
        (["PHOTOS", "out", "--title", "../up"], 2, "the title must be the beginning of a file name"),
        (["PHOTOS", "out", "--title", ".hidden"], 2, "the title must be the beginning of a file name"),
        (["PHOTOS", "out", "--title", "a/b"], 2, "the title must be the beginning of a file name"),
        (["PHOTOS", "out", "--title", ""], 2, "the title must be the beginning of a file name"),
        (["PROGRAM:numbered", "out"], 2, "the names of values must be distinct texts"),
        (["PROGRAM:everything", "out", "--names", "a,b,c"], 2, "'c' has 2 axes"),
        (["PROGRAM:everything", "out", "--quality", "50"], 1, "the bytes are not an image of a known format"),
        (["PHOTOS", "FILE/out"], 1, "cannot be written: Not a directory"),
        (["x" * 300, "out"], 1, "cannot be read: File name too long"),
        (["PHOTOS", "PACKED", "--seed", "2"], 2, "contains another pack"),
        (["PROGRAM:everything", "PACKED"], 2, "contains another pack"),
    ],
    ids=lambda given: given if isinstance(given, str) else None,
)
def test_invalid_arguments_are_refused(photos, program, tmp_path, capsys, monkeypatch, words, code, says):
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    if "PACKED" in words:
        run(photos, "packed")
    here = {"PROGRAM": program, "PHOTOS": photos, "FILE": "file", "PACKED": "packed"}
    for name, path in here.items():
        words = [word.replace(name, str(path)) for word in words]
    assert pack(*words) == code
    said = capsys.readouterr().err
    assert says in said
    assert "Traceback" not in said


def test_an_empty_folder_is_named_without_advice_to_continue(tmp_path, capsys):
    (tmp_path / "photos").mkdir()
    assert pack(tmp_path / "photos", tmp_path / "out") == 1
    said = capsys.readouterr().err
    assert "no files found" in said
    assert "at: " not in said
    assert "complete shards" not in said


def test_concurrent_packing_is_refused(photos, tmp_path, capsys):
    fcntl = pytest.importorskip("fcntl")
    with (tmp_path / "pack.jsonl").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert pack(photos, tmp_path) == 2
    assert "another process is packing" in capsys.readouterr().err
