"""Nearest neighbours and the Gauss bell take DALI's pixels, with DALI's weights."""

import numpy as np
import pytest

HWC = ("HWC",)
SIZES = [1, 2, 3, 5, 7, 16, 33, 48, 50, 100, 160]


def places(height, width):
    """Images whose values say where they lie."""
    rows, columns = np.meshgrid(np.arange(height), np.arange(width), indexing="ij")
    return np.stack([rows, columns], axis=-1).astype(np.uint8)


def impulses(size):
    """One channel per row, and one per column, that is 1 there and 0 elsewhere: results are the weights."""
    lit = np.eye(size, dtype=np.float32)
    rows, columns = np.broadcast_arrays(lit[:, None, :], lit[None, :, :])
    return np.concatenate([rows, columns], axis=-1)


def targets(sizes, signs):
    """What each sample is resized to; a negative size mirrors."""
    return [np.float32([signs[0] * size, signs[1] * size]) for size in sizes]


@pytest.mark.parametrize("signs", [(1, 1), (-1, -1)], ids=["", "mirrored"])
@pytest.mark.parametrize("size", SIZES)
def test_nearest_neighbours(agree, size, signs):
    agree(
        lambda d, x, s: d.fn.resize(x, size=s, interp_type=d.types.INTERP_NN),
        [places(size, size)] * len(SIZES),
        targets(SIZES, signs),
        layouts=(*HWC, ""),
    )


def test_nearest_neighbours_of_large_images(agree):
    image = np.arange(3000, dtype=np.float32)
    for shape, size in (((3000, 1, 1), (1999, 1)), ((1, 3000, 1), (1, 1999))):
        agree(
            lambda d, x, size=size: d.fn.resize(x, size=size, interp_type=d.types.INTERP_NN),
            [image.reshape(shape)],
            layouts=HWC,
        )


@pytest.mark.parametrize("layout", ["CHW", "FHWC", "DHWC"])
def test_nearest_neighbours_of_each_axis(agree, layout):
    for axis in range(len(layout)):
        extents = [48 if letter in "DHW" else 2 for letter in layout]
        column = np.arange(extents[axis], dtype=np.uint8).reshape(
            [-1 if at == axis else 1 for at in range(len(layout))]
        )
        agree(
            lambda d, x: d.fn.resize(x, size=[100] * (3 if "D" in layout else 2), interp_type=d.types.INTERP_NN),
            [np.broadcast_to(column, extents)],
            layouts=(layout,),
        )


def test_nearest_neighbours_beside_another_filter(agree):
    for size in ((100, 30), (30, 100)):
        agree(
            lambda d, x, size=size: d.fn.resize(
                x, size=size, mag_filter=d.types.INTERP_NN, min_filter=d.types.INTERP_TRIANGULAR
            ),
            [places(48, 48).astype(np.float32)],
            layouts=HWC,
            atol=1e-4,
        )


def test_nearest_neighbours_of_a_part(agree):
    rng = np.random.default_rng(6)
    ends = np.sort(rng.integers(0, 64 * 4 + 1, (2, 200, 2)) / 4, axis=0).astype(np.float32)
    ends[1] = np.maximum(ends[1], ends[0] + 1)
    agree(
        lambda d, x, low, high, size: d.fn.resize(
            x, size=size, roi_start=low, roi_end=high, interp_type=d.types.INTERP_NN
        ),
        [places(65, 65)] * 200,
        *map(list, ends),
        list(rng.integers(3, 200, (200, 2)).astype(np.float32)),
        layouts=(*HWC, "", "", ""),
    )


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "not_larger"}, {"mode": "not_smaller"}, {"mode": "not_smaller", "max_size": [40, 70]}, {},
        {"mode": "not_larger", "subpixel_scale": False},
    ],
    ids=str,
)  # fmt: skip
def test_nearest_neighbours_where_extents_are_rounded(agree, options):
    rng = np.random.default_rng(7)
    agree(
        lambda d, x, size: d.fn.resize(x, size=size, interp_type=d.types.INTERP_NN, **options),
        [places(*shape) for shape in rng.integers(5, 90, (300, 2))],
        list(rng.integers(0 if not options else 1, 90, (300, 2)).astype(np.float32)),
        layouts=(*HWC, ""),
    )


@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("signs", [(1, 1), (-1, 1)], ids=["", "mirrored"])
@pytest.mark.parametrize("size", [1, 2, 8, 9, 16, 33])
def test_weights_of_the_bell(agree, size, signs, antialias):
    sizes = [1, 2, 3, 5, 8, 9, 16, 20, 31, 48]
    agree(
        lambda d, x, s: d.fn.resize(x, size=s, interp_type=d.types.INTERP_GAUSSIAN, antialias=antialias),
        [impulses(size)] * len(sizes),
        targets(sizes, signs),
        layouts=(*HWC, ""),
        atol=2e-6,
    )


def test_a_photograph_enlarged_by_the_bell(agree):
    image = np.random.default_rng(2).integers(0, 256, (24, 20, 3), np.uint8)
    agree(lambda d, x: d.fn.resize(x, size=[48, 61], interp_type=d.types.INTERP_GAUSSIAN), [image], layouts=HWC, off=1)
