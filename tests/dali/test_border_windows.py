"""Windows beyond the edges of images, continued by a border mode, give DALI's results."""

import numpy as np
import pytest

from penstock import Pipeline, errors, fn

RNG = np.random.default_rng(27)
IMAGES = [RNG.integers(0, 256, shape, np.uint8) for shape in ((8, 9, 3), (5, 1, 3))]
STARTS = np.int32([[-3], [9]])


@pytest.mark.parametrize("policy", ["clamp", "edge", "reflect", "reflect_1001", "reflect_101", "wrap"])
def test_windows(agree, policy):
    agree(
        lambda lib, x, start: (
            lib.fn.crop(x, crop=[12, 14], crop_pos_x=0.2, dtype=lib.types.FLOAT, out_of_bounds_policy=policy),
            lib.fn.slice(x, start=[-20, -2], shape=[50, 5], axes=[0, 1], out_of_bounds_policy=policy),
            lib.fn.slice(x, start=start, shape=[3], axes=[0], out_of_bounds_policy=policy),
        ),
        *(IMAGES, STARTS),
        layouts=("HWC", ""),
    )


def test_an_empty_image_has_no_border():
    with Pipeline(1) as pipeline:
        pipeline.set_outputs(fn.slice(np.zeros((0, 2)), start=0, end=3, axes=0, out_of_bounds_policy="wrap"))
    with pytest.raises(errors.SampleError, match="is empty along axis 0"):
        pipeline.run()


def test_padding_of_normalized_images_has_no_border_modes():
    with Pipeline(1), pytest.raises(errors.DefinitionError, match="no such out_of_bounds_policy"):
        fn.crop_mirror_normalize(np.zeros((2, 2, 3)), crop=[4, 4], out_of_bounds_policy="clamp")
