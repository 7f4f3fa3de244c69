"""Axes and thresholds that differ between samples give DALI's results."""

import numpy as np
import pytest

from penstock import Pipeline, errors, fn

RNG = np.random.default_rng(12)
BLOCKS = [RNG.normal(size=shape).astype(np.float32) for shape in ((4, 5, 6), (3, 5, 2), (7, 2, 4))]
PAIRS = np.int32([[0, 1], [-1, 0], [0, 2]])
SINGLE = np.int32([[0], [2], [1]])
STARTS, STEPS = np.int32([[1, 0], [1, 1], [0, 1]]), np.int32([[4, 3], [5, 2], [3, 3]])


def test_slices(agree):
    agree(
        lambda lib, x, pairs, starts, steps: (
            lib.fn.slice(x, start=starts, shape=1, axes=pairs),
            lib.fn.slice(x, rel_start=0.2, rel_end=0.8, axes=pairs),
            lib.fn.slice(x, starts, steps, axes=pairs, out_of_bounds_policy="trim_to_shape"),
            lib.fn.slice(x, start=-2, end=9, axes=pairs, out_of_bounds_policy="pad", fill_values=3.0),
        ),
        *(BLOCKS, PAIRS, STARTS, STEPS),
    )


def test_padding(agree):
    agree(
        lambda lib, x, single, pairs, steps: (
            lib.fn.pad(x, axes=single, fill_value=-1),
            lib.fn.pad(x, axes=single, shape=[5], fill_value=-1),
            lib.fn.pad(x, axes=pairs, align=steps),
            lib.fn.pad(x, axes=pairs, align=3, shape=[0, 7]),
            lib.fn.pad(x, axes=pairs, shape=steps),
            lib.fn.pad(x, axes=[0, 1], shape=[9]),
        ),
        *(BLOCKS, SINGLE, PAIRS, STEPS),
    )


COUNTED = [np.int32(axes) for axes in ([0], [0, 1], [2, 0, -2])]
NUMBERS = [np.int32(numbers) for numbers in ([1], [1, 2], [5, 1, 2])]


def test_samples_that_name_different_numbers_of_axes(agree):
    agree(
        lambda lib, x, axes, numbers: (
            lib.fn.slice(x, start=numbers, shape=1, axes=axes, out_of_bounds_policy="pad"),
            lib.fn.slice(x, rel_start=0.5, rel_end=numbers * 0 + 1.0, axes=axes),
            lib.fn.pad(x, axes=axes),
            lib.fn.pad(x, axes=axes, shape=9),
            lib.fn.pad(x, axes=axes, align=4),
            lib.fn.pad(x, axes=axes, shape=numbers, align=3),
        ),
        *(BLOCKS, COUNTED, NUMBERS),
    )


@pytest.mark.parametrize("axes", [[[], [1], []], [[], [], []]], ids=["some", "all"])
def test_samples_that_name_no_axis_mean_all_axes(agree, axes):
    numbers = [np.int32([1, 2, 1] if not names else [2]) for names in axes]
    agree(
        lambda lib, x, axes, numbers: (
            lib.fn.slice(x, start=numbers, axes=axes),
            lib.fn.slice(x, numbers * 0, numbers, axes=axes),
            lib.fn.pad(x, axes=axes),
            lib.fn.pad(x, axes=axes, align=numbers, shape=numbers),
        ),
        *(BLOCKS, [np.int32(names) for names in axes], numbers),
    )


def test_empty_axes_of_known_shape(agree):
    agree(
        lambda lib, x, axes, numbers: (
            lib.fn.slice(x, start=numbers, axes=lib.fn.slice(axes, start=[0], end=[0], axes=[0])),
            lib.fn.pad(x, shape=numbers, axes=lib.fn.slice(axes, start=[0], end=[0], axes=[0])),
        ),
        *(BLOCKS, np.zeros((3, 1), np.int32), np.int32([[1, 2, 1]] * 3)),
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x, axes, numbers: fn.slice(x, start=numbers, shape=1, axes=axes), "there are 2 numbers for 1 axes"),
        (lambda x, axes, numbers: fn.pad(x, align=numbers, axes=axes), "there are 2 numbers for 1 axes"),
        (lambda x, axes, numbers: fn.slice(x, start=numbers, shape=1, axes=[0, 1]), "different counts of numbers"),
        (lambda x, axes, numbers: fn.pad(x, shape=numbers), "different counts of numbers"),
    ],
    ids=["slice", "pad", "slice without axes", "pad without axes"],
)
def test_counts_that_differ_from_those_of_the_axes(call, message):
    columns = ([np.zeros((3, 3, 3))] * 2, [np.int32([0, 1]), np.int32([0])], [np.int32([1]), np.int32([1, 1])])
    with Pipeline(2) as pipeline:
        pipeline.set_outputs(call(*(fn.external_source(source=[column], cycle=True) for column in columns)))
    with pytest.raises(errors.SampleError, match=message):
        pipeline.run()


def test_thresholds_of_objects(agree):
    maps = [np.pad(np.ones((5, 4), np.int32), 2)] * 3
    agree(
        lambda lib, x, sizes, size: (
            *lib.fn.segmentation.random_object_bbox(x, threshold=sizes),
            *lib.fn.segmentation.random_object_bbox(x, threshold=size),
        ),
        *(maps, np.int32([[5, 4], [5, 5], [6, 1]]), np.int32([4, 5, 1])),
    )


@pytest.mark.parametrize("axes", [[3], [1, -2]], ids=str)
@pytest.mark.parametrize("name", ["slice", "pad"])
def test_an_axis_that_does_not_exist_or_is_named_twice(axes, name):
    with Pipeline(1) as pipeline:
        blocks, axes = fn.readers.arrays((np.zeros((1, 2, 2, 2)), np.int32([axes])))
        pipeline.set_outputs(
            fn.slice(blocks, start=0, end=1, axes=axes) if name == "slice" else fn.pad(blocks, axes=axes)
        )
    with pytest.raises(errors.SampleError, match="axes must name each axis once"):
        pipeline.run()
