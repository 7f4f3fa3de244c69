"""Random windows among boxes have DALI's distributions, anchors DALI's boxes, and canvases DALI's pixels."""

import numpy as np
import pytest
from pipeline_runs import run

from penstock import fn
from penstock.errors import SampleError

RNG = np.random.default_rng(9)
COUNT = 1500
CORNERS = np.stack(np.meshgrid(np.arange(20) / 20, np.arange(20) / 20), -1).reshape(-1, 2)
GRID = np.concatenate([CORNERS, CORNERS + 0.05], axis=1).astype(np.float32)
PAIR = np.float32([[0.1, 0.1, 0.3, 0.3], [0.6, 0.6, 0.9, 0.9]])
ONE = np.float32([[0.25, 0.25, 0.75, 0.75]])

WINDOWS = [
    (GRID, {"allow_no_crop": False, "scaling": [0.3, 0.8]}),
    (GRID, {"allow_no_crop": False, "scaling": [0.3, 0.8], "aspect_ratio": [0.5, 2.0]}),
    (GRID, {"allow_no_crop": False, "scaling": [0.3, 0.8], "aspect_ratio": [2.0, 2.0]}),
    (GRID, {"scaling": [0.3, 0.8], "aspect_ratio": [0.9, 1.1], "input_shape": [200, 100], "allow_no_crop": False}),
    (GRID, {"crop_shape": [50, 60], "input_shape": [200, 100]}),
    (GRID, {"crop_shape": [50, 60], "input_shape": [200, 100], "shape_layout": "HW"}),
    (ONE, {"thresholds": [0.0, 0.3], "scaling": [0.5, 0.9], "aspect_ratio": [0.5, 2.0]}),
    (ONE, {"thresholds": [0.9], "scaling": [0.3, 0.5], "aspect_ratio": [0.5, 2.0]}),
    (ONE, {"thresholds": [0.1, 0.5], "scaling": [0.3, 1], "aspect_ratio": [0.5, 2.0], "num_attempts": 50}),
    (ONE, {"thresholds": [1.0], "scaling": [0.3, 0.5], "total_num_attempts": 10, "allow_no_crop": False}),
    (ONE[:, [1, 0, 3, 2]] * [1, 1, 0.5, 0.7], {"bbox_layout": "yxHW", "scaling": [0.3, 0.8], "allow_no_crop": False}),
    *(
        (PAIR, {**arguments, "scaling": [0.2, 0.6], "aspect_ratio": [0.5, 2.0], "total_num_attempts": 20})
        for arguments in (
            {"thresholds": [0.2], "allow_no_crop": False, "all_boxes_above_threshold": False},
            {"thresholds": [0.2], "allow_no_crop": False, "threshold_type": "overlap"},
            {
                "thresholds": [0.2],
                "allow_no_crop": False,
                "threshold_type": "overlap",
                "all_boxes_above_threshold": False,
            },
            {"bbox_prune_threshold": 0.0, "allow_no_crop": False},
            {"bbox_prune_threshold": 0.8, "allow_no_crop": False},
        )
    ),
]


@pytest.mark.parametrize(("boxes", "arguments"), WINDOWS, ids=range(len(WINDOWS)))
def test_random_bbox_crop(both, boxes, arguments):
    def define(lib, b, i):
        more = {"num_attempts": 1, "quiet": True, **arguments}
        anchor, shape, kept, _, numbers = lib.fn.random_bbox_crop(b, i, output_bbox_indices=True, **more)
        return anchor, shape, kept, numbers

    columns = [boxes.astype(np.float32)] * COUNT, [np.arange(len(boxes), dtype=np.int32)] * COUNT
    facts = []
    for *windows, kept, numbers in both(define, *columns):
        anchors, shapes = map(np.array, windows)
        sums = np.array([each.sum(axis=0) for each in kept]) / len(boxes)
        first = np.array([[0 in each, len(each) / len(boxes)] for each in numbers])
        scale = np.maximum(shapes.max(), 1)
        facts.append(
            np.concatenate([anchors / scale, shapes / scale, np.prod(shapes / scale, 1, keepdims=True), sums, first], 1)
        )
        assert (kept[0].dtype, numbers[0].dtype) == (np.float32, np.int32)
    ours, theirs = facts
    ours, theirs = (np.concatenate([each, each**2], axis=1) for each in (ours, theirs))
    noise = np.sqrt((ours.var(axis=0) + theirs.var(axis=0)) / COUNT) + 1e-4
    assert (abs(ours.mean(axis=0) - theirs.mean(axis=0)) / noise).max() < 4.5


