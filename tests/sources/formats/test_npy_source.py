"""NumPy's files: what is read equals what numpy.load reads, and what is damaged is named."""

import io
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from mutations import MUTATIONS, mutated

from penstock import Pipeline, fn, types
from penstock.errors import DefinitionError, PenstockError, SampleError, SourceError, SourceNotFoundError
from penstock.sources.files.file_selection import FileSelection
from penstock.sources.formats.npy.npy_source import NpySource, parse_npy
from penstock.sources.storage import disk_cache
from penstock.testing import check_source

ENDS = ("roi_end", "roi_shape", "rel_roi_end", "rel_roi_shape")


def saved(array, version=None):
    file = io.BytesIO()
    np.lib.format.write_array(file, np.asanyarray(array), version)
    return file.getvalue()


def parse(data):
    return parse_npy(np.frombuffer(data, np.uint8))


@given(
    array=arrays(
        st.sampled_from(["bool", "uint8", "int8", "<u2", ">u2", ">i4", "<i8", "<f2", ">f4", "<f8"]),
        array_shapes(min_dims=0, min_side=0),
    ),
    version=st.sampled_from([None, (1, 0), (2, 0), (3, 0)]),
    fortran=st.booleans(),
    after=st.binary(max_size=3),
)
def test_arrays_are_read_as_numpy_reads_them(array, version, fortran, after):
    data = saved(np.asfortranarray(array) if fortran and array.ndim else array, version) + after
    read, expected = parse(data), np.load(io.BytesIO(data))
    assert (read.dtype, read.shape) == (expected.dtype.newbyteorder("="), expected.shape)
    assert read.flags.c_contiguous
    assert np.array_equal(read, expected, equal_nan=read.dtype.kind == "f")


def npy_tree(root, file_filter="*.npy"):
    return NpySource(FileSelection(root, None, None, file_filter))


def npy_files(root, files):
    return NpySource(FileSelection(root, files, None, "*.npy"))


def npy_list(file_list):
    return NpySource(FileSelection(None, None, file_list, "*.npy"))


def test_sources(tmp_path):
    for number in range(5):
        np.save(tmp_path / f"{number}.npy", np.full((number, 3), number))
    (tmp_path / "list").write_text("3.npy\n1.npy\n")
    for source in (
        npy_tree(str(tmp_path)),
        npy_files(str(tmp_path), ("4.npy", "0.npy")),
        npy_list(str(tmp_path / "list")),
    ):
        check_source(source)
    np.save(tmp_path / "number.npy", np.float32(2))
    check_source(npy_files(str(tmp_path), ("number.npy",) * 3))
    one, other = (npy_files(str(tmp_path), (name,)) for name in ("1.npy", "2.npy"))
    assert not one.reads_same_samples(other)
    assert one.reads_same_samples(npy_files(str(tmp_path), ("1.npy",)))
    assert one.fingerprint() != other.fingerprint()


bound = st.one_of(st.integers(-3, 12), st.floats(-3, 12, width=32))


@settings(max_examples=40)
@given(
    shapes=st.lists(array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=9), min_size=2, max_size=4),
    kinds=st.lists(st.sampled_from(["C", "F", ">", "long", "cut"]), min_size=4, max_size=4),
    start=st.one_of(st.none(), bound.map(lambda x: ("roi_start", x)), bound.map(lambda x: ("rel_roi_start", x / 10))),
    stop=st.one_of(*[bound.map(lambda x, n=n: (n, x / (10 if "rel" in n else 1))) for n in ENDS]),
    axes=st.sampled_from([[0], [1], [-2], []]),
    policy=st.sampled_from(["error", "pad", "trim_to_shape"]),
)
def test_a_part_is_what_a_slice_cuts_out_of_the_whole(shapes, kinds, start, stop, axes, policy, tmp_path_factory):
    root = tmp_path_factory.mktemp("parts")
    for number, (shape, kind) in enumerate(zip(shapes, kinds, strict=False)):
        array = np.arange(np.prod(shape), dtype=">i4" if kind == ">" else "<i4").reshape(shape)
        data = saved(np.asfortranarray(array) if kind == "F" else array, (2, 0) if kind == "long" else None)
        (root / f"{number}.npy").write_bytes(data[:-1] if kind == "cut" and number else data)
    bounds = dict(each for each in (start, stop) if each)
    outcomes = []
    for as_node in (False, True):
        pipeline = Pipeline(batch_size=1, exec_async=False, prefetch_queue_depth=1)
        with pipeline:
            given = {name: [value] * (len(axes) or 2) for name, value in bounds.items()}
            if as_node:
                given = {name: fn.constant(value, dtype=types.FLOAT64) for name, value in given.items()}
            pipeline.set_outputs(
                fn.readers.numpy(file_root=root, **given, roi_axes=axes, out_of_bounds_policy=policy, fill_value=7)
            )
        outcomes.append([outcome(pipeline) for _ in shapes])
    assert outcomes[0] == outcomes[1]


