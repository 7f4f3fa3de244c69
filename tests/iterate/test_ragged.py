"""Tests of ragged images in iterators: only values that need one shape demand it."""

import io

import numpy as np
import pytest
from PIL import Image

from penstock import DataIterator, Pipeline, data_iterator, fn, types
from penstock.errors import SampleError
from penstock.operators.readers.reader_arguments import apply_reader
from penstock.testing import ListSource

SIZES = [(40, 50), (61, 47), (44, 52), (61, 47)]


def photograph(size):
    file, pixels = io.BytesIO(), np.random.default_rng(size[0]).integers(0, 256, (*size, 3), np.uint8)
    Image.fromarray(pixels).save(file, "PNG")
    return np.frombuffer(file.getvalue(), np.uint8)


FILES = [photograph(size) for size in SIZES]


def pipeline(build, dtype=types.UINT8):
    with Pipeline(2, 2, seed=1) as made:
        (files,) = apply_reader(ListSource([FILES]), {}, common={"name": "r"})
        made.set_outputs(build(fn.decoders.image(files, dtype=dtype)))
    return made


def upside_down(images, **kind):
    return fn.python_function(images, function=lambda image: image[::-1], output_layouts="HWC", **kind)


def somewhere():
    return fn.random.uniform(range=[0, 0.2], shape=2)


ONE_SHAPE = {
    "a padded image": (lambda x: fn.pad(x, axes=[0, 1], shape=[70, 71]), (70, 71, 3)),
    "a padded flipped image": (lambda x: fn.pad(fn.flip(x), axes=[0, 1], shape=[70, 71]), (70, 71, 3)),
    "a padded resized image": (lambda x: fn.pad(fn.resize(x, resize_x=30), axis_names="H", shape=[50]), (50, 30, 3)),
    "a padded image of a function": (lambda x: fn.pad(upside_down(x), axes=[0, 1], shape=[70, 71]), (70, 71, 3)),
    "an aligned image": (lambda x: fn.pad(x, axes=[0, 1], align=[64, 64]), (64, 64, 3)),
    "items": (lambda x: x[5:20, 5:21], (15, 16, 3)),
    "items of a resized image": (lambda x: fn.resize(x, resize_x=30)[5:20, 5:21], (15, 16, 3)),
    "a slice": (lambda x: fn.slice(x, rel_start=[0.1, 0.1], shape=(33, 34)), (34, 33, 3)),
    "a slice anywhere": (lambda x: fn.slice(x, rel_start=somewhere(), shape=(33, 34)), (34, 33, 3)),
    "a resized image of a function": (lambda x: fn.resize(upside_down(x), size=(20, 21)), (20, 21, 3)),
    "a resized image of a typed function": (
        lambda x: fn.resize(upside_down(x, dtype=types.UINT8, ndim=3), size=(20, 21)),
        (20, 21, 3),
    ),
    "a function that gives one shape": (
        lambda x: fn.python_function(x, function=lambda image: image[:9, :8].astype(np.float32)),
        (9, 8, 3),
    ),
}


@pytest.mark.parametrize("name", ONE_SHAPE)
def test_ragged_images_can_be_brought_to_one_shape(name):
    build, shape = ONE_SHAPE[name]
    ragged = [sample for _ in range(2) for sample in pipeline(build).run()[0]]
    batches = [np.asarray(batch["x"]) for batch in DataIterator(pipeline(build), ["x"], reader_name="r")]
    assert [batch.shape for batch in batches] == [(2, *shape)] * 2
    assert np.array_equal(batches[0], np.stack(ragged[:2]))


def test_image_of_padded_size_does_not_imply_size_of_others():
    files = [photograph(size) for size in [(9, 8), (7, 8), (9, 6), (5, 5)]]
    with Pipeline(4, 1) as made:
        (data,) = apply_reader(ListSource([files]), {}, common={"name": "r"})
        images = fn.decoders.image(data)
        heights = fn.python_function(images, function=lambda image: np.int32(len(image)))
        made.set_outputs(fn.pad(images, axes=[0, 1], shape=[9, 8]), heights)
    batch = next(DataIterator(made, ["x", "height"], reader_name="r"))
    assert batch["x"].shape == (4, 9, 8, 3)
    assert batch["height"].tolist() == [9, 7, 9, 5]


# which node is to blame for sample 1
BLAMED = {
    "decoded": (lambda x: x, "decoders.image", "(61, 47, 3)"),
    "decoded and converted": (lambda x: fn.cast(x, dtype=types.FLOAT), "decoders.image", "(61, 47, 3)"),
    "flipped": (lambda x: fn.flip(x), "decoders.image", "(61, 47, 3)"),
    "normalised": (lambda x: fn.crop_mirror_normalize(fn.flip(x)), "decoders.image", "(61, 47, 3)"),
    "reshaped": (lambda x: fn.reshape(fn.crop_mirror_normalize(x), shape=[-1]), "decoders.image", "(61, 47, 3)"),
    "sliced in parts": (lambda x: fn.slice(x, rel_start=[0.1, 0], rel_end=[0.9, 1]), "decoders.image", "(61, 47, 3)"),
    "resized by one side": (lambda x: fn.resize(x, resize_x=30), "resize", "(39, 30, 3)"),
    "padded to too little": (lambda x: fn.pad(x, axes=[0, 1], shape=[50, 70]), "pad", "(61, 70, 3)"),
}


@pytest.mark.parametrize("name", BLAMED)
def test_error_names_sample_of_other_shape(name):
    build, blamed, shape = BLAMED[name]
    with pytest.raises(SampleError) as caught:
        next(DataIterator(pipeline(build), ["x"], reader_name="r"))
    said = str(caught.value)
    assert said.startswith(f"{blamed} failed on sample 1 ")
    assert f"given:    {shape}" in said
    assert "fn.resize" in said
    assert __file__ in said


def test_digits_are_transferred_as_uint8(digits_lmdb):
    """The shape demand of the reshape reaches the decoder, so everything after it can be on the device."""

    def definition():
        files, _ = fn.readers.caffe2(path=digits_lmdb, name="r")
        images = fn.decoders.image(files, output_type=types.GRAY)
        return fn.reshape(fn.crop_mirror_normalize(images, std=255.0), shape=[784])

    with Pipeline(4, 1, placement="device") as made:
        made.set_outputs(definition())
    assert "crosses to the device: decoders.image uint8[28, 28, 1] HWC" in made.explain()
    batch = next(data_iterator(definition, ["x"], reader_name="r")(batch_size=4))["x"]
    assert batch.shape == (4, 784)
    made.close()


@pytest.mark.parametrize("lengths", [(42, 10), (10, 42)])
def test_sequences_that_are_longer_than_the_padding(lengths):
    sequences = [np.arange(length, dtype=np.int32) for length in lengths]

    @data_iterator
    def padded():
        return {"x": fn.pad(fn.readers.items(sequences), shape=(32,))}

    with pytest.raises(SampleError, match=r'fn.slice\(x, 0, 32, axes=\[0\], out_of_bounds_policy="pad"\)'):
        next(padded(batch_size=2))

    @data_iterator
    def cut():
        return {"x": fn.slice(fn.readers.items(sequences), 0, 32, axes=[0], out_of_bounds_policy="pad")}

    batch = next(cut(batch_size=2))["x"]
    assert [np.count_nonzero(row) + 1 for row in batch] == [min(length, 32) for length in lengths]
