"""Filters that DALI has on the GPU alone agree with OpenCV and SciPy."""

import numpy as np
import pytest
from pipeline_runs import run
from scipy import ndimage

from penstock import Pipeline, fn
from penstock.errors import ArgumentTypeError, DefinitionError

cv2 = pytest.importorskip("cv2", reason="OpenCV is not installed (dependency group test-all)")

RNG = np.random.default_rng(13)
SIZES = ((20, 33, 3), (7, 4, 3), (1, 1, 3), (1, 9, 3), (40, 2, 3))
DTYPES = ("uint8", "uint16", "float32", "int16")
BORDERS = {
    "constant": cv2.BORDER_CONSTANT,
    "replicate": cv2.BORDER_REPLICATE,
    "reflect": cv2.BORDER_REFLECT,
    "reflect_101": cv2.BORDER_REFLECT_101,
}


def images(dtype):
    return [(RNG.random(size) * 250).astype(dtype) for size in SIZES]


def ours(define, *columns, layout="HWC"):
    """The results for samples of several sizes."""
    return run(define, *columns, layout=[layout, *[""] * (len(columns) - 1)])[0]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["dilate", "erode"])
@pytest.mark.parametrize("border", BORDERS)
def test_morphology(dtype, kind, border):
    for size, anchor, iterations in (((3, 3), (-1, -1), 1), ((5, 2), (0, 1), 1), ((1, 4), (-1, -1), 2)):
        if iterations > 1 and border != "constant":
            continue  # OpenCV goes beyond the edge again each time
        given = images(dtype)
        options = {"mask_size": size, "anchor": anchor, "iterations": iterations, "border_mode": border}
        made = ours(lambda x, o=options: getattr(fn.experimental, kind)(x, **o), given)
        for image, mine in zip(given, made, strict=True):
            theirs = getattr(cv2, kind)(
                image, np.ones(size[::-1], np.uint8), anchor=anchor, iterations=iterations, borderType=BORDERS[border]
            )
            np.testing.assert_array_equal(mine, theirs.reshape(image.shape))


def test_morphology_wraps():
    given = images("uint8")
    made = ours(lambda x: fn.erode(x, mask_size=[5, 3], border_mode="wrap"), given)
    for image, mine in zip(given, made, strict=True):
        np.testing.assert_array_equal(mine, ndimage.minimum_filter(image, (3, 5, 1), mode="wrap"))


def test_morphology_with_a_mask_for_each_sample():
    given, masks = images("uint8"), np.int32([[3, 3], [2, 5], [1, 1], [-1, -1], [4, 4]])
    made = ours(lambda x, m: fn.dilate(x, mask_size=m), given, list(masks))
    for image, mask, mine in zip(given, masks, made, strict=True):
        size = [3, 3] if mask[0] < 0 else mask[::-1].tolist()
        np.testing.assert_array_equal(mine, cv2.dilate(image, np.ones(size, np.uint8)).reshape(image.shape))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1, 3, 5, (3, 5), (9, 1), (7, 11)])
def test_median_blur(dtype, size):
    given = images(dtype)
    width, height = np.broadcast_to(size, 2).tolist()
    made = ours(lambda x: fn.experimental.median_blur(x, window_size=size), given)
    for image, mine in zip(given, made, strict=True):
        np.testing.assert_array_equal(mine, ndimage.median_filter(image, (height, width, 1), mode="nearest"))
        if width == height > 1 and (dtype == "uint8" or (dtype == "float32" and width < 7)):
            np.testing.assert_array_equal(mine, cv2.medianBlur(image, width).reshape(image.shape))


def test_median_blur_with_a_window_for_each_sample():
    given, windows = images("float32"), [np.int32(size) for size in (1, 3, 5, 3, 7)]
    made = ours(lambda x, w: fn.median_blur(x, window_size=w), given, windows)
    for image, size, mine in zip(given, windows, made, strict=True):
        np.testing.assert_array_equal(mine, ndimage.median_filter(image, (size, size, 1), mode="nearest"))


REFUSED = (
    lambda x: fn.median_blur(x, window_size=4),
    lambda x: fn.median_blur(x, window_size=[3, 3, 3]),
    lambda x: fn.median_blur(fn.cast(x, dtype=np.int32)),
    lambda x: fn.dilate(x, mask_size=0),
    lambda x: fn.dilate(x, anchor=3),
    lambda x: fn.erode(x, iterations=0),
    lambda x: fn.erode(x, border_mode="reflect_1001"),
    lambda x: fn.erode(fn.reinterpret(x, layout="DHW")),
    lambda x: fn.laplacian(x, window_size=4),
    lambda x: fn.laplacian(x, window_size=1),
    lambda x: fn.laplacian(x, smoothing_size=33),
    lambda x: fn.laplacian(x, scale=[1, 2, 3]),
    lambda x: fn.laplacian(x, scale=2.0, normalized_kernel=True),
    lambda x: fn.laplacian(x, dtype=np.int16),
)


def test_mistakes_are_found_while_tracing():
    for define in REFUSED:
        with Pipeline(1, 1):
            x = fn.readers.arrays(np.zeros((1, 5, 5, 3), np.uint8), layout="HWC")
            with pytest.raises((DefinitionError, ArgumentTypeError)):
                define(x)
