"""Loops that numba compiles: DALI's example of images that are turned on their diagonal, and mistakes."""

import numpy as np
import pytest

from penstock import Pipeline, errors, types
from penstock.operators.readers.loader import load
from penstock.plugin.numba.experimental import NumbaFunction
from penstock.plugin.numba.fn.experimental import numba_function
from penstock.testing import ListSource

IMAGES = [np.random.default_rng(size).integers(0, 256, (size, 5, 3), np.uint8) for size in (4, 6, 5)]
UINT8 = dict(in_types=[types.UINT8], ins_ndim=[3], out_types=[types.UINT8], outs_ndim=[3])


def turned_shapes(outs, ins):
    out0, in0 = outs[0], ins[0]
    for row in range(len(out0)):
        for n, axis in enumerate((1, 0, 2)):
            out0[row][n] = in0[row][axis]


def turned(out0, in0):
    for i in range(in0.shape[0]):
        for j in range(in0.shape[1]):
            out0[j, i] = in0[i, j]


def pipeline(**arguments):
    made = Pipeline(3, 1)
    with made:
        (images,) = load(ListSource([IMAGES], ("HWC",)), {})
        made.set_outputs(numba_function(images, **(UINT8 | arguments)))
    return made


def test_images_are_turned():
    (output,) = pipeline(run_fn=turned, setup_fn=turned_shapes).run()
    for mine, image in zip(output, IMAGES, strict=True):
        np.testing.assert_array_equal(np.asarray(mine), image.transpose(1, 0, 2))


def test_the_class_is_the_function():
    made = Pipeline(3, 1)
    with made:
        (images,) = load(ListSource([IMAGES], ("HWC",)), {})
        made.set_outputs(NumbaFunction(run_fn=turned, setup_fn=turned_shapes, **UINT8)(images))
    (expected,) = pipeline(run_fn=turned, setup_fn=turned_shapes).run()
    for mine, theirs in zip(made.run()[0], expected, strict=True):
        np.testing.assert_array_equal(np.asarray(mine), np.asarray(theirs))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"in_types": [types.FLOAT]}, "other kinds than in_types"),
        ({"in_types": [types.UINT8] * 2}, "as many entries"),
        ({"outs_ndim": [2]}, "without setup_fn"),
        ({"device": "gpu"}, "runs on the host"),
        ({"run_fn": 3}, "run_fn is of another kind"),
    ],
)
def test_mistakes(arguments, message):
    with pytest.raises(errors.PenstockError, match=message):
        pipeline(**({"run_fn": turned} | arguments))
