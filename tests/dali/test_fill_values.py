"""Pixels outside of the image have DALI's fill values, whatever is computed before and after the window."""

import numpy as np
import pytest

RNG = np.random.default_rng(4)
IMAGES = [RNG.integers(0, 100, (6, 7, 3)).astype(np.uint8) for _ in range(3)]
FRAMES = [RNG.integers(0, 100, (2, 6, 7, 3)).astype(np.uint8) for _ in range(3)]

WIDE = {"crop": (4, 9), "out_of_bounds_policy": "pad", "fill_values": [7.0, 8.0, 9.0]}
DEEP = {"crop_d": 4, "crop_h": 4.0, "crop_w": 9.0, "out_of_bounds_policy": "pad", "fill_values": 7.0}


def normalized(lib, images, **arguments):
    layout = "FHWC" if "crop_d" in arguments else "HWC"
    return lib.fn.crop_mirror_normalize(images, mean=[1.0, 2.0, 3.0], std=2.0, output_layout=layout, **arguments)


def resized(lib, images):
    return lib.fn.resize(images, size=(5, 6), interp_type=lib.types.INTERP_NN)


# Definitions, and the dtype and number of axes of their input.
CASES = {
    "int32 to float": (lambda lib, x: lib.fn.crop(x, dtype=lib.types.FLOAT, **WIDE), "int32", 3),
    "int32 to uint8": (lambda lib, x: lib.fn.crop(x, dtype=lib.types.UINT8, **WIDE), "int32", 3),
    "int64 to float": (lambda lib, x: lib.fn.crop(x, dtype=lib.types.FLOAT, **WIDE), "int64", 3),
    "normalized int32": (lambda lib, x: normalized(lib, x, mirror=1, **WIDE), "int32", 3),
    "normalized int32 to int8": (lambda lib, x: normalized(lib, x, dtype=lib.types.INT8, **WIDE), "int32", 3),
    "normalized float16": (lambda lib, x: normalized(lib, x, mirror=1, **WIDE), "float16", 3),
    "float16 to float": (
        lambda lib, x: lib.fn.crop(normalized(lib, x, dtype=lib.types.FLOAT16), dtype=lib.types.FLOAT, **WIDE),
        "uint8",
        3,
    ),
    "frames to float": (lambda lib, x: lib.fn.crop(x, dtype=lib.types.FLOAT, **DEEP), "uint8", 4),
    "normalized frames": (lambda lib, x: normalized(lib, x, mirror=1, **DEEP), "uint8", 4),
    "resized": (lambda lib, x: normalized(lib, resized(lib, x), mirror=1, **WIDE), "uint8", 3),
    "columns of rows": (
        lambda lib, x: lib.fn.pad(lib.fn.slice(x, 1, 4, axes=[1]), axes=[0, 1], shape=[9, 8], fill_value=7),
        "uint8",
        3,
    ),
    "channels after rows": (
        lambda lib, x: lib.fn.pad(lib.fn.brightness(x, brightness=0.5), axes=[0, 2], shape=[9, 4], fill_value=7),
        "uint8",
        3,
    ),
    "slices of channels after rows": (
        lambda lib, x: lib.fn.slice(
            x,
            start=[0, 0],
            shape=[9, 5],
            axes=[0, 2],
            out_of_bounds_policy="pad",
            fill_values=7.0,
            dtype=lib.types.FLOAT,
        ),
        "uint8",
        3,
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("placement", ["host", "device"])
def test_fill_values(agree, name, placement):
    define, dtype, ndim = CASES[name]
    images = [image.astype(dtype) for image in (IMAGES if ndim == 3 else FRAMES)]
    agree(define, images, layouts=("HWC" if ndim == 3 else "FHWC",), off=1, rtol=1e-6, placement=placement)
