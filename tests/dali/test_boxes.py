"""The operators on boxes and points give DALI's numbers."""

import numpy as np
import pytest

RNG = np.random.default_rng(6)


def boxes(count):
    low = RNG.uniform(0, 0.6, (count, 2))
    return np.concatenate([low, low + RNG.uniform(0.1, 0.4, (count, 2))], axis=1).astype(np.float32)


BOXES = [boxes(3), boxes(1), boxes(0), boxes(7)]
POINTS = [RNG.normal(size=(count, 2)).astype(np.float32) for count in (3, 1, 5, 2)]
FLAGS = np.int32([1, 0, 2, 0])


@pytest.mark.parametrize(
    "arguments", [{}, {"vertical": 1}, {"horizontal": 0, "ltrb": True}, {"horizontal": 2, "vertical": 1, "ltrb": True}]
)
def test_bb_flip(agree, arguments):
    agree(lambda lib, b: lib.fn.bb_flip(b, **arguments), BOXES, atol=1e-6)
    agree(lambda lib, b: lib.fn.bb_flip(b, **arguments), [b.ravel() for b in BOXES], atol=1e-6)


def test_bb_flip_for_each_sample(agree):
    agree(lambda lib, b, f: lib.fn.bb_flip(b, horizontal=f, vertical=f), BOXES, FLAGS, atol=1e-6)


def test_bbox_paste(agree):
    agree(lambda lib, b: lib.fn.bbox_paste(b, ratio=2.5), BOXES, atol=1e-6)
    agree(lambda lib, b: lib.fn.bbox_paste(b, ratio=3, paste_x=0.2, paste_y=1.0, ltrb=True), BOXES, atol=1e-6)
    numbers = np.float32([1, 1.3, 2, 4])
    agree(lambda lib, b, r: lib.fn.bbox_paste(b, ratio=r, paste_x=r, paste_y=r), BOXES, numbers, atol=1e-6)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"flip_y": 1, "center_x": 3.0, "center_y": -0.5},
        {"layout": "yx", "center_x": 0.2},
        {"flip_x": 0, "flip_z": 1},
    ],
)
def test_coord_flip(agree, arguments):
    agree(lambda lib, p: lib.fn.coord_flip(p, **arguments), POINTS, atol=1e-6)


def test_coord_flip_for_each_sample(agree):
    space = [RNG.normal(size=(2, 3)).astype(np.float32) for _ in range(4)]
    agree(
        lambda lib, p, f, c: lib.fn.coord_flip(p, flip_x=f, flip_z=f, center_z=c, center_x=c),
        space,
        FLAGS,
        np.float32([1, 2, 3, 4]),
        atol=1e-6,
    )


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"M": 2.0},
        {"M": [1, 2, 3, 4], "T": 3.0},
        {"M": [1, 2, 3, 4, 5, 6], "T": [1, 2, 3]},
        {"T": [1, 2]},
        {"MT": 2.0},
        {"MT": [1, 2, 3, 4, 5, 6]},
        {"M": [0.37, -1.1, 0.5, 0.4], "integers": True},
    ],
)
def test_coord_transform(agree, arguments):
    arguments = dict(arguments)
    integers = arguments.pop("integers", False)
    points = [np.int16(each * 1000) for each in POINTS] if integers else POINTS

    def define(lib, p):
        more = {"dtype": lib.types.INT16} if integers else {}
        return lib.fn.coord_transform(p, **arguments, **more)

    agree(define, points, rtol=1e-6, atol=1e-6, off=1)


def test_a_matrix_for_each_sample(agree):
    matrices = RNG.normal(size=(4, 2, 3)).astype(np.float32)
    agree(lambda lib, p, m: lib.fn.coord_transform(p, MT=m), POINTS, matrices, rtol=1e-5, atol=1e-5)
    agree(
        lambda lib, p, m, t: lib.fn.coord_transform(p, M=m, T=t),
        POINTS,
        matrices[:, :, :2],
        matrices[:, :, 2],
        rtol=1e-5,
        atol=1e-5,
    )


def test_points_keep_their_layout(agree):
    matrices = RNG.normal(size=(4, 3, 3)).astype(np.float32)
    for define in (
        lambda lib, p, m: lib.fn.coord_transform(p, MT=m),
        lambda lib, p, m: lib.fn.coord_transform(p, M=m[:2, :2]),
        lambda lib, p, m: lib.fn.coord_transform(p, MT=lib.fn.transforms.scale(scale=[2.0, 3.0])),
        lambda lib, p, m: lib.fn.coord_transform(p, M=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
        lambda lib, p, m: lib.fn.coord_transform(p, M=[0.5, 0.5]),
    ):
        agree(define, POINTS, matrices, layouts=("NX", ""), rtol=1e-5, atol=1e-5)


def test_a_factor_for_each_sample(agree):
    factors = np.float32([1, 2, 0.5, -3])
    agree(lambda lib, p, f: lib.fn.coord_transform(p, M=f, T=lib.fn.stack(f, f)), POINTS, factors, rtol=1e-6)


def test_pixels_are_points(agree):
    images = [RNG.integers(0, 256, (4, 5, 3), np.uint8) for _ in range(3)]
    agree(lambda lib, x: lib.fn.coord_transform(x, M=[0.3, 0.6, 0.1]), images, layouts=("HWC",), rtol=1e-6)
