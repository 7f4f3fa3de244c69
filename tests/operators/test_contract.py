"""Every operator passes the contract suite, in the uses below and in `cases`. A new operator needs an entry in `cases`.

What they give on the host is kept as digests in `golden/digests.txt`; PENSTOCK_UPDATE_GOLDEN=1 writes them anew.
"""

import hashlib
import importlib
import inspect
import io
import os
import pkgutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from cases import CASES as CASES_BY_FAMILY
from PIL import Image

import penstock.operators
from penstock import fn, math, types
from penstock.graph.ir.operator import BatchKernel, Operator
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import _operators, registered
from penstock.operators.elementwise import math_functions
from penstock.testing import OperatorCase, check_docstring, check_operator
from penstock.testing.operator_checks import host_outputs

av = pytest.importorskip("av", reason="PyAV is not installed (dependency group test)")
lz4_block = pytest.importorskip("lz4.block", reason="lz4 is not installed (dependency group test)")
soundfile = pytest.importorskip("soundfile", reason="soundfile is not installed (dependency group test)")

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (4, 6, 5, 3), np.uint8)
VOLUMES = RNG.integers(0, 256, (4, 3, 6, 5, 3), np.uint8)
FLOATS = RNG.normal(size=(4, 7)).astype(np.float32)
INTEGERS = RNG.integers(-100, 100, (4, 7), np.int32)
NONZERO = np.where(INTEGERS == 0, 1, INTEGERS).astype(np.int32)
SMALL = RNG.integers(0, 7, (4, 7), np.uint8)
TRUTHS = RNG.random((4, 7)) > 0.5
LABELS = np.array([[2], [0], [9], [-1]], np.int32)
FLAGS = np.array([1, 0, 0, 1], np.int32)
PLACES = np.array([0.0, 0.3, 0.77, 1.0], np.float32)
HWC = ("HWC",)


