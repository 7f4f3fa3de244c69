"""Arguments that operators declare: what is refused while tracing, and what kernels are given."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from pipeline_runs import run

from penstock import Pipeline, fn, types
from penstock.errors import ArgumentTypeError, DefinitionError, SampleError
from penstock.graph import Argument, BatchKernel, Operator, SampleKernel, apply

NUMBERS = np.arange(8, dtype=np.float32).reshape(4, 2)


@dataclass(frozen=True)
class Scaled(Operator):
    """What the two kernels below share."""

    schema: ClassVar[Mapping[str, Argument]] = {"by": Argument(np.float32, (None,), low=0)}

    def infer(self, data, *, by):
        return data


class InBatches(Scaled, BatchKernel):
    """Scales, and looks at what it is given."""

    def batch(self, context, data, *, by):
        assert (by.shape[0], by.ndim, by.dtype) == (context.rows, 2, np.float32)
        return data * by


class BySample(Scaled, SampleKernel):
    """Likewise."""

    def sample(self, context, data, *, by):
        assert (by.ndim, by.dtype) == (1, np.float32)
        return data * by


def ragged(data):
    """Two rows of one length, the others shorter; the definition does not know which."""
    return fn.slice(data, start=[0], shape=fn.readers.arrays(np.array([[2], [2], [1], [1]], np.int32)), axes=[0])


@pytest.mark.slow
@pytest.mark.parametrize("placement", ["host", "device"])
@pytest.mark.parametrize("operator", [InBatches(), BySample()])
@pytest.mark.parametrize("by", [3, [3], 3.0, np.array([3]), "node"])
@pytest.mark.parametrize("shape", ["dense", "ragged"])
def test_a_kernel_is_given_what_its_schema_says(placement, operator, by, shape):
    with Pipeline(batch_size=4, placement=placement, num_threads=1) as pipeline:
        data = fn.readers.arrays(NUMBERS)
        given = fn.readers.arrays(np.int64([[3], [4], [5], [6]])) if isinstance(by, str) else by
        pipeline.set_outputs(apply(operator, data if shape == "dense" else ragged(data), by=given))
    factors = np.int64([[3], [4], [5], [6]]) if isinstance(by, str) else by
    expected = (NUMBERS * factors).tolist()
    found = [sample.tolist() for sample in map(np.asarray, pipeline.run()[0])]
    assert found == [row[: len(part)] for row, part in zip(expected, found, strict=True)]


def test_a_bad_entry_is_named_whatever_the_kernel():
    for operator in (InBatches(), BySample()):
        with Pipeline(batch_size=2) as pipeline:
            by = fn.readers.arrays(np.float32([[1], [1], [1], [-2]]))
            pipeline.set_outputs(apply(operator, fn.readers.arrays(NUMBERS), by=by))
        pipeline.run()
        with pytest.raises(SampleError, match=r"sample 3 .*by: an argument is \[-2.0\]"):
            pipeline.run()


def test_whole_numbers_are_not_cut_off():
    images = np.zeros((2, 2, 3, 1), np.uint8)
    with Pipeline(batch_size=2):
        data = fn.readers.arrays(images, layout="HWC")
        for given in (1.0, True, np.float32(0)):
            fn.flip(data, horizontal=given)
        with pytest.raises(
            ArgumentTypeError, match=r"(?s)fn.flip: horizontal.*0\.7.*a whole number.*test_argument_schema.py"
        ):
            fn.flip(data, horizontal=0.7)
        with pytest.raises(ArgumentTypeError, match=r"(?s)mirror is a whole number.*float32.*test_argument_schema.py"):
            fn.crop_mirror_normalize(data, mirror=fn.random.uniform(range=[0.0, 1.0]))
        fn.crop_mirror_normalize(data, mirror=fn.random.uniform(range=[0.0, 1.0]) > 0.5)


def test_what_only_moves_elements_needs_axes():
    with Pipeline(batch_size=2):
        scalar = fn.readers.arrays([1.5, 2.5])
        with pytest.raises(
            DefinitionError, match=r"(?s)fn.pad: the input must have axes.*float64\[\].*test_argument_schema.py"
        ):
            fn.pad(scalar)


@pytest.mark.parametrize("placement", ["host", "device"])
def test_scalars_are_cast_twice(placement):
    def define(x):
        return fn.cast(fn.cast(x, dtype=types.UINT8), dtype=types.FLOAT)

    assert run(define, np.float32([1, 300]), placement=placement)[0].tolist() == [1, 255]
