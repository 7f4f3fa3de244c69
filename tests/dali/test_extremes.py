"""Every image operator at the limits of its arguments: values, dtypes, shapes and layouts are DALI's.

One definition uses an operator with many arguments, on images from 1 x 1 pixels to wide ones; another gives each sample
its own.
"""

import zlib
from functools import cache

import numpy as np
import pytest
from extreme_uses import BYTES, CLOSE, EXACT, FLOATS, TURNED, USES, WARPED, WORDS, types
from PIL import Image

from penstock import Pipeline, fn
from penstock.errors import PenstockError

SIZES = ((1, 1), (1, 7), (9, 1), (13, 17), (20, 300))


@cache
def images(dtype, sizes=SIZES, frames=0):
    """Images or sequences of several sizes: smooth, so that a place that is rounded does not change all."""
    rng, made = np.random.default_rng(zlib.crc32(dtype.encode())), []
    for number, (height, width) in enumerate(sizes):
        small = Image.fromarray(rng.integers(0, 256, (4, 5, 3), np.uint8))
        pixels = np.asarray(small.resize((width, height), Image.Resampling.BICUBIC)).astype(dtype)
        pixels = pixels * 3 - 300 if dtype == WORDS else pixels
        made.append(np.stack([pixels[:, ::-1], pixels] * (frames + number))[: frames + number] if frames else pixels)
    return made


def check(mine, theirs, limit):
    """Integers within 1, floats within 2e-3 of full scale; of warps one in a thousand may be twice as far away."""
    assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
    if limit == EXACT:
        np.testing.assert_array_equal(mine, theirs)
        return
    scale = 1 if mine.dtype.kind in "iu" else 2e-3 * np.maximum(abs(theirs.astype(float)).max(initial=1), 1)
    off = abs(mine.astype(float) - theirs.astype(float)) / scale
    assert off.max(initial=0) <= (2 if limit == WARPED else 1)
    assert (off > 1).sum() <= 1e-3 * off.size


NAMED = {"axis_names", "output_layout"}
"""Arguments that name the axes of HWC."""


@pytest.mark.parametrize("dtype", [BYTES, FLOATS, WORDS])
@pytest.mark.parametrize("name", USES)
@pytest.mark.parametrize("layout", ["HWC", "FHWC", ""])
def test_arguments(both, name, dtype, layout):
    use = USES[name]
    if (
        dtype not in use.dtypes
        or (layout == "FHWC" and not use.sequences)
        or (layout == "" and not (use.plain and dtype == BYTES))
    ):
        pytest.skip("DALI takes no such images")
    samples = images(dtype, frames=2 * (layout == "FHWC"))
    several = [arguments for arguments in use.several if layout == "HWC" or not NAMED & arguments.keys()]

    def define(lib, x):
        return tuple(getattr(lib.fn, name)(x, **types(lib, use.always | arguments)) for arguments in several)

    for mine, theirs in zip(*both(define, samples, layouts=(layout,)), strict=True):
        for a, b in zip(mine, theirs, strict=True):
            check(a, b, use.limit)


@pytest.mark.parametrize("dtype", [BYTES, FLOATS])
@pytest.mark.parametrize("name", [name for name, use in USES.items() if use.each])
def test_arguments_of_each_sample(both, name, dtype):
    use = USES[name]
    if dtype not in use.dtypes:
        pytest.skip("DALI takes no such images")
    samples = images(dtype)
    kinds = {name: np.asarray(values).dtype.kind for name, values in use.each.items()}
    columns = [
        [
            np.asarray(values[n % len(values)], np.int32 if kinds[name] == "i" else np.float32)
            for n in range(len(samples))
        ]
        for name, values in use.each.items()
    ]

    def define(lib, x, *nodes):
        given = {**types(lib, use.always), **dict(zip(use.each, nodes, strict=True))}
        return getattr(lib.fn, name)(x, **given)

    (mine,), (theirs,) = both(define, samples, *columns, layouts=("HWC", *[""] * len(columns)))
    for a, b in zip(mine, theirs, strict=True):
        check(a, b, use.limit)


KERNEL = np.float32([[-1, 0, 1], [-2, 0.5, 2], [-1, 0, 1]])


@pytest.mark.parametrize("dtype", [BYTES, FLOATS, WORDS])
def test_borders_and_anchors_of_filters(both, dtype):
    uses = [{"border": name} for name in ("reflect_101", "reflect_1001", "reflect", "wrap", "clamp")]
    uses += [{"border": "constant", "anchor": anchor} for anchor in (0, [2, 0], [-1, 1])]

    def define(lib, x, k):
        return tuple(lib.fn.filter(x, k, **use) for use in uses) + tuple(
            lib.fn.filter(x, k, fill, border="constant") for fill in np.array([9, 255], dtype)
        )

    samples = images(dtype)
    for mine, theirs in zip(*both(define, samples, [KERNEL] * len(samples), layouts=("HWC", "")), strict=True):
        for a, b in zip(mine, theirs, strict=True):
            check(a, b, CLOSE)


@pytest.mark.parametrize("dtype", ["UINT8", "INT16", "INT32", "FLOAT"])
def test_what_warps_make_of_floats(both, dtype):
    def define(lib, x):
        wanted = getattr(lib.types, dtype)
        return (
            lib.fn.rotate(x, angle=20, fill_value=2.5, dtype=wanted),
            lib.fn.warp_affine(x, matrix=TURNED, dtype=wanted),
        )

    for mine, theirs in zip(*both(define, images(FLOATS), layouts=("HWC",)), strict=True):
        for a, b in zip(mine, theirs, strict=True):
            check(a, b, WARPED)


def test_places_on_the_edge_between_pixels_far_to_the_right(agree):
    ramp = np.broadcast_to(np.arange(700, dtype=np.float32)[:, None], (9, 700, 1))
    volume = np.stack([ramp, ramp])

    def define(lib, x):
        return lib.fn.warp_affine(x, matrix=TURNED), lib.fn.warp_affine(
            x, matrix=TURNED, interp_type=lib.types.INTERP_NN
        )

    agree(define, [ramp], layouts=("HWC",), rtol=1e-6, atol=1e-4)
    matrix = [0.9, -0.3, 0.2, 1.5, 0, 1, 0, 0, 0, 0, 1, 0]
    agree(lambda lib, x: lib.fn.warp_affine(x, matrix=matrix), [volume], layouts=("DHWC",), rtol=1e-6, atol=1e-4)


@pytest.mark.parametrize("operator", ["pad", "normalize", "slice"])
def test_axes_are_named_in_one_way(operator):
    given = {"start": [1], "end": [2]} if operator == "slice" else {}
    with Pipeline(1, 1):
        x = fn.readers.arrays(np.zeros((1, 3, 4), np.uint8), layout="HW")
        with pytest.raises(PenstockError, match="axes and axis_names cannot be combined"):
            getattr(fn, operator)(x, axes=[0], axis_names="H", **given)
