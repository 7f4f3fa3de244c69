"""Uses of the operators that decode files."""

import numpy as np
from case_data import (
    FILES,
    FLAGS,
    FLOATS,
    IMAGES,
    INTEGERS,
    MOVIES,
    PHOTOGRAPHS,
    PLACES,
    SMALL,
    SOUNDS,
    TRUTHS,
    cmn,
    lz4_block,
    npy,
)

from penstock import fn, types
from penstock.testing import OperatorCase


def training(jpegs, flag, normalise=True, **arguments):
    images = fn.decoders.image_random_crop(jpegs, random_area=[0.3, 1.0])
    images = fn.resize(images, size=(16, 20), **arguments)
    return cmn(mirror=flag, mean=[10, 20, 30], std=[50, 60, 70])(images) if normalise else fn.flip(images)


CASES = {
    "decoders.image": [
        OperatorCase(lambda data: fn.decoders.image(data), [FILES]),
        OperatorCase(lambda data: fn.decoders.image(data, output_type=types.GRAY), [FILES]),
        OperatorCase(lambda data: fn.decoders.image(data, output_type=types.BGR), [FILES]),
        OperatorCase(lambda data: fn.decoders.image(data, output_type=types.ANY_DATA), [FILES]),
        OperatorCase(lambda data: fn.decoders.image(data, use_fast_idct=True, device="mixed"), [[FILES[0]] * 4]),
    ],
    "decoders.image_crop": [
        OperatorCase(
            lambda data, x: fn.decoders.image_crop(data, crop=(20, 20), crop_pos_y=x), [PHOTOGRAPHS, PLACES[:, None]]
        ),
        OperatorCase(lambda data: fn.decoders.image_crop(data, crop=(30, 40)), [PHOTOGRAPHS]),
        OperatorCase(
            lambda data, x: fn.decoders.image_crop(data, crop_h=50, crop_w=9, crop_pos_x=x, output_type=types.GRAY),
            [PHOTOGRAPHS, PLACES],
            ("", ""),
        ),
        OperatorCase(
            lambda data: fn.resize(fn.decoders.image_crop(data, crop=(33, 31), dtype=types.FLOAT), size=20),
            [PHOTOGRAPHS],
        ),
    ],
    "decoders.image_slice": [
        OperatorCase(lambda data: fn.decoders.image_slice(data, (0.25, 0.5), (0.5, 0.5)), [PHOTOGRAPHS]),
        OperatorCase(
            lambda data, x: fn.decoders.image_slice(data, rel_start=x, shape=[9], axis_names="H", dtype=types.FLOAT),
            [PHOTOGRAPHS, PLACES / 2],
            ("", ""),
        ),
    ],
    "decoders.image_random_crop": [
        OperatorCase(lambda data: fn.decoders.image_random_crop(data), [PHOTOGRAPHS]),
        OperatorCase(
            lambda data: fn.decoders.image_random_crop(
                data,
                random_area=[0.01, 0.02],
                random_aspect_ratio=[3, 9],
                num_attempts=2,
                output_type=types.BGR,
                seed=5,
            ),
            [PHOTOGRAPHS],
        ),
        OperatorCase(training, [PHOTOGRAPHS, FLAGS], ("", ""), 3),
        OperatorCase(lambda *x: training(*x, normalise=False, interp_type=types.INTERP_CUBIC), [PHOTOGRAPHS, FLAGS]),
        OperatorCase(lambda *x: training(*x, dtype=types.FLOAT), [PHOTOGRAPHS, FLAGS], ("", ""), 3),
    ],
    "peek_image_shape": [
        OperatorCase(lambda x: fn.peek_image_shape(x), [PHOTOGRAPHS]),
        OperatorCase(
            lambda x: fn.peek_image_shape(x, image_type=types.ANY_DATA, adjust_orientation=False, dtype=types.INT32),
            [[PHOTOGRAPHS[3], *FILES[1:]]],
        ),
    ],
    "decoders.inflate": [
        OperatorCase(
            lambda x: fn.decoders.inflate(x, shape=[6, 5, 3], layout="HWC"),
            [[np.frombuffer(lz4_block.compress(image, store_size=False), np.uint8) for image in IMAGES]],
        )
    ],
    "decoders.numpy": [
        OperatorCase(
            lambda x: fn.decoders.numpy(x, dtype=types.INT32, ndim=2),
            [[npy(FLOATS[:2]), npy(SMALL[:, :3]), npy(np.asfortranarray(INTEGERS)), npy(TRUTHS)]],
        ),
        OperatorCase(lambda x: fn.decoders.numpy(x), [[npy(FLOATS[:rows].T) for rows in (2, 1, 2, 2)]]),
    ],
    "decoders.audio": [
        OperatorCase(lambda x: fn.decoders.audio(x), [SOUNDS]),
        OperatorCase(lambda x: fn.decoders.audio(x, sample_rate=16000, downmix=True, dtype=types.INT16), [SOUNDS]),
    ],
    "decoders.video": [
        OperatorCase(lambda x: fn.decoders.video(x), [MOVIES]),
        OperatorCase(
            lambda x, n: fn.decoders.video(x, start_frame=n, sequence_length=4),
            [MOVIES, np.array([0, 1, 2, 1], np.int32)],
        ),
    ],
}
