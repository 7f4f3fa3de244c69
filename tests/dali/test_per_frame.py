"""Arguments with an entry per frame do to each frame what DALI does."""

from operator import attrgetter

import numpy as np
import pytest

import penstock
from penstock import Pipeline, fn
from penstock.errors import DefinitionError

dali = pytest.importorskip("nvidia.dali")
RNG = np.random.default_rng(4)
VIDEOS = [RNG.integers(0, 256, (3, 8, 9, 3), np.uint8), RNG.integers(0, 256, (2, 7, 5, 3), np.uint8)]
NUMBERS = [np.float32([0.5, 1.2, 2]), np.float32([3, 0.7])]
SQUARE_MATRICES = [np.float32([[[1, 0, k], [0.1, 1, 0], [0, 0.01, 1]] for k in range(len(video))]) for video in VIDEOS]
MATRICES = [np.float32([[[1, 0, k], [0.1, 1, 0]] for k in range(len(video))]) for video in VIDEOS]

ANGLES = [np.float32([44, 60, -10]), np.float32([46, 0])]
SPACES = [np.stack([video, 255 - video], axis=1) for video in VIDEOS]

POINTS = [RNG.normal(size=(frames, 4, 2)).astype(np.float32) for frames in (3, 2)]
WINDOWS = [np.int32([3, 5, 7]), np.int32([5, 3])]
PAIRS = [RNG.uniform(0.5, 2, (frames, 2)).astype(np.float32) for frames in (3, 2)]
TRIPLES = [RNG.uniform(0.5, 2, (frames, 3)).astype(np.float32) for frames in (3, 2)]
SQUARES = [RNG.normal(size=(frames, 2, 2)).astype(np.float32) for frames in (3, 2)]
KERNELS = [RNG.normal(size=(frames, 3, 3)).astype(np.float32) / 4 for frames in (3, 2)]
BYTES = [np.uint8([1, 5, 9]), np.uint8([4, 3])]
PLACES = [np.int32([[0, 0], [1, 2], [2, 2]]), np.int32([[1, 1], [0, 2]])]
KERNEL = np.float32([[1, 2, 3], [0, 1, 1], [1, 1, 0]]) / 10


def argument(operator, name, **more):
    """A use of an operator with one argument per frame."""
    return lambda lib, x, n: attrgetter(operator)(lib.fn)(x, **{name: lib.fn.per_frame(n)}, **more)


def made(operator, name, **more):
    """A use of an operator that makes maps, and of the maps."""

    def use(lib, x, n):
        maps = getattr(lib.fn.transforms, operator)(**{name: lib.fn.per_frame(n)}, **more)
        return maps, lib.fn.warp_affine(x, matrix=maps) if name != "axis" else maps

    return use


