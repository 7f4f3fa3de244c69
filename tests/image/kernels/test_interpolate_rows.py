"""Small images are warped by way of a copy with what lies outside; large ones are not. The numbers are the same."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.image.describe.custom_pass import PassImages
from penstock.image.kernels.border_modes import Border
from penstock.image.kernels.strided_images import StridedImages
from penstock.image.passes import warp_pass
from penstock.image.passes.sampling_coordinates import Projective

MATRICES = {
    "inside": [0.9, 0.1, 1.0, -0.1, 0.8, 2.0, 0.001, 0.002, 1.0],
    "beside": [1.0, 0.0, -3.3, 0.0, 1.0, 4.7, 0.0, 0.0, 1.0],
    "far": [30.0, -9.0, -50.0, 7.0, 40.0, -60.0, -0.1, 0.2, 1.0],
    "nowhere": [0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0],
}


@pytest.mark.parametrize("matrix", MATRICES)
@pytest.mark.parametrize("interpolation", warp_pass.Interpolation, ids=lambda kind: kind.name)
@pytest.mark.parametrize("fill", [[7.0], [0.0, 100.0, 255.0]], ids=["one fill", "fill of channels"])
def test_small_images_as_large_ones(monkeypatch, fill, interpolation, matrix):
    rng = np.random.default_rng(0)
    shapes = np.array([[9, 12, 3], [9, 12, 3], [1, 1, 3], [14, 5, 3]], np.int64)
    pixels = rng.integers(0, 256, int(shapes.prod(axis=1).sum()), np.uint8)
    images = StridedImages.packed(pixels, shapes)
    rule = warp_pass.WarpPass("HWC", Projective(), interpolation, Border.CONSTANT)
    made = {}
    for most in (1 << 13, 0):
        monkeypatch.setattr(warp_pass, "_SURROUNDED", most)
        out = np.zeros_like(pixels)
        rule.run_host(
            PassImages(images, shapes, StridedImages.packed(out, shapes), shapes),
            (np.float32([MATRICES[matrix]]), np.float32([fill])),
        )
        made[most] = out.tolist()
    assert made[0] == made[1 << 13]


@pytest.mark.parametrize("shape", [(8, 9, 3), (9, 1, 1)], ids=["image", "column"])
@pytest.mark.parametrize("layout", ["HCW", "WHC", "CWH"])
def test_rows_that_are_not_contiguous(layout, shape):
    images = np.random.default_rng(0).integers(0, 256, (1, *shape), np.uint8)
    order = ["HWC".index(letter) for letter in layout]
    results = []
    for names, axes in (("HWC", [0, 1, 2]), (layout, order)):
        pixels = images.transpose(0, *(1 + axis for axis in axes))
        sizes = np.array([pixels.shape[1:]], np.int64)
        # The rest of the memory shows whether the loop writes beyond the image.
        out = np.zeros(100 * pixels.size, np.uint8)
        warp_pass.WarpPass(names, Projective(), warp_pass.Interpolation.LINEAR, Border.CONSTANT).run_host(
            PassImages(StridedImages.packed(pixels.flatten(), sizes), sizes, StridedImages.packed(out, sizes), sizes),
            (np.float32([MATRICES["inside"]]), np.float32([[7]])),
        )
        assert not out[pixels.size :].any()
        results.append(out[: pixels.size].reshape(pixels.shape[1:]))
    np.testing.assert_array_equal(results[1], results[0].transpose(order))
