"""Mistakes in the use of operators on tensors are found while the definition is traced, in words that help."""

import re

import jax.numpy as jnp
import numpy as np
import pytest

import penstock
from penstock import fn, math, types
from penstock.errors import ArgumentTypeError, DefinitionError, SampleError
from penstock.operators.number_arguments import numbers_per_axis

IMAGE = np.zeros((1, 2, 4, 3), np.uint8)
MISTAKES = [
    (lambda x: fn.cat(x, x * 1.5), "one dtype"),
    (lambda x: fn.cat(x, x[0]), "one rank"),
    (lambda x: fn.cat(x, x[:1], axis=1), "extents of the inputs differ"),
    (lambda x: fn.cat(x, x, axis=3), "axes must name each axis once"),
    (lambda x: fn.cat(x, x, axis_name="X"), "does not contain axis X"),
    (lambda x: fn.cat(x[0, 0, 0], x[0, 0, 1]), "fn.stack"),
    (lambda _: fn.cat(), "there are no inputs"),
    (lambda x: fn.stack(x, x, axis=4), "out of range"),
    (lambda x: fn.stack(x, x[:1]), "extents of the inputs differ"),
    (lambda x: fn.stack(fn.reshape(x, layout=""), axis_name="F"), "axis_name requires inputs with a layout"),
    (lambda x: fn.squeeze(x), "either axes or axis_names"),
    (lambda x: fn.squeeze(x, axes=1), "axes of extent 1"),
    (lambda x: fn.squeeze(x, axes=3), "axes must name each axis once"),
    (lambda x: fn.expand_dims(x, axes=[0, 0]), "axes must name each axis once"),
    (lambda x: fn.expand_dims(x, axes=0, new_axis_names="XY"), "one letter per new axis"),
    (lambda x: fn.reinterpret(x, dtype=types.INT32), "not a multiple of the new element size"),
    (lambda x: fn.reinterpret(x[0, 0, 0], dtype=types.INT32), "element size of a scalar"),
    (lambda x: fn.shapes(x, dtype=types.UINT8), "32 or 64 bits"),
    (lambda x: fn.full(x, shape=[5]), "does not broadcast"),
    (lambda x: fn.full_like(x, [1, float("nan"), 3]), "cannot be converted to an integer"),
    (lambda _: fn.zeros(shape=[1.5]), "whole number"),
    (lambda x: fn.ones(shape=x), "vector of integers"),
    (lambda x: fn.reductions.sum(x, axes=[0], axis_names="H"), "cannot be combined"),
    (lambda x: fn.reductions.sum(x > 3), "unsupported dtype"),
    (lambda x: fn.reductions.mean(x, axes=[0, 0]), "axes must name each axis once"),
    (lambda x: fn.reductions.std_dev(x, fn.reductions.mean(x, axes=0), axes=1), "shape of the mean"),
    (lambda x: math.sqrt(x > 3), "must be a number"),
    (lambda x: math.clamp(x > 3, x > 2, x > 1), "must be a number"),
    (lambda x: math.min(x > 3, x > 2), "booleans"),
    (lambda x: fn.random.choice(x, p=[0.5, 0.4]), "sum to 1"),
    (lambda x: fn.random.choice(x, p=[0.5, 0.25, 0.25]), "p must have one entry per value"),
    (lambda _: fn.random.choice(2.5), "number of values must be an integer"),
    (lambda _: fn.random.beta(alpha=0), "alpha is out of range"),
    (lambda _: fn.random.beta(beta=1e-46), "beta is out of range"),
    (lambda _: fn.random.beta(dtype=types.INT32), "dtype is not supported"),
    (lambda x: fn.random.uniform(x, shape=3), "shape and shape_like cannot be combined"),
    (lambda x: fn.random.normal(shape=x), "vector of integers"),
    (lambda x: fn.random.uniform(x, dtype=types.BOOL), "random numbers are not booleans"),
    (lambda x: fn.random.normal(dtype=types.BOOL), "coin_flip"),
    (lambda x: fn.permute_batch(x, indices=[0.5]), "whole number"),
    (lambda x: fn.sequence_rearrange(x, new_order=[0]), "begins with F"),
    (lambda x: fn.sequence_rearrange(fn.reshape(x, layout=""), new_order=[2]), "frame does not exist"),
    (lambda x: fn.element_extract(fn.reshape(x, layout=""), element_map=[-1]), "out of range"),
    (lambda x: fn.get_property(x, key="colour"), "no such key"),
    (lambda x: fn.io.file.read(x), "paths as vectors of bytes"),
    (lambda x: fn.decoders.numpy(x, dtype=types.FLOAT, ndim=1), "encoded bytes"),
    (lambda x: fn.decoders.numpy(x), "encoded bytes"),
    (lambda x: fn.decoders.numpy(x[0, 0]), "the first sample is not a .npy file"),
    (lambda _: fn.decoders.numpy(fn.constant(np.zeros(9, np.uint8))), "is not a .npy file"),
    (lambda _: fn.decoders.numpy(fn.io.file.read(np.zeros(1, np.uint8)), dtype=types.FLOAT), "No such file"),
    (lambda x: x[types.Constant(1.5)], "an index must be an integer"),
    (lambda x: x[np.array(1.5) :], "an index must be an integer"),
    (lambda x: fn.dump_image(x, input_layout="CHW"), "input_layout"),
    (lambda x: fn.dump_image(x, suffix="a/b"), "part of a file name"),
    (lambda x: fn.dump_image(fn.cast(x, dtype=types.FLOAT)), "gray or RGB images"),
    (lambda x: fn.dump_image(fn.transpose(x, perm=[2, 0, 1])), "layout must be HWC"),
    (lambda x: fn.decoders.inflate(x[0, 0], shape=3, algorithm="zip"), "unknown algorithm"),
    (lambda x: x[..., 0, ...], "once"),
    (lambda x: x[0, 0, 0, ..., 0], "too many indices"),
    (lambda x: penstock.Pipeline.current().set_outputs([x, x]), "a list of nodes"),
]


