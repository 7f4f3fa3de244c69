"""Arguments with an entry per frame do to each frame what DALI does."""

import numpy as np
import pytest

from penstock import Pipeline, fn
from penstock.errors import DefinitionError

RNG = np.random.default_rng(4)
VIDEOS = [RNG.integers(0, 256, (3, 8, 9, 3), np.uint8), RNG.integers(0, 256, (2, 7, 5, 3), np.uint8)]
NUMBERS = [np.float32([0.5, 1.2, 2]), np.float32([3, 0.7])]
MATRICES = [np.float32([[[1, 0, k], [0.1, 1, 0]] for k in range(len(video))]) for video in VIDEOS]

USES = {
    "rotate": lambda lib, x, n, m: lib.fn.rotate(x, angle=lib.fn.per_frame(n), keep_size=True),
    "gaussian_blur": lambda lib, x, n, m: lib.fn.gaussian_blur(x, sigma=lib.fn.per_frame(n)),
    "brightness": lambda lib, x, n, m: lib.fn.brightness(x, brightness=lib.fn.per_frame(n)),
    "warp_affine": lambda lib, x, n, m: lib.fn.warp_affine(x, matrix=lib.fn.per_frame(m), fill_value=3),
    "warp_affine input": lambda lib, x, n, m: lib.fn.warp_affine(x, lib.fn.per_frame(m), size=(6, 7)),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_values(agree, use):
    agree(use, VIDEOS, NUMBERS, MATRICES, layouts=("FHWC", "", ""), off=1)


def test_layouts(both):
    agreed = both(lambda lib, x: lib.fn.per_frame(x), NUMBERS)
    assert all((a == b).all() for a, b in zip(agreed[0][0], agreed[1][0], strict=True))
    with Pipeline(batch_size=1):
        numbers = fn.readers.arrays(np.zeros((1, 2, 3), np.float32), layout="HW")
        assert fn.per_frame(numbers, replace=True).spec.layout == "FW"
        assert fn.per_frame(fn.readers.arrays(np.zeros((1, 2, 3), np.float32))).spec.layout == "F*"
        with pytest.raises(DefinitionError, match="first axis is no F"):
            fn.per_frame(numbers)


def test_mistakes():
    with Pipeline(batch_size=1):
        videos = fn.readers.arrays(np.zeros((1, 2, 4, 4, 3), np.uint8), layout="FHWC")
        images = fn.readers.arrays(np.zeros((1, 4, 4, 3), np.uint8), layout="HWC")
        three = fn.per_frame(fn.readers.arrays(np.zeros((1, 3), np.float32)))
        with pytest.raises(DefinitionError, match="has an entry per frame"):
            fn.brightness(videos, brightness=three)
        with pytest.raises(DefinitionError, match="are for sequences"):
            fn.brightness(images, brightness=three)
        with pytest.raises(DefinitionError, match="takes no arguments per frame"):
            fn.erase(videos, shape=fn.per_frame(fn.readers.arrays(np.ones((1, 2, 2), np.float32))))
