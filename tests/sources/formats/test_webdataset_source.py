"""Tar files, against the readers of WebDataset and of Python; what is damaged is named."""

import io
import os
import random
import tarfile
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mutations import MUTATIONS, mutated
from PIL import Image
from webdataset import autodecode
from webdataset.tariterators import group_by_keys, tar_file_iterator

from penstock import Pipeline, fn, types
from penstock.errors import DefinitionError, PenstockError, SampleError, SourceError
from penstock.sources.formats.tar.webdataset_source import Components, WebdatasetSource
from penstock.testing import check_source

UINT8, INT32 = np.dtype(np.uint8), np.dtype(np.int32)


def tar(members, form=tarfile.PAX_FORMAT):
    """Return an archive; a text is the name that a hard link repeats."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as file:
        for name, data in members:
            entry = tarfile.TarInfo(name)
            if isinstance(data, str):
                entry.type, entry.linkname = tarfile.LNKTYPE, data
                file.addfile(entry)
                continue
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


TEXTS = st.integers(-300, 300).map(lambda number: b"%d" % number) | st.sampled_from([b" 7\n", b"+4", b"x", b"", b"1.5"])


@given(st.lists(TEXTS, min_size=1, max_size=6), st.sampled_from([UINT8, INT32, np.dtype(np.int8), np.dtype("f4")]))
def test_numbers_read_together_are_those_read_alone(tmp_path_factory, texts, dtype):
    path = tmp_path_factory.mktemp("tar") / "a.tar"
    path.write_bytes(
        tar([item for n, text in enumerate(texts) for item in ((f"{n}.jpg", b"j" * n), (f"{n}.cls", text))])
    )
    wanted = Components((frozenset(["jpg"]), frozenset(["cls"])), True, "error")
    found = WebdatasetSource((str(path),), (), wanted, (UINT8, dtype), frozenset([1]))

    def values(indices):
        try:
            images, numbers = found.read(indices, [None, None])
        except SampleError as error:
            return [str(error)]
        return [(bytes(image), number.dtype, number.tolist()) for image, number in zip(images, numbers, strict=True)]

    alone = [values(np.array([index]))[0] for index in range(len(texts))]
    errors = [value for value in alone if isinstance(value, str)]
    assert values(np.arange(len(texts))) == (errors[:1] or alone)


def test_sources(tmp_path):
    one, two = tmp_path / "a.tar", tmp_path / "b.tar"
    one.write_bytes(tar(pairs(4)))
    two.write_bytes(tar([*pairs(3, 4), ("d/9.jpg", b"alone")]))
    found = source(one, two)
    check_source(found)
    assert len(found) == 8
    assert found.describe(4) == f"{two} at byte 512"
    assert read(found)[7] == [b"alone", b""]
    assert found.describe(7) == f"{two} at byte 6656, which has no file that ends in cls"
    check_source(source(one, two, missing="skip"))
    assert len(source(one, two, missing="skip")) == 7
    with pytest.raises(SourceError, match=r"the sample at byte .* has no file that ends in cls"):
        source(one, two, missing="error")
    assert found.reads_same_samples(source(one, two))
    assert not found.reads_same_samples(source(one, two, ext=("jpg",)))
    assert found.fingerprint() != source(two, one).fingerprint()
    with pytest.raises(SampleError, match=r"sample 0 .* has b.cls. for output 1, where") as caught:
        read(source(one, dtypes=(UINT8, INT32)))
    assert (caught.value.index, caught.value.path) == (0, str(one))


def test_indexes(tmp_path):
    path, index = tmp_path / "a.tar", tmp_path / "a.idx"
    path.write_bytes(tar(pairs(2)))
    index.write_text("v1.1 2\njpg 512 3 cls 1536 3\njpg 2560 6\n")
    assert read(source(path, indexes=[index])) == [[b"jpg", b"cls"], [b"jpgjpg", b""]]
    index.write_text("v1.2 2\r\njpg 512 3 x png 512 1 x jpg 0 0 x\r\n jpeg 2560 6 \tx  cls 3584 6 x")
    assert read(source(path, indexes=[index], ext=["jpeg;jpg", "png"])) == [[b"jpg", b"j"], [b"jpgjpg", b""]]
    assert read(source(path, indexes=[index], ext=["cls", "jpeg"], missing="skip")) == [[b"clscls", b"jpgjpg"]]
    for content, message in (
        ("", "is not an index"),
        ("v1.2 1\njpg 512 3\n", "is not an index"),
        ("v1.2 2\njpg 512 3 d/0.jpg\n", "is not an index"),
        ("v9 1\njpg 512 3 d/0.jpg\n", "is not an index"),
        ("v1.2 1\njpg five 3 d/0.jpg\n", "is not an index"),
        ("v1.2 1\njpg 51200 3 d/0.jpg\n", "goes beyond its end"),
        ("v1.2 1\njpg 512 -3 d/0.jpg\n", "is not an index"),
        ("v1.2 1\njpg 512 1234567890123456789 d/0.jpg\n", "is not an index"),
        ("v1.2 2\njpg 512 3 d/0.jpg\n\n\ncls 1536 3 d/0.cls\n", "is not an index"),
        ("v9 0\n", "is not an index"),
        ("v1.2 -1\njpg\n", "is not an index"),
        ("v1.2 0\n", "belongs to another file: it lists no files"),
        ("v1.1 1\njpg 513 3\n", "multiples of 512"),
        # The first or the last file is not the one in the index.
        ("v1.2 1\njpg 512 4 d/0.jpg cls 1536 3 d/0.cls\n", "belongs to another file: .*'jpg' and 4 bytes at byte 512"),
        ("v1.2 1\ncls 512 3 d/0.cls cls 1536 3 d/0.cls\n", "belongs to another file: .*'cls' and 3 bytes at byte 512"),
        ("v1.2 1\njpg 512 3 d/0.jpg cls 2048 3 d/0.cls\n", "belongs to another file: .*'cls' and 3 bytes at byte 2048"),
        ("v1.2 1\njpg 512 3 d/0.jpg cls 0 3 d/0.cls\n", "belongs to another file: .*'cls' and 3 bytes at byte 0"),
    ):
        index.write_text(content)
        with pytest.raises(SourceError, match=message):
            source(path, indexes=[index])
    with pytest.raises(SourceError, match=r"index .* does not exist"):
        source(path, indexes=[tmp_path / "none"])
    empty, none = tmp_path / "empty.tar", tmp_path / "empty.idx"
    empty.write_bytes(tar([]))
    none.write_text("v1.2 0\n")
    index.write_text("v1.2 1\njpg 512 3 d/0.jpg cls 1536 3 d/0.cls\n")
    assert read(source(empty, path, indexes=[none, index])) == [[b"jpg", b"cls"]]


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
@pytest.mark.parametrize("key", ["é" * 40, "d" * 95, "d" * 90 + "/" + "k" * 80, "d" * 600])
def test_indexes_of_files_with_long_names(tmp_path, form, key):
    if form == tarfile.USTAR_FORMAT and "/" not in key and len(key) > 90:
        pytest.skip("the format has no names of this length")
    path, index = tmp_path / "a.tar", tmp_path / "a.idx"
    path.write_bytes(tar([(f"{key}.seg.{ext}", b"data") for ext in ("jpg", "cls")], form))
    with tarfile.open(path) as file:
        (image, label) = (member.offset_data for member in file)
    index.write_text(f"v1.2 1\nseg.jpg {image} 4 {key}.seg.jpg seg.cls {label} 4 {key}.seg.cls\n")
    assert read(source(path, indexes=[index], ext=("seg.jpg", "seg.cls"))) == [[b"data", b"data"]]


def test_indexes_with_many_extensions(tmp_path):
    path, index = tmp_path / "a.tar", tmp_path / "a.idx"
    path.write_bytes(tar(pairs(1)))
    index.write_text("v1.1 1\njpg 512 3 " + "".join(f"e{n} 512 3 " for n in range(999)) + "cls 1536 3\n")
    assert read(source(path, indexes=[index], ext=["cls", "e500"])) == [[b"cls", b"jpg"]]
    # A search of all earlier extensions for each one took 5 s.
    index.write_text("v1.1 1\njpg 512 3 " + "".join(f"e{n} 512 3 " for n in range(65_000)) + "cls 1536 3\n")
    start = time.process_time()
    assert read(source(path, indexes=[index], ext=["cls", "e500"])) == [[b"cls", b"jpg"]]
    assert time.process_time() - start < 1


def test_hard_links_are_the_files_they_repeat(tmp_path):
    name = "long/" * 40
    whole, linked = tmp_path / "whole.tar", tmp_path / "linked.tar"
    whole.write_bytes(tar([*pairs(2), ("2.cls", b"cls"), ("3.jpg", b"new"), ("3.cls", b"cls"), ("4.cls", b"new")]))
    linked.write_bytes(
        tar([*pairs(2), ("2.cls", "d/0.cls"), ("3.jpg", b"new"), ("3.cls", "2.cls"), ("4.cls", "3.jpg")])
    )
    assert read(source(linked)) == read(source(whole))
    linked.write_bytes(tar([(name + "a.jpg", b"1"), (name + "b.jpg", name + "a.jpg")], tarfile.GNU_FORMAT))
    assert read(source(linked)) == [[b"1", b""]] * 2
    check_source(source(linked))


def test_symbolic_links_are_left_out_as_in_dali(tmp_path):
    path, out = tmp_path / "a.tar", io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as file:
        for name, data in (("0.jpg", b"jpg"), ("1.jpg", None), ("1.cls", b"1"), ("2.jpg", None)):
            entry = tarfile.TarInfo(name)
            entry.size = len(data or b"")
            if data is None:
                entry.type, entry.linkname = tarfile.SYMTYPE, "0.jpg"
            file.addfile(entry, io.BytesIO(data or b""))
    path.write_bytes(out.getvalue())
    assert read(source(path)) == [[b"jpg", b""], [b"", b"1"]]


def test_the_error_of_a_decoder_says_that_a_sample_lacks_a_component(tmp_path):
    path = tmp_path / "a.tar"
    path.write_bytes(tar([("0.cls", b"0"), ("1.cls", b""), ("1.jpg", b"")]))
    for row, message in (
        (0, r"at byte 512, which has no file that ends in jpeg;jpg\): the file is empty"),
        (1, r"at byte 2048\): the file is empty"),
    ):
        with Pipeline(batch_size=1) as pipeline:
            images, _ = fn.readers.webdataset(paths=path, ext=["jpg;jpeg", "cls"], shard_id=row, num_shards=2)
            pipeline.set_outputs(fn.decoders.image(images))
        with pytest.raises(SampleError, match=message):
            pipeline.run()
        pipeline.close()


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
        (data + data, r"data follows the end of the tar file at byte \d+: read joined archives as separate files"),
        (data + bytes(2 << 20) + b"x", "data follows the end"),
        (tar([("a.jpg", b"1"), ("a.jpg", b"2")]), "'a.jpg' is there twice"),
        (
            tar([("b.jpg", "a.jpg"), ("a.jpg", b"1")]),
            "'b.jpg' at byte 512 is a link to 'a.jpg', which is not before it",
        ),
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
        ({"ext": ["jpg;cls"], "decode": True}, "must have the same decoder"),
        ({"ext": []}, "ext is empty"),
        ({"paths": []}, "paths is empty"),
        ({"missing_component_behavior": "ignore"}, "no such missing_component_behavior"),
        ({"index_paths": [path, path]}, "one entry per file"),
        ({"dtypes": ["int32", "int32", "int32"]}, "one entry per ext"),
    ):
        with Pipeline(batch_size=1), pytest.raises(DefinitionError, match=message):
            fn.readers.webdataset(**{"paths": path, "ext": ["jpg", "cls"], **options})


def outputs(pipeline, *nodes, rows):
    """The samples of nodes."""
    pipeline.set_outputs(*nodes)
    found = [[np.asarray(sample) for sample in output] for output in pipeline.run()]
    pipeline.close()
    assert all(len(column) == rows for column in found)
    return found


@pytest.mark.parametrize("dtype", [types.INT8, types.INT16, types.UINT16, types.INT32, types.INT64, types.UINT64])
@pytest.mark.parametrize("ext", ["cls", "txt", "seg.cls", "id"])
def test_text_of_a_number_is_read_as_that_number(tmp_path, dtype, ext):
    path = tmp_path / "a.tar"
    texts = [b"3", b"12", b"+7\n", b" 100 "]
    path.write_bytes(tar([(f"{n}.{ext}", text) for n, text in enumerate(texts)]))
    with Pipeline(batch_size=4) as pipeline:
        nodes = fn.readers.webdataset(paths=path, ext=ext, dtypes=dtype)
    (column,) = outputs(pipeline, nodes, rows=4)
    assert [(sample.dtype, sample.tolist()) for sample in column] == [(np.dtype(dtype), [int(text)]) for text in texts]


def test_bytes_are_numbers_only_of_their_size_and_of_no_text(tmp_path):
    path = tmp_path / "a.tar"
    for ext, content, dtype, expected in (
        ("cls", b"1234", types.INT32, [1234]),
        ("cls", b"1234", types.UINT8, [49, 50, 51, 52]),
        ("bin", b"1234", types.INT32, [875770417]),
        ("cls", b"\3\0\0\0", types.INT32, [3]),
        ("cls", b"cat\0", types.INT32, [0x746163]),
        ("cls", b"cat\n", types.FLOAT, [np.frombuffer(b"cat\n", np.float32).item()]),
        ("cls", b"", types.INT32, []),
    ):
        path.write_bytes(tar([(f"0.{ext}", content)]))
        (column,) = source(path, ext=(ext,), dtypes=[np.dtype(dtype)]).read(np.arange(1), [None])
        assert column[0].tolist() == expected
    for ext, content, dtype, message in (
        ("cls", b"cat", types.INT32, "has b'cat' for output 0, where the text of a whole number is expected"),
        ("cls", b"cat\n", types.INT32, r"has b'cat\\n' for output 0, where the text"),
        ("txt", b"1.0\n", types.INT32, r"has b'1\.0\\n' for output 0, where the text"),
        ("id", b"12 13 14", types.INT64, "has b'12 13 14' for output 0, where the text"),
        ("cls", b"A", types.INT8, "has b'A' for output 0, where the text"),
        ("cls", b"\3\0\0", types.INT32, "has 3 bytes for output 0, which are no int32"),
        ("bin", b"3", types.INT32, "has 1 bytes for output 0, which are no int32"),
        ("cls", b"300", types.INT8, "has 300 for output 0, which is beyond int8"),
        ("cls", b"9" * 39, types.INT64, "beyond int64"),
    ):
        path.write_bytes(tar([(f"0.{ext}", content)]))
        with pytest.raises(SampleError, match=message):
            source(path, ext=(ext,), dtypes=[np.dtype(dtype)]).read(np.arange(1), [None])


def encoded(write):
    file = io.BytesIO()
    write(file)
    return file.getvalue()


def fields(number):
    pixels = np.full((6, 4 + number, 3), 40 * number, np.uint8)
    return {
        "png": encoded(lambda file: Image.fromarray(pixels).save(file, "PNG")),
        "seg.png": encoded(lambda file: Image.fromarray(pixels[..., 0]).save(file, "PNG")),
        "cls": str(number - 1).encode(),
        "id": str(2**40 + number).encode(),
        "txt": f"é{number}".encode(),
        "json": b'{"a": [1, 2]}',
        "npy": encoded(lambda file: np.save(file, np.full((2, number), number / 2))),
        "bin": bytes([number, 255]),
    }


def test_fields_are_decoded_as_in_webdatasets_own_library(tmp_path):
    path = tmp_path / "a.tar"
    samples = [fields(number) for number in range(4)]
    path.write_bytes(tar([(f"{n}.{ext}", data) for n, sample in enumerate(samples) for ext, data in sample.items()]))
    decoder = autodecode.Decoder([autodecode.imagehandler("rgb8")])
    expected = [decoder({"__key__": str(n), **sample}) for n, sample in enumerate(samples)]
    with Pipeline(batch_size=4) as pipeline:
        nodes = fn.readers.webdataset(paths=path, ext=list(samples[0]), decode=True)
    assert [str(node.spec) for node in nodes[2:4]] == ["int64[]", "int64[]"]
    for ext, column in zip(samples[0], outputs(pipeline, *nodes, rows=4), strict=True):
        for mine, sample, raw in zip(column, expected, samples, strict=True):
            theirs = sample[ext] if ext not in ("txt", "json", "bin") else np.frombuffer(raw[ext], np.uint8)
            assert mine.shape == np.shape(theirs)
            assert mine.tolist() == np.asarray(theirs).tolist()
            if ext == "txt":
                assert bytes(mine).decode() == sample[ext]


def test_decoded_fields_in_types_of_the_users(tmp_path):
    path = tmp_path / "a.tar"
    samples = [fields(number) for number in range(4)]
    path.write_bytes(tar([(f"{n}.{ext}", data) for n, sample in enumerate(samples) for ext, data in sample.items()]))
    with Pipeline(batch_size=4) as pipeline:
        nodes = fn.readers.webdataset(
            paths=path,
            ext=["jpg;png", "cls", "npy", "bin"],
            dtypes=[types.FLOAT, types.INT16, types.INT32, types.UINT16],
            decode=True,
        )
    images, classes, arrays, numbers = outputs(pipeline, *nodes, rows=4)
    assert images[1].dtype == np.float32
    assert abs(images[1] - 40 / 255).max() < 1e-6
    assert [(sample.dtype, sample.item()) for sample in classes] == [(np.int16, n - 1) for n in range(4)]
    assert arrays[3].tolist() == [[2, 2, 2]] * 2
    assert numbers[2].tolist() == [0xFF02]


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"cat", "has b'cat' for output 0, where the text"), (None, "has nothing for output 0.*behavior=.skip")],
    ids=["text", "missing"],
)
def test_a_class_that_is_no_number_is_named(tmp_path, content, message):
    path = tmp_path / "a.tar"
    others = [] if content is None else [("1.cls", content)]
    path.write_bytes(tar([("0.cls", b"3"), ("1.txt", b"x"), *others]))
    with Pipeline(batch_size=2) as pipeline:
        pipeline.set_outputs(fn.readers.webdataset(paths=path, ext="cls", decode=True))
    with pytest.raises(SampleError, match=message):
        pipeline.run()
    pipeline.close()


def test_shards_by_folder_glob_and_pattern(tmp_path):
    for number in range(12):
        (tmp_path / f"s-{number:03d}.tar").write_bytes(tar([(f"{number}.cls", str(number).encode())]))
        (tmp_path / f"s-{number:03d}.idx").write_text(f"v1.2 1\ncls 512 {len(str(number))} {number}.cls\n")
    (tmp_path / ".s-000.tar.partial.tar").write_bytes(b"half")
    (tmp_path / "{0..1}[a].tar").write_bytes(tar([("0.cls", b"77")]))

    def read(paths, **options):
        with Pipeline(batch_size=1) as pipeline:
            pipeline.set_outputs(fn.readers.webdataset(paths=paths, ext="cls", decode=True, name="r", **options))
        found = [pipeline.run()[0].as_array().item() for _ in range(pipeline.reader_meta("r")["epoch_size"])]
        pipeline.close()
        return found

    every = list(range(12))
    assert read(tmp_path / "{0..1}[a].tar") == [77], "a file that exists is that file"
    (tmp_path / "{0..1}[a].tar").unlink()
    assert read(tmp_path) == read(str(tmp_path) + "/") == read(tmp_path, index_paths=tmp_path) == every
    assert read(f"{tmp_path}/s-*.tar") == read(f"{tmp_path}/s-{{000..011}}.tar") == every
    assert read(f"{tmp_path}/s-{{010..008}}.tar", index_paths=f"{tmp_path}/s-{{010,009,008}}.idx") == [10, 9, 8]
    assert read([f"{tmp_path}/s-00{{1,3}}.tar", tmp_path / "s-01[01].tar"]) == [1, 3, 10, 11]
    (tmp_path / "empty").mkdir()
    for paths, message in (
        (f"{tmp_path}/x-*.tar", "no file matches"),
        (tmp_path / "empty", "has no files that end in .tar"),
        (f"{tmp_path}/s-{{010..012}}.tar", "there is no file '.*s-012.tar'"),
    ):
        with Pipeline(batch_size=1), pytest.raises(SourceError, match=message):
            fn.readers.webdataset(paths=paths, ext="cls")


@pytest.mark.parametrize("folders", [("",), ("a", "b")])
def test_indexes_of_folders_are_found_by_name(tmp_path, folders):
    """`train.more.tar` is before `train.tar`, and `train.idx` before `train.more.idx`."""
    number = 0
    for folder in folders:
        (tmp_path / folder).mkdir(exist_ok=True)
        for name in ("train", "train.more", "train-2"):
            text = str(7**number).encode()
            (tmp_path / folder / f"{name}.tar").write_bytes(tar([(f"{number}.cls", text)]))
            (tmp_path / folder / f"{name}.idx").write_text(f"v1.2 1\ncls 512 {len(text)} {number}.cls\n")
            number += 1
    paths = [tmp_path / folder for folder in folders]

    def read(**options):
        with Pipeline(batch_size=number) as pipeline:
            pipeline.set_outputs(fn.readers.webdataset(ext="cls", dtypes=types.INT32, **options))
        found = np.concatenate([np.asarray(sample) for sample in pipeline.run()[0]]).tolist()
        pipeline.close()
        return found

    assert read(paths=paths, index_paths=paths) == read(paths=paths)
    if folders == ("",):
        files = [f"{tmp_path}/train{part}.tar" for part in ("", ".more")]
        assert read(paths=files, index_paths=f"{tmp_path}/trai*[!2].idx")[:2] == [1, 7]
        for name in ("train", "train.more"):  # names that differ: in the order of the lists, as in DALI
            (tmp_path / f"{name}.idx").rename(tmp_path / f"of_{name}")
        assert read(paths=files, index_paths=[tmp_path / "of_train", tmp_path / "of_train.more"])[:2] == [1, 7]
        with pytest.raises(SourceError, match="belongs to another file"):
            read(paths=files, index_paths=[tmp_path / "train-2.idx", tmp_path / "of_train.more"])
