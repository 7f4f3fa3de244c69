"""tensor_resize: what it refuses, and what it knows before there is data."""

import numpy as np
import pytest

from penstock import Pipeline, errors, fn, types

BLOCKS = np.zeros((1, 2, 3, 4, 5), np.float32)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "the size is missing"),
        ({"sizes": 3, "scales": 2}, "the size is given twice"),
        ({"sizes": 3}, "at most three consecutive axes"),
        ({"sizes": 3, "axes": [0, 3]}, "at most three consecutive axes"),
        ({"sizes": 2, "axes": 1, "mode": "not_larger"}, "at most three consecutive axes"),
        ({"scales": 3, "axes": 1, "mode": "not_larger"}, "scales cannot be combined with mode"),
        ({"sizes": 3, "axes": 1, "mode": "larger"}, "no such mode"),
        ({"sizes": 3, "axes": 1, "size_rounding": "floor"}, "no such size_rounding"),
        ({"sizes": 3, "axes": [1, 1]}, "must name each axis once"),
        ({"sizes": 3, "axes": 1, "axis_names": "H"}, "axes and axis_names cannot be combined"),
        ({"sizes": [3, 4, 5], "axes": [1, 2]}, "sizes needs one number, or one per named axis"),
        ({"scales": 2, "axes": [1, 2], "max_size": [9, 9, 9]}, "max_size needs one number, or one per named axis"),
        ({"sizes": 3, "axes": 1, "roi_start": 1}, "roi_start and roi_end must be given together"),
        ({"sizes": 3, "axes": 1, "dtype": types.INT32}, "dtype"),
    ],
)
def test_misuse(arguments, message):
    with Pipeline(batch_size=1):
        blocks = fn.readers.arrays(BLOCKS)
        with pytest.raises(errors.PenstockError, match=message) as raised:
            fn.tensor_resize(blocks, **arguments)
    assert "test_tensor_resize.py" in str(raised.value)


def test_too_many_axes_of_a_sample_change():
    with Pipeline(batch_size=1) as pipeline:
        scales = fn.readers.arrays(np.float32([[2, 1, 1, 2]]))
        pipeline.set_outputs(fn.tensor_resize(BLOCKS[0], scales=scales))
    with pytest.raises(errors.SampleError, match="axes 0 to 3 of the tensor change"):
        pipeline.run()


def test_the_shape_is_known_and_the_layout_stays():
    with Pipeline(batch_size=1):
        blocks = fn.readers.arrays(BLOCKS, layout="ABCE")
        sizes = fn.random.uniform(range=[1.0, 9.0], shape=[2])
        for resized, shape in (
            (fn.tensor_resize(blocks, scales=[0.5, 2], axes=[1, -1]), (2, 2, 4, 10)),
            (fn.tensor_resize(blocks, sizes=[7, 0], axes=[0, 1], roi_start=sizes, roi_end=9), (7, None, 4, 5)),
            (fn.tensor_resize(blocks, sizes=sizes, axes=[0, 1], max_size=9), (None, None, 4, 5)),
        ):
            assert (resized.spec.shape, resized.spec.layout) == (shape, "ABCE")
        assert fn.tensor_resize(fn.readers.arrays(BLOCKS), sizes=1, axes=0).spec.layout == ""
