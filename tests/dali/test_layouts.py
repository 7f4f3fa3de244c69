"""Operators take volumes and sequences in all layouts that DALI takes, and what has no layout as DALI does."""

import numpy as np
import pytest

from penstock import Pipeline, fn
from penstock.errors import DefinitionError

RNG = np.random.default_rng(3)
SIZES = {"F": 3, "D": 4, "H": 8, "W": 10, "C": 3}
IMAGES = ("HWC", "FHWC", "")
VOLUMES = (*IMAGES, "DHWC")
PLANAR = (*VOLUMES, "CHW", "FCHW", "CDHW", "FDHWC")
KERNEL = np.float32([[0, 1, 0], [1, -3, 1], [0, 1, 0]])

USES = {
    "brightness": (VOLUMES, lambda lib, x: lib.fn.brightness(x, brightness=1.3, brightness_shift=0.1)),
    "contrast": (VOLUMES, lambda lib, x: lib.fn.contrast(x, contrast=1.3)),
    "color_twist": (VOLUMES, lambda lib, x: lib.fn.color_twist(x, hue=30, saturation=0.7)),
    "hsv": (VOLUMES, lambda lib, x: lib.fn.hsv(x, hue=30, saturation=0.7)),
    "color_space_conversion": (
        (*VOLUMES, "FDHWC"),
        lambda lib, x: lib.fn.color_space_conversion(x, image_type=lib.types.RGB, output_type=lib.types.YCbCr),
    ),
    "crop": ((*PLANAR[:-1], "CFHW"), lambda lib, x: lib.fn.crop(x, crop_h=5, crop_w=6)),
    "crop_mirror_normalize": (
        ("HWC", "CHW", ""),
        lambda lib, x: lib.fn.crop_mirror_normalize(x, crop_h=5, crop_w=6, mirror=1, mean=[3.0], std=[2.0]),
    ),
    "crop_mirror_normalize of sequences": (
        ("FHWC", "FCHW"),
        lambda lib, x: lib.fn.crop_mirror_normalize(
            x, crop_h=5, crop_w=6, mirror=1, mean=[3.0, 4.0, 5.0], std=[2.0], output_layout="FCHW"
        ),
    ),
    "equalize": (("HWC", "HW", "CHW", "FHW", "FHWC", "FCHW"), lambda lib, x: lib.fn.equalize(x)),
    "erase": (PLANAR[:2] + PLANAR[3:], lambda lib, x: lib.fn.erase(x, anchor=[1, 1], shape=[3, 2], axis_names="HW")),
    "filter": (("HWC", "HW", "CHW", "FHWC", "FCHW"), lambda lib, x: lib.fn.filter(x, KERNEL)),
    "flip": (PLANAR[:2] + PLANAR[3:], lambda lib, x: lib.fn.flip(x, horizontal=1, vertical=1)),
    "gaussian_blur": ((*PLANAR, "HW", "DHW"), lambda lib, x: lib.fn.gaussian_blur(x, sigma=1.1)),
    "gaussian_blur windows": (
        ("DHWC", "CDHW", "DHW"),
        lambda lib, x: lib.fn.gaussian_blur(x, sigma=[0.0, 1.5, 0.7], window_size=[3, 0, 5], dtype=lib.types.FLOAT),
    ),
    "jpeg_compression_distortion": (("HWC", "FHWC"), lambda lib, x: lib.fn.jpeg_compression_distortion(x, quality=30)),
    "laplacian": ((*PLANAR, "HW", "DHW"), lambda lib, x: lib.fn.laplacian(x)),
    "lookup_table": (VOLUMES, lambda lib, x: lib.fn.lookup_table(x, keys=[1, 2], values=[3.0, 4.0])),
    "resize": ((*PLANAR, "CFHW"), lambda lib, x: lib.fn.resize(x, resize_x=7, resize_y=5)),
    "rotate": (IMAGES, lambda lib, x: lib.fn.rotate(x, angle=30)),
}
CASES = [(name, layout) for name, (layouts, _) in USES.items() for layout in layouts]


@pytest.mark.parametrize(("name", "layout"), CASES, ids=[f"{name} {layout or '-'}" for name, layout in CASES])
def test_values(both, name, layout):
    columns = [
        RNG.integers(0, 256, [SIZES[letter] + n * (letter != "C") for letter in layout or "HWC"], np.uint8)
        for n in range(2)
    ]
    actual, expected = both(USES[name][1], columns, layouts=(layout,))
    for mine, theirs in zip(actual[0], expected[0], strict=True):
        assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
        rtol = 2e-3 if mine.dtype.kind == "f" else 0
        np.testing.assert_allclose(mine.astype(float), theirs.astype(float), rtol=rtol, atol=1 if rtol == 0 else 2e-3)


