"""The operators on masks have DALI's distributions and give DALI's polygons."""

from collections import Counter

import numpy as np
import pytest

import penstock
from penstock import Pipeline, fn
from penstock.errors import PenstockError, SampleError

COUNT = 1500
MAP = np.zeros((6, 8), np.int32)
MAP[1:3, 1:3] = MAP[3, 3] = MAP[0, 7] = 1
MAP[4:6, 5:8] = 2


def check_shares(both, define, sample):
    """Check that each result is as frequent in both libraries."""
    shares = []
    for outputs in both(define, [sample] * COUNT):
        rows = (np.concatenate([np.ravel(output[n]) for output in outputs]).tolist() for n in range(COUNT))
        shares.append(Counter(map(tuple, rows)))
        kinds = [(output[0].dtype, output[0].shape) for output in outputs]
        shares.append(kinds)
    ours, kinds, theirs, their_kinds = shares
    assert kinds == their_kinds
    assert ours.keys() == theirs.keys()
    for row, count in theirs.items():
        assert abs(ours[row] - count) <= 4.5 * np.sqrt(2 * count) + 3


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"format": "start_end", "output_class": True},
        {"format": "box", "ignore_class": True},
        {"foreground_prob": 0.3, "format": "box", "output_class": True},
        {"classes": [2], "output_class": True},
        {"class_weights": [1, 3], "output_class": True},
        {"class_weights": [1, 3], "classes": [2, 1], "output_class": True},
        {"classes": [5, 2], "output_class": True},
        {"classes": [0], "output_class": True},
        {"k_largest": 1, "output_class": True},
        {"k_largest": 2, "ignore_class": True},
        {"threshold": [2, 3], "output_class": True},
        {"threshold": [9, 3], "output_class": True},
        {"background": 1, "output_class": True},
        {"classes": [0, 1], "foreground_prob": 0.5, "output_class": True},
        {"classes": [2, 0, -3], "foreground_prob": 0.5, "output_class": True},
        {"classes": [-3, 2], "foreground_prob": 0.5, "output_class": True},
        {"classes": [0, 1], "class_weights": [0, 1], "foreground_prob": 0.5, "output_class": True},
        {"classes": [0, 1], "background": 5, "foreground_prob": 0.5, "output_class": True},
        {"class_weights": [1, 2], "background": 1, "output_class": True},
        {"class_weights": [1, 2], "background": 2, "output_class": True},
        {"class_weights": [1, 2], "background": -1, "output_class": True},
    ],
)
def test_random_object_bbox(both, arguments):
    check_shares(both, lambda lib, m: lib.fn.segmentation.random_object_bbox(m, **arguments), MAP)


def test_random_object_bbox_with_classes_for_each_sample(agree):
    classes = np.int32([[0, 1], [1, 2], [0, -4], [-1, 7]])
    agree(
        lambda lib, m, c: lib.fn.segmentation.random_object_bbox(m, classes=c, foreground_prob=0.0, output_class=True),
        [MAP] * 4,
        classes,
    )


def test_random_object_bbox_refuses_a_class_that_is_the_background(both):
    with pytest.raises(RuntimeError, match="coincides with background"):  # DALI, which runs first
        both(lambda lib, m: lib.fn.segmentation.random_object_bbox(m, classes=[0, 2], background=2), [MAP])
    with Pipeline(1, 1) as pipeline:
        maps, classes = fn.readers.arrays((MAP[None], np.int32([[0, 2]])))
        with pytest.raises(PenstockError, match="a class is the background"):
            fn.segmentation.random_object_bbox(maps, classes=[0, 2], background=2)
        pipeline.set_outputs(*fn.segmentation.random_object_bbox(maps, classes=classes, background=2))
    with pytest.raises(PenstockError, match="a class is the background"):
        pipeline.run()


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"foreground": 1},
        {"foreground": 1, "threshold": 1},
        {"foreground": 1, "value": 1},
        {"foreground": 1, "threshold": 9},
    ],
)
def test_random_mask_pixel(both, arguments):
    check_shares(both, lambda lib, m: lib.fn.segmentation.random_mask_pixel(m, **arguments), MAP)


@pytest.mark.parametrize("reindex", [False, True])
def test_select_masks(agree, reindex):
    polygons = np.int32([[0, 0, 3], [1, 3, 7], [2, 7, 10]])
    vertices = np.arange(20, dtype=np.float32).reshape(10, 2)
    wanted = [np.int32([1]), np.int32([2, 0]), np.int32([]), np.int32([0, 1, 2])]
    agree(
        lambda lib, i, p, v: lib.fn.segmentation.select_masks(i, p, v, reindex_masks=reindex),
        wanted,
        [polygons] * 4,
        [vertices] * 4,
    )


@pytest.mark.parametrize("ends", [(0, 7), (-1, 3), (3, 2)], ids=str)
def test_select_masks_refuses_vertices_that_do_not_exist(both, ends):
    def define(lib, polygons, vertices):
        return tuple(lib.fn.segmentation.select_masks(np.int32([4]), polygons, vertices))

    polygons, vertices = np.int32([[[4, *ends]]]), np.zeros((1, 6, 2), np.float32)
    with pytest.raises(RuntimeError, match=r"(?i)vertex"):
        both(define, polygons, vertices)
    with Pipeline(1) as pipeline:
        pipeline.set_outputs(*define(penstock, *fn.readers.arrays((polygons, vertices))))
    with pytest.raises(SampleError, match="of 6 vertices"):
        pipeline.run()


def test_select_masks_refuses_polygons_of_other_columns(both):
    def define(lib, polygons):
        return tuple(lib.fn.segmentation.select_masks(np.int32([0]), polygons, np.zeros((6, 2), np.float32)))

    polygons = np.zeros((1, 1, 4), np.int32)
    with pytest.raises(RuntimeError, match="3 columns"):
        both(lambda lib, p: define(lib, p), polygons)
    with Pipeline(1) as pipeline:
        pipeline.set_outputs(*define(penstock, fn.external_source(lambda: polygons)))
    with pytest.raises(SampleError, match="polygons must have 3 columns"):
        pipeline.run()
