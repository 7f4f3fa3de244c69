"""The operators that move each pixel by itself, cover some, or warp by a projective map give DALI's numbers."""

import numpy as np
import pytest
from PIL import Image

from penstock import Pipeline, fn, types

RNG = np.random.default_rng(8)


def smooth(height, width, dtype=np.uint8):
    """An image with something to see in it, whose neighbours do not differ much."""
    small = Image.fromarray(RNG.integers(0, 256, (4, 5, 3), np.uint8))
    return np.asarray(small.resize((width, height), Image.Resampling.BICUBIC)).astype(dtype)


BYTES = [smooth(40, 60), smooth(31, 17), smooth(2, 9), smooth(1, 1)]
FLOATS = [smooth(24, 30, np.float32), smooth(3, 40, np.float32)]
WORDS = [smooth(24, 31, np.int16) - 100]
SQUARE = [0.9, -0.2, 3, 0.1, 1.1, -2, 0.001, 0.002, 1]
BORDERS = ["constant", "replicate", "reflect", "reflect_101", "wrap"]


@pytest.mark.parametrize("images", [BYTES, FLOATS], ids=["uint8", "float32"])
@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        ("water", {}),
        ("water", {"ampl_x": 3, "ampl_y": 5.5, "freq_x": 0.2, "freq_y": 0.1, "phase_x": 1, "fill_value": 7.5}),
        ("sphere", {"fill_value": 9}),
    ],
)
def test_displacements(agree, kind, arguments, linear, images):
    images = images[:3] if kind == "sphere" and linear else images  # of one pixel DALI makes an accident

    def define(lib, x):
        interpolation = lib.types.INTERP_LINEAR if linear else lib.types.INTERP_NN
        return getattr(lib.fn, kind)(x, interp_type=interpolation, **arguments)

    agree(define, images, layouts=("HWC",), off=1, rtol=1e-4, atol=2e-2)


def test_a_mask_leaves_images_as_they_are(agree):
    for kind in ("water", "sphere"):
        agree(
            lambda lib, x, m, kind=kind: getattr(lib.fn, kind)(x, mask=m),
            BYTES,
            np.int32([1, 0, 0, 1]),
            layouts=("HWC", ""),
        )


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"tile": 10},
        {"tile": 7, "ratio": 0.3, "shift_x": 2, "shift_y": 3},
        {"tile": 13, "ratio": 0.5, "shift_x": 3.3, "angle": 0.9},
        {"tile": 20, "ratio": 0.37, "shift_x": -5, "angle": 2.2},
        {"tile": 3, "ratio": 1.0},
        {"tile": 3, "ratio": 0.0},
    ],
)
def test_grid_mask(agree, arguments):
    for images in (BYTES, FLOATS, WORDS):
        agree(lambda lib, x: lib.fn.grid_mask(x, **arguments), images, layouts=("HWC",))


def test_a_grid_for_each_sample(agree):
    tiles, angles = np.int32([5, 9, 2, 1]), np.float32([0, 0.5, -1, 3])
    agree(lambda lib, x, t, a: lib.fn.grid_mask(x, tile=t, angle=a), BYTES, tiles, angles, layouts=("HWC", "", ""))


@pytest.mark.parametrize(
    "arguments",
    [
        *({"border_mode": border, "fill_value": [1, 2, 3]} for border in BORDERS),
        {"pixel_origin": "center", "size": (20.4, 50)},
        {"inverse_map": False, "fill_value": 9.0},
        {"interp": "INTERP_NN", "border_mode": "wrap"},
        *({"interp": "INTERP_CUBIC", "border_mode": border, "fill_value": [1, 2, 3]} for border in BORDERS),
        {"interp": "INTERP_CUBIC", "pixel_origin": "center", "inverse_map": False, "size": (60, 33)},
    ],
)
def test_warp_perspective(both, arguments):
    arguments = dict(arguments)
    interpolation = arguments.pop("interp", "INTERP_LINEAR")
    nearest = interpolation == "INTERP_NN"

    def define(lib, x, matrix=SQUARE, **more):
        more |= {"interp_type": getattr(lib.types, interpolation)}
        return lib.fn.experimental.warp_perspective(x, matrix=matrix, **arguments, **more)

    several = BYTES[:3] if interpolation == "INTERP_CUBIC" else BYTES  # of one pixel, DALI never comes back
    words = [image.astype(np.uint16) * 200 for image in several]
    for images in (several, FLOATS, words):
        actual, expected = both(define, images, layouts=("HWC",))
        for a, b in zip(actual[0], expected[0], strict=True):
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
            off = abs(a.astype(np.float64) - b)
            if nearest:  # where a place falls on the edge between two pixels, rounding chooses one
                assert (off > 0).mean() <= 2e-3
            elif a.dtype != np.uint8:
                assert (off <= np.maximum(2e-3 * np.maximum(abs(b), 1), a.dtype.kind == "u")).all()
            else:
                assert off.max() <= 1


def test_a_matrix_for_each_sample(agree):
    matrices = np.float32([np.reshape(SQUARE, (3, 3)), np.eye(3), [[0, 1, 0], [1, 0, 0], [0, 0, 1]], np.eye(3)])
    for define in (
        lambda lib, x, m: lib.fn.experimental.warp_perspective(x, m),
        lambda lib, x, m: lib.fn.experimental.warp_perspective(x, matrix=m),
    ):
        agree(define, BYTES, matrices, layouts=("HWC", ""), off=1)


def test_jitter_moves_by_the_degree():
    image = np.stack(np.meshgrid(np.arange(1, 61), np.arange(1, 51)), axis=-1).astype(np.int16)
    with Pipeline(batch_size=2, seed=1) as pipeline:
        images = fn.readers.arrays(np.stack([image, image]), layout="HWC")
        pipeline.set_outputs(
            fn.jitter(images, nDegree=5), fn.jitter(images, nDegree=4, interp_type=types.INTERP_LINEAR)
        )
    moved, blurred = (output.as_array().astype(int) for output in pipeline.run())
    off = (moved - image)[:, 2:-2, 2:-2]
    assert (off[0] != off[1]).any()
    values, counts = np.unique(off, return_counts=True)
    assert values.tolist() == [-2, -1, 0, 1, 2]
    assert abs(counts / off.size - 0.2).max() < 0.015
    assert abs(np.corrcoef(off[0, :, :, 0].ravel(), off[0, :, :, 1].ravel())[0, 1]) < 0.05  # x and y on their own
    assert moved[0, :2, :2].min() >= 1
    assert (moved[:, -1] == 0).any()  # beyond the last row lies the fill value
    assert abs(blurred - image)[:, 3:-3, 3:-3].max() <= 3
