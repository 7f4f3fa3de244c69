"""The objects of a map are those that SciPy finds."""

import numpy as np
import pytest
from scipy import ndimage

from penstock.operators.segmentation.connected_components import label_components

SHAPES = [(9,), (7, 1), (1, 7), (6, 8, 1), (1, 5, 6), (4, 5, 6), (2, 3, 4, 5), (12, 2, 9)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_objects_are_those_of_scipy(shape):
    values = np.random.default_rng(0).integers(0, 3, shape).astype(np.uint8)
    expected = []
    for label in range(3):
        numbered, count = ndimage.label(values == label)
        firsts = [int(np.flatnonzero(numbered == 1 + number)[0]) for number in range(count)]
        places = [[place.indices(1 << 30)[:2] for place in each] for each in ndimage.find_objects(numbered)]
        expected += zip(firsts, [np.transpose(place).tolist() for place in places], strict=True)
    firsts, boxes = np.zeros(values.size, np.int64), np.zeros((values.size, 2 * len(shape)), np.int64)
    memory = np.zeros(values.size, np.int64), np.zeros(len(shape), np.int64)
    count = label_components.python_function(values.reshape(-1), np.array(shape), *memory, firsts, boxes)
    found = boxes[:count].reshape(count, 2, -1).tolist()
    assert list(zip(firsts[:count].tolist(), found, strict=True)) == sorted(expected)
