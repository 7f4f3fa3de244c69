"""Data of other libraries: undecoded files of Hugging Face, images of Pillow, tensors of PyTorch, and paths."""

import io
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from penstock import Batch, data_iterator, fn, pipeline_def, types
from penstock.errors import (
    ArgumentTypeError,
    DefinitionError,
    PenstockError,
    SampleError,
    SourceError,
    SourceNotFoundError,
)
from penstock.sources.external.array_conversion import to_column, to_sample
from tests.support.pipeline_runs import build_pipeline, run

PIXELS = np.random.default_rng(5).integers(0, 256, (3, 6, 4, 3), np.uint8)


def png(pixels):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


@pytest.fixture
def paths(tmp_path):
    for number, pixels in enumerate(PIXELS):
        (tmp_path / f"{number}.png").write_bytes(png(pixels))
    return [tmp_path / f"{number}.png" for number in range(len(PIXELS))]


def forms(paths):
    return {
        "bytes": [path.read_bytes() for path in paths],
        "undecoded bytes": [{"bytes": path.read_bytes(), "path": None} for path in paths],
        "undecoded bytes with a name": [{"bytes": path.read_bytes(), "path": path.name} for path in paths],
        "undecoded paths": [{"bytes": None, "path": str(path)} for path in paths],
        "paths": paths,
    }


FORMS = list(forms([]))


@pytest.mark.parametrize("form", FORMS)
def test_files_are_data(paths, form):
    data = forms(paths)[form]

    def by_function():
        return fn.decoders.image(fn.external_source(source=lambda: data, dtype=types.UINT8, ndim=1))

    def by_sample():
        return fn.decoders.image(fn.external_source(source=lambda info: data[info.idx_in_epoch % 3], batch=False))

    def by_items():
        return fn.decoders.image(fn.readers.items(data))

    for define in (by_function, by_sample, by_items):
        assert np.array_equal(np.stack(run(define, batch_size=3)[0]), PIXELS)

    @pipeline_def(batch_size=3)
    def fed():
        return fn.decoders.image(fn.external_source(name="files"))

    pipeline = fed()
    pipeline.feed_input("files", data)
    assert np.array_equal(np.stack([np.asarray(image) for image in pipeline.run()[0]]), PIXELS)
    # Calls on data.
    assert np.array_equal(fn.decoders.image(data[0]), PIXELS[0])
    assert np.array_equal(np.stack(fn.decoders.image(data)), PIXELS)
    assert np.array_equal(np.stack([*fn.decoders.image(Batch(data))]), PIXELS)


def test_a_data_set_of_hugging_face(paths):
    datasets = pytest.importorskip("datasets", reason="datasets is not installed (dependency group test-all)")
    table = datasets.Dataset.from_dict({"image": [str(path) for path in paths], "label": [5, 6, 7]})
    undecoded = table.cast_column("image", datasets.Image(decode=False))
    decoded = table.cast_column("image", datasets.Image())

    @data_iterator(output_map=["image", "label"], reader_name="reader")
    def from_files():
        row = fn.readers.items(undecoded, random_shuffle=True, name="reader")
        return fn.resize(fn.decoders.image(row["image"]), size=[4, 4]), row["label"]

    @data_iterator(output_map=["image", "label"], reader_name="reader")
    def from_images():
        row = fn.readers.items(decoded, layout={"image": "HWC"}, random_shuffle=True, name="reader")
        return fn.resize(row["image"], size=[4, 4]), row["label"]

    (one,), (other,) = from_files(batch_size=3, seed=2), from_images(batch_size=3, seed=2)
    assert sorted(np.asarray(one["label"]).tolist()) == [5, 6, 7]
    assert np.array_equal(one["label"], other["label"])
    assert np.array_equal(one["image"], other["image"])


IMAGES = {
    "L": (Image.fromarray(PIXELS[0, :, :, 0]), PIXELS[0, :, :, :1]),
    "RGB": (Image.fromarray(PIXELS[0]), PIXELS[0]),
    "RGBA": (Image.fromarray(PIXELS[0]).convert("RGBA"), np.concatenate([PIXELS[0], np.full((6, 4, 1), 255)], axis=2)),
    "1": (Image.fromarray(PIXELS[0, :, :, 0] > 99), 255 * (PIXELS[0, :, :, :1] > 99).astype(np.uint8)),
    "I;16": (Image.fromarray(PIXELS[0, :, :, 0].astype(np.uint16) * 200), PIXELS[0, :, :, :1].astype(np.uint16) * 200),
    "F": (Image.fromarray(PIXELS[0, :, :, 0] / np.float32(7)), PIXELS[0, :, :, :1] / np.float32(7)),
}


