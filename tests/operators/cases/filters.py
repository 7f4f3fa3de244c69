"""Uses of the operators for which neighbours count."""

import numpy as np

from penstock import fn, types
from penstock.testing import OperatorCase

RNG = np.random.default_rng(9)
IMAGES = RNG.integers(0, 256, (4, 6, 5, 3), np.uint8)
SEQUENCES = RNG.integers(0, 256, (4, 2, 6, 5, 3), np.uint8)
SIGMAS = np.float32([0.3, 1, 2.5, 0.8])
WINDOWS = np.int32([[3, 5], [1, 1], [9, 3], [0, 7]])
ODD = np.int32([[3, 5], [5, 5], [9, 3], [3, 7]])
BYTES = {"layouts": ("HWC",), "rounds": True, "full_scale": 255.0}

EDGES = np.float32([[-1, 0, 1], [-2, 0.5, 2], [-1, 0, 1]])
KERNELS = RNG.normal(size=(4, 2, 5)).astype(np.float32)

CASES = {
    "filter": [
        OperatorCase(lambda x: fn.filter(x, EDGES), [IMAGES], **BYTES),
        OperatorCase(lambda x: fn.filter(x, EDGES, border="wrap", dtype=types.FLOAT), [IMAGES], **BYTES),
        OperatorCase(
            lambda x, k: fn.filter(x, k, 9, anchor=(0, 3), border="constant", dtype=types.FLOAT),
            [IMAGES, KERNELS],
            ("HWC", ""),
            full_scale=2e3,
        ),
        OperatorCase(lambda x: fn.filter(x, EDGES, border="reflect_1001"), [SEQUENCES], ("FHWC",), rounds=True),
        OperatorCase(lambda x: fn.filter(x, EDGES, border="clamp"), [IMAGES.astype(np.int16)], **BYTES),
        OperatorCase(lambda x: fn.filter(x, EDGES, mode="valid"), [IMAGES], **BYTES),
        OperatorCase(
            lambda x, k: fn.filter(x, k, anchor=(0, 3)),
            [SEQUENCES, KERNELS],
            ("FWHC", ""),
            rounds=True,
            full_scale=255.0,
        ),
    ],
    "laplacian": [
        OperatorCase(lambda x: fn.laplacian(x, window_size=[3, 5], smoothing_size=1), [IMAGES], **BYTES),
        OperatorCase(
            lambda x, w, f: fn.laplacian(x, window_size=w, scale=f, dtype=types.FLOAT),
            [SEQUENCES, ODD, SIGMAS],
            ("FHWC", "", ""),
            full_scale=2e5,
        ),
        OperatorCase(
            lambda x: fn.laplacian(x, window_size=[3, 5, 3], normalized_kernel=True),
            [SEQUENCES],
            ("DHWC",),
            rounds=True,
        ),
        OperatorCase(
            lambda x: fn.laplacian(x, window_size=[3, 5], smoothing_size=[1, 3], scale=[0.1, 0.5]),
            [IMAGES],
            ("WHC",),
            rounds=True,
        ),
        OperatorCase(
            lambda x, f: fn.laplacian(x, scale=f, dtype=types.FLOAT), [IMAGES, SIGMAS], ("HWC", ""), full_scale=2e3
        ),
    ],
    "median_blur": [
        OperatorCase(
            lambda x, w: fn.flip(fn.median_blur(fn.crop(x, crop=(4, 5)), window_size=w)), [IMAGES, ODD], ("HWC", "")
        ),
        OperatorCase(
            lambda x: fn.median_blur(x, window_size=[5, 1]), [IMAGES.astype(np.float32).transpose(0, 3, 1, 2)], ("CHW",)
        ),
    ],
    "dilate": [
        OperatorCase(
            lambda x, w: fn.dilate(x, mask_size=w, anchor=[0, -1], iterations=2), [SEQUENCES, ODD], ("FHWC", "")
        )
    ],
    "erode": [
        OperatorCase(
            lambda x: fn.erode(x, mask_size=[2, 5], border_mode="reflect"), [IMAGES.astype(np.int16)], ("HWC",)
        )
    ],
    "clahe": [
        OperatorCase(lambda x: fn.clahe(x, tiles_x=2, tiles_y=4, clip_limit=2), [IMAGES], **BYTES),
        OperatorCase(
            lambda x: fn.clahe(x, tiles_x=2, tiles_y=3, clip_limit=1.5, luma_only=False),
            [SEQUENCES],
            ("FHWC",),
            rounds=True,
        ),
        OperatorCase(lambda x: fn.clahe(x, tiles_x=3, tiles_y=2, clip_limit=1.5, bins=32), [IMAGES], **BYTES),
    ],
    "debayer": [
        OperatorCase(
            lambda x, p: (
                fn.debayer(x, blue_position=p),
                fn.debayer(x, blue_position=[0, 1], algorithm="edgeaware_ocv"),
                fn.debayer(x, blue_position=p, algorithm="gray_ocv"),
            ),
            [RNG.integers(0, 1 << 16, (4, 6, 8), np.uint16), np.int32([[0, 0], [0, 1], [1, 0], [1, 1]])],
            ("HW", ""),
        ),
        OperatorCase(
            lambda x, p: [fn.debayer(x, blue_position=p, algorithm=name) for name in ("vng_ocv", "default_npp")],
            [RNG.integers(0, 256, (4, 10, 12), np.uint8), np.int32([[0, 0], [0, 1], [1, 0], [1, 1]])],
            ("HW", ""),
        ),
    ],
    "equalize": [
        OperatorCase(fn.equalize, [IMAGES], **BYTES),
        OperatorCase(fn.equalize, [SEQUENCES], ("FHWC",), rounds=True),
        OperatorCase(lambda x: fn.flip(fn.equalize(fn.crop(x, crop=(4, 3)))), [IMAGES], **BYTES),
    ],
    "gaussian_blur": [
        OperatorCase(lambda x: fn.gaussian_blur(x, sigma=1.2), [IMAGES], **BYTES),
        OperatorCase(lambda x: fn.gaussian_blur(x, window_size=(3, 9)), [IMAGES], **BYTES),
        OperatorCase(lambda x: fn.gaussian_blur(x, sigma=(0.5, 2), window_size=5), [IMAGES], **BYTES),
        OperatorCase(
            lambda x, s: fn.gaussian_blur(x, sigma=s, dtype=types.FLOAT), [IMAGES, SIGMAS], ("HWC", ""), full_scale=2e3
        ),
        OperatorCase(
            lambda x, s, w: fn.gaussian_blur(x, sigma=s, window_size=w),
            [IMAGES.astype(np.int16) * 3, SIGMAS, WINDOWS],
            ("HWC", "", ""),
            rounds=True,
        ),
        OperatorCase(lambda x: fn.gaussian_blur(x, sigma=1), [SEQUENCES], ("FHWC",), rounds=True),
        OperatorCase(lambda x: fn.gaussian_blur(x, sigma=1), [IMAGES.transpose(0, 3, 1, 2)], ("CHW",), rounds=True),
        OperatorCase(lambda x: fn.flip(fn.gaussian_blur(fn.crop(x, crop=(4, 3)), sigma=1)), [IMAGES], **BYTES),
        OperatorCase(lambda x, s: fn.gaussian_blur(x, sigma=s), [SEQUENCES, SIGMAS], ("DHWC", ""), rounds=True),
        OperatorCase(
            lambda x, s: fn.gaussian_blur(x, sigma=s, window_size=[0, 3, 5]),
            [SEQUENCES.transpose(0, 4, 1, 2, 3), SIGMAS],
            ("CDHW", ""),
            rounds=True,
        ),
        OperatorCase(
            lambda x, w: fn.gaussian_blur(x, sigma=[0.5, 2], window_size=w),
            [SEQUENCES, WINDOWS],
            ("FWHC", ""),
            rounds=True,
        ),
    ],
}
