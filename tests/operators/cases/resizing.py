"""Uses of the operators that resize and normalize."""

import numpy as np
from case_data import FLAGS, FLOATS, FROM, HWC, IMAGES, PHOTOGRAPHS, PLACES, RAGGED, SMOOTH, VOLUMES, cmn

from penstock import fn, types
from penstock.testing import OperatorCase

CASES = {
    "normalize": [
        OperatorCase(lambda x: fn.normalize(x), [SMOOTH], HWC, 4),
        OperatorCase(lambda x: fn.normalize(x, axes=[0, 1], ddof=1, epsilon=0.5), [IMAGES], HWC, 4),
        OperatorCase(lambda x: fn.normalize(x, axis_names="C", dtype=types.UINT8, scale=30, shift=99), [IMAGES], HWC),
        OperatorCase(lambda x: fn.normalize(x, mean=np.full((1, 1, 3), 99.0), stddev=40.0), [IMAGES], HWC, 4),
        OperatorCase(lambda x, m: fn.normalize(x, mean=m, axes=0), [FLOATS, FLOATS[:, :1]], ("", ""), 4),
        OperatorCase(lambda x, s: fn.normalize(x, stddev=s + 1.0, epsilon=0.1), [FLOATS, PLACES], ("", ""), 4),
        OperatorCase(lambda x: fn.normalize(x, mean=3.0), [[FLOATS[0], FLOATS[1, :3], FLOATS[2], FLOATS[3]]]),
        OperatorCase(lambda x: fn.normalize(x, batch=True), [[*FLOATS[:3], FLOATS[3, :2]]], mixes=True),
        OperatorCase(lambda x: fn.normalize(x, batch=True, axes=[0, 1], mean=100), [RAGGED], HWC, 4, mixes=True),
    ],
    "random_resized_crop": [
        OperatorCase(lambda x: fn.random_resized_crop(x, size=4), [IMAGES]),
        OperatorCase(lambda x: fn.random_resized_crop(x, size=(9, 3), random_area=[0.5, 1.0]), [SMOOTH], HWC),
        OperatorCase(
            lambda x: fn.random_resized_crop(x, size=(4, 3), interp_type=types.INTERP_NN), [VOLUMES], ("FHWC",)
        ),
        OperatorCase(
            lambda data, flag: cmn(mirror=flag, crop=(8, 9), output_layout="HWC", std=255.0)(
                fn.random_resized_crop(fn.decoders.image(data), size=(20, 10), antialias=False)
            ),
            [PHOTOGRAPHS, FLAGS],
            ("", ""),
        ),
    ],
    "resize": [
        OperatorCase(
            lambda x, y: [cmn(crop=(9, 9))(fn.resize(fn.decoders.image(data), size=(90, 80))) for data in (x, y)],
            [PHOTOGRAPHS, PHOTOGRAPHS[::-1]],
        ),
        OperatorCase(lambda x: fn.resize(x, size=(4, 9)), [IMAGES]),
        OperatorCase(lambda x: fn.resize(x, resize_shorter=3, interp_type=types.INTERP_CUBIC), [IMAGES], HWC),
        OperatorCase(lambda x: fn.resize(x, size=3, interp_type=types.INTERP_LANCZOS3), [SMOOTH], HWC),
        OperatorCase(lambda x: fn.resize(x, resize_x=7, dtype=types.FLOAT), [VOLUMES.astype(np.int16)], ("FHWC",)),
        OperatorCase(lambda x: fn.resize(x, size=(2, 4, 9)), [VOLUMES], ("DHWC",)),
        OperatorCase(lambda x: fn.resize(x, size=(-4, 9)), [IMAGES.transpose(0, 3, 1, 2)], ("CHW",)),
        OperatorCase(lambda x: fn.resize(x, size=(4, 3)), [IMAGES[..., 0]], ("HW",)),
        OperatorCase(lambda x: fn.resize(x, resize_longer=9, max_size=8, save_attrs=True), [RAGGED], HWC),
        OperatorCase(
            lambda x, size, kind: fn.resize(x, size=size, interp_type=kind, roi_start=[1, 0], roi_end=[3, 2]),
            [RAGGED, FROM.astype(np.float32) + 3, np.array([0, 1, 2, 5], np.int32)],
            ("HWC", "", ""),
        ),
        OperatorCase(
            lambda x, low, y: fn.resize(
                x, resize_y=y, roi_start=low, roi_end=[0.9, 1.2], roi_relative=True, subpixel_scale=False
            ),
            [RAGGED, FROM / np.float32(9), PLACES * 9 + 2],
            ("HWC", "", ""),
        ),
        OperatorCase(
            lambda data: cmn(crop=(30, 30), dtype=types.INT8, shift=-128)(
                fn.resize(fn.decoders.image(data), resize_shorter=32, interp_type=types.INTERP_GAUSSIAN)
            ),
            [PHOTOGRAPHS],
        ),
        OperatorCase(
            lambda data: cmn(crop=(30, 50), out_of_bounds_policy="trim_to_shape", output_layout="WCH")(
                fn.resize(fn.resize(fn.decoders.image(data), resize_longer=32), resize_x=40, mode="stretch")
            ),
            [PHOTOGRAPHS],
        ),
    ],
    "resize_crop_mirror": [
        OperatorCase(lambda x: fn.resize_crop_mirror(x, size=(4, 9), crop=(3, 3), mirror=3), [IMAGES]),
        OperatorCase(
            lambda x, m: fn.resize_crop_mirror(x, resize_shorter=9, crop=(8, 9), mirror=m, dtype=types.FLOAT),
            [RAGGED, FLAGS * 2 + 1],
            ("HWC", ""),
        ),
        OperatorCase(
            lambda x: fn.resize_crop_mirror(x, size=(2, 4, 9), crop=(1, 2, 3), mirror=4), [VOLUMES], ("DHWC",)
        ),
        OperatorCase(
            lambda data: fn.resize_crop_mirror(fn.decoders.image(data), resize_longer=40, crop=(9, 20), mirror=1),
            [PHOTOGRAPHS],
        ),
    ],
}
