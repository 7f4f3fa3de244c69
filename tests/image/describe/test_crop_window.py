"""Positions of crop windows are exact for every extent, and the same on the host and on devices."""

import numpy as np
import pytest
from pipeline_runs import run

from penstock import fn


@pytest.mark.parametrize("extent", [100, 1 << 17, 300_000, 3_000_000])
@pytest.mark.parametrize("rounding", ["round", "truncate"])
def test_windows_are_where_they_should_be(extent, rounding):
    column = np.arange(extent, dtype=np.int32)[:, None, None]
    positions = np.float32([0, 0.25, 1 / 3, 0.5, 0.7, 1])
    expected = [
        int(int(p * np.float32(1 << 30)) * (extent - 1) / (1 << 30) + 0.5 * (rounding == "round")) for p in positions
    ]
    images = [column] * len(positions)

    def build(images, positions):
        return fn.crop(images, crop_h=1, crop_w=1, crop_pos_y=positions, rounding=rounding)

    (result,) = run(build, images, positions, layout=["HWC", ""])
    assert np.ravel(result).tolist() == expected


def test_long_axes_have_the_windows_of_the_host_on_devices():
    column = np.arange(300_000, dtype=np.int32)[None, :, None, None]
    first = {
        place: run(lambda x: fn.crop(x, crop=(1, 1), crop_pos_y=0.7), column, layout="HWC", placement=place)[0]
        for place in ("host", "device")
    }
    assert np.ravel(first["host"]).tolist() == np.ravel(first["device"]).tolist() == [209_999]
