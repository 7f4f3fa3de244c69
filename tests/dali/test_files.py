"""What reads, names and writes files, against DALI."""

import io

import numpy as np
import pytest
from PIL import Image

dali = pytest.importorskip("nvidia.dali", reason="DALI is not installed (dependency group dali)")

import penstock  # noqa: E402  # after the check for DALI
from penstock import Pipeline  # noqa: E402  # likewise


@pytest.fixture
def root(tmp_path, monkeypatch):
    random = np.random.default_rng(1)
    (tmp_path / "a").mkdir()
    for number in range(3):
        Image.fromarray(random.integers(0, 256, (4, 5 + number, 3), np.uint8)).save(tmp_path / f"a/{number}.png")
        np.save(tmp_path / f"{number}.npy", np.arange(6, dtype=np.int16).reshape(2, 3) + number)
    np.save(tmp_path / "a/9.npy", np.ones((1, 2), np.int16))
    (tmp_path / "list.txt").write_text("a/2.png 5\na/0.png 6\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(lib, define, batches=1):
    pipeline = dali.Pipeline(2, 1, None, prefetch_queue_depth=1) if lib is dali else Pipeline(2, exec_async=False)
    with pipeline:
        outputs = define(lib)
        pipeline.set_outputs(*(outputs if isinstance(outputs, tuple | list) else [outputs]))
    return [
        [(np.array(sample).dtype, np.array(sample).tolist()) for sample in output]
        for _ in range(batches)
        for output in pipeline.run()
    ]


def same(define, batches=1):
    found = run(penstock, define, batches)
    assert found == run(dali, define, batches)
    return found


def info(lib, node):
    return lib.fn.get_property(node, key="source_info")


def computed(lib):
    data, label = lib.fn.readers.file(file_root=".")
    images = lib.fn.decoders.image(data)
    small = lib.fn.resize(images, size=[2, 2])
    values = [data, label, images, small, small * 2 + 1, images.shape(), small[0], lib.fn.random.uniform(small)]
    values += [lib.fn.stack(small, small), small + lib.fn.cast(label, dtype=lib.types.UINT8), info(lib, data)]
    return [info(lib, value) for value in values]


def moved(lib):
    images = lib.fn.decoders.image(lib.fn.readers.file(file_root=".")[0])
    images = lib.fn.resize(images, size=[2, 2])
    empty = lib.fn.external_source(lambda: [np.zeros((2, 2, 3), np.uint8)] * 2, layout="HWC")
    ids = lib.fn.external_source(lambda: [np.int32([0]), np.int32([1, 0, 1])])
    permuted = lib.fn.permute_batch(images, indices=[1, 0])
    pasted = lib.fn.multi_paste(images, permuted, empty, output_size=[4, 4])
    nodes = [
        permuted,
        pasted,
        lib.fn.cast(pasted, dtype=lib.types.FLOAT),
        permuted + images,
        lib.fn.multi_paste(images, in_ids=[1, 1], output_size=[4, 4]),
        lib.fn.multi_paste(permuted, in_ids=ids, output_size=[4, 4]),
    ]
    return tuple(info(lib, node) for node in nodes)


@pytest.mark.parametrize(
    "define",
    [
        computed,
        moved,
        lambda lib: info(lib, lib.fn.readers.file(files=["a/2.png", "a/1.png"])[0]),
        lambda lib: info(lib, lib.fn.readers.file(file_list="list.txt")[0]),
        lambda lib: info(lib, lib.fn.readers.file(files=["2.png", "1.png"], file_root="a")[0]),
        lambda lib: info(lib, lib.fn.readers.numpy(file_root=".")),
        lambda lib: info(lib, lib.fn.readers.numpy(files=["2.npy", "a/9.npy"])),
        lambda lib: info(lib, lib.fn.external_source(lambda: [np.zeros(3, np.uint8)] * 2)),
        lambda lib: lib.fn.readers.numpy(file_root=".").source_info(),
    ],
    ids=range(9),
)
def test_samples_have_the_same_names(root, define):
    same(define, batches=2)


@pytest.mark.parametrize("suffix", ["", "x"])
@pytest.mark.parametrize("grey", [False, True])
def test_the_same_files_are_written(root, suffix, grey):
    def define(lib):
        images = lib.fn.decoders.image(lib.fn.readers.file(file_root=".")[0])
        if grey:
            images = lib.fn.color_space_conversion(images, image_type=lib.types.RGB, output_type=lib.types.GRAY)
        return lib.fn.dump_image(images, suffix=suffix), lib.fn.dump_image(images, suffix="y", input_layout="HWC")

    written = {}
    for lib in (dali, penstock):
        for path in root.glob("*.ppm"):
            path.unlink()
        run(lib, define)
        written[lib] = {path.name: path.read_bytes() for path in root.iterdir() if path.is_file()}
        assert {"0-y-0.ppm", f"1-{suffix}-0.ppm"} <= set(written[lib])
    assert written[dali] == written[penstock]


def npy(array):
    np.save(file := io.BytesIO(), array)
    return np.frombuffer(file.getvalue(), np.uint8)


@pytest.mark.parametrize(
    "arrays",
    [
        [np.float32([[1, 2]]), np.float32([[1], [2]])],
        [np.array(3.5), np.array(-1.0)],
        [np.ones(2, np.int8)] * 2,
    ],
    ids=range(3),
)
def test_arrays_of_files_tell_their_types(root, arrays):
    files = [npy(array) for array in arrays]
    same(lambda lib: lib.fn.decoders.numpy(lib.fn.external_source(lambda: files)))
    np.save(root / "first.npy", arrays[0])
    name = np.frombuffer(b"first.npy", np.uint8)
    same(lambda lib: lib.fn.decoders.numpy(lib.fn.io.file.read(lib.fn.external_source(lambda: [name] * 2))))
    same(lambda lib: lib.fn.decoders.numpy(lib.fn.readers.file(files=["first.npy"] * 2)[0], dtype=lib.types.FLOAT))


def test_arrays_of_other_types_are_refused(root):
    for second in (np.int32([1, 2]), np.float32([[1, 2]])):
        files = [npy(np.float32([1, 2])), npy(second)]
        for lib, error in ((penstock, penstock.errors.SampleError), (dali, RuntimeError)):
            with pytest.raises(error):
                run(lib, lambda lib, files=files: lib.fn.decoders.numpy(lib.fn.external_source(lambda: files)))
