"""Uses of the operators that convert colours, look values up and add noise."""

import numpy as np

from penstock import fn, types
from penstock.testing import OperatorCase

RNG = np.random.default_rng(11)
IMAGES = RNG.integers(0, 256, (4, 6, 5, 3), np.uint8)
SEQUENCES = RNG.integers(0, 256, (4, 2, 6, 5, 3), np.uint8)
FLOATS = RNG.random((4, 6, 5, 3), np.float32)
WORDS = RNG.integers(-300, 300, (4, 7), np.int16)
FACTORS = np.float32([0, 0.3, 0.9, 1])
BYTES = {"layouts": ("HWC",), "rounds": True}


def colours(given, wanted):
    given, wanted = getattr(types, given), getattr(types, wanted)
    return lambda x: fn.color_space_conversion(x, image_type=given, output_type=wanted)


CASES = {
    "color_space_conversion": [
        OperatorCase(colours("RGB", "YCbCr"), [IMAGES], **BYTES),
        OperatorCase(colours("BGR", "GRAY"), [SEQUENCES], ("FHWC",), rounds=True),
        OperatorCase(colours("GRAY", "YCbCr"), [IMAGES[..., :1].transpose(0, 3, 1, 2)], ("CHW",), rounds=True),
        OperatorCase(
            lambda x: fn.flip(colours("RGB", "GRAY")(colours("YCbCr", "RGB")(fn.crop(x, crop=(4, 3))))),
            [IMAGES],
            **BYTES,
        ),
    ],
    "lookup_table": [
        OperatorCase(
            lambda x: fn.lookup_table(x, keys=[0, 3, 200, 3], values=[1, 2, 300, -4], default_value=7), [IMAGES]
        ),
        OperatorCase(lambda x: fn.lookup_table(x, keys=list(range(40)), values=[9] * 40, dtype=types.INT8), [WORDS]),
    ],
    "jpeg_compression_distortion": [
        OperatorCase(lambda x, q: fn.jpeg_compression_distortion(x, quality=q), [SEQUENCES, WORDS[:, 0]], ("FHWC", ""))
    ],
    "noise.gaussian": [
        OperatorCase(
            lambda x, y, f: (fn.noise.gaussian(x, mean=9, stddev=f * 50), fn.noise.gaussian(y, stddev=0.2)),
            [IMAGES, FLOATS, FACTORS],
            ("HWC", "HWC", ""),
            full_scale=5.0,
            rounds=True,
        )
    ],
    "noise.salt_and_pepper": [
        OperatorCase(
            lambda x, y, f: (
                fn.noise.salt_and_pepper(x, prob=f, salt_vs_pepper=f, salt_val=300.0, per_channel=True),
                fn.noise.salt_and_pepper(y, prob=0.4),
            ),
            [IMAGES, FLOATS, FACTORS],
            ("HWC", "HWC", ""),
        )
    ],
    "noise.shot": [
        OperatorCase(
            lambda x, y, f: (fn.noise.shot(x, factor=f * 30), fn.noise.shot(y, factor=0.05)),
            [IMAGES, FLOATS, FACTORS],
            ("HWC", "HWC", ""),
            full_scale=5.0,
            rounds=True,
        )
    ],
}