def test_random_bbox_crop_in_space(both):
    boxes = np.concatenate([GRID[:, :2], GRID[:, :1] * 0 + 0.5, GRID[:, 2:], GRID[:, :1] * 0 + 0.6], axis=1)

    def define(lib, b):
        b = lib.fn.reshape(b, shape=[-1, 6])
        return lib.fn.random_bbox_crop(b, allow_no_crop=False, scaling=[0.4, 0.9], aspect_ratio=[0.5, 2.0], quiet=True)

    ours, theirs = both(define, [boxes] * COUNT)
    for mine, other in zip(ours[:2], theirs[:2], strict=True):
        np.testing.assert_allclose(np.mean(mine, axis=0), np.mean(other, axis=0), atol=0.02)
        np.testing.assert_allclose(np.std(mine, axis=0), np.std(other, axis=0), atol=0.02)


def corners(count):
    low = RNG.uniform(0, 0.6, (count, 2))
    return np.concatenate([low, low + RNG.uniform(0.1, 0.4, (count, 2))], axis=1).astype(np.float32)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"criteria": 0.2},
        {"offset": True},
        {"offset": True, "scale": 300.0, "means": [0.1] * 4, "stds": [0.1, 0.1, 0.2, 0.2]},
    ],
)
def test_box_encoder(agree, arguments):
    anchors = [*corners(40).ravel().tolist(), 0, 0, 0.5, 0.5, 0.5, 0.5, 1, 1, 0, 0, 1, 1]
    shared = np.float32([[0, 0, 0.5, 0.4], [0, 0, 0.4, 0.5], [0, 0, 0.5, 0.4], [0, 0, 1, 0.5]])
    boxes = [corners(3), corners(0), corners(20), shared]
    labels = [np.arange(1, len(each) + 1, dtype=np.int32) for each in boxes]
    agree(lambda lib, b, i: lib.fn.box_encoder(b, i, anchors=anchors, **arguments), boxes, labels, atol=2e-5)
    agree(lambda lib, b, i: lib.fn.box_encoder(b, i, anchors=[0, 0, 0.1, 0.1] * 3), boxes, labels, atol=1e-6)


@pytest.mark.parametrize(
    "arguments",
    [
        {"crop_shape": [10, 10], "roi_start": [20, 20], "roi_shape": [5, 30], "in_shape": [100, 100]},
        {"crop_shape": [10, 90], "roi_start": [1, 20], "roi_end": [6, 40], "in_shape": [100, 100]},
        {"crop_shape": [30], "roi_start": [20], "roi_shape": [5]},
        {"crop_shape": [10], "roi_start": [20], "roi_shape": [10]},
    ],
)
def test_roi_random_crop(both, arguments):
    ours, theirs = both(lambda lib, x: (lib.fn.roi_random_crop(**arguments), x), np.zeros(3000, np.float32))
    ours, theirs = np.array(ours[0]), np.array(theirs[0])
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    assert (ours.min(0) == theirs.min(0)).all()
    assert (ours.max(0) == theirs.max(0)).all()
    assert (abs(ours.mean(0) - theirs.mean(0)) <= 4 * np.sqrt(2 * theirs.var(0) / 3000)).all()


