"""Loops that numba compiles: DALI's example of images that are turned on their diagonal, and mistakes."""

import numpy as np
import pytest
from pipeline_runs import build_pipeline, run

from penstock import data_iterator, errors, fn, types
from penstock.plugin.numba.experimental import NumbaFunction
from penstock.plugin.numba.fn.experimental import numba_function

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
    return build_pipeline(lambda images: numba_function(images, **(UINT8 | arguments)), IMAGES, layout="HWC")


@pytest.mark.slow
def test_images_are_turned():
    (output,) = pipeline(run_fn=turned, setup_fn=turned_shapes).run()
    for mine, image in zip(output, IMAGES, strict=True):
        np.testing.assert_array_equal(np.asarray(mine), image.transpose(1, 0, 2))


def test_the_class_is_the_function():
    (actual,) = run(NumbaFunction(run_fn=turned, setup_fn=turned_shapes, **UINT8), IMAGES, layout="HWC")
    (expected,) = pipeline(run_fn=turned, setup_fn=turned_shapes).run()
    for mine, theirs in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(np.asarray(mine), np.asarray(theirs))


def first_only(out0, in0):
    if in0[0] == 6:
        raise ValueError("six")
    in0[1:] = in0[0]
    in0[0] += 1
    out0[0] = in0[1]


@pytest.mark.parametrize("on_error", ["raise", "skip", "replace"])
def test_a_function_that_raises_fails_for_its_row_alone(on_error):
    numbers = np.arange(24, dtype=np.int32).reshape(12, 2)

    names = ["out", "given", *(["valid"] if on_error == "skip" else [])]

    @data_iterator(output_map=names, reader_name="reader", on_error=on_error)
    def training():
        given = fn.readers.arrays(numbers, name="reader")
        kinds = dict(in_types=types.INT32, ins_ndim=1, out_types=types.INT32, outs_ndim=1)
        return numba_function(given, run_fn=first_only, **kinds), given

    if on_error == "raise":
        with pytest.raises(errors.SampleError, match=r"sample 3 \(row 3 of arrays\): ValueError: six"):
            next(training(batch_size=4, num_threads=2, seed=1))
        return
    iterator = training(batch_size=4, num_threads=2, seed=1)
    batches = [{name: np.asarray(column) for name, column in batch.items()} for batch in iterator]
    out, given = (np.concatenate([batch[name] for batch in batches]) for name in ("out", "given"))
    np.testing.assert_array_equal(out[:, 0], given[:, 0])
    np.testing.assert_array_equal(given[:3], numbers[:3])  # the function changes copies
    assert not out[:, 1].any()  # what the function does not write is 0, also where other batches have been
    assert given[3, 0] != 6
    assert batches[0].get("valid", np.ones(4, bool)).tolist() == [True] * 3 + [on_error == "replace"]


def test_a_function_may_change_what_is_its_own():
    inputs = [np.full(2, 5, np.int32), np.full(3, 4, np.int32)]
    for sample in inputs:
        sample.flags.writeable = False
    kinds = dict(in_types=types.INT32, ins_ndim=1, out_types=types.INT32, outs_ndim=1)
    (samples,) = run(lambda numbers: numba_function(numbers, run_fn=counted_down, **kinds), inputs)
    assert [sample.tolist() for sample in samples] == [[4, 0], [3, 0, 0]]
    assert [sample.tolist() for sample in inputs] == [[5] * 2, [4] * 3]


def counted_down(out0, in0):
    in0[0] -= 1
    out0[0] = in0[0]


def top_shapes(outs, ins):
    for row in range(len(outs[0])):
        for axis in range(3):
            outs[0][row][axis] = 3 if axis == 0 else ins[0][row][axis]


def test_outputs_that_have_one_shape_are_joined_and_delivered():
    def define(images):
        first = numba_function(images, run_fn=top, setup_fn=top_shapes, **UINT8)
        return first, fn.reshape(first, shape=[3, 5, 3]), fn.cat(first, images)

    first, dense, both = run(define, IMAGES, layout="HWC")
    for row, image in enumerate(IMAGES):
        np.testing.assert_array_equal(first[row], image[:3])
        np.testing.assert_array_equal(dense[row], image[:3])
        np.testing.assert_array_equal(both[row], np.concatenate([image[:3], image]))


def top(out0, in0):
    for i in range(out0.shape[0]):
        for j in range(out0.shape[1]):
            for k in range(out0.shape[2]):
                out0[i, j, k] = in0[i, j, k]


def refused(out0, in0):
    out0[:] = in0.nothing_of_the_kind


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"in_types": [types.FLOAT]}, "dtypes and ranks of in_types"),
        ({"in_types": [types.UINT8] * 2}, "as many entries"),
        ({"outs_ndim": [2]}, "without setup_fn"),
        ({"device": "gpu"}, "it runs on the host only"),
        ({"run_fn": 3}, "run_fn has the wrong type"),
        ({"run_fn": refused}, r"(?s)cannot compile refused: .*in0\.nothing_of_the_kind.* at: .*in <lambda>"),
        ({"setup_fn": refused}, "(?s)cannot compile refused: .* at: .*in <lambda>"),
    ],
)
def test_mistakes(arguments, message):
    with pytest.raises(errors.PenstockError, match=message):
        pipeline(**({"run_fn": turned} | arguments))
