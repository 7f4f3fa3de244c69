"""Colours, look-ups and JPEGs are DALI's numbers; noise has DALI's distribution."""

import numpy as np
import pytest
from scipy import stats

import penstock.fn
import penstock.types
from penstock import Pipeline
from penstock.errors import PenstockError

RNG = np.random.default_rng(12)
SIZES = ((17, 40), (1, 1), (30, 9))
IMAGES = [RNG.integers(0, 256, (*size, 3), np.uint8) for size in SIZES]
GREY = [image[..., :1] for image in IMAGES]
VIDEOS = [RNG.integers(0, 256, (3, 6, 5, 3), np.uint8) for _ in range(2)]
KINDS = ("RGB", "BGR", "GRAY", "YCbCr")


def colours(given, wanted):
    def define(lib, x):
        kinds = {"image_type": getattr(lib.types, given), "output_type": getattr(lib.types, wanted)}
        return lib.fn.color_space_conversion(x, **kinds)

    return define


@pytest.mark.parametrize("given", KINDS)
@pytest.mark.parametrize("wanted", KINDS)
def test_color_space_conversion(agree, given, wanted):
    if given != wanted:  # which DALI refuses, and penstock leaves as it is
        agree(colours(given, wanted), GREY if given == "GRAY" else IMAGES, layouts=("HWC",), off=1)


def test_color_space_conversion_of_sequences_and_volumes(agree):
    for layout in ("FHWC", "DHWC"):
        agree(colours("RGB", "YCbCr"), VIDEOS, layouts=(layout,), off=1)
        agree(colours("BGR", "GRAY"), VIDEOS, layouts=(layout,), off=1)


@pytest.mark.parametrize("quality", [-3, 1, 50, 75, 96, 100])
def test_jpeg_compression_distortion(agree, quality):
    for images, layout in ((IMAGES, "HWC"), (VIDEOS, "FHWC")):
        agree(lambda lib, x: lib.fn.jpeg_compression_distortion(x, quality=quality), images, layouts=(layout,))


def test_jpeg_compression_distortion_with_a_quality_for_each_sample(agree):
    qualities = np.int32([5, 50, 500])
    agree(lambda lib, x, q: lib.fn.jpeg_compression_distortion(x, quality=q), IMAGES, qualities, layouts=("HWC", ""))


@pytest.mark.parametrize("dtype", ["UINT8", "INT8", "INT64", "FLOAT16", "FLOAT", "FLOAT64", "BOOL"])
def test_lookup_table(agree, dtype):
    table = {"keys": [0, 2, 3, 200, 3], "values": [1.5, 2.5, 300.0, -7.5, 9.0], "default_value": 9.7}
    numbers = np.array([-1, 0, 1, 2, 3, 4, 199, 200, 201, 255, 70000])
    for given in (np.uint8, np.int8, np.int32, np.int64, np.uint64):
        column = [numbers.astype(given), numbers.astype(given)[:3]]
        agree(lambda lib, x: lib.fn.lookup_table(x, dtype=getattr(lib.types, dtype), **table), column)


def test_lookup_tables_with_one_key_or_none(agree):
    numbers = [np.int32([-1, 0, 1, 2, 65535])]
    for table in ({}, {"default_value": 3.0}, {"keys": 1, "values": 2.0}, {"keys": [65535], "values": [4.0]}):
        agree(lambda lib, x, table=table: lib.fn.lookup_table(x, **table), numbers)


def noisy(both, define, values, layout=""):
    """The elements of one large sample, with noise: penstock's and DALI's."""
    actual, expected = both(define, [values], layouts=(layout,), seed=7)
    mine, theirs = actual[0][0], expected[0][0]
    assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
    return mine, theirs


def assert_same_distribution(mine, theirs):
    """By the test of Kolmogorov and Smirnov, whose p-value is too high where many numbers are alike."""
    assert stats.ks_2samp(mine.ravel(), theirs.ravel()).pvalue > 1e-3


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "float32"])
def test_gaussian_noise(both, dtype):
    values = np.full((150, 70, 3), 40, dtype)
    for numbers in ({}, {"mean": 3.5, "stddev": 25.0}):
        mine, theirs = noisy(both, lambda lib, x, n=numbers: lib.fn.noise.gaussian(x, **n), values, "HWC")
        assert_same_distribution(mine, theirs)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32"])
@pytest.mark.parametrize("factor", [0.7, 20.0])
def test_shot_noise(both, dtype, factor):
    values = np.linspace(-5 if dtype == "float32" else 0, 250, 30000).astype(dtype).reshape(100, 100, 3)
    mine, theirs = noisy(both, lambda lib, x: lib.fn.noise.shot(x, factor=factor), values, "HWC")
    for part in range(5):
        assert_same_distribution(mine[20 * part : 20 * part + 20], theirs[20 * part : 20 * part + 20])


@pytest.mark.parametrize("mean", [0.0, 0.2, 9.9, 10.1, 30.0, 1000.0])
def test_shot_noise_is_poisson(both, mean):
    mine, _ = noisy(both, lambda lib, x: lib.fn.noise.shot(x, factor=0.5), np.full(40000, 0.5 * mean, np.float32))
    counts = np.bincount((2 * mine).astype(np.int64))
    expected = stats.poisson.pmf(np.arange(len(counts)), mean) * mine.size
    enough = expected > 10
    seen = [*counts[enough], counts[~enough].sum()]
    wanted = [*expected[enough], mine.size - expected[enough].sum()]
    assert stats.chisquare(seen, wanted, sum_check=False).pvalue > 1e-3 if mean else (mine == 0).all()


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int32", "float32"])
def test_salt_and_pepper(both, dtype):
    for layout in ("HWC", "", "CHW"):
        for options in ({}, {"prob": 0.4, "salt_vs_pepper": 0.1, "salt_val": 7.9}, {"per_channel": True, "prob": 0.3}):
            axis = layout.index("C") if layout else 2
            values = np.full((3, 100, 90) if axis == 0 else (100, 90, 3), 50, dtype)
            mine, theirs = noisy(both, lambda lib, x, o=options: lib.fn.noise.salt_and_pepper(x, **o), values, layout)
            assert np.unique(mine).tolist() == np.unique(theirs).tolist()
            for value in np.unique(mine):
                assert abs((mine == value).mean() - (theirs == value).mean()) < 0.02
            together = [(image.max(axis=axis) == image.min(axis=axis)).all() for image in (mine, theirs)]
            assert together == [not options.get("per_channel", False)] * 2


REFUSED = (
    colours("RGB", "ANY_DATA"),
    colours("GRAY", "RGB"),
    lambda lib, x: lib.fn.lookup_table(x, keys=[1, 2], values=[1.0]),
    lambda lib, x: lib.fn.lookup_table(x, keys=[65536], values=[1.0]),
    lambda lib, x: lib.fn.lookup_table(lib.fn.cast(x, dtype=lib.types.FLOAT)),
    lambda lib, x: lib.fn.noise.salt_and_pepper(x, prob=1.5),
    lambda lib, x: lib.fn.noise.salt_and_pepper(lib.fn.reinterpret(x, layout="FHW"), per_channel=True),
    lambda lib, x: lib.fn.jpeg_compression_distortion(lib.fn.cast(x, dtype=lib.types.FLOAT)),
)


def test_what_dali_refuses():
    for define in REFUSED:
        with Pipeline(1, 1):
            images = penstock.fn.readers.arrays(IMAGES[0][None], layout="HWC")
            with pytest.raises(PenstockError):
                define(penstock, images)