USES = {
    **{
        f"{op} {name}": (argument(op, name), VIDEOS, NUMBERS)
        for op, name in (
            ("brightness", "brightness"),
            ("brightness", "brightness_shift"),
            ("contrast", "contrast"),
            ("brightness_contrast", "brightness"),
            ("brightness_contrast", "brightness_shift"),
            ("brightness_contrast", "contrast"),
            ("color_twist", "brightness"),
            ("color_twist", "contrast"),
            ("color_twist", "hue"),
            ("color_twist", "saturation"),
            ("hsv", "hue"),
            ("hsv", "saturation"),
            ("hsv", "value"),
            ("hue", "hue"),
            ("saturation", "saturation"),
            ("gaussian_blur", "sigma"),
            ("laplacian", "scale"),
        )
    },
    "contrast_center": (argument("contrast", "contrast_center", contrast=2.0), VIDEOS, NUMBERS),
    "gaussian_blur of two": (argument("gaussian_blur", "sigma"), VIDEOS, PAIRS),
    "gaussian_blur window": (argument("gaussian_blur", "window_size"), VIDEOS, WINDOWS),
    "laplacian window": (argument("laplacian", "window_size"), VIDEOS, WINDOWS),
    "laplacian smoothing": (argument("laplacian", "smoothing_size"), VIDEOS, WINDOWS),
    "rotate": (argument("rotate", "angle", keep_size=True), VIDEOS, NUMBERS),
    "rotate on one canvas": (argument("rotate", "angle", fill_value=0), VIDEOS, ANGLES),
    "rotate in space on one canvas": (argument("rotate", "angle", axis=[1, 2, 3]), SPACES, ANGLES),
    "rotate to a size": (argument("rotate", "angle", size=(9, 6)), VIDEOS, ANGLES),
    "warp_affine": (argument("warp_affine", "matrix", fill_value=3), VIDEOS, MATRICES),
    "warp_affine input": (lambda lib, x, m: lib.fn.warp_affine(x, lib.fn.per_frame(m), size=(6, 7)), VIDEOS, MATRICES),
    "warp_perspective": (argument("experimental.warp_perspective", "matrix"), VIDEOS, SQUARE_MATRICES),
    "filter": (lambda lib, x, n: lib.fn.filter(x, lib.fn.per_frame(n)), VIDEOS, KERNELS),
    "filter anchor": (lambda lib, x, n: lib.fn.filter(x, KERNEL, anchor=lib.fn.per_frame(n)), VIDEOS, PLACES),
    "filter fill": (lambda lib, x, n: lib.fn.filter(x, KERNEL, lib.fn.per_frame(n), border="constant"), VIDEOS, BYTES),
    **{
        f"coord_transform {name}": (argument("coord_transform", name), POINTS, given)
        for name, given in (("M", SQUARES), ("MT", MATRICES), ("T", PAIRS))
    },
    "coord_transform of one frame": (
        lambda lib, x, n: lib.fn.coord_transform(lib.fn.reductions.sum(x, axes=[0]), T=lib.fn.per_frame(n)),
        POINTS,
        PAIRS,
    ),
    "rotation": (made("rotation", "angle"), VIDEOS, NUMBERS),
    "rotation axis": (made("rotation", "axis", angle=20.0), VIDEOS, TRIPLES),
    "rotation center": (made("rotation", "center", angle=20.0), VIDEOS, PAIRS),
    "scale": (made("scale", "scale"), VIDEOS, PAIRS),
    "scale center": (made("scale", "center", scale=[2.0, 3.0]), VIDEOS, PAIRS),
    "shear": (made("shear", "shear"), VIDEOS, PAIRS),
    "shear angles": (made("shear", "angles", center=[1.0, 2.0]), VIDEOS, PAIRS),
    "translation": (made("translation", "offset"), VIDEOS, PAIRS),
    "crop": (made("crop", "from_end", to_start=[3.0, 4.0]), VIDEOS, PAIRS),
    "rotation of maps": (
        lambda lib, x, m: lib.fn.transforms.rotation(lib.fn.per_frame(m), angle=3.0),
        VIDEOS,
        MATRICES,
    ),
    "combine": (
        lambda lib, x, m: lib.fn.transforms.combine(lib.fn.per_frame(m), np.float32([[1, 2, 3], [4, 5, 6]])),
        VIDEOS,
        MATRICES,
    ),
}