@pytest.mark.parametrize("attempts", [0, -3])
@pytest.mark.parametrize("area", [[0.08, 1.0], [0.1, 0.2]])
def test_windows_that_are_drawn_with_no_attempt(both, attempts, area):
    shapes = [np.int64(shape) for shape in ([60, 100, 3], [80, 20, 3], [7, 7, 1])]

    def define(lib, s):
        return lib.fn.random_crop_generator(s, random_area=area, num_attempts=attempts)

    (_, mine), (_, theirs) = both(define, shapes)
    np.testing.assert_array_equal(mine, theirs)


@pytest.mark.filterwarnings("ignore:.*ssd_random_crop:DeprecationWarning")  # DALI has a newer operator
def test_ssd_random_crop_with_no_attempt_takes_the_image(agree):
    image, boxes, labels = np.arange(60, dtype=np.uint8).reshape(4, 5, 3), np.float32([[0.1, 0.2, 0.5, 0.6]]), [[7]]
    inputs = [image], [boxes], [np.int32(labels)]
    agree(lambda lib, *x: tuple(lib.fn.ssd_random_crop(*x, num_attempts=0)), *inputs, layouts=("HWC", "", ""))


def test_random_crop_generator(both):
    shapes = [np.int64([20, 30, 3])] * 3000
    ours, theirs = both(lambda lib, s: lib.fn.random_crop_generator(s, random_area=[0.1, 0.6]), shapes)
    for mine, other in zip(ours, theirs, strict=True):
        assert (mine[0].dtype, mine[0].shape) == (other[0].dtype, other[0].shape)
        np.testing.assert_allclose(np.mean(mine, axis=0), np.mean(other, axis=0), atol=0.5)
        np.testing.assert_allclose(np.std(mine, axis=0), np.std(other, axis=0), atol=0.5)


@pytest.mark.parametrize(
    "arguments",
    [
        {"ratio": 1.5},
        {"ratio": 2, "paste_x": 0.0, "paste_y": 1.0},
        {"ratio": 1.3, "paste_x": 0.3, "paste_y": 0.8},
        {"ratio": 1.1, "min_canvas_size": 17.6},
        {"ratio": 1.0},
    ],
)
def test_paste(agree, arguments):
    images = [RNG.integers(0, 256, size, np.uint8) for size in ((4, 5, 3), (9, 2, 3), (1, 1, 3), (13, 31, 3))]
    agree(lambda lib, x: lib.fn.paste(x, fill_value=[7, 8.9, 9.1], **arguments), images, layouts=("HWC",))


def test_paste_for_each_sample(agree):
    images = [RNG.integers(0, 256, size, np.uint8) for size in ((4, 5, 1), (9, 2, 1), (1, 1, 1), (13, 31, 1))]
    ratios, places, least = np.float32([1, 1.37, 3, 2.2]), np.float32([0, 0.4, 0.9, 1]), np.float32([1, 30, 2, 5])
    agree(
        lambda lib, x, r, p, m: lib.fn.paste(
            x, fill_value=[7], n_channels=1, ratio=r, paste_x=p, paste_y=p, min_canvas_size=m
        ),
        images,
        ratios,
        places,
        least,
        layouts=("HWC", "", "", ""),
    )


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.int16])
@pytest.mark.parametrize(
    "arguments",
    [
        {"anchor": [1, 2], "shape": [2, 3]},
        {"anchor": [0, 0, 4, 5], "shape": [2, 2, 2, 2], "fill_value": 5.5},
        {"anchor": [1, 4], "shape": [2, 1], "axis_names": "W", "fill_value": [1, 2, 3]},
        {"anchor": [1.4, 2.6], "shape": [2.2, 1.6], "axes": [1, 0]},
        {"anchor": [0.25, 0.5], "shape": [0.42, 0.42], "normalized": True},
        {"anchor": [0.25, 0.5], "shape": [2, 3], "normalized_anchor": True},
        {"anchor": [1, 1], "shape": [0.5, 0.5], "normalized_shape": True, "centered_anchor": True},
        {"anchor": [3.4, 3.6], "shape": [3, 3], "centered_anchor": True},
        {"anchor": [-1, -1, 5, 6, 15, 16, 3, 3], "shape": [3, 3, 3, 3, 3, 3, -1, 3], "fill_value": 4},
        {"shape": [3, 3]},
        {},
    ],
)
def test_erase(agree, arguments, dtype):
    images = [RNG.integers(0, 200, size).astype(dtype) for size in ((6, 7, 3), (9, 2, 3), (1, 1, 3), (13, 31, 3))]
    agree(lambda lib, x: lib.fn.erase(x, **arguments), images, layouts=("HWC",))


