"""Draws that a release never changes: a training that is resumed would go on with other augmentations."""

import io

import jax
import numpy as np
import pytest
from PIL import Image
from pipeline_runs import run

from penstock import Pipeline, fn, types
from penstock.errors import DefinitionError, SampleError


def drawn(draw, epochs=1):
    """Four samples of seed 11, where `draw` is the second random operator of its definition."""
    with Pipeline(batch_size=4, seed=11) as pipeline:
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


@pytest.mark.parametrize("limits", [(0, 2.9), (0.5, 2.5)])
def test_integers_are_between_truncated_limits(limits):
    """As in DALI, which converts limits to the dtype."""
    numbers = np.array(drawn(lambda: fn.random.uniform(range=limits, shape=1000, dtype=types.INT32)))
    np.testing.assert_allclose(np.bincount(numbers.ravel()) / numbers.size, [0.25, 0.5, 0.25], atol=0.02)


@pytest.mark.parametrize(("draw", "expected"), GOLDEN.values(), ids=GOLDEN)
def test_draws_are_pinned(draw, expected):
    np.testing.assert_allclose(drawn(draw, 2), expected, rtol=2e-6)


GOLDEN_WIDE = {
    "uniform": (
        lambda: fn.random.uniform(dtype=types.FLOAT64),
        [
            [0.210529009261306, 0.822720220228881, 0.205375705126906, 0.419951409916069],
            [0.405519612677647, -0.494025904350985, 0.884777481315737, -0.602207710944288],
        ],
    ),
    "normal": (
        lambda: fn.random.normal(mean=1, stddev=2, dtype=types.FLOAT64),
        [
            [-0.172192272194888, 0.412533412180991, 0.819838357494078, 2.55866488694146],
            [-0.635833962734975, 1.4658301963935, 0.645115038872185, -1.51775041773104],
        ],
    ),
    "beta": (
        lambda: fn.random.beta(alpha=2, beta=3, dtype=types.FLOAT64),
        [
            [0.261384362903151, 0.586821402505736, 0.466937949724497, 0.502290869768896],
            [0.256948678721147, 0.50591407829052, 0.447117326830026, 0.0962556207014447],
        ],
    ),
    "choice": (
        lambda: fn.random.choice(fn.cast(2.0**62, dtype=types.INT64)),
        [
            [2791289840390567853, 4202906688894014984, 2779407145083976298, 3274185041969652881],
            [3240907587559246597, 1166696831354112454, 4346000978592203742, 917246565164802833],
        ],
    ),
}


@pytest.mark.parametrize(("draw", "expected"), GOLDEN_WIDE.values(), ids=GOLDEN_WIDE)
def test_draws_of_64_bits_are_pinned(draw, expected):
    np.testing.assert_allclose(drawn(draw, 2), expected, rtol=1e-13)


WIDE = {
    "uniform": lambda: fn.random.uniform(dtype=types.FLOAT64, shape=5),
    "a range of integers": lambda: fn.random.uniform(range=[0, 2.0**62], dtype=types.INT64, shape=5),
    "normal": lambda: fn.random.normal(mean=1, stddev=2, dtype=types.FLOAT64, shape=5),
    "beta": lambda: fn.random.beta(alpha=0.9, beta=0.1, dtype=types.FLOAT64, shape=5),
    "the smallest beta": lambda: fn.random.beta(alpha=1e-44, beta=1e-44, shape=5),
    "choice": lambda: fn.random.choice(fn.readers.arrays(np.array([2**63 - 1, 2**40, 5, 1])), shape=5),
    "choice of 32 bits": lambda: fn.random.choice(fn.cast(3.0 * 2**30, dtype=types.UINT32), shape=5),
}


@pytest.mark.parametrize("draw", WIDE.values(), ids=WIDE)
def test_draws_of_64_bits_are_the_same_on_the_device(draw):
    results = []
    with jax.enable_x64(True):
        for placement in ("host", "device"):
            results += run(draw, batch_size=4, seed=11, placement=placement)
    host, device = results
    assert host.dtype == device.dtype
    assert not np.isnan(device.astype(np.float64)).any()
    np.testing.assert_allclose(device, host, rtol=1e-14)


SHAPED = {
    "uniform": lambda **shape: fn.random.uniform(seed=5, **shape),
    "wide": lambda **shape: fn.random.uniform(seed=5, dtype=types.FLOAT64, **shape),
    "normal": lambda **shape: fn.random.normal(**shape),
    "beta": lambda **shape: fn.random.beta(alpha=0.5, beta=2.0, **shape),
    "choice": lambda **shape: fn.random.choice(1000, **shape),
    "coin_flip": lambda **shape: fn.random.coin_flip(**shape),
}


@pytest.mark.parametrize("draw", SHAPED.values(), ids=SHAPED)
def test_draws_of_a_sample_do_not_depend_on_the_shapes_of_others(draw):
    columns = [np.zeros((3, 5), np.float32)] * 4
    ragged = [np.zeros((3, 5), np.float32), np.zeros((2, 7), np.float32), *columns[2:]]
    (dense,) = run(lambda _: draw(shape=[3, 5]), ragged, seed=11)
    (alike,) = run(lambda x: draw(shape=x.shape()), columns, seed=11)
    for make in (lambda x: draw(shape_like=x), lambda x: draw(shape=x.shape())):
        (drawn,) = run(make, ragged, seed=11)
        assert drawn[1].shape == (2, 7)
        for row in (0, 2, 3):
            np.testing.assert_array_equal(drawn[row], dense[row], strict=True)
            np.testing.assert_array_equal(drawn[row], alike[row], strict=True)


@pytest.mark.parametrize(("parameter", "dtype"), [(1e18, types.FLOAT64), (1e8, types.FLOAT)], ids=str)
def test_draws_of_large_parameters_are_not_all_the_mean(parameter, dtype):
    numbers = drawn(lambda: fn.random.beta(alpha=parameter, beta=parameter, dtype=dtype, shape=20000))
    deviations = (np.float64(numbers) - 0.5) * 2 * np.sqrt(2 * parameter)
    # Of a normal distribution, 0.8 % are closer to the mean than 0.01, and 31.7 % are farther than 1.
    assert np.mean(np.abs(deviations) < 0.01) < 0.02
    assert np.mean(np.abs(deviations) > 1) == pytest.approx(0.317, abs=0.02)


def test_parameters_beyond_float32_are_refused():
    with Pipeline(1), pytest.raises(DefinitionError, match="beta is out of range"):
        fn.random.beta(beta=1e100)


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
    (images,) = run(lambda data: fn.decoders.image_random_crop(data, **options), np.stack([shown()] * 4), seed=11)
    assert [(*image[0, 0, :2].tolist(), *image.shape[:2]) for image in images] == expected


@pytest.mark.parametrize("count", [2, 4])
def test_every_choice_has_a_probability(count):
    with Pipeline(batch_size=2) as pipeline:
        pipeline.set_outputs(fn.random.choice(count, p=[0.5, 0.25, 0.25]))
    with pytest.raises(SampleError, match=f"p has 3 entries for {count} values"):
        pipeline.run()
