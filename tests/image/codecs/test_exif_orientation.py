"""Turned pixels and turned regions belong together."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageOps

from penstock.image.codecs.exif_orientation import apply_orientation, delivered_region, stored_region
from penstock.image.codecs.image_header import Region

PIXELS = np.random.default_rng(0).integers(0, 256, (5, 8, 3), np.uint8)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_pixels_are_turned_as_pillow_turns_them(orientation):
    image = Image.fromarray(PIXELS)
    image.getexif()[0x0112] = orientation
    assert np.array_equal(apply_orientation(PIXELS, orientation), np.asarray(ImageOps.exif_transpose(image)))


@given(
    orientation=st.integers(1, 8),
    rows=st.tuples(st.integers(0, 4), st.integers(1, 4)),
    columns=st.tuples(st.integers(0, 4), st.integers(1, 4)),
)
def test_a_region_is_stored_where_its_pixels_are(orientation, rows, columns):
    image = apply_orientation(PIXELS, orientation)
    height, width = image.shape[:2]
    region = Region(rows[0], min(sum(rows), height), columns[0], min(sum(columns), width))
    stored = stored_region(region, height, width, orientation)
    pixels = apply_orientation(PIXELS[stored.top : stored.bottom, stored.left : stored.right], orientation)
    assert np.array_equal(pixels, image[region.top : region.bottom, region.left : region.right])
    assert delivered_region(stored, height, width, orientation) == region
