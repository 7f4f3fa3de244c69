"""The operators that put images on canvases, and move boxes with turned or cut images, give DALI's numbers."""

import numpy as np
import pytest

from penstock import Pipeline, fn
from penstock.errors import SampleError

RNG = np.random.default_rng(5)
IMAGES = [RNG.integers(1, 256, (7, 9, 3), np.uint8) for _ in range(3)]
RAGGED = [IMAGES[0], IMAGES[1][:5], IMAGES[2][:, :4]]
IDS = np.int32([[0, 1], [2, 2], [1, 0]])
FROM = np.int32([[[0, 0], [1, 2]], [[2, 0], [0, 1]], [[3, 1], [0, 0]]])
SHAPES = np.int32([[[2, 3], [4, 2]], [[1, 1], [5, 3]], [[2, 2], [3, 4]]])
TO = np.int32([[[0, 0], [1, 1]], [[1, 1], [1, 1]], [[4, 4], [3, 3]]])  # all overlap: DALI fails where only some do
PARTS = np.float32([[[0.3, 0.4], [0.05, 0.1]], [[0.25, 0.32], [0, 0.5]], [[0.1, 0.0714], [0.3, 0]]])


def test_regions_of_any_sample_of_the_batch(agree):
    def whole(lib, x, ids):
        return lib.fn.multi_paste(x, in_ids=ids)

    def parts(lib, x, ids, at, size, to):
        return lib.fn.multi_paste(x, in_ids=ids, in_anchors=at, shapes=size, out_anchors=to, output_size=(11, 12))

    agree(whole, IMAGES, IDS, layouts=("HWC", ""))
    agree(parts, RAGGED, IDS, np.minimum(FROM, 2), np.minimum(SHAPES, 2), TO, layouts=("HWC", *[""] * 4))
    agree(lambda lib, x: lib.fn.multi_paste(x, in_ids=[1, 0], output_size=(8, 9)), RAGGED, layouts=("HWC",))
    several = [np.int32([0]), np.int32([1, 2, 0]), np.int32([2, 2])]
    agree(whole, IMAGES, several, layouts=("HWC", ""))


def test_regions_of_several_inputs(agree):
    def define(lib, x, y, at, size, to):
        return lib.fn.multi_paste(x, y, in_anchors=at, shapes=size, out_anchors=to, output_size=(11, 12))

    def relative(lib, x, y, parts, dtype=None):
        more = {"in_anchors_rel": parts, "shapes_rel": parts, "out_anchors_rel": parts}
        return lib.fn.multi_paste(x, y, output_size=(13, 17), dtype=lib.types.FLOAT, **more)

    layouts = ("HWC", "HWC", "", "", "")
    agree(define, IMAGES, IMAGES[::-1], FROM, SHAPES, TO, layouts=layouts)
    agree(relative, RAGGED, RAGGED[::-1], PARTS, layouts=layouts[:3])


def test_a_canvas_for_each_sample(agree):
    sizes = np.int32([[7, 9], [8, 9], [11, 10]])
    agree(lambda lib, x, s: lib.fn.multi_paste(x, output_size=s), RAGGED, sizes, layouts=("HWC", ""))


def test_a_canvas_with_its_channels(agree):
    agree(lambda lib, x: lib.fn.multi_paste(x, in_ids=[0, 1], output_size=[60, 70, 3]), IMAGES, layouts=("HWC",))


def test_a_sample_that_the_batch_has_not():
    with Pipeline(2) as pipeline:
        images = fn.readers.arrays(np.stack(IMAGES[:2]), layout="HWC")
        pipeline.set_outputs(fn.multi_paste(images, in_ids=[0, 2]))
    with pytest.raises(SampleError, match="in_ids contains 2, but the batch has 2 samples"):
        pipeline.run()


BOXES = [
    np.float32([[0.1, 0.2, 0.4, 0.6], [0.5, 0.5, 0.9, 0.7], [0, 0, 0.2, 0.1]]),
    np.float32([[0, 0, 0.05, 0.05], [0.4, 0.4, 0.6, 0.6]]),
    np.zeros((0, 4), np.float32),
]
LABELS = [np.int32([1, 2, 3]), np.int32([4, 5]), np.zeros(0, np.int32)]


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"keep_size": True},
        {"keep_size": True, "remove_threshold": 0.6},
        {"keep_size": True, "remove_threshold": 0.0},
        {"size": [30.0, 80.0]},
        {"mode": "fixed"},
        {"mode": "halfway", "keep_size": True},
        {"bbox_layout": "xyWH"},
        {"shape_layout": "WH"},
        {"bbox_normalized": False},
    ],
    ids=str,
)
def test_bbox_rotate(agree, arguments):
    boxes = [each * 40 for each in BOXES] if arguments.get("bbox_normalized") is False else BOXES
    shapes = np.int64([[40, 60], [51, 30], [10, 10]])

    def define(lib, x, labels, a, s):
        return tuple(lib.fn.bbox_rotate(x, labels, angle=a, input_shape=s, **arguments))

    for angles in ([30, -50, 90], [180, 44, 1], [60, 134, 45], [0, 46, 7]):  # at 45 degrees, rounding chooses
        agree(define, boxes, LABELS, np.float32(angles), shapes, atol=2e-4 if boxes is not BOXES else 2e-6)


@pytest.mark.filterwarnings("ignore:.*ssd_random_crop:DeprecationWarning")  # DALI has a newer operator
@pytest.mark.parametrize("attempts", [1, 50])
def test_ssd_random_crop_draws_the_same_windows(both, attempts):
    image = np.zeros((100, 120, 1), np.uint8)

    def define(lib, x, boxes, labels):
        return tuple(lib.fn.ssd_random_crop(x, boxes, labels, num_attempts=attempts))

    drawn = both(define, [image] * 1500, [BOXES[0]] * 1500, [LABELS[0]] * 1500, layouts=("HWC", "", ""))
    mine, theirs = (np.array([facts(*sample) for sample in zip(*run, strict=True)]) for run in drawn)
    spread = np.sqrt((mine.var(axis=0) + theirs.var(axis=0)) / len(mine))
    assert (abs(mine.mean(axis=0) - theirs.mean(axis=0)) <= 4 * spread + 1e-6).all()
    assert (abs(mine.std(axis=0) - theirs.std(axis=0)) <= 6 * spread + 1e-6).all()


def facts(image, boxes, labels):
    """Numbers of a window whose distribution is compared."""
    height, width, _ = image.shape
    return [height, width, (height, width) == (100, 120), len(boxes), labels.sum(), *boxes[0], *boxes[-1]]


def test_fast_resize_crop_mirror_does_not_stretch_filters(agree):
    image = RNG.integers(0, 256, (40, 50, 3), np.uint8)
    for more in ({}, {"antialias": True}):
        agree(
            lambda lib, x, more=more: lib.fn.fast_resize_crop_mirror(x, size=[13, 20], crop=(10, 12), mirror=1, **more),
            [image],
            layouts=("HWC",),
            off=1,
        )
