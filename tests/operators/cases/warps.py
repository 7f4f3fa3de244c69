"""Uses of the operators that look pixels up where a matrix says."""

import numpy as np

from penstock import fn, types
from penstock.testing import OperatorCase

RNG = np.random.default_rng(6)
SMOOTH = np.linspace(0, 250, 4 * 6 * 7 * 3).reshape(4, 6, 7, 3)
IMAGES = SMOOTH.astype(np.uint8)
SEQUENCES = np.stack([IMAGES, IMAGES[::-1]], axis=1)
VOLUMES = np.linspace(0, 250, 4 * 3 * 5 * 4 * 2).reshape(4, 3, 5, 4, 2).astype(np.uint8)
SHEARED = [0.9, 0.1, 0.2, 0.3, -0.2, 1.1, 0.1, -0.4, 0.1, 0.15, 0.8, 0.5]
TURNED = [0.9, -0.3, 1.5, 0.25, 1.1, -0.75]
MATRICES = np.float32([TURNED, [1, 0, 0, 0, 1, 0], [0.4, 0, 0, 0, 0.4, 1], [-1, 0, 7, 0, 1, 0]])
SIZES = np.float32([[6, 7], [1, 1], [9, 4], [3, 12]])
BYTES = {"layouts": ("HWC",), "rounds": True, "full_scale": 255.0}
FLOATS = {"full_scale": 255.0, "layouts": ("HWC", "", "")}
ANGLES = np.float32([0, 30, -90, 135.5])

CASES = {
    "rotate": [
        OperatorCase(lambda x: fn.rotate(x, angle=33), [IMAGES], **BYTES),
        OperatorCase(lambda x: fn.rotate(x, angle=-90, fill_value=4), [IMAGES], ("HWC",)),
        OperatorCase(lambda x, a: fn.rotate(x, angle=a, keep_size=True), [IMAGES, ANGLES], ("HWC", ""), rounds=True),
        OperatorCase(
            lambda x, a, s: fn.rotate(x, angle=a, size=s, fill_value=0, dtype=types.FLOAT),
            [IMAGES, ANGLES, SIZES],
            **FLOATS,
        ),
        OperatorCase(lambda x, a: fn.rotate(x, angle=a), [IMAGES, ANGLES], ("HWC", ""), rounds=True),
        OperatorCase(
            lambda x, a: fn.resize(fn.rotate(x, angle=a), size=(5, 5)), [IMAGES, ANGLES], ("HWC", ""), rounds=True
        ),
        OperatorCase(lambda x, a: fn.rotate(x, angle=a, axis=[1, 0, 2]), [VOLUMES, ANGLES], ("DHWC", ""), rounds=True),
        OperatorCase(
            lambda x, a: fn.rotate(x, angle=40, axis=a, keep_size=True, fill_value=1),
            [VOLUMES, np.float32([[0, 0, 1], [1, 2, 3], [1, 0, -1], [0, 1, 0]])],
            ("DHWC", ""),
            rounds=True,
        ),
    ],
    "warp_affine": [
        OperatorCase(lambda x: fn.warp_affine(x, matrix=TURNED), [IMAGES], **BYTES),
        OperatorCase(lambda x: fn.warp_affine(x, matrix=TURNED, fill_value=7), [IMAGES], **BYTES),
        OperatorCase(
            lambda x, m: fn.warp_affine(x, m, dtype=types.FLOAT), [IMAGES, MATRICES], ("HWC", ""), full_scale=255.0
        ),
        OperatorCase(
            lambda x, m, s: fn.warp_affine(x, m, size=s, fill_value=0.5, inverse_map=False),
            [SMOOTH.astype(np.float32), MATRICES, SIZES],
            **FLOATS,
        ),
        OperatorCase(
            lambda x: fn.warp_affine(x, matrix=[[2, 0, 0], [0, 1, 1]], interp_type=types.INTERP_NN, size=(4, 9)),
            [IMAGES],
            ("HWC",),
        ),
        OperatorCase(lambda x: fn.warp_affine(x, matrix=TURNED, fill_value=-9), [SMOOTH.astype(np.int16)], **BYTES),
        OperatorCase(lambda x: fn.warp_affine(x, matrix=TURNED), [SEQUENCES], ("FHWC",), rounds=True),
        OperatorCase(lambda x: fn.warp_affine(x, matrix=TURNED), [IMAGES.transpose(0, 3, 1, 2)], ("CHW",), rounds=True),
        OperatorCase(
            lambda x: fn.crop_mirror_normalize(
                fn.warp_affine(fn.resize(fn.flip(x), size=(8, 8)), matrix=TURNED), crop=(5, 5), mean=[1, 2, 3]
            ),
            [IMAGES],
            **BYTES,
        ),
        OperatorCase(
            lambda x: fn.warp_affine(x, matrix=SHEARED, size=(3, 4, 5), inverse_map=False, fill_value=7),
            [VOLUMES.transpose(0, 4, 1, 2, 3)],
            ("CDHW",),
            rounds=True,
        ),
    ],
}
