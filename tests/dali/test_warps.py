"""The operators that look pixels up where a matrix says give DALI's numbers."""

import numpy as np
import pytest
from PIL import Image

from penstock import Pipeline, fn, types

RNG = np.random.default_rng(8)
TURNED = [0.9, -0.3, 1.5, 0.25, 1.1, -0.75]


def smooth(height, width, dtype=np.uint8):
    """An image with something to see in it, whose neighbours do not differ much."""
    small = Image.fromarray(RNG.integers(0, 256, (4, 5, 3), np.uint8))
    pixels = np.asarray(small.resize((width, height), Image.Resampling.BICUBIC))
    return pixels.astype(dtype)


BYTES = [smooth(40, 60), smooth(31, 17), smooth(1, 1)]
FLOATS = [smooth(24, 30, np.float32), smooth(3, 40, np.float32)]
WORDS = [smooth(24, 30, np.int16) - 100]


@pytest.fixture
def nearly(both):
    """A function that checks that both libraries give the same within 1 for 99.9 % of all integers, 2 for all."""

    def check(define, *inputs, layouts=("HWC",)):
        actual, expected = both(define, *inputs, layouts=layouts)
        for mine, theirs in zip(actual, expected, strict=True):
            for a, b in zip(mine, theirs, strict=True):
                assert (a.dtype, a.shape) == (b.dtype, b.shape)
                off = abs(a.astype(np.float64) - b.astype(np.float64))
                if a.dtype.kind == "f":
                    off = off / (2e-3 * np.maximum(abs(b), 1))
                assert off.max(initial=0) <= 2
                assert (off > 1).mean() <= 1e-3

    return check


@pytest.mark.parametrize("images", [BYTES, FLOATS, WORDS], ids=["uint8", "float32", "int16"])
@pytest.mark.parametrize(
    "arguments",
    [
        {"matrix": TURNED},
        {"matrix": TURNED, "fill_value": 10.0},
        {"matrix": TURNED, "inverse_map": False},
        {"matrix": TURNED, "size": (20, 50)},
        {"matrix": TURNED, "size": (7.6, 3.2), "fill_value": 0.0},
        {"matrix": [0.37, 0.1, 0.3, 0.05, 0.61, 2.2], "nearest": True, "fill_value": 3.0},
        {"matrix": [-1.13, 0.1, 20.3, 0.05, 1.61, 2.2], "nearest": True},
        {"matrix": TURNED, "float": True},
    ],
)
def test_warp_affine(nearly, images, arguments):
    arguments = dict(arguments)
    nearest, floats = arguments.pop("nearest", False), arguments.pop("float", False)

    def define(lib, x):
        more = {"interp_type": lib.types.INTERP_NN} if nearest else {}
        more |= {"dtype": lib.types.FLOAT} if floats else {}
        return lib.fn.warp_affine(x, **arguments, **more)

    nearly(define, images)


def test_the_older_name_of_dtype():
    with Pipeline(batch_size=1):
        images = fn.readers.arrays(BYTES[0][None], layout="HWC")
        assert fn.rotate(images, angle=3, output_dtype=types.FLOAT).spec.dtype == np.float32
        assert fn.warp_affine(images, np.eye(2, 3), output_dtype=types.FLOAT).spec.dtype == np.float32


def test_a_matrix_and_a_size_for_each_sample(nearly):
    matrices = np.float32([[TURNED[:3], TURNED[3:]], [[1, 0, 3], [0, 1, -2]], [[2, 0, 0], [0, 2, 0]]])
    sizes = np.float32([[20, 20], [40, 9], [5, 5]])
    nearly(
        lambda lib, x, m, s: lib.fn.warp_affine(x, m, size=s, fill_value=99),
        BYTES,
        matrices,
        sizes,
        layouts=("HWC", "", ""),
    )
    nearly(lambda lib, x, m: lib.fn.warp_affine(x, matrix=m), BYTES, matrices, layouts=("HWC", ""))


