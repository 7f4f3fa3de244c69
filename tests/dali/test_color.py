"""The operators that change colours give DALI's numbers."""

import numpy as np
import pytest

RNG = np.random.default_rng(7)
SIZES = ((6, 5, 3), (9, 40, 3), (1, 1, 3))
BYTES = [RNG.integers(0, 256, size, np.uint8) for size in SIZES]
FLOATS = [RNG.random(size, np.float32) for size in SIZES]
WORDS = [RNG.integers(-1000, 1000, size, np.int16) for size in SIZES]

USES = {
    "color_twist": [{}, {"hue": 40, "saturation": 1.7, "brightness": 0.7, "contrast": 1.4}, {"contrast": 0.2}],
    "hsv": [{}, {"hue": 200.5, "saturation": 0.3, "value": 1.2}],
    "hue": [{"hue": 75}, {"hue": -400}],
    "saturation": [{"saturation": 0}, {"saturation": 2.5}],
    "brightness": [{"brightness": 1.4}, {"brightness": 0.5, "brightness_shift": 0.25}],
    "contrast": [{"contrast": 1.6}, {"contrast": 0.4, "contrast_center": 100.0}],
    "brightness_contrast": [
        {},
        {"brightness": 0.7, "brightness_shift": -0.1, "contrast": 1.5, "contrast_center": 90.0},
    ],
}


@pytest.mark.parametrize("name", USES)
@pytest.mark.parametrize("images", [BYTES, FLOATS, WORDS], ids=["uint8", "float32", "int16"])
@pytest.mark.parametrize("dtype", [None, "UINT8", "FLOAT"])
def test_constants(agree, name, images, dtype):
    for arguments in USES[name]:

        def define(lib, x, arguments=arguments):
            wanted = {} if dtype is None else {"dtype": getattr(lib.types, dtype)}
            return getattr(lib.fn, name)(x, **arguments, **wanted)

        agree(define, images, layouts=("HWC",), off=1, rtol=2e-3, atol=2e-3 if images is FLOATS else 0.5)


@pytest.mark.parametrize("name", USES)
def test_one_for_each_sample(agree, name):
    arguments = list(USES[name][-1])
    columns = [np.float32([0.2, 1.1, 3.0]) * (1 + at) for at in range(len(arguments))]
    agree(
        lambda lib, x, *nodes: getattr(lib.fn, name)(x, **dict(zip(arguments, nodes, strict=True))),
        BYTES,
        *columns,
        layouts=("HWC", *[""] * len(columns)),
        off=1,
    )


@pytest.mark.parametrize("name", USES)
def test_sequences(agree, name):
    videos = [RNG.integers(0, 256, (3, 6, 5, 3), np.uint8) for _ in range(3)]
    agree(lambda lib, x: getattr(lib.fn, name)(x, **USES[name][-1]), videos, layouts=("FHWC",), off=1)