def encoded(number, kind, size=(5, 4)):
    pixels = np.random.default_rng(number).integers(0, 256, (size[1] + number, size[0], 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).convert("L" if number % 2 else "RGB").save(file, kind)
    return np.frombuffer(file.getvalue(), np.uint8)


FILES = [encoded(0, "JPEG"), encoded(1, "PNG"), encoded(2, "BMP"), encoded(3, "WEBP")]


RAGGED = [IMAGES[0], IMAGES[1, :4], IMAGES[2, :, :3], IMAGES[3]]
SMOOTH = np.linspace(0, 255, 4 * 6 * 5 * 3).reshape(4, 6, 5, 3).astype(np.float32)
FROM = np.array([[0, 1], [1, 0], [2, 2], [1, 1]], np.int32)


def photograph(number, mode="RGB", kind="JPEG", **options):
    """An encoded image of 50 to 90 pixels a side, with something to see in it."""
    rng = np.random.default_rng(number)
    small = Image.fromarray(rng.integers(0, 256, (5, 7, 3), np.uint8))
    file = io.BytesIO()
    small.resize((60 + 9 * number, 50 + 4 * number), Image.Resampling.BICUBIC).convert(mode).save(file, kind, **options)
    return np.frombuffer(file.getvalue(), np.uint8)


def orientation(number):
    exif = Image.Exif()
    exif[0x0112] = number
    return exif


PHOTOGRAPHS = [photograph(0), photograph(1, progressive=True), photograph(2, "L"), photograph(3, exif=orientation(6))]


def training(jpegs, flag, normalise=True, **arguments):
    images = fn.decoders.image_random_crop(jpegs, random_area=[0.3, 1.0])
    images = fn.resize(images, size=(16, 20), **arguments)
    return cmn(mirror=flag, mean=[10, 20, 30], std=[50, 60, 70])(images) if normalise else fn.flip(images)


def cmn(**arguments):
    return lambda images: fn.crop_mirror_normalize(images, **arguments)


CASES = {
    "cast": [
        OperatorCase(lambda x: fn.cast(x, dtype=types.UINT8), [FLOATS * 300]),
        OperatorCase(lambda x: fn.cast(x, dtype=types.INT8), [INTEGERS * 2]),
        OperatorCase(lambda x: fn.cast(x, dtype=types.FLOAT16), [INTEGERS], full_scale=100),
        OperatorCase(lambda x: fn.cast(x, dtype=types.BOOL), [INTEGERS]),
        OperatorCase(
            lambda x: fn.cast(x, dtype=types.INT32), [np.float32([[3e9, -3e9, np.nan, np.inf, 0.5, -2.5]] * 4)]
        ),
        OperatorCase(lambda x: fn.cast(x, dtype=types.INT64), [INTEGERS]),
    ],
    "constant": [
        OperatorCase(lambda: fn.constant([[1, 2], [3, 4]])),
        OperatorCase(lambda: fn.constant(2.5)),
        OperatorCase(lambda x: (x * fn.constant(3), fn.constant(types.Constant(7, types.UINT8))), [INTEGERS]),
    ],
    "copy": [OperatorCase(lambda x: (x.gpu(), x.cpu(), fn.copy(x)), [IMAGES], HWC)],
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
    "flip": [
        OperatorCase(lambda x, flag: fn.flip(x, horizontal=flag), [IMAGES, FLAGS > 0], ("HWC", "")),
        OperatorCase(lambda x: fn.flip(fn.crop(x, crop=(3, 2)), vertical=1), [RAGGED], HWC),
        OperatorCase(lambda x: fn.flip(x), [IMAGES]),
        OperatorCase(lambda x: fn.flip(x, horizontal=0, vertical=1), [IMAGES], HWC),
        OperatorCase(lambda x: fn.flip(x, depthwise=1), [VOLUMES], ("DHWC",)),
        OperatorCase(lambda x, flag: fn.flip(x, horizontal=flag, vertical=flag), [IMAGES, FLAGS], ("HWC", "")),
        OperatorCase(lambda x: fn.flip(x), [[IMAGES[0], IMAGES[1, :2], IMAGES[2], IMAGES[3]]], HWC),
    ],
    "getitem": [
        OperatorCase(lambda x: (x[0], x[-1, 2:], x[1:4:2, ::-1], x[:, 0], x[None]), [IMAGES], HWC),
        OperatorCase(lambda x: (x[types.newaxis], x[0, types.newaxis("F")]), [IMAGES], HWC),
        OperatorCase(lambda x, i: (x[i], x[1, i], x[i, :, -1]), [IMAGES, LABELS[:, 0] % 3], ("HWC", "")),
        OperatorCase(lambda x, i: (x[i:], x[:i, 1]), [IMAGES, LABELS % 3], ("HWC", "")),
        OperatorCase(lambda x: x[1:3], [[IMAGES[0], IMAGES[1, :4], IMAGES[2], IMAGES[3]]], HWC),
    ],
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
    "jax_function": [
        OperatorCase(lambda x: fn.jax_function(lambda a: a * 2 - 1)(x), [FLOATS]),
        OperatorCase(lambda x: fn.jax_function(lambda a: a[:, ::-1, 1:3])(x), [IMAGES], HWC),
        OperatorCase(
            lambda x, y: fn.jax_function(lambda a, b: (b, a.sum(axis=1)), num_outputs=2)(x, y), [FLOATS, SMALL]
        ),
        OperatorCase(lambda x: fn.cast(fn.jax_function(lambda a: a + 1)(x), dtype=types.FLOAT), [INTEGERS]),
    ],
    "python_function": [
        OperatorCase(lambda x: fn.python_function(x, function=lambda a: a[::-1] * 2), [IMAGES], HWC),
        OperatorCase(lambda x: fn.python_function(x, function=lambda a: (a, a.max()), num_outputs=2), [FLOATS]),
        OperatorCase(lambda x: fn.python_function(x, function=lambda a: a[a > 3], dtype=types.UINT8, ndim=1), [SMALL]),
        OperatorCase(lambda x: fn.python_function(x, function=lambda a: a[:-1]), [FILES]),
        OperatorCase(
            lambda x: fn.python_function(
                x, function=lambda a: (a[::-1], [b[:1] for b in a]), num_outputs=2, batch_processing=True
            ),
            [RAGGED],
            HWC,
            mixes=True,
        ),
    ],
    "one_hot": [
        OperatorCase(lambda x: fn.one_hot(x, num_classes=10), [LABELS[:, 0]]),
        OperatorCase(lambda x: fn.one_hot(x, num_classes=300, dtype=types.UINT8, on_value=7, off_value=1), [SMALL]),
        OperatorCase(lambda x: fn.one_hot(x, num_classes=5, axis=0), [SMALL]),
        OperatorCase(lambda x: fn.one_hot(x, num_classes=5, axis=-1, axis_name="C"), [LABELS]),
        OperatorCase(lambda x: fn.one_hot(x, num_classes=5), [FLOATS * 3]),
        OperatorCase(lambda x: fn.one_hot(x), [LABELS[:, 0]]),
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
    "peek_image_shape": [
        OperatorCase(lambda x: fn.peek_image_shape(x), [PHOTOGRAPHS]),
        OperatorCase(
            lambda x: fn.peek_image_shape(x, image_type=types.ANY_DATA, adjust_orientation=False, dtype=types.INT32),
            [[PHOTOGRAPHS[3], *FILES[1:]]],
        ),
    ],
    "random.coin_flip": [
        OperatorCase(lambda: fn.random.coin_flip()),
        OperatorCase(lambda: fn.random.coin_flip(probability=0.2, shape=[3, 2], dtype=types.UINT8)),
        OperatorCase(lambda p: fn.random.coin_flip(probability=p, shape=20), [PLACES]),
        OperatorCase(lambda x: fn.random.coin_flip(x, seed=3), [FLOATS], ragged=False),
    ],
    "random.normal": [
        OperatorCase(lambda: fn.random.normal(), full_scale=6),
        OperatorCase(lambda: fn.random.normal(mean=100, stddev=50, dtype=types.UINT8, shape=[3, 3])),
        OperatorCase(lambda m, s: fn.random.normal(mean=m, stddev=s, shape=7), [PLACES, PLACES], ("", ""), 6),
        OperatorCase(lambda x: fn.random.normal(x, seed=3), [FLOATS], full_scale=6, ragged=False),
    ],
    "random.keys": [OperatorCase(lambda: fn.random.keys()), OperatorCase(lambda: fn.random.keys(seed=3))],
    "random.uniform": [
        OperatorCase(lambda: fn.random.uniform()),
        OperatorCase(lambda: fn.random.uniform(range=[1, 2], shape=[3, 4]), full_scale=2),
        OperatorCase(lambda: fn.random.uniform(range=[0, 300], dtype=types.UINT8, shape=100)),
        OperatorCase(lambda: fn.random.uniform(values=[1.5, 2.5, 7], shape=9)),
        OperatorCase(
            lambda lo: fn.random.uniform(range=fn.cast(lo, dtype=types.FLOAT), shape=5),
            [np.array([[0, 1], [5, 6], [-3, 9], [100, 200]], np.int32)],
            full_scale=200,
        ),
        OperatorCase(lambda x: fn.random.uniform(values=x, shape=5), [FLOATS]),
        OperatorCase(lambda x: fn.random.uniform(x), [FLOATS], ragged=False),
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
    "transpose": [
        OperatorCase(lambda x: fn.transpose(x, perm=[2, 0, 1]), [IMAGES], HWC),
        OperatorCase(lambda x: fn.transpose(x, output_layout="CWH"), [RAGGED], HWC),
        OperatorCase(lambda x: fn.transpose(x, perm=[1, 0, 2], transpose_layout=False), [IMAGES], HWC),
    ],
    "reshape": [
        OperatorCase(lambda x: fn.reshape(x, shape=[90]), [IMAGES]),
        OperatorCase(lambda x: fn.reshape(x, shape=[-1, 15]), [IMAGES]),
        OperatorCase(lambda x: fn.reshape(x, rel_shape=[0.5, -1]), [IMAGES]),
        OperatorCase(lambda x: fn.reshape(x, src_dims=[2, 0, 1, -1], layout="CHWF"), [IMAGES], HWC),
        OperatorCase(lambda x: fn.reshape(x, rel_shape=[0.5, 1, 2], src_dims=[0, 1, -1]), [IMAGES[..., 0]]),
        OperatorCase(lambda x: fn.reshape(x, shape=[]), [LABELS]),
        OperatorCase(lambda x: fn.reshape(x, layout="CHW"), [IMAGES], HWC),
        OperatorCase(
            lambda x, shape: fn.reshape(x, shape),
            [IMAGES, np.array([[90, 1], [1, 90], [45, 2], [9, 10]], np.int64)],
            ragged=False,
        ),
        OperatorCase(lambda x: fn.reshape(x, shape=[-1]), [[IMAGES[0], IMAGES[1, :2], IMAGES[2], IMAGES[3]]]),
    ],
    "external_source": [],
    "inputs.video": [],
    "readers.array_record": [],
    "readers.arrays": [],
    "readers.caffe": [],
    "readers.caffe2": [],
    "readers.cifar10": [],
    "readers.coco": [],
    "readers.file": [],
    "readers.fits": [],
    "readers.items": [],
    "readers.mix": [],
    "readers.mnist": [],
    "readers.mxnet": [],
    "readers.nemo_asr": [],
    "readers.numpy": [],
    "readers.parquet": [],
    "readers.sequence": [],
    "readers.tfrecord": [],
    "readers.video": [],
    "readers.video_resize": [],
    "readers.webdataset": [],
}

ARITHMETIC = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "truediv": lambda a, b: a / b,
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "pow": lambda a, b: a**b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
BITWISE = {
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "lshift": lambda a, b: a << b,
    "rshift": lambda a, b: a >> b,
}
for name, function in ARITHMETIC.items():
    positive = np.abs(FLOATS) + np.float32(0.5)
    CASES[f"arithmetic.{name}"] = [
        OperatorCase(function, [positive, FLOATS]),
        OperatorCase(function, [INTEGERS, NONZERO if name != "pow" else NONZERO % 9 - 2]),
        OperatorCase(function, [SMALL, positive]),
        OperatorCase(lambda a, function=function: (function(a, 3), function(2.5, a)), [positive]),
        OperatorCase(function, [IMAGES, np.array([[1, 2, 3]] * 4, np.uint8)], ("HWC", "")),
    ]
for name, function in BITWISE.items():
    CASES[f"arithmetic.{name}"] = [
        OperatorCase(function, [SMALL, SMALL[::-1]]),
        OperatorCase(lambda a, function=function: function(a, 2), [INTEGERS]),
    ]
CASES["arithmetic.and"].append(OperatorCase(lambda a, b: a & b, [TRUTHS, TRUTHS[::-1]]))
CASES["arithmetic.neg"] = [OperatorCase(lambda a: -a, [FLOATS]), OperatorCase(lambda a: -a, [SMALL])]
CASES["arithmetic.abs"] = [OperatorCase(abs, [FLOATS]), OperatorCase(abs, [INTEGERS])]
CASES |= CASES_BY_FAMILY
CASES["arithmetic.invert"] = [OperatorCase(lambda a: ~a, [TRUTHS]), OperatorCase(lambda a: ~a, [SMALL])]
CASES |= {
    "cast_like": [OperatorCase(lambda x, y: fn.cast_like(x * 90, y), [FLOATS, SMALL])],
    "cat": [
        OperatorCase(lambda x, y: (fn.cat(x, y), fn.cat(x, y, x, axis=-1)), [FLOATS, FLOATS[::-1]]),
        OperatorCase(lambda x: (fn.cat(x, x, axis_name="W"), fn.cat(x)), [IMAGES], HWC),
        OperatorCase(lambda x: fn.cat(x, x[1:3], axis=0), [RAGGED], HWC),
    ],
    "expand_dims": [
        OperatorCase(lambda x: (fn.expand_dims(x, axes=0), fn.expand_dims(x, axes=[4, 0])), [IMAGES], HWC),
        OperatorCase(lambda x: fn.expand_dims(x, axes=[3, 0], new_axis_names="XY"), [RAGGED], HWC),
        OperatorCase(lambda x: fn.expand_dims(x, axes=-1, new_axis_names="C"), [SMALL[:, 0]]),
    ],
    "full": [
        OperatorCase(lambda x: (fn.full(x, shape=[2, 7]), fn.full(2.5, shape=3, layout="C"), fn.full(x)), [FLOATS]),
        OperatorCase(lambda s: fn.full(7, shape=s), [FROM], ragged=False),
    ],
    "full_like": [
        OperatorCase(lambda x: (fn.full_like(x, 300.5), fn.full_like(x, [1, 2, 3])), [IMAGES], HWC),
        OperatorCase(lambda x, y: fn.full_like(x, y), [RAGGED, LABELS], ("HWC", "")),
    ],
    "ones": [OperatorCase(lambda: (fn.ones(shape=[2, 3]), fn.ones(dtype=types.UINT8)))],
    "ones_like": [OperatorCase(lambda x: (fn.ones_like(x), fn.ones_like(x, dtype=types.FLOAT)), [IMAGES], HWC)],
    "reductions.max": [
        OperatorCase(lambda x: (fn.reductions.max(x), fn.reductions.max(x, axis_names="HW")), [IMAGES], HWC),
        OperatorCase(lambda x: fn.reductions.max(x, axes=-1, keep_dims=True), [RAGGED], HWC),
        OperatorCase(lambda x: fn.reductions.max(x), [np.float32([[1, np.nan], [np.inf, 3], [-np.inf] * 2, [5, 2]])]),
    ],
    "reductions.mean": [
        OperatorCase(lambda x: (fn.reductions.mean(x), fn.reductions.mean(x, axes=[0, 2])), [IMAGES], HWC),
        OperatorCase(lambda x: fn.reductions.mean(x, axes=1, keep_dims=True, dtype=types.UINT8), [RAGGED], HWC),
        OperatorCase(lambda x: fn.reductions.mean(x), [FLOATS]),
    ],
    "reductions.mean_square": [
        OperatorCase(lambda x: fn.reductions.mean_square(x, axes=[0, 1]), [IMAGES], HWC),
        OperatorCase(lambda x: fn.reductions.mean_square(x), [FLOATS]),
    ],
    "reductions.min": [
        OperatorCase(lambda x: (fn.reductions.min(x), fn.reductions.min(x, axes=0)), [IMAGES], HWC),
        OperatorCase(lambda x: fn.reductions.min(x, axis_names="WC"), [RAGGED], HWC),
    ],
    "reductions.rms": [
        OperatorCase(lambda x: fn.reductions.rms(x, axis_names="C"), [IMAGES], HWC),
        OperatorCase(lambda x: fn.reductions.rms(x, axes=0), [[FLOATS[0], FLOATS[1, :3], FLOATS[2], FLOATS[3]]]),
    ],
    "reductions.std_dev": [
        OperatorCase(
            lambda x: fn.reductions.std_dev(x, fn.reductions.mean(x, axes=[0, 1]), axes=[0, 1]), [IMAGES], HWC, 255
        ),
        OperatorCase(lambda x: fn.reductions.std_dev(x, 3.0, keep_dims=True, axes=0), [FLOATS]),
    ],
    "reductions.sum": [
        OperatorCase(lambda x: (fn.reductions.sum(x), fn.reductions.sum(x, axes=[])), [IMAGES], HWC),
        OperatorCase(lambda x: fn.reductions.sum(x, axis_names="HW", dtype=types.UINT32), [IMAGES], HWC),
        OperatorCase(lambda x: fn.reductions.sum(x, axes=[1, -1], dtype=types.UINT8), [RAGGED], HWC),
        OperatorCase(lambda x: fn.reductions.sum(x), [FLOATS]),
        OperatorCase(lambda x: fn.reductions.sum(x, axes=0, keep_dims=True), [SMOOTH], HWC),
    ],
    "reductions.variance": [
        OperatorCase(
            lambda x: fn.reductions.variance(x, fn.reductions.mean(x, axes=0), axes=0, ddof=1), [RAGGED], HWC, 255**2
        ),
        OperatorCase(lambda x, m: fn.reductions.variance(x, m), [FLOATS, PLACES]),
    ],
    "reinterpret": [
        OperatorCase(lambda x: fn.reinterpret(x, dtype=types.INT32, shape=[-1]), [IMAGES[:, :, :4]], HWC),
        OperatorCase(lambda x: fn.reinterpret(x, dtype=types.UINT8), [FLOATS]),
        OperatorCase(lambda x: fn.reinterpret(x, dtype=types.FLOAT, src_dims=[-1, 0]), [INTEGERS]),
        OperatorCase(lambda x: fn.reinterpret(x, dtype=types.UINT16, shape=[5, -1]), [IMAGES], HWC, ragged=False),
        OperatorCase(lambda x: fn.reinterpret(x, dtype=types.BOOL, layout="CHW"), [IMAGES], HWC),
    ],
    "shapes": [
        OperatorCase(lambda x: (fn.shapes(x), x.shape(dtype=types.INT32)), [IMAGES], HWC),
        OperatorCase(lambda x: fn.shapes(x, dtype=types.FLOAT), [RAGGED], HWC),
    ],
    "squeeze": [
        OperatorCase(lambda x: (fn.squeeze(x[2:3], axes=0), fn.squeeze(x[:, :1], axes=[-2])), [IMAGES], HWC),
        OperatorCase(lambda x: fn.squeeze(x[:1], axis_names="H"), [RAGGED], HWC),
    ],
    "stack": [
        OperatorCase(lambda x, y: (fn.stack(x, y), fn.stack(x, y, axis=-1)), [FLOATS, FLOATS[::-1]]),
        OperatorCase(lambda x: fn.stack(x, x, x, axis=1, axis_name="F"), [RAGGED], HWC),
        OperatorCase(lambda x: fn.stack(x, 2, x * 2, axis_name="C"), [FLAGS]),
    ],
    "zeros": [
        OperatorCase(lambda: (fn.zeros(shape=[2, 3], layout="HW"), fn.zeros())),
        OperatorCase(lambda s: fn.zeros(shape=s, dtype=types.UINT8), [FROM], ragged=False),
    ],
    "zeros_like": [OperatorCase(lambda x: fn.zeros_like(x), [RAGGED], HWC)],
    "math.clamp": [
        OperatorCase(lambda x: (math.clamp(x, 0, 0.5), math.clamp(x, -1, 1)), [FLOATS]),
        OperatorCase(lambda x, y: math.clamp(x, y, 5), [INTEGERS, SMALL]),
    ],
}
SEQUENCES = VOLUMES[:, :, :2]


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return np.frombuffer(file.getvalue(), np.uint8)


PATH = np.frombuffer(str(Path(__file__)).encode(), np.uint8)
CASES |= {
    "batch_permutation": [
        OperatorCase(lambda: (fn.batch_permutation(), fn.batch_permutation(no_fixed_points=True)), mixes=True),
        OperatorCase(lambda: fn.batch_permutation(allow_repetitions=True, seed=3), mixes=True),
        OperatorCase(lambda: fn.batch_permutation(allow_repetitions=True, no_fixed_points=True), mixes=True),
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
    "dump_image": [
        OperatorCase(lambda x: fn.dump_image(x), [RAGGED], HWC, mixes=True),
        OperatorCase(lambda x: fn.dump_image(x, suffix="grey"), [IMAGES[..., :1]], HWC, mixes=True),
    ],
    "element_extract": [
        OperatorCase(lambda x: fn.element_extract(x, element_map=[2, 0]), [SEQUENCES], ("FHWC",)),
        OperatorCase(lambda x: fn.element_extract(x, element_map=1), [SEQUENCES]),
    ],
    "get_property": [OperatorCase(lambda x: fn.get_property(x, key="layout"), [IMAGES], HWC)],
    "io.file.read": [OperatorCase(lambda x: fn.io.file.read(x), [[PATH] * 4])],
    "permute_batch": [
        OperatorCase(lambda x: fn.permute_batch(x, indices=[1, 3, 0, 0]), [RAGGED], HWC, mixes=True),
        OperatorCase(lambda x: fn.permute_batch(x, indices=fn.batch_permutation()), [IMAGES], HWC, mixes=True),
    ],
    "random.beta": [
        OperatorCase(lambda: fn.random.beta()),
        OperatorCase(lambda a: fn.random.beta(alpha=a + 0.1, beta=2, shape=[3, 5]), [PLACES]),
        OperatorCase(lambda s: fn.random.beta(alpha=0.2, shape=s + 1), [FROM], ragged=False),
    ],
    "random.choice": [
        OperatorCase(lambda: (fn.random.choice(5, shape=[3, 3]), fn.random.choice([1.5, 2.5, 3.5]))),
        OperatorCase(lambda x: fn.random.choice(x, p=[0.1, 0.2, 0, 0.3, 0.4, 0], shape=7), [IMAGES], HWC, ragged=False),
        OperatorCase(lambda x: fn.random.choice(x, x, seed=3), [RAGGED], HWC),
        OperatorCase(lambda n, p: fn.random.choice(n + 3, p=p, shape=9), [FLAGS, np.float32([[0.2, 0.3, 0.5]] * 4)]),
    ],
    "sequence_rearrange": [
        OperatorCase(lambda x: fn.sequence_rearrange(x, new_order=[2, 0, 2]), [SEQUENCES], ("FHWC",)),
        OperatorCase(lambda x, order: fn.sequence_rearrange(x, new_order=order), [SEQUENCES, FROM]),
    ],
}
CASES["random.uniform"] += [
    OperatorCase(lambda s: fn.random.uniform(range=[0, 9], shape=s + 1), [FROM], ragged=False),
    OperatorCase(lambda x, p: fn.random.uniform(x, values=p), [RAGGED, FROM.astype(np.float32)]),
]
CASES["random.normal"].append(OperatorCase(lambda x, m: fn.random.normal(x, mean=m), [RAGGED, PLACES]))
CASES["random.coin_flip"].append(OperatorCase(lambda x: fn.random.coin_flip(x, probability=0.2), [RAGGED]))
CASES["getitem"].append(OperatorCase(lambda x: (x[..., 0], x[1, ...], x[..., types.newaxis("F")]), [IMAGES], HWC))


def sound(number):
    file = io.BytesIO()
    noise = np.random.default_rng(number).normal(size=(60 + 9 * number, 2)) / 9
    soundfile.write(file, noise, 8000 + 500 * number, format="WAV")
    return np.frombuffer(file.getvalue(), np.uint8)


SOUNDS = [sound(number) for number in range(4)]


def movie(number):
    file = io.BytesIO()
    with av.open(file, "w", "avi") as container:
        stream = container.add_stream("mjpeg", rate=25, width=32, height=16 + 16 * number, pix_fmt="yuvj420p")
        for shade in range(3 + number):
            image = np.full((16 + 16 * number, 32, 3), 30 * shade, np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image)))
        container.mux(stream.encode())
    return np.frombuffer(file.getvalue(), np.uint8)


MOVIES = [movie(number) for number in range(4)]
SIGNALS = RNG.normal(size=(4, 90)).astype(np.float32)
SHORTER = [SIGNALS[0], SIGNALS[1, :40], SIGNALS[2], SIGNALS[3, :71]]
SPECTRA = np.abs(RNG.normal(size=(4, 9, 5))).astype(np.float32)
CASES |= {
    "audio_resample": [
        OperatorCase(lambda x: fn.audio_resample(x, in_rate=16000, out_rate=22050), [SIGNALS]),
        OperatorCase(lambda x, n: fn.audio_resample(x, out_length=n + 9), [SHORTER, FLAGS]),
        OperatorCase(lambda x: fn.audio_resample(x, scale=0.6, quality=10, dtype=types.INT16), [SIGNALS / 9]),
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
    "mel_filter_bank": [
        OperatorCase(lambda x: fn.mel_filter_bank(x, nfilter=4, sample_rate=8000), [SPECTRA], ("ft",)),
        OperatorCase(lambda x: fn.mel_filter_bank(x, nfilter=3, mel_formula="htk", normalize=False), [SPECTRA]),
    ],
    "mfcc": [
        OperatorCase(lambda x: (fn.mfcc(x, n_mfcc=4), fn.mfcc(x, axis=1, dct_type=3, lifter=4)), [SPECTRA]),
    ],
    "nonsilent_region": [OperatorCase(lambda x: fn.nonsilent_region(x, window_length=4, cutoff_db=-5), [SHORTER])],
    "power_spectrum": [
        OperatorCase(lambda x: (fn.power_spectrum(x, nfft=64), fn.power_spectrum(x, power=1)), [SIGNALS]),
    ],
    "preemphasis_filter": [
        OperatorCase(lambda x, c: fn.preemphasis_filter(x, preemph_coeff=c), [SHORTER, PLACES]),
        OperatorCase(lambda x: fn.preemphasis_filter(x, border="reflect", dtype=types.INT16), [SIGNALS * 99]),
    ],
    "spectrogram": [
        OperatorCase(lambda x: fn.spectrogram(x, window_length=16, window_step=7, nfft=20), [SHORTER]),
        OperatorCase(
            lambda x: fn.spectrogram(x, window_length=8, center_windows=False, power=1, layout="tf"), [SIGNALS]
        ),
    ],
    "to_decibels": [OperatorCase(lambda x: (fn.to_decibels(x), fn.to_decibels(x, reference=2.0)), [SPECTRA])],
}
for name in ("min", "max"):
    CASES[f"arithmetic.{name}"] = [
        OperatorCase(getattr(math, name), [FLOATS, FLOATS[::-1]]),
        OperatorCase(getattr(math, name), [INTEGERS, SMALL]),
    ]
for name in ("atan2", "fpow"):
    CASES[f"arithmetic.{name}"] = [OperatorCase(getattr(math, name), [SMALL + np.float32(1), FLOATS])]
for name in math_functions.FUNCTIONS:
    inside = np.clip(np.abs(FLOATS), 0.1, 0.9)  # where all but one are defined
    outside = inside + np.float32(1)
    CASES[f"math.{name}"] = [
        OperatorCase(getattr(math, name), [outside if name == "acosh" else inside]),
        OperatorCase(lambda x, name=name: getattr(math, name)(fn.stack(x, 1)), [FLAGS], full_scale=2),
    ]
CASES["arithmetic.lt"].append(
    OperatorCase(lambda a, b: (a < b, a > b, b >= a, a == b, b != a), [INTEGERS, INTEGERS[::-1].astype(np.uint32)])
)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """What cases write goes to a folder of the test."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=f"{name}-{n}", marks=pytest.mark.slow if n else ())
        for name, cases in CASES.items()
        for n, case in enumerate(cases)
    ],
)
def test_operator_keeps_the_contract(case):
    check_operator(case)


NOT_PINNED = (
    "audio_resample",
    "mel_filter_bank",
    "mfcc",
    "power_spectrum",
    "spectrogram",
    "to_decibels",
    "arithmetic.atan2",
    "arithmetic.fpow",
    "arithmetic.pow",
    "decoders.",
    "math.",
    "jax_function",
    "jpeg_compression_distortion",
    "noise.gaussian",
    "noise.shot",
    "peek_image_shape",
    "random.normal",
)
"""Operators whose bits are those of a library: of images, of XLA, or of mathematical functions."""


def digest(outputs):
    """Of the dtypes, shapes and bytes of samples. Zeros are alike, and so are all that are not numbers."""
    found = hashlib.sha256()
    for sample in (sample for samples in outputs for sample in samples):
        plain = sample
        if sample.dtype.kind == "f":
            plain = np.where(np.isnan(sample), sample.dtype.type(np.nan), sample + sample.dtype.type(0))
        found.update(f"{plain.dtype.str}{plain.shape}".encode() + plain.tobytes())
    return found.hexdigest()[:16]


def takes_files(case):
    return any(isinstance(column, list) and column[0].ndim == 1 and column[0].dtype == "u1" for column in case.inputs)


def test_host_outputs_are_as_they_were():
    path = Path(__file__).parent / "golden" / "digests.txt"
    digests = {
        f"{name}-{number}": digest(host_outputs(case))
        for name, cases in sorted(CASES.items())
        if not name.startswith(NOT_PINNED)
        for number, case in enumerate(cases)
        if not takes_files(case)
    }
    if os.environ.get("PENSTOCK_UPDATE_GOLDEN"):
        path.write_text("".join(f"{name} {digest}\n" for name, digest in digests.items()))
    pinned = dict(line.split() for line in path.read_text().splitlines())
    moved = [name for name in pinned.keys() | digests.keys() if pinned.get(name) != digests.get(name)]
    assert sorted(moved) == []


@dataclass(frozen=True)
class OneMoreOnTheDevice(Operator, BatchKernel):
    """Its two ways differ by one."""

    def infer(self, numbers):
        return numbers

    def batch(self, context, numbers):
        return numbers if context.xp is np else numbers + numbers.dtype.type(1)


def test_integers_are_the_same_on_the_device_unless_a_case_rounds():
    def build(numbers):
        return apply(OneMoreOnTheDevice(), numbers)

    with pytest.raises(AssertionError, match="on the device"):
        check_operator(OperatorCase(build, [INTEGERS]))
    check_operator(OperatorCase(build, [INTEGERS], rounds=True))


def test_every_operator_has_a_case():
    built_in = {name for name in registered() if not name.startswith("test.")}
    assert built_in == set(CASES)


@pytest.mark.parametrize("name", [name for name in CASES if not name.startswith(("arithmetic.", "math."))])
def test_operator_is_documented(name):
    check_docstring(name)


def test_fn_offers_every_operator_under_its_own_name():
    for module in pkgutil.walk_packages(penstock.operators.__path__, "penstock.operators."):
        importlib.import_module(module.name)

    def offered(part, prefix=""):
        found = {name: getattr(part, name) for name in dir(part) if not name.startswith("_") and name != "experimental"}
        parts = {name: value for name, value in found.items() if inspect.ismodule(value)}
        inner = (offered(value, f"{prefix}{name}.") for name, value in parts.items())
        return {prefix + name for name in found.keys() - parts.keys()}.union(*inner)

    spelled_otherwise = ("arithmetic.", "math.", "getitem", "test.")
    assert offered(fn) == {name for name in _operators if not name.startswith(spelled_otherwise)}