def test_a_part_that_ends_before_it_begins_is_refused_while_tracing(tmp_path):
    np.save(tmp_path / "0.npy", np.zeros((0, 0), np.int32))
    with pytest.raises(DefinitionError, match="has its end at -1, before its start at 0"), Pipeline(batch_size=1):
        fn.readers.numpy(file_root=tmp_path, roi_start=[0, 0], roi_end=[-1.0, -1.0], roi_axes=[])


def outcome(pipeline):
    try:
        return pipeline.run()[0].at(0).tolist()
    except PenstockError as error:
        return type(error)


@pytest.mark.parametrize(("order", "axis"), [("C", 0), ("F", 1)])
def test_no_more_is_read_than_holds_the_part(order, axis, tmp_path, monkeypatch):
    for number in range(3):
        np.save(tmp_path / f"{number}.npy", np.asarray(np.arange(200_000).reshape(500, 400), order=order))
    taken, plain = [], disk_cache.read_range
    monkeypatch.setattr(disk_cache, "read_range", lambda path, *at: taken.append(at[1] - at[0]) or plain(path, *at))
    pipeline = Pipeline(batch_size=3)
    with pipeline:
        pipeline.set_outputs(fn.readers.numpy(file_root=tmp_path, roi_start=[60, 50], roi_shape=[2, 2]))
    assert pipeline.run()[0].as_array()[2].tolist() == [[24050, 24051], [24450, 24451]]
    check_source(pipeline.graph.readers[0].operator.source)
    pipeline.close()
    assert set(taken) == {128, 2 * 8 * (400, 500)[axis]}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "begins with b''"),
        (b"\x93NUMPY\x04\x00\x10\x00" + bytes(16), "a version up to 3"),
        (saved([1, 2, 3])[:-1], "23 of 24 bytes are left"),
        (saved([1, 2, 3])[:40], "a header of"),
        (saved(np.array(["a"])), "only booleans, integers and floats"),
        (saved(np.zeros(2, [("x", "f4")])), "only booleans, integers and floats"),
        (saved(np.zeros(2, np.complex64)), "only booleans, integers and floats"),
        (saved([1, 2, 3]).replace(b"(3,)", b"(-3,"), "no dictionary"),
        (saved([1, 2, 3]).replace(b"(3,), ", b"(-3,),"), r"shape \(-3,\)"),
        (saved([1, 2, 3]).replace(b"shape", b"shade"), "no dictionary"),
        (saved([1, 2, 3]).replace(b"(3,), }    ", b"(10**9,), }"), "no dictionary"),
        (saved([1, 2, 3]).replace(b"(3,), }      ", b"(999999999,)}"), "24 of 7999999992 bytes are left"),
        (saved([[1, 2]]), "where sample 0 has"),
        (saved([1.0]), "where sample 0 has"),
    ],
)
def test_a_bad_file_is_named(tmp_path, data, message):
    np.save(tmp_path / "0.npy", [1, 2, 3])
    (tmp_path / "1.npy").write_bytes(data)
    source = npy_tree(str(tmp_path))
    with pytest.raises(SampleError, match=message) as caught:
        source.read(np.array([0, 1]), [None])
    assert (caught.value.index, caught.value.path) == (1, str(tmp_path / "1.npy"))
    if "sample 0" not in message:
        with pytest.raises(SourceError, match=message):
            npy_files(str(tmp_path), ("1.npy",))


def test_what_is_not_there(tmp_path):
    with pytest.raises(SourceNotFoundError, match="no folder"):
        npy_tree(str(tmp_path / "none"))
    with pytest.raises(SourceError, match="no files found"):
        npy_tree(str(tmp_path))
    with pytest.raises(SourceNotFoundError, match="no file"):
        npy_files(str(tmp_path), ("none.npy",))
    (tmp_path / "empty").write_text("\n\n")
    with pytest.raises(SourceError, match="lists no files"):
        npy_list(str(tmp_path / "empty"))


def test_mutated_files_are_errors_or_arrays():
    rng = random.Random(3)
    good = [saved(np.arange(24).reshape(2, 3, 4)), saved(np.asfortranarray(np.ones((3, 5), ">f4")), (2, 0))]
    outcomes = {"read": 0, "refused": 0}
    for number in range(MUTATIONS):
        data = mutated(good[number % 2], rng)
        try:
            array = parse(data)
        except ValueError:
            outcomes["refused"] += 1
        else:
            outcomes["read"] += 1
            assert array.nbytes <= len(data)
    assert min(outcomes.values()) > MUTATIONS // 20


def test_a_definition_gives_one_of_three(tmp_path):
    np.save(tmp_path / "0.npy", [1, 2, 3])
    for options, message in (
        ({}, "nothing to read"),
        ({"files": ["0.npy"], "file_list": "list"}, "files and file_list cannot be combined"),
        ({"file_root": tmp_path, "roi_start": 1, "rel_roi_start": 0.5}, "given twice"),
        ({"file_root": tmp_path, "roi_start": [1, 2]}, "one per axis"),
        (
            {"file_root": tmp_path, "roi_start": 2, "roi_shape": 5, "out_of_bounds_policy": "wrap"},
            "out_of_bounds_policy",
        ),
    ):
        with Pipeline(batch_size=1), pytest.raises(PenstockError, match=message):
            fn.readers.numpy(**options)
