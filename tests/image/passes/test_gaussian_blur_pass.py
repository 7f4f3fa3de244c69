"""Gaussian blur with one radius per sample, in images with values that are not finite."""

import numpy as np
import pytest

from penstock import Pipeline, fn


@pytest.mark.parametrize("placement", ["host", "device"])
def test_infinite_pixels_only_reach_as_far_as_the_radius_of_their_image(placement):
    images = np.zeros((4, 16, 16, 1), np.float32)
    images[:, 8, 8] = np.inf
    with Pipeline(4, 1, seed=3, placement=placement) as pipeline:
        sigma = fn.random.uniform(range=[0.5, 2.0])
        pipeline.set_outputs(fn.gaussian_blur(fn.readers.arrays(images, layout="HWC"), sigma=sigma), sigma)
    blurred, sigmas = ([np.asarray(sample) for sample in batch] for batch in pipeline.run())
    assert len({sigma.item() for sigma in sigmas}) > 1
    assert not np.isnan(blurred).any()
