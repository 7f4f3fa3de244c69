"""Regions that end far outside of an image, such as those of a wrong annotation."""

import numpy as np
import pytest
from pipeline_runs import run

from penstock import errors, fn, types

IMAGES = np.full((2, 8, 8, 3), 200, np.uint8)
ENDS = np.float32([[8, 8], [1e7, 1e7]])


def resize(images, end, size, **arguments):
    return fn.resize(images, size=size, roi_start=[0, 0], roi_end=end, **arguments)


def test_too_many_pixels_for_one_are_refused():
    message = "10,000,000 pixels cannot be resized to 2: each pixel of the result would be a sum of 10,000,000 pixels"
    with pytest.raises(errors.DefinitionError, match=message):
        run(lambda x: resize(x, [1e7, 1e7], [2, 2]), IMAGES, layout="HWC")
    with pytest.raises(errors.SampleError, match=f"sample 1.*{message}"):
        run(lambda x, end: resize(x, end, [2, 2]), IMAGES, ENDS, layout=["HWC", ""])
    # Nearest neighbors are no sums.
    (images,) = run(lambda x: resize(x, [1e7, 1e7], [2, 2], interp_type=types.INTERP_NN), IMAGES, layout="HWC")
    assert (images == 200).all()


@pytest.mark.parametrize("filters", [types.INTERP_LINEAR, types.INTERP_GAUSSIAN])
def test_pixels_beyond_the_edge_are_the_edge(filters):
    """Also if the filter of each is wide: without a shortcut, each tap of the region takes a step."""
    (images,) = run(lambda x: resize(x, [1e8, 1e8], [200, 200], interp_type=filters), IMAGES[:1], layout="HWC")
    assert (images == 200).all()
