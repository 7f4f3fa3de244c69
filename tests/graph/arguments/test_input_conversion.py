"""Constants may stand wherever numbers may, and a list of nodes asks for one call per node."""

import numpy as np
import pytest
from pipeline_runs import run

from penstock import Pipeline, data_iterator, fn, pipeline_def, types
from penstock.errors import ArgumentTypeError, DefinitionError

IMAGES = np.arange(24, dtype=np.uint8).reshape(2, 2, 3, 2)


@pytest.mark.parametrize(
    ("with_constant", "with_number"),
    [
        (
            lambda x: fn.resize(x, size=types.Constant([4.0, 3.0])),
            lambda x: fn.resize(x, size=[4.0, 3.0]),
        ),
        (lambda x: fn.crop(x, crop=types.Constant([1, 2])), lambda x: fn.crop(x, crop=[1, 2])),
        (
            lambda x: fn.slice(x, start=types.Constant(1), end=types.Constant([2]), axes=[1]),
            lambda x: fn.slice(x, start=1, end=2, axes=[1]),
        ),
        (
            lambda x: fn.slice(x, types.Constant([0.0, 0.0]), types.Constant([1.0, 0.5])),
            lambda x: fn.slice(x, [0.0, 0.0], [1.0, 0.5]),
        ),
        (
            lambda _: fn.random.uniform(range=types.Constant([1.0, 2.0])),
            lambda _: fn.random.uniform(range=[1.0, 2.0]),
        ),
        (
            lambda _: fn.random.coin_flip(probability=types.Constant(0.25)),
            lambda _: fn.random.coin_flip(probability=0.25),
        ),
        (lambda x: x + types.Constant([1, 2]) * types.Constant(3), lambda x: x + np.int32([3, 6])),
        (lambda x: (types.Constant(7) - 2) // 2 + x, lambda x: 2 + x),
        (lambda _: fn.cast(types.Constant([1, 2]), dtype=types.FLOAT), lambda _: fn.constant(np.float32([1, 2]))),
        (lambda x: fn.slice(IMAGES[0], start=0, end=1, axes=[0]), lambda x: fn.constant(IMAGES[0, :1])),
    ],
    ids=["size", "crop", "slice-bounds", "slice-anchor", "range", "probability", "add", "divide", "cast", "array"],
)
def test_constants_stand_for_numbers(with_constant, with_number):
    for mine, theirs in zip(
        run(with_constant, IMAGES, layout="HWC"), run(with_number, IMAGES, layout="HWC"), strict=True
    ):
        assert mine.dtype == theirs.dtype
        assert np.array_equal(mine, theirs)


def test_a_list_of_inputs_gives_a_list():
    def define(x):
        flipped = fn.flip([x, x + 1], vertical=1, name="flip")
        assert isinstance(flipped, list)
        assert [node.name for node in flipped] == ["flip", "flip"]
        assert flipped[0].value.node.name == "flip"
        assert not flipped[1].value.node.name
        return flipped

    first, second = run(define, IMAGES, layout="HWC")
    assert np.array_equal(first, IMAGES[:, ::-1, ::-1])
    assert np.array_equal(second, IMAGES[:, ::-1, ::-1] + 1)


def test_lists_are_combined_element_by_element_and_single_nodes_are_used_with_each():
    def define(x):
        return fn.slice([x, x + 1], [fn.constant([0, 0]), fn.constant([1, 0])], fn.constant([1, 1]))

    first, second = run(define, IMAGES, layout="HWC")
    assert np.array_equal(first, IMAGES[:, :1, :1])
    assert np.array_equal(second, IMAGES[:, :1, 1:2] + 1)


def test_several_outputs_give_a_list_each():
    def define(x):
        both = fn.python_function([x, x + 1], function=lambda a: (a, a.max()), num_outputs=2)
        assert [len(each) for each in both] == [2, 2]
        (images, other), (maxima, others) = both
        return images, other, maxima, others

    assert [output.max() for output in run(define, IMAGES, layout="HWC")] == [23, 24, 23, 24]


def test_a_list_with_one_node_is_that_node():
    assert np.array_equal(run(lambda x: fn.flip([x]), IMAGES, layout="HWC")[0], IMAGES[:, :, ::-1])


def test_lists_of_different_lengths_are_refused():
    with pytest.raises(DefinitionError, match=r"lists of 2, 3 nodes"):
        run(lambda x: fn.slice([x, x], [fn.constant([0, 0])] * 3, fn.constant([1, 1])), IMAGES, layout="HWC")


@pytest.mark.parametrize(
    ("draw", "meant"),
    [(fn.random.coin_flip, "probability="), (fn.random.uniform, "range="), (fn.random.normal, "mean=")],
)
@pytest.mark.parametrize("number", [lambda: 0.4, lambda: fn.constant(0)], ids=["number", "constant"])
def test_a_number_gives_draws_its_shape_alone(draw, meant, number, caplog):
    with_number, without = (
        run(lambda like=like: draw(*like(), seed=3), batch_size=2) for like in (lambda: (number(),), tuple)
    )
    assert np.array_equal(with_number[0], without[0])
    assert meant in caplog.text
    assert "test_input_conversion.py" in caplog.text


def test_a_long_list_is_looked_at_once(monkeypatch):
    asked = []
    monkeypatch.setattr(
        "penstock.graph.identity.call_record.as_dtype", lambda dtype: asked.append(dtype) or np.dtype(np.uint8)
    )
    with (
        Pipeline(2),
        pytest.raises(DefinitionError, match="dtype must have one entry for all outputs, or one per output"),
    ):
        fn.external_source(lambda: IMAGES, dtype=[types.UINT8] * 5000)
    assert asked == [types.UINT8]


def test_regions_that_no_axis_bounds_are_refused():
    with pytest.raises(DefinitionError, match="regions are bounded along no axis"):
        run(lambda x: fn.erase(x, anchor=[0, 0], shape=[1, 1], axis_names=""), IMAGES, layout="HWC")


def test_the_options_of_pipeline_def_may_be_given_when_the_pipeline_is_made():
    @pipeline_def(batch_size=2)
    def define():
        return fn.readers.arrays(IMAGES)

    for options in ({"debug": False}, {"enable_conditionals": False}, {"enable_conditionals": True}):
        assert define(**options).run()[0].as_array().shape == IMAGES.shape


@pytest.mark.parametrize("decorate", [pipeline_def, data_iterator(output_map=["x"])])
def test_a_misspelt_argument_is_answered_with_those_of_the_definition_too(decorate):
    @decorate
    def define(data, layout="HWC"):
        return fn.readers.arrays(data, layout=layout)

    for wrong, right in [("layuot", "'layout'"), ("num_thread", "'num_threads'")]:
        with pytest.raises(ArgumentTypeError) as caught:
            define(IMAGES, batch_size=2, **{wrong: "HWC"})
        message = str(caught.value)
        assert f"did you mean {right}" in message
        assert "an argument of define: data, layout" in message
        assert "batch_size" in message
        assert f"{__file__}:" in message