@pytest.mark.parametrize("mode", IMAGES)
def test_images_of_pillow_have_a_channel_axis(mode):
    image, expected = IMAGES[mode]
    assert image.mode == mode
    pixels = to_sample(image)
    assert pixels.tolist() == expected.tolist()
    assert pixels.dtype == {"I;16": np.uint16, "F": np.float32}.get(mode, np.uint8)


@pytest.mark.parametrize("mode", ["P", "PA", "CMYK", "YCbCr", "LAB", "HSV"])
def test_images_whose_numbers_are_not_colors_are_refused(mode):
    image = Image.fromarray(PIXELS[0]).convert("RGBA" if mode == "PA" else "RGB")
    image = image.convert("P").convert("PA") if mode == "PA" else image.convert(mode)
    with pytest.raises(ArgumentTypeError, match=r'image.convert\("RGB"\)'):
        fn.flip(image)


def test_images_of_pillow_are_data():
    images = [Image.fromarray(pixels) for pixels in PIXELS]
    mirrored = PIXELS[:, :, ::-1]
    assert np.array_equal(fn.flip(images[0]), mirrored[0])
    assert np.array_equal(np.stack(fn.flip(images)), mirrored)
    for define in (
        lambda: fn.flip(fn.readers.arrays(images)),
        lambda: fn.flip(fn.readers.items(images)),
        lambda: fn.flip(fn.external_source(source=lambda: images)),
    ):
        assert np.array_equal(np.stack(run(define, batch_size=3)[0]), mirrored)
    grays = [image.convert("L") for image in images]
    assert run(lambda: fn.readers.arrays(grays), batch_size=3)[0].shape == (3, 6, 4, 1)


def test_one_sample_is_no_batch(paths):
    for sample in (Image.fromarray(PIXELS[0]), paths[0], {"bytes": b"1", "path": None}):
        with pytest.raises(ArgumentTypeError, match="a list of samples"):
            to_column(sample)


def test_files_that_cannot_be_read(tmp_path):
    gone = tmp_path / "gone.png"
    for data in (gone, {"bytes": None, "path": str(gone)}):
        with pytest.raises(SourceNotFoundError, match=r"gone\.png"):
            fn.decoders.image(data)
        with pytest.raises(SampleError, match=r"gone\.png"):
            build_pipeline(lambda data=data: fn.readers.items([data]), batch_size=1)
    with pytest.raises(SourceError, match="folder"):
        fn.decoders.image(tmp_path)
    with pytest.raises(ArgumentTypeError, match="bytes or a path"):
        fn.decoders.image({"bytes": None, "path": None})


def test_columns_may_be_named_bytes_and_path():
    columns = {"bytes": [b"ab", b"c"], "path": ["x", "y"]}
    outputs = run(lambda: (fn.readers.items(columns)["bytes"], fn.readers.items(columns)["path"]), batch_size=2)
    assert [[bytes(value) for value in output] for output in outputs] == [[b"ab", b"c"], [b"x", b"y"]]


def test_paths_name_data_sets(paths):
    folder = paths[0].parent
    (folder / "classes" / "class").mkdir(parents=True)
    (folder / "classes" / "class" / "0.png").write_bytes(paths[0].read_bytes())
    (folder / "list.txt").write_text("0.png 3\n1.png 4\n")
    np.save(folder / "0.npy", PIXELS[0])
    readers = {
        "files": lambda p: fn.readers.file(files=[p / "0.png", p / "1.png"])[0],
        "file_root": lambda p: fn.readers.file(file_root=p / "classes", dir_filters="class")[0],
        "file_list": lambda p: fn.readers.file(file_list=p / "list.txt")[0],
        "numpy files": lambda p: fn.readers.numpy(files=[p / "0.npy"]),
        "numpy root": lambda p: fn.readers.numpy(file_root=p, file_filter="*.npy"),
    }
    for name, read in readers.items():
        (result,) = run(lambda read=read: read(folder), batch_size=1)
        (expected,) = run(lambda read=read: read(_Text(folder)), batch_size=1)
        assert np.array_equal(result[0], expected[0]), name