FIRST = {
    "brightness_contrast": lambda fn, x: fn.brightness_contrast(x, contrast=0.5),
    "erase": lambda fn, x: fn.erase(x, anchor=[1, 1], shape=[2, 2], axes=[0, 1]),
    "flip": lambda fn, x: fn.flip(x),
    "paste": lambda fn, x: fn.paste(x, ratio=1.5, fill_value=3),
    "rotate": lambda fn, x: fn.rotate(x, angle=90.0),
    "slice": lambda fn, x: fn.slice(x, [1, 0], [3, 4], axes=[0, 1]),
}


@pytest.mark.parametrize("first", FIRST)
def test_images_without_a_layout_are_images_to_what_follows(agree, first):
    images = [np.random.default_rng(row).integers(0, 256, (5, 6, 3), np.uint8) for row in range(2)]

    def define(lib, x):
        x = FIRST[first](lib.fn, x)
        return lib.fn.crop_mirror_normalize(x, mean=[1.0, 2.0, 3.0], std=[5.0, 6.0, 7.0], crop=(3, 3), mirror=1)

    agree(define, images, atol=1e-5)


@pytest.mark.parametrize("layout", ["FHWC", "FCHW", "CFHW", "DHWC", "CDHW", "FDHWC", "HWC", "CHW"])
@pytest.mark.parametrize(
    "window",
    [
        {"crop": (3, 4, 6)},
        {"crop": (3, 4, 6), "crop_pos_z": 0.1, "crop_pos_x": 0.2},
        {"crop": (0, 4, 6)},
        {"crop": (9, 4, 12), "out_of_bounds_policy": "trim_to_shape"},
        {"crop_d": 3, "crop_h": 4, "crop_w": 6, "crop_pos_z": 0.9},
        {"crop_h": 4, "crop_w": 6, "crop_pos_z": 0.9},
    ],
    ids=str,
)
def test_frames_are_the_depth_of_a_crop(agree, layout, window):
    sizes = {**SIZES, "F": 6, "D": 5}
    columns = [
        RNG.integers(0, 256, [sizes[letter] + n * (letter in "FHW") for letter in layout], np.uint8) for n in (0, 1)
    ]

    def define(lib, x):
        normal = lib.fn.crop_mirror_normalize(x, **window, output_layout="", mean=[3.0], std=[2.0], mirror=1)
        return normal if len(layout) == 5 else (normal, lib.fn.crop(x, **window))  # DALI crops no 5 axes

    agree(define, columns, layouts=(layout,))


@pytest.mark.parametrize("layout", ["FHWC", "DHWC", "HWC"])
@pytest.mark.parametrize("crop", [[3, 4, 6], [4, 6]])
def test_a_crop_of_two_or_three_numbers_in_a_node(agree, layout, crop):
    sizes = {**SIZES, "F": 6, "D": 5}
    image = RNG.integers(0, 256, [sizes[letter] for letter in layout], np.uint8)
    agree(
        lambda lib, x, c: (lib.fn.crop(x, crop=c), lib.fn.crop_mirror_normalize(x, crop=c, output_layout="")),
        [image],
        np.float32([crop]),
        layouts=(layout, ""),
    )
    agree(
        lambda lib, x, d: lib.fn.crop(x, crop_d=d, crop_h=4, crop_w=6), [image], np.float32([2]), layouts=(layout, "")
    )


@pytest.mark.parametrize("layout", ["FHWC", "CFHW", "HWC"])
def test_only_crops_count_frames_as_depth(agree, layout):
    image = RNG.integers(0, 256, [SIZES[letter] for letter in layout], np.uint8)
    agree(
        lambda lib, x: lib.fn.resize_crop_mirror(x, resize_shorter=20, crop=[2, 4, 6]),
        [image],
        layouts=(layout,),
        off=1,
    )


def test_a_crop_along_frames_takes_no_arguments_per_frame():
    with Pipeline(batch_size=1):
        video, places = fn.readers.arrays((np.zeros((1, 3, 5, 6, 3), np.uint8), np.zeros((1, 3), np.float32)))
        places, video = fn.per_frame(places), fn.reshape(video, layout="FHWC")
        fn.crop(video, crop=(4, 5), crop_pos_x=places)
        with pytest.raises(DefinitionError, match="per frame cannot be combined"):
            fn.crop(video, crop=(2, 4, 5), crop_pos_x=places)
        with pytest.raises(DefinitionError, match="per frame cannot be combined"):
            fn.crop_mirror_normalize(video, crop=(2, 4, 5), crop_pos_x=places, output_layout="")
