"""Automatic augmentations are DALI's: their tables, and what each of them does to images."""

import numpy as np
import pytest
from PIL import Image

from penstock import fn, types
from penstock.auto_aug import augmentations, auto_augment, rand_augment, trivial_augment
from penstock.auto_aug.core import augmentation, signed_bin

dali = pytest.importorskip("nvidia.dali.auto_aug.core")
from nvidia.dali.auto_aug import augmentations as dali_augmentations  # noqa: E402  # after the check that DALI is there
from nvidia.dali.auto_aug import auto_augment as dali_auto  # noqa: E402  # likewise
from nvidia.dali.auto_aug import rand_augment as dali_rand  # noqa: E402  # likewise
from nvidia.dali.auto_aug import trivial_augment as dali_trivial  # noqa: E402  # likewise

RNG = np.random.default_rng(11)
SIZES = ((40, 60), (31, 17))
IMAGES = [
    np.asarray(Image.fromarray(RNG.integers(0, 256, (4, 5, 3), np.uint8)).resize(size[::-1], Image.Resampling.BICUBIC))
    for size in SIZES
]
SIGNS = np.int32([0, 1])
BY_SHAPE = ("translate_x", "translate_y")
NAMES = (
    *(
        "shear_x",
        "shear_y",
        "translate_x_no_shape",
        "translate_y_no_shape",
        "rotate",
        "brightness",
        "contrast",
        "color",
    ),
    *("sharpness", "posterize", "solarize", "solarize_add", "invert", "equalize", "auto_contrast", "identity"),
)


@pytest.mark.parametrize("number", [0, 4, 10])
@pytest.mark.parametrize("name", [*NAMES, *BY_SHAPE])
def test_augmentations(both, name, number):
    def define(lib, x, sign):
        ours = lib.fn is fn
        module, signed = (augmentations, signed_bin) if ours else (dali_augmentations, dali.signed_bin)
        more = {"shape": np.float32([10, 20])} if name in BY_SHAPE else {}
        bins = signed(number, random_sign=sign)
        return getattr(module, name)(x, magnitude_bin=bins, num_magnitude_bins=11, **more)

    (mine,), (theirs,) = both(define, IMAGES, SIGNS, layouts=("HWC", ""))
    for a, b in zip(mine, theirs, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        off = abs(a.astype(int) - b.astype(int))
        assert off.max() <= 2
        assert (off > 1).mean() <= 1e-3


def settings(one):
    magnitudes = None if one.mag_range is None else tuple(one.mag_range)
    return one.name.split("__")[-1], magnitudes, bool(one.randomly_negate)


@pytest.mark.parametrize("use_shape", [False, True])
@pytest.mark.parametrize("name", ["image_net", "reduced_cifar10", "svhn", "reduced_image_net"])
def test_policies(name, use_shape):
    policies = [getattr(module, f"get_{name}_policy") for module in (auto_augment, dali_auto)]
    arguments = () if name == "reduced_image_net" else (use_shape,)
    mine, theirs = (
        [[(settings(each), p, number) for each, p, number in sequence] for sequence in make(*arguments).sub_policies]
        for make in policies
    )
    assert mine == theirs


@pytest.mark.parametrize("use_shape", [False, True])
def test_suites(use_shape):
    for mine, theirs in (
        (rand_augment.get_rand_augment_suite, dali_rand.get_rand_augment_suite),
        (rand_augment.get_rand_augment_non_monotonic_suite, dali_rand.get_rand_augment_non_monotonic_suite),
        (trivial_augment.get_trivial_augment_wide_suite, dali_trivial.get_trivial_augment_wide_suite),
    ):
        assert list(map(settings, mine(use_shape))) == list(map(settings, theirs(use_shape)))


@pytest.mark.parametrize(
    "options",
    [
        {"mag_range": (100, 110)},
        {"mag_range": np.array([1, 1, 2, 3, 5, 8, 13, 21])},
        {"mag_range": (201, 208), "randomly_negate": True},
        {"mag_range": (1, 8), "mag_to_param": lambda magnitude: np.array([magnitude, magnitude + 2], np.uint16)},
        {"mag_range": (1, 8), "mag_to_param": float},
    ],
    ids=range(5),
)
def test_parameters_of_ones_own_augmentations(both, options):
    numbers, signs = np.arange(8, dtype=np.int32), np.arange(8, dtype=np.int32) % 2

    def define(lib, number, sign):
        make, signed = (augmentation, signed_bin) if lib.fn is fn else (dali.augmentation, dali.signed_bin)
        own = make(**options)(lambda _, parameter: parameter)
        bins = [signed(each, random_sign=sign) for each in (3, number)]
        return [own(lib.types.Constant(42), magnitude_bin=each, num_magnitude_bins=8) for each in bins]

    for mine, theirs in zip(*both(define, numbers, signs), strict=True):
        for a, b in zip(mine, theirs, strict=True):
            assert (a.dtype, a.tolist()) == (b.dtype, b.tolist())


def test_settings_are_changed_and_reset_alike():
    given = {"mag_range": (0, 10), "randomly_negate": True, "param_device": "gpu", "name": "other"}
    told = []
    for make in (augmentation, dali.augmentation):
        own = make(**given)(lambda images, _: images)
        changed = [own, *(own.augmentation(**{name: None}) for name in given), own.augmentation(mag_range=(1, 2))]
        told.append([[getattr(each, name) for name in given] for each in changed])
        constant = types.Constant(42)
        assert make(lambda images, _: images)(constant, magnitude_bin=42) is constant
    assert told[0] == told[1]
