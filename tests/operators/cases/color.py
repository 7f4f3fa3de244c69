"""Uses of the operators that change colours."""

import numpy as np

from penstock import fn, types
from penstock.testing import OperatorCase

RNG = np.random.default_rng(5)
IMAGES = RNG.integers(0, 256, (4, 6, 5, 3), np.uint8)
SEQUENCES = RNG.integers(0, 256, (4, 2, 6, 5, 3), np.uint8)
FLOATS = RNG.random((4, 6, 5, 3), np.float32)
ANGLES = np.array([0, 30, -90, 720.5], np.float32)
FACTORS = np.array([0, 0.5, 1, 2.5], np.float32)
BYTES = {"layouts": ("HWC",), "rounds": True, "full_scale": 255.0}


def twisted(x):
    return fn.color_twist(x, hue=40, saturation=1.5, brightness=0.8, contrast=1.2)


CASES = {
    "color_twist": [
        OperatorCase(twisted, [IMAGES], **BYTES),
        OperatorCase(
            lambda x, h, f: fn.color_twist(x, hue=h, saturation=f, brightness=f, contrast=f, dtype=types.FLOAT),
            [IMAGES, ANGLES, FACTORS],
            ("HWC", "", ""),
            full_scale=2e3,
        ),
        OperatorCase(lambda x: twisted(fn.flip(fn.crop(x, crop=(4, 4)))), [IMAGES], **BYTES),
        OperatorCase(lambda x: fn.crop(twisted(x), crop=(4, 4)), [IMAGES], **BYTES),
        OperatorCase(lambda x: fn.flip(twisted(fn.resize(x, size=(9, 4)))), [IMAGES], **BYTES),
        OperatorCase(lambda x: fn.resize(twisted(x), size=(9, 4)), [IMAGES], **BYTES),
        OperatorCase(lambda x: fn.transpose(twisted(x), perm=[2, 0, 1]), [IMAGES], **BYTES),
        OperatorCase(lambda x: twisted(fn.transpose(x, perm=[2, 0, 1])), [IMAGES], **BYTES),
        OperatorCase(lambda x: fn.slice(twisted(x), 1, 2, axes=[2]), [IMAGES], **BYTES),
        OperatorCase(lambda x: twisted(fn.pad(x, axis_names="HW", shape=(8, 7), fill_value=9)), [IMAGES], **BYTES),
        OperatorCase(lambda x: twisted(twisted(x)), [IMAGES], **BYTES),
        OperatorCase(lambda x: fn.crop_mirror_normalize(twisted(x), mean=[1, 2, 3], mirror=1), [IMAGES], **BYTES),
        OperatorCase(twisted, [SEQUENCES], ("FHWC",), rounds=True),
        OperatorCase(twisted, [IMAGES.astype(np.int32) * 5 - 400], ("HWC",), rounds=True),
    ],
    "hsv": [
        OperatorCase(lambda x: fn.hsv(x, hue=120, saturation=2, value=0.5), [FLOATS * 255], **BYTES),
        OperatorCase(
            lambda x, h, f: fn.hsv(x, hue=h, saturation=f, value=f, dtype=types.FLOAT),
            [FLOATS, ANGLES, FACTORS],
            ("HWC", "", ""),
            full_scale=8.0,
        ),
    ],
    "hue": [OperatorCase(lambda x, h: fn.hue(x, hue=h), [IMAGES, ANGLES], ("HWC", ""), rounds=True)],
    "saturation": [
        OperatorCase(lambda x, f: fn.saturation(x, saturation=f), [IMAGES, FACTORS], ("HWC", ""), rounds=True)
    ],
    "brightness": [
        OperatorCase(lambda x: fn.brightness(x, brightness=1.3, brightness_shift=-0.1), [IMAGES], **BYTES),
        OperatorCase(
            lambda x, f: fn.brightness(x, brightness=f, dtype=types.FLOAT), [IMAGES, FACTORS], full_scale=255.0
        ),
    ],
    "contrast": [
        OperatorCase(lambda x: fn.contrast(x, contrast=1.3), [IMAGES], **BYTES),
        OperatorCase(lambda x, f: fn.contrast(x, contrast=f, contrast_center=f), [FLOATS, FACTORS], full_scale=5.0),
    ],
    "brightness_contrast": [
        OperatorCase(
            lambda x, f: fn.brightness_contrast(x, brightness=f, brightness_shift=0.2, contrast=1.5),
            [IMAGES, FACTORS],
            rounds=True,
        ),
        OperatorCase(lambda x: fn.brightness_contrast(x, contrast=0.5, dtype=types.INT16), [IMAGES], rounds=True),
    ],
}
