"""Draws that a release never changes: a training that is resumed would go on with other augmentations."""

import io

import numpy as np
import pytest
from PIL import Image

from penstock import Pipeline, fn, types


def drawn(draw, epochs=1):
    """Four samples of seed 11, where `draw` is the second random operator of its definition."""
    pipeline = Pipeline(batch_size=4, seed=11)
    with pipeline:
        fn.random.uniform()
        pipeline.set_outputs(draw())
    return [pipeline.run()[0].as_array().tolist() for _ in range(epochs)]


# What the first two batches are; floats to the last digits that NumPy's functions promise.
GOLDEN = {
    "uniform": (
        fn.random.uniform,
        [[0.210528970, 0.822720170, 0.205375671, 0.419951320], [0.405519605, -0.494025946, 0.884777427, -0.602207780]],
    ),
    "a range of integers": (
        lambda: fn.random.uniform(range=[0, 10], shape=[2], dtype=types.INT32),
        [[[6, 7], [9, 4], [6, 3], [7, 1]], [[7, 5], [3, 8], [9, 7], [2, 6]]],
    ),
    "values": (lambda: fn.random.uniform(values=[1, 2, 3]), [[2, 3, 2, 3], [3, 1, 3, 1]]),
    "normal": (
        lambda: fn.random.normal(mean=1, stddev=2),
        [[-0.172192454, 0.412533522, 0.819838881, 2.55866504], [-0.635833621, 1.46583069, 0.645115018, -1.51775026]],
    ),
    "coin_flip": (lambda: fn.random.coin_flip(), [[0, 0, 0, 0], [0, 1, 0, 1]]),
    "coin_flip of a probability": (
        lambda: fn.random.coin_flip(probability=0.2, shape=[3]),
        [[[0, 0, 0], [0, 0, 0], [0, 0, 1], [0, 1, 0]], [[0, 0, 0], [0, 0, 0], [0, 0, 0], [1, 0, 0]]],
    ),
    "keys": (
        fn.random.keys,
        [
            [[2599591240, 2794184374], [3914261878, 1586518048], [2588524618, 1135012264], [3049322443, 234787397]],
            [[3018330398, 2304322583], [1086571096, 3317573402], [4047528820, 2851344249], [854252432, 2690747461]],
        ],
    ),
    "a seed of its own": (
        lambda: fn.random.uniform(seed=3),
        [[0.487323165, 0.807139516, 0.869888544, -0.0808976889], [0.819667697, 0.807912707, 0.306945920, -0.319168329]],
    ),
}


@pytest.mark.parametrize(("draw", "expected"), GOLDEN.values(), ids=GOLDEN)
def test_draws_are_pinned(draw, expected):
    np.testing.assert_allclose(drawn(draw, 2), expected, rtol=2e-6)


BOXES = np.float32([[[0.1, 0.1, 0.5, 0.6], [0.4, 0.3, 0.9, 0.9]]] * 4)
MAPS = np.kron(np.arange(12).reshape(3, 4) % 3, np.ones((2, 2))).astype(np.uint8)
SEARCHES = {
    "random_bbox_crop": (
        lambda: fn.random_bbox_crop(fn.readers.arrays(BOXES), scaling=[0.3, 1.0], thresholds=[0.1], num_attempts=9)[0],
        [[0.168885887, 0.100414217], [0.00475774612, 0.0781924874], [0.107236266, 0.227950737], [0.0, 0.0]],
    ),
    "segmentation.random_object_bbox": (
        lambda: fn.segmentation.random_object_bbox(fn.readers.arrays(np.stack([MAPS] * 4)), format="box"),
        [[4, 6, 6, 8], [4, 4, 6, 6], [0, 2, 2, 4], [4, 4, 6, 6]],
    ),
    "segmentation.random_mask_pixel": (
        lambda: fn.segmentation.random_mask_pixel(fn.readers.arrays(np.stack([MAPS] * 4)), foreground=1),
        [[3, 7], [5, 5], [3, 7], [4, 4]],
    ),
}


@pytest.mark.parametrize(("draw", "expected"), SEARCHES.values(), ids=SEARCHES)
def test_searches_are_pinned(draw, expected):
    np.testing.assert_allclose(drawn(draw)[0], expected, rtol=2e-6)


def shown():
    """An image file whose pixels say where they are, as (row, column)."""
    rows, columns = np.mgrid[:40, :60]
    file = io.BytesIO()
    Image.fromarray(np.stack([rows, columns, rows], -1).astype(np.uint8)).save(file, "PNG")
    return np.frombuffer(file.getvalue(), np.uint8)


WINDOWS = {
    "by default": ({}, [(18, 12, 20, 24), (2, 2, 38, 45), (4, 9, 36, 41), (14, 7, 26, 26)]),
    "small": (
        {"random_area": [0.1, 0.3], "random_aspect_ratio": [0.5, 2.0], "num_attempts": 3},
        [(5, 2, 29, 23), (12, 25, 20, 29), (18, 5, 22, 32), (10, 27, 19, 19)],
    ),
}


@pytest.mark.parametrize(("options", "expected"), WINDOWS.values(), ids=WINDOWS)
def test_random_windows_are_pinned(options, expected):
    pipeline = Pipeline(batch_size=4, seed=11)
    with pipeline:
        data = fn.readers.arrays(np.stack([shown()] * 4))
        pipeline.set_outputs(fn.decoders.image_random_crop(data, **options))
    images = list(pipeline.run()[0])
    pipeline.close()
    assert [(*image[0, 0, :2].tolist(), *image.shape[:2]) for image in images] == expected
