"""Uses of the operators that cut, flip and pad."""

import numpy as np
from case_data import FLAGS, FLOATS, FROM, HWC, IMAGES, PLACES, RAGGED, VOLUMES, cmn

from penstock import fn, types
from penstock.testing import OperatorCase

CASES = {
    "crop": [
        OperatorCase(lambda x: fn.crop(x, crop=(3, 2)), [IMAGES]),
        OperatorCase(lambda x: fn.crop(x, crop_h=3, crop_w=4, crop_pos_x=0.0, dtype=types.FLOAT), [IMAGES], HWC, 255),
        OperatorCase(lambda x: fn.crop(x), [IMAGES.transpose(0, 3, 1, 2)], ("CHW",)),
        OperatorCase(lambda x: fn.crop(x, crop=(2, 3, 4)), [VOLUMES], ("DHWC",)),
        OperatorCase(
            lambda x: fn.crop(x, crop=(9, 2), out_of_bounds_policy="pad", fill_values=[7, 8, 9]), [IMAGES], HWC
        ),
        OperatorCase(lambda x: fn.crop(x, crop=(9, 2), out_of_bounds_policy="trim_to_shape"), [RAGGED], HWC),
        OperatorCase(
            lambda x, y, z: fn.crop(x, crop=(3, 3), crop_pos_x=y, crop_pos_y=z),
            [IMAGES, PLACES, PLACES],
            ("HWC", "", ""),
        ),
        OperatorCase(lambda x, s: fn.crop(x, crop=s), [IMAGES, FROM + 1], ("HWC", ""), ragged=False),
        OperatorCase(
            lambda x, d, z: fn.crop(fn.crop(x, crop=(2, 3, 4)), crop_d=d, crop_h=2, crop_w=3, crop_pos_z=z),
            [VOLUMES, np.float32([1, 1, 1, 1]), PLACES],
            ("FHWC", "", ""),
        ),
    ],
    "crop_mirror_normalize": [
        OperatorCase(cmn(), [IMAGES], full_scale=255),
        OperatorCase(cmn(std=255.0, mirror=1), [IMAGES[..., :1]], HWC),
        OperatorCase(cmn(mean=[1, 2, 3], std=[4, 5, 6], crop=(3, 2), scale=2.0, shift=0.5), [IMAGES], HWC, 255),
        OperatorCase(cmn(output_layout="HWC", dtype=types.UINT8, mean=[0.5], crop=(6, 4)), [IMAGES], HWC),
        OperatorCase(cmn(dtype=types.INT8, shift=-128), [IMAGES], HWC),
        OperatorCase(cmn(dtype=types.FLOAT16, std=[60.0], pad_output=True), [IMAGES], HWC, 5),
        OperatorCase(cmn(crop=(9, 2), out_of_bounds_policy="pad", fill_values=[7, 8, 9], mirror=1), [IMAGES], HWC, 255),
        OperatorCase(cmn(crop=(9, 9), out_of_bounds_policy="trim_to_shape", output_layout=""), [IMAGES], HWC, 255),
        OperatorCase(cmn(crop=(2, 2), output_layout="FCHW"), [np.moveaxis(VOLUMES, 1, 1)], ("FHWC",), 255),
        OperatorCase(cmn(crop=(2, 3, 4), output_layout="CDHW"), [VOLUMES], ("DHWC",), 255),
        OperatorCase(
            lambda x, flag, y, z: fn.crop_mirror_normalize(
                x, mirror=flag, crop=(3, 3), crop_pos_x=y, crop_pos_y=z, rounding="truncate"
            ),
            [IMAGES, FLAGS, PLACES, PLACES[::-1]],
            ("HWC", "", "", ""),
            255,
        ),
        OperatorCase(
            lambda x, y: fn.crop_mirror_normalize(x, crop=(8, 3), crop_pos_y=y, out_of_bounds_policy="constant"),
            [IMAGES, PLACES],
            ("HWC", ""),
            255,
        ),
        OperatorCase(
            lambda x, mean, std: fn.crop_mirror_normalize(x, mean=mean, std=std),
            [IMAGES, FLOATS[:, :3], np.abs(FLOATS[:, :1]) + 1],
            ("HWC", "", ""),
            255,
        ),
        OperatorCase(
            lambda x, size: fn.crop_mirror_normalize(x, crop=size),
            [IMAGES, np.array([[1, 2], [2, 1], [3, 3], [6, 5]], np.int32)],
            ("HWC", ""),
        ),
        OperatorCase(cmn(crop=(3, 3), mirror=1), [[IMAGES[0], IMAGES[1, :4], IMAGES[2, :, :3], IMAGES[3]]], HWC),
    ],
    "flip": [
        OperatorCase(lambda x, flag: fn.flip(x, horizontal=flag), [IMAGES, FLAGS > 0], ("HWC", "")),
        OperatorCase(lambda x: fn.flip(fn.crop(x, crop=(3, 2)), vertical=1), [RAGGED], HWC),
        OperatorCase(lambda x: fn.flip(x), [IMAGES]),
        OperatorCase(lambda x: fn.flip(x, horizontal=0, vertical=1), [IMAGES], HWC),
        OperatorCase(lambda x: fn.flip(x, depthwise=1), [VOLUMES], ("DHWC",)),
        OperatorCase(lambda x, flag: fn.flip(x, horizontal=flag, vertical=flag), [IMAGES, FLAGS], ("HWC", "")),
        OperatorCase(lambda x: fn.flip(x), [[IMAGES[0], IMAGES[1, :2], IMAGES[2], IMAGES[3]]], HWC),
    ],
    "pad": [
        OperatorCase(lambda x: fn.pad(x, shape=[7, 8, 4], fill_value=9), [IMAGES], HWC, ragged=False),
        OperatorCase(lambda x: fn.pad(x, axis_names="HW", shape=[1, 8], align=[4, 3]), [IMAGES], HWC, ragged=False),
        OperatorCase(lambda x: fn.pad(x, shape=[7, 8, 4]), [RAGGED], HWC),
        OperatorCase(
            lambda x, s, v: fn.pad(x, shape=s, axes=[0, -1], fill_value=v),
            [IMAGES, FROM + 5, PLACES * 9],
            ("HWC", "", ""),
        ),
        OperatorCase(lambda x: fn.pad(x), [RAGGED], HWC, mixes=True),
        OperatorCase(
            lambda x, v: fn.pad(x, axes=[0], align=4, fill_value=v), [RAGGED, PLACES], ("HWC", ""), mixes=True
        ),
    ],
    "slice": [
        OperatorCase(lambda x: fn.slice(x, start=[1], end=[4], axes=[0]), [IMAGES], HWC),
        OperatorCase(lambda x: fn.slice(x, rel_start=[0.3, 0.2], rel_end=[0.7, 0.9]), [IMAGES], HWC),
        OperatorCase(
            lambda x: fn.slice(
                x, start=[-2, 3], shape=[9, 5], axis_names="HW", out_of_bounds_policy="pad", fill_values=[1, 2, 3]
            ),
            [IMAGES],
            HWC,
        ),
        OperatorCase(lambda x: fn.slice(x, end=[9], axes=[0], out_of_bounds_policy="trim_to_shape"), [RAGGED], HWC),
        OperatorCase(
            lambda x, a: fn.slice(x, a, np.float32([0.5, 0.5]), dtype=types.FLOAT),
            [IMAGES, FROM / np.float32(9)],
            ("HWC", ""),
        ),
        OperatorCase(lambda x, a, s: fn.slice(x, a, s), [IMAGES, FROM, FROM + 1], ("HWC", "", "")),
    ],
}