def test_erase_for_each_sample(agree):
    images = [RNG.integers(0, 200, size, np.uint8) for size in ((6, 7, 3), (9, 2, 3), (1, 1, 3), (13, 31, 3))]
    anchors, shapes = RNG.uniform(0, 1, (2, 4, 6)).astype(np.float32)
    values = RNG.uniform(0, 255, (4, 3)).astype(np.float32)
    agree(
        lambda lib, x, a, s, v: lib.fn.erase(x, anchor=a, shape=s, fill_value=v, normalized=True),
        images,
        anchors,
        shapes,
        values,
        layouts=("HWC", "", "", ""),
    )


@pytest.mark.parametrize("arguments", [{}, {"centered_anchor": True}, {"normalized": True}])
def test_erase_different_numbers_of_regions(agree, arguments):
    images = [RNG.integers(1, 200, (9, 13, 3), np.uint8) for _ in range(3)]
    unit = 0.1 if arguments.get("normalized") else 1
    anchors = [np.float32(numbers) * unit for numbers in ([1, 2], [1, 2, 5, 5], [])]
    shapes = [np.float32(numbers) * unit for numbers in ([3, 2], [3, 2, 4, 5], [])]
    agree(
        lambda lib, x, a, s: lib.fn.erase(x, anchor=a, shape=s, axis_names="HW", fill_value=7, **arguments),
        *(images, anchors, shapes),
        layouts=("HWC", "", ""),
    )


@pytest.mark.parametrize(
    ("anchors", "shapes"), [(([1, 2], [1, 2, 5, 5]), ([3, 2], [3, 2])), (([1, 2, 3], [1, 2, 5, 5]),) * 2]
)
def test_regions_without_a_number_per_axis_are_refused(anchors, shapes):
    images = [np.ones((9, 13, 3), np.uint8)] * 2
    with pytest.raises(SampleError, match="anchor"):
        run(
            lambda x, a, s: fn.erase(x, anchor=a, shape=s),
            *(images, [np.float32(numbers) for numbers in anchors], [np.float32(numbers) for numbers in shapes]),
            layout=("HWC", "", ""),
        )


def test_erase_in_other_layouts(agree):
    images = [RNG.integers(1, 200, (3, 6, 7), np.uint8) for _ in range(3)]
    agree(lambda lib, x: lib.fn.erase(x, anchor=(3, 3), shape=(1, 2), fill_value=(1, 2, 3)), images, layouts=("CHW",))
    videos = [RNG.integers(1, 200, (2, 6, 7, 3), np.uint8) for _ in range(3)]
    agree(lambda lib, x: lib.fn.erase(x, anchor=(0, 3, 3), shape=(1, 1, 2)), videos, layouts=("FHWC",))
    agree(lambda lib, x: lib.fn.erase(x, anchor=1, shape=1, axis_names="F"), videos, layouts=("FHWC",))


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0, 3), (-1, 4)])
def test_an_image_without_pixels_has_an_empty_window(agree, shape):
    agree(lambda lib, x: lib.fn.random_crop_generator(x), [np.array(shape, np.int64)])
