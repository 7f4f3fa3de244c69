"""Random windows among boxes: where they are not DALI's on purpose, and what is refused."""

import numpy as np
import pytest
from pipeline_runs import run

from penstock import fn
from penstock.errors import DefinitionError, SampleError

BOXES = np.float32([[[0.1, 0.1, 0.9, 0.9]]] * 50)


def windows(boxes=BOXES, **arguments):
    return run(lambda boxes: fn.random_bbox_crop(boxes, **arguments), boxes, seed=3)


def test_windows_stay_inside_of_the_image():
    anchors, shapes, _ = windows(scaling=[0.3, 0.8], input_shape=[200, 100], allow_no_crop=False)
    assert (anchors + shapes).max() <= 1 + 1e-6
    np.testing.assert_allclose(shapes[:, 0] * 200, shapes[:, 1] * 100, rtol=1e-5)


def test_a_window_that_is_larger_than_the_image_has_it_somewhere_inside():
    anchors, shapes, boxes = windows(input_shape=[10, 12], crop_shape=[30, 6])
    assert shapes.tolist() == [[30, 6]] * 50
    assert -20 <= anchors[:, 0].min() < -10 < anchors[:, 0].max() <= 0
    assert set(anchors[:, 1]) <= set(range(7))
    found = [np.ravel(box)[[0, 2]] * 30 for box in boxes]
    np.testing.assert_allclose(found, np.float32([[1, 9]]) - anchors[:, :1], atol=1e-4)


def test_a_search_that_finds_nothing_ends_and_names_the_sample():
    with pytest.raises(SampleError, match="total_num_attempts"):
        windows(BOXES[:2], scaling=[0.1, 0.2], thresholds=[0.9], allow_no_crop=False)


def test_boxes_that_leave_the_image_are_named():
    with pytest.raises(SampleError, match=r"leaves the image"):
        windows(BOXES * 2)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"scaling": [0.3, 2]}, "scaling"),
        ({"thresholds": [2]}, "thresholds"),
        ({"threshold_type": "area"}, "threshold_type"),
        ({"aspect_ratio": [2, 1]}, "aspect_ratio"),
        ({"crop_shape": [2, 2]}, "input_shape"),
        ({"crop_shape": [2, 2], "input_shape": [4, 4], "scaling": [1, 1]}, "excludes"),
        ({"bbox_layout": "xyXH"}, "bbox_layout"),
        ({"bbox_layout": "xyXY", "ltrb": True}, "ltrb"),
        ({"num_attempts": 0}, "attempt"),
        ({"bbox_prune_threshold": 1.5}, "bbox_prune_threshold"),
    ],
)
def test_what_cannot_be_is_refused(arguments, said):
    with pytest.raises(DefinitionError, match=said):
        windows(**arguments)


def test_one_label_for_all_boxes_of_an_image_is_refused():
    with pytest.raises(DefinitionError, match=r"random_bbox_crop: labels(.|\n)*one label per box"):
        fn.random_bbox_crop(BOXES[0], np.int32(3), seed=1)
    with pytest.raises(DefinitionError, match=r"bbox_rotate: labels(.|\n)*one label per box"):
        fn.bbox_rotate(BOXES[0] * 100, np.int32(3), angle=3.0, input_shape=[100, 100])