class _Text:
    """Folder whose joined paths are strings."""

    def __new__(cls, folder):
        return _Joined(folder)


class _Joined(str):
    def __truediv__(self, name):
        return str(Path(self) / name)


def test_tensors_of_pytorch():
    torch = pytest.importorskip(
        "torch", reason="PyTorch is not installed: PyPI's wheel with CUDA is too large for the dependency group test"
    )
    tensor = torch.arange(24, dtype=torch.float32).reshape(2, 3, 4)
    assert np.shares_memory(to_sample(tensor), tensor.numpy())
    with_gradient = tensor.clone().requires_grad_()
    assert np.shares_memory(to_sample(with_gradient), with_gradient.detach().numpy())
    halves = tensor.to(torch.bfloat16)
    assert to_sample(halves).dtype == jnp.bfloat16
    assert to_sample(halves).astype(np.float32).tolist() == tensor.tolist()
    for refused in (tensor.to_sparse(), torch.empty(3, device="meta")):
        with pytest.raises(ArgumentTypeError):
            to_sample(refused)
    expected = tensor.numpy() * 2
    for value in (tensor, with_gradient, [*tensor], [*with_gradient]):
        (read,) = run(lambda value=value: fn.readers.arrays(value) * 2, batch_size=2)
        (fed,) = run(lambda value=value: fn.external_source(source=lambda: value) * 2, batch_size=2)
        assert read.tolist() == fed.tolist() == expected.tolist()
    assert np.stack(fn.cast([*with_gradient], dtype=types.INT32)).tolist() == tensor.int().tolist()
    assert fn.flip(torch.zeros(6, 4, 3, dtype=torch.uint8)).shape == (6, 4, 3)
    (labels,) = run(lambda: fn.readers.items([{"y": label} for label in torch.arange(3)])["y"], batch_size=3)
    assert labels.tolist() == [0, 1, 2]


def test_samples_of_one_size_in_arrays():
    with pytest.raises((ArgumentTypeError, DefinitionError)):
        build_pipeline(
            lambda: fn.readers.arrays([Image.fromarray(PIXELS[0]), Image.fromarray(PIXELS[0, :3])]), batch_size=1
        )


MASKED = np.ma.masked_values(np.float32([[14.5, 1e20], [15.5, 16.0]]), 1e20)


@pytest.mark.parametrize(
    "define",
    [
        lambda: fn.readers.arrays(MASKED),
        lambda: fn.readers.arrays([MASKED[1], MASKED[0]]),
        lambda: fn.readers.items(MASKED),
        lambda: fn.readers.items([MASKED[0]]),
        lambda: fn.readers.items({"a": MASKED[:, 1]})["a"],
        lambda: fn.external_source(lambda: MASKED),
        lambda: fn.external_source(lambda: [MASKED[1], MASKED[0]]),
        lambda: fn.external_source(lambda: MASKED[0], batch=False),
        lambda: fn.python_function(fn.readers.arrays(np.ones(2)), function=lambda _: MASKED),
        lambda: fn.python_function(fn.readers.arrays(np.ones(2)), function=lambda _: MASKED, dtype="float32", ndim=2),
    ],
    ids=["arrays", "list", "items", "item", "column", "batch", "samples", "sample", "function", "declared function"],
)
def test_masked_elements_are_not_data(define):
    with pytest.raises(PenstockError, match=r"masked elements[\s\S]*filled\(value\)"):
        run(define, batch_size=2)


def test_masked_arrays_without_masked_elements_are_arrays():
    full = np.ma.array(np.eye(2, dtype=np.float32))  # netCDF4 returns such arrays of complete data
    for define in (
        lambda: fn.readers.arrays(full),
        lambda: fn.readers.items([*full]),
        lambda: fn.external_source(lambda: full),
        lambda: fn.python_function(fn.readers.arrays(np.ones(2)), function=lambda _: full[0]),
    ):
        (read,) = run(define, batch_size=2)
        assert read[0].tolist() == [1, 0]
