"""Colours, look-ups and JPEGs are DALI's numbers; noise has DALI's distribution."""

import cv2
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
    for numbers in ({}, {"mean": 3.5, "stddev": 25.0}, {"stddev": -9.0}):
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


CLAHE = ({"tiles_x": 4, "tiles_y": 4, "clip_limit": 2.0}, {"tiles_x": 3, "tiles_y": 5, "clip_limit": 1.0})


EXTREME = ({"tiles_x": 1, "tiles_y": 1, "clip_limit": 0.0}, {"tiles_x": 8, "tiles_y": 9, "clip_limit": 40.0})


@pytest.mark.parametrize("arguments", [*CLAHE, *EXTREME])
def test_clahe(agree, arguments):
    images = [RNG.integers(0, 256, size, np.uint8) for size in ((37, 52, 3), (40, 53, 3), (1, 1, 3), (2, 30, 3))]
    images += [np.cumsum(image // 100, axis=1, dtype=np.uint8) for image in images]
    agree(lambda lib, x: lib.fn.clahe(x, **arguments), images, layouts=("HWC",))
    agree(lambda lib, x: lib.fn.clahe(x, **arguments), [x[..., :1] for x in images], layouts=("HWC",))
    agree(lambda lib, x: lib.fn.clahe(x, luma_only=False, **arguments), images, layouts=("HWC",))


def test_lightness_of_all_kinds_of_colours(agree):
    colours = RNG.integers(0, 1 << 24, (1024, 1024), np.uint32)
    image = np.stack([colours >> 16, colours >> 8 & 255, colours & 255], axis=-1).astype(np.uint8)
    agree(lambda lib, x: lib.fn.clahe(x, tiles_x=1, tiles_y=1, clip_limit=1e-6), [image], layouts=("HWC",))


def test_bins_of_clahe_where_dali_has_256():
    image = np.cumsum(RNG.integers(0, 9, (24, 36, 1)), axis=1).astype(np.uint8)

    def made(x, **arguments):
        with Pipeline(1, 1) as pipeline:
            images = penstock.fn.readers.arrays(x[None], layout="HWC")
            pipeline.set_outputs(penstock.fn.clahe(images, tiles_x=3, tiles_y=2, **arguments))
        return pipeline.run()[0].as_array()[0].astype(int)

    np.testing.assert_array_equal(made(image, bins=128, clip_limit=0.0), made(image | 1, clip_limit=0.0))
    words = cv2.createCLAHE(900.0, (3, 2)).apply(image[..., 0].astype(np.uint16) * 256)
    assert abs(made(image, bins=1 << 16, clip_limit=900.0)[..., 0] - words / 257).max() <= 1


ALGORITHMS = ("bilinear_ocv", "edgeaware_ocv", "gray_ocv")


@pytest.mark.parametrize("algorithm", [None, *ALGORITHMS])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("layout", ["HW", "HWC", "FHW", "FHWC", ""])
def test_debayer(agree, algorithm, dtype, layout):
    outer, inner = (3,) * layout.startswith("F"), (1,) * layout.endswith("C")
    sizes = [(20, 26), (4, 6), (2, 8), (2, 2), (6, 4)]
    raw = [RNG.integers(0, np.iinfo(dtype).max + 1, (*outer, *size, *inner)).astype(dtype) for size in sizes]
    wanted = {} if algorithm is None else {"algorithm": algorithm}
    for position in ([0, 0], [0, 1], [1, 0], [1, 1]):
        agree(lambda lib, x, p=position: lib.fn.debayer(x, blue_position=p, **wanted), raw, layouts=(layout,))


@pytest.mark.parametrize("layout", ["HW", "FHWC"])
def test_debayer_by_gradients(agree, layout):
    outer, inner = (3,) * layout.startswith("F"), (1,) * layout.endswith("C")
    sizes = [(200, 8), (100, 10), (200, 12), (200, 14), (200, 20), (200, 22), (150, 44), (8, 8), (4, 20)]
    raw = [RNG.integers(0, 256, (*outer, *size, *inner), np.uint8) for size in sizes]
    for position in ([0, 0], [0, 1], [1, 0], [1, 1]):
        agree(
            lambda lib, x, p=position: lib.fn.debayer(x, blue_position=p, algorithm="vng_ocv"),
            raw,
            layouts=(layout,),
        )


@pytest.mark.parametrize("size", [(6, 8), (2, 4)])
def test_debayer_as_npp_describes_it(size):
    raw, position = RNG.integers(0, 256, size, np.uint8), (0, 1)
    raw[:, :4] //= 64  # so that steps are the same, too
    with Pipeline(1, 1) as pipeline:
        x = penstock.fn.readers.arrays(raw[None], layout="HW")
        pipeline.set_outputs(penstock.fn.debayer(x, blue_position=position, algorithm="default_npp"))
    made, wide = pipeline.run()[0].as_array()[0], np.pad(raw.astype(int), 2, mode="reflect")
    for y, x in np.ndindex(size):
        row, column = (y + position[0]) % 2, (x + position[1]) % 2  # 1 where blue ones are
        at = wide[y : y + 5, x : x + 5]
        sides, ends, here = at[2, 1] + at[2, 3], at[1, 2] + at[3, 2], at[2, 2]
        corners = (at[1, 1] + at[1, 3] + at[3, 1] + at[3, 3] + 2) // 4
        step = abs(2 * here - at[2, 0] - at[2, 4]) - abs(2 * here - at[0, 2] - at[4, 2])
        green = (sides + 1) // 2 if step < 0 else (ends + 1) // 2 if step > 0 else (sides + ends + 2) // 4
        pairs = ((sides + 1) // 2, (ends + 1) // 2)
        expected = {(0, 0): (here, green, corners), (1, 1): (corners, green, here)}.get((row, column))
        expected = expected or ((pairs[1], here, pairs[0]) if row else (pairs[0], here, pairs[1]))
        assert tuple(made[y, x]) == expected


def test_debayer_with_a_position_for_each_sample(agree):
    raw = [RNG.integers(0, 256, (6, 8), np.uint8) for _ in range(4)]
    positions = [np.int32([at // 2, at % 2]) for at in range(4)]
    agree(lambda lib, x, p: lib.fn.experimental.debayer(x, blue_position=p), raw, positions, layouts=("HW", ""))


def test_what_is_different_on_purpose():
    image = IMAGES[0]
    with Pipeline(1, 1, seed=1) as pipeline:
        x = penstock.fn.readers.arrays(image[None], layout="HWC")
        pipeline.set_outputs(
            colours("BGR", "BGR")(penstock, x),
            penstock.fn.noise.shot(x, factor=0.0),
            penstock.fn.noise.salt_and_pepper(x, prob=1.0, salt_val=300.0, pepper_val=-5.0),
        )
    same, quiet, extreme = (np.asarray(output[0]) for output in pipeline.run())
    np.testing.assert_array_equal(same, image)
    np.testing.assert_array_equal(quiet, image)
    assert np.unique(extreme).tolist() == [0, 255]


REFUSED = (
    colours("RGB", "ANY_DATA"),
    colours("GRAY", "RGB"),
    lambda lib, x: lib.fn.lookup_table(x, keys=[1, 2], values=[1.0]),
    lambda lib, x: lib.fn.lookup_table(x, keys=[65536], values=[1.0]),
    lambda lib, x: lib.fn.lookup_table(lib.fn.cast(x, dtype=lib.types.FLOAT)),
    lambda lib, x: lib.fn.noise.salt_and_pepper(x, prob=1.5),
    lambda lib, x: lib.fn.noise.salt_and_pepper(lib.fn.reinterpret(x, layout="FHW"), per_channel=True),
    lambda lib, x: lib.fn.jpeg_compression_distortion(lib.fn.cast(x, dtype=lib.types.FLOAT)),
    lambda lib, x: lib.fn.clahe(lib.fn.cast(x, dtype=lib.types.FLOAT), tiles_x=2, tiles_y=2, clip_limit=2),
    lambda lib, x: lib.fn.clahe(x, tiles_x=0, tiles_y=2, clip_limit=2),
    lambda lib, x: lib.fn.debayer(x, blue_position=[0, 0]),
    lambda lib, x: lib.fn.debayer(x[..., :1], blue_position=[0, 0]),
    lambda lib, x: lib.fn.debayer(x[:6, :6, :1], blue_position=[0, 2]),
    lambda lib, x: lib.fn.debayer(
        lib.fn.cast(x[:6, :6, :1], dtype=lib.types.UINT16), blue_position=[0, 0], algorithm="vng_ocv"
    ),
)


def test_what_dali_refuses():
    for define in REFUSED:
        with Pipeline(1, 1):
            images = penstock.fn.readers.arrays(IMAGES[0][None], layout="HWC")
            with pytest.raises(PenstockError):
                define(penstock, images)


NORMALIZED = {
    "deviations of 0": lambda lib, x, s: lib.fn.normalize(x, axes=[0], stddev=s, shift=1),
    "no degree of freedom": lambda lib, x, s: lib.fn.normalize(x, axes=[0], ddof=2),
    "one degree of freedom, with an epsilon": lambda lib, x, s: lib.fn.normalize(x, axes=[0], ddof=1, epsilon=0.25),
    "a mean, no degree of freedom": lambda lib, x, s: lib.fn.normalize(x, mean=1.0, ddof=6, scale=2, shift=3),
    "a batch": lambda lib, x, s: lib.fn.normalize(x, batch=True, ddof=12, dtype=lib.types.UINT8, shift=5),
    "a constant deviation of 0": lambda lib, x, s: lib.fn.normalize(x, axes=[0], stddev=np.float32([[0, 1, 2]])),
    "a number of 0": lambda lib, x, s: lib.fn.normalize(x, mean=2.5, stddev=0.0),
}


# A device computes no statistics of a batch, and no infinities.
@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")
@pytest.mark.parametrize(
    ("name", "placement"),
    [(name, "auto") for name in NORMALIZED] + [(name, "device") for name in list(NORMALIZED)[:4]],
)
def test_normalization_without_a_deviation(agree, name, placement):
    data = [np.float32([[1, 2, 3], [5, 7, 11]]), np.float32([[0, 2, 3], [5, 7, 1]])]
    agree(NORMALIZED[name], data, [np.float32([[0, 1, 2]]), np.float32([[1, 0, 2]])], rtol=1e-6, placement=placement)