@pytest.mark.parametrize(("use", "given", "numbers"), USES.values(), ids=USES)
def test_values(agree, use, given, numbers):
    layouts = ("F**" if given is POINTS else "FDHWC" if given is SPACES else "FHWC", "")
    agree(use, given, numbers, layouts=layouts, off=1, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(("use", "given", "numbers"), USES.values(), ids=USES)
def test_values_on_devices(agree, use, given, numbers):
    layouts = ("F**" if given is POINTS else "FDHWC" if given is SPACES else "FHWC", "")
    agree(use, given[:1], numbers[:1], layouts=layouts, off=1, rtol=1e-5, atol=1e-4, placement="device")


@pytest.mark.parametrize(
    "use",
    [
        lambda x, n: fn.resize(x, size=[5, 5], roi_start=n, roi_end=n + 4),
        lambda x, n: fn.resize(x, size=n * 0 + [5, 4]),
        lambda x, n: fn.tensor_resize(x, sizes=n * 0 + [5, 4], axes=[-3, -2]),
        lambda x, n: fn.slice(x, start=n, shape=[4, 4], axis_names="HW"),
    ],
    ids=["resize roi", "resize size", "tensor_resize", "slice"],
)
def test_several_numbers_for_a_known_number_of_frames(use):
    """DALI refuses such arguments, so each frame is compared with an image."""
    video, numbers = (
        np.tile(VIDEOS[0], (2, 1, 1, 1, 1)),
        np.float32([[[0, 1], [2, 1], [4, 3]], [[1, 1], [3, 0], [2, 2]]]),
    )
    with Pipeline(2) as pipeline:
        frames = fn.readers.arrays(video, layout="FHWC")
        pipeline.set_outputs(use(frames, fn.per_frame(fn.readers.arrays(numbers))))
    whole = pipeline.run()[0].as_array().reshape(6, -1)
    with Pipeline(6) as pipeline:
        images = fn.readers.arrays(video.reshape(6, *video.shape[2:]), layout="HWC")
        pipeline.set_outputs(use(images, fn.readers.arrays(numbers.reshape(6, 2))))
    assert np.array_equal(whole, pipeline.run()[0].as_array().reshape(6, -1))


def test_one_entry_applies_to_all_frames(agree):
    videos = [RNG.integers(0, 256, (frames, 6, 7, 3), np.uint8) for frames in (1, 3, 4)]
    angles = [np.arange(frames, dtype=np.float32) for frames in (1, 3, 4)]
    matrices = [np.float32([[[1, 0.5], [0, 1]]])] * 3
    points = [RNG.normal(size=(frames, 5, 2)).astype(np.float32) for frames in (1, 3, 4)]

    def define(lib, x, single, per_frame, matrix, points):
        single, per_frame, matrix = (lib.fn.per_frame(value) for value in (single, per_frame, matrix))
        return (
            lib.fn.rotate(x, angle=single, keep_size=True),
            lib.fn.crop(x, crop=[3, 4], crop_pos_x=single / 40),
            lib.fn.brightness_contrast(x, brightness=single / 20, contrast=per_frame),
            lib.fn.coord_transform(points, M=matrix),
            lib.fn.transforms.rotation(lib.fn.transforms.rotation(angle=per_frame), angle=single),
        )

    agree(
        define,
        *(videos, np.float32([[10], [20], [30]]), angles, matrices, points),
        layouts=("FHWC", "", "", "", "FNC"),
        off=1,
        atol=1e-5,
    )


def test_layouts(both):
    agreed = both(lambda lib, x: lib.fn.per_frame(x), NUMBERS)
    assert all((a == b).all() for a, b in zip(agreed[0][0], agreed[1][0], strict=True))
    with Pipeline(batch_size=1):
        numbers = fn.readers.arrays(np.zeros((1, 2, 3), np.float32), layout="HW")
        assert fn.per_frame(numbers, replace=True).spec.layout == "FW"
        assert fn.per_frame(fn.readers.arrays(np.zeros((1, 2, 3), np.float32))).spec.layout == "F*"
        with pytest.raises(DefinitionError, match="layout must begin with F"):
            fn.per_frame(numbers)


@pytest.mark.parametrize("letters", ["", "NX"])
def test_points_that_a_matrix_repeats_have_a_layout_only_if_they_had_one(letters):
    def seen(library):
        with library.Pipeline(2, 1, None) as pipeline:
            points = library.fn.external_source(lambda: [np.ones((5, 2), np.float32)] * 2, layout=letters)
            matrices = library.fn.external_source(lambda: [np.ones((3, 2, 3), np.float32)] * 2)
            pipeline.set_outputs(library.fn.coord_transform(points, MT=library.fn.per_frame(matrices)))
        (result,) = pipeline.run()
        return result.layout(), result.shape()

    assert seen(penstock) == seen(dali) == (letters and f"F{letters}", [(3, 5, 2)] * 2)


REPEATED = {
    "filter": lambda lib, x, kernels, matrices: lib.fn.filter(x, lib.fn.per_frame(kernels)),
    "fill value": lambda lib, x, kernels, matrices: lib.fn.filter(
        x, KERNEL, lib.fn.per_frame(lib.fn.cast(kernels, dtype=lib.types.UINT8)[:, 0, 0]), border="fill"
    ),
    "warp": lambda lib, x, kernels, matrices: lib.fn.warp_affine(x, lib.fn.per_frame(matrices), fill_value=7),
}


@pytest.mark.parametrize("name", REPEATED)
def test_an_image_is_repeated_for_inputs_per_frame(agree, name):
    images = [video[0] for video in VIDEOS]
    agree(REPEATED[name], images, KERNELS, MATRICES, layouts=("HWC", "", ""), off=1)


def test_mistakes():
    with Pipeline(batch_size=1):
        videos = fn.readers.arrays(np.zeros((1, 2, 4, 4, 3), np.uint8), layout="FHWC")
        images = fn.readers.arrays(np.zeros((1, 4, 4, 3), np.uint8), layout="HWC")
        three = fn.per_frame(fn.readers.arrays(np.zeros((1, 3), np.float32)))
        with pytest.raises(DefinitionError, match="must have one entry, or one per frame"):
            fn.brightness(videos, brightness=three)
        with pytest.raises(DefinitionError, match="are for sequences"):
            fn.brightness(images, brightness=three)
        maps = fn.transforms.translation(offset=fn.per_frame(fn.readers.arrays(np.zeros((1, 2, 2), np.float32))))
        with pytest.raises(DefinitionError, match="must have the same number of frames"):
            fn.transforms.rotation(maps, angle=three)
        with pytest.raises(DefinitionError, match="arguments per frame are not supported"):
            fn.erase(videos, shape=fn.per_frame(fn.readers.arrays(np.ones((1, 2, 2), np.float32))))


def test_axes_after_the_frames_have_no_names(both):
    (ours,), (theirs,) = both(
        lambda lib, x: lib.fn.reshape(lib.fn.per_frame(x), layout="F**"), [np.ones((2, 2, 3), np.float32)]
    )
    assert ours[0].shape == theirs[0].shape == (2, 2, 3)
