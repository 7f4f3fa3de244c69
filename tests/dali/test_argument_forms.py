"""None, arrays of one number and other forms of arguments mean the same as in DALI."""

import io

import numpy as np
from PIL import Image

from penstock import Pipeline, fn

RNG = np.random.default_rng(5)
IMAGES = [RNG.integers(0, 256, shape, np.uint8) for shape in ((8, 9, 3), (7, 11, 3))]


def test_none_is_not_given(agree):
    files = []
    for image in IMAGES:
        Image.fromarray(image).save(file := io.BytesIO(), "PNG")
        files.append(np.frombuffer(file.getvalue(), np.uint8))

    def define(lib, x, data):
        return (
            lib.fn.peek_image_shape(data, dtype=None),
            lib.fn.flip(x, horizontal=None, vertical=1),
            lib.fn.crop(x, crop=[4, 4], crop_pos_x=None, rounding=None, fill_values=None, dtype=None),
            lib.fn.crop_mirror_normalize(x, mean=None, std=None, dtype=None, output_layout=None, mirror=None),
            lib.fn.rotate(x, angle=90.0, fill_value=None, interp_type=None, size=None, keep_size=None),
            lib.fn.reductions.sum(x, axes=None, keep_dims=None),
        )

    agree(define, IMAGES, files, layouts=("HWC", ""), off=1)


def test_arrays_of_one_number(agree):
    one = np.array([1], np.float32)

    def define(lib, x):
        return (
            lib.fn.flip(x, horizontal=one),
            lib.fn.brightness(x, brightness=one / 2),
            lib.fn.crop(x, crop_w=one * 4, crop_h=4, crop_pos_x=one),
            lib.fn.normalize(x, scale=one),
            lib.fn.random.coin_flip(probability=one),
        )

    agree(define, IMAGES, layouts=("HWC",), off=1, atol=1e-5)


def test_no_random_numbers(agree):
    agree(
        lambda lib, x: (
            lib.fn.random.normal(shape=(0,)),
            lib.fn.random.uniform(shape=(0, 3)),
            lib.fn.random.coin_flip(shape=0),
        ),
        IMAGES,
    )
    with Pipeline(3, seed=7) as pipeline:
        pipeline.set_outputs(fn.random.normal(shape=0), fn.random.uniform(shape=2))
    with Pipeline(3, seed=7) as other:
        other.set_outputs(fn.random.normal(shape=4), fn.random.uniform(shape=2))
    assert (pipeline.run()[1].as_array() == other.run()[1].as_array()).all()