@pytest.mark.parametrize(("build", "said"), MISTAKES, ids=range(len(MISTAKES)))
def test_a_mistake_is_named_with_its_line(build, said):
    with penstock.Pipeline(1), pytest.raises((ArgumentTypeError, DefinitionError)) as caught:
        build(fn.readers.arrays(IMAGE, layout="HWC"))
    # The whole text has the line of the definition, and so `said` itself.
    assert re.search(said, str(caught.value.args[0]))
    assert "test_argument_mistakes.py" in str(caught.value)


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda x: fn.permute_batch(x, indices=[7]), "from 0 to 0"),
        (lambda x: fn.permute_batch(x, indices=[0, 0]), "2 numbers for a batch of 1"),
        (lambda x: fn.io.file.read(fn.cast(x[0, 0], dtype=types.UINT8) + fn.constant(np.uint8(9))), "No such file"),
        (lambda x: fn.decoders.numpy(x[0, 0], dtype=types.FLOAT, ndim=1), "magic"),
        (lambda x: pytest.importorskip("lz4.block") and fn.decoders.inflate(x[0, 0], shape=3), "ecompress"),
        (lambda x: fn.random.choice(x[0, 0, 0]), "values to choose from is empty"),
        (
            lambda x: fn.random.choice(fn.cast(x[0, 0, 0], dtype=types.INT64) - np.int64(2**40)),
            "values to choose from is empty",
        ),
        (lambda x: fn.random.beta(alpha=x[0, 0, 0]), "alpha and beta must be more than 0"),
    ],
    ids=range(8),
)
def test_a_sample_that_cannot_be_computed_is_named(build, said):
    with penstock.Pipeline(1) as pipeline:
        pipeline.set_outputs(build(fn.readers.arrays(IMAGE, layout="HWC")))
    with pytest.raises(SampleError, match=said):
        pipeline.run()


@pytest.mark.parametrize("xp", [np, jnp])
def test_numbers_must_be_as_many_as_the_axes(xp):
    axes, numbers = xp.zeros((3, 1), np.int32), xp.ones((3, 2), np.float32)
    with pytest.raises(ValueError, match="there are 2 numbers for 1 axes"):
        numbers_per_axis(xp, numbers, axes, 3, 0)