@pytest.mark.parametrize("arguments", [{}, {"fill_value": 0.0}, {"keep_size": True}, {"size": (20, 33)}])
@pytest.mark.parametrize("nearest", [False, True])
def test_rotate(nearly, arguments, nearest):
    diagonal = (
        [33, 44] if nearest else [45, 135]
    )  # there, places fall on edges between pixels, and rounding chooses one
    angles = np.float32([0, 30, 89.9, 90, -60, 200, 500.5, 1, *diagonal])

    def define(lib, x, angle):
        interpolation = lib.types.INTERP_NN if nearest else lib.types.INTERP_LINEAR
        return lib.fn.rotate(x, angle=angle, interp_type=interpolation, **arguments)

    for images in ([smooth(11, 20)] * 10, [smooth(40, 41)] * 10, [smooth(1, 1)] * 10):
        nearly(define, images, angles, layouts=("HWC", ""))


def test_sequences(nearly):
    videos = [np.stack([smooth(20, 30), smooth(20, 30)]) for _ in range(2)]
    nearly(lambda lib, x: lib.fn.warp_affine(x, matrix=TURNED), videos, layouts=("FHWC",))


SHAPES = [(9, 12, 7), (2, 5, 14), (1, 1, 1)]
VOLUMES = [np.stack([smooth(height, width) for _ in range(depth)]) for depth, height, width in SHAPES]
SHEARED = [0.9, 0.1, 0.2, 0.3, -0.2, 1.1, 0.1, -0.4, 0.1, 0.15, 0.8, 0.5]


@pytest.mark.parametrize(
    "arguments",
    [
        {"matrix": SHEARED},
        {"matrix": SHEARED, "fill_value": 40.0, "size": (4, 6.4, 5)},
        {"matrix": SHEARED, "inverse_map": False, "float": True},
        {"matrix": SHEARED, "interp": "INTERP_NN", "fill_value": 1.0},
    ],
)
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.int16])
def test_warp_affine_in_space(nearly, arguments, dtype):
    arguments = dict(arguments)
    interpolation, floats = arguments.pop("interp", "INTERP_LINEAR"), arguments.pop("float", False)

    def define(lib, x):
        more = {"dtype": lib.types.FLOAT} if floats else {}
        return lib.fn.warp_affine(x, interp_type=getattr(lib.types, interpolation), **arguments, **more)

    nearly(define, [volume.astype(dtype) for volume in VOLUMES], layouts=("DHWC",))


@pytest.mark.parametrize("arguments", [{}, {"fill_value": 0.0}, {"keep_size": True}, {"size": (5, 9, 6)}])
def test_rotate_in_space(nearly, arguments):
    axes = [[0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 1, 1], [1, 0.2, 0.3], [0, -3, 3]]
    angles = [0, 30, 45, 90, 135, 180, 217.5, -60]
    turns = [(angle, axis) for angle in angles for axis in axes]
    volumes = [VOLUMES[n % 2] for n in range(len(turns))]
    nearly(
        lambda lib, x, angle, axis: lib.fn.rotate(x, angle=angle, axis=axis, **arguments),
        *(volumes, [np.float32(angle) for angle, _ in turns], [np.float32(axis) for _, axis in turns]),
        layouts=("DHWC", "", ""),
    )
    nearly(lambda lib, x: lib.fn.rotate(x, angle=30, axis=(1, 2, 3), **arguments), VOLUMES, layouts=("DHWC",))


def test_sequences_of_volumes(nearly):
    videos = [np.stack([volume, volume[::-1]]) for volume in VOLUMES]
    matrices = [np.float32([np.reshape(SHEARED, (3, 4)), np.eye(3, 4)])] * len(videos)
    nearly(
        lambda lib, x, m: (
            lib.fn.warp_affine(x, matrix=lib.fn.per_frame(m)),
            lib.fn.rotate(x, angle=20, axis=[0, 1, 1], keep_size=True),
        ),
        *(videos, matrices),
        layouts=("FDHWC", ""),
    )
