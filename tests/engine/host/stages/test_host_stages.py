"""Tests of host stages: inputs of kernels, errors, and the probe of sample 0."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pytest
from pipeline_runs import run

from penstock import DataIterator, Pipeline, data_iterator, fn, types
from penstock.core import RowSelection, Spec
from penstock.errors import InternalError, SampleError
from penstock.graph import Argument, Operator, Reader, SampleKernel, WholeBatchKernel, apply, apply_many
from penstock.testing import ListSource

FLOAT = np.dtype(np.float32)


@dataclass(frozen=True)
class SumInPlace(Operator, SampleKernel):
    """Kernel that writes one number to its output buffer."""

    given: list = field(compare=False)

    def infer(self, numbers):
        return Spec(numbers.dtype, ())

    def sample(self, context, numbers):
        self.given.append(context.out)
        return np.sum(numbers, out=context.out)


def test_scalar_kernel_receives_array():
    kernel, numbers = SumInPlace([]), np.arange(12, dtype=np.float32).reshape(4, 3)
    with Pipeline(4, 1, exec_async=False) as pipeline:
        pipeline.set_outputs(apply(kernel, fn.readers.arrays(numbers)))
    assert pipeline.run()[0].as_array().tolist() == [3, 12, 21, 30]
    assert [(type(out), out.shape) for out in kernel.given] == [(np.ndarray, ())] * 4


@dataclass(frozen=True)
class Times(Operator, SampleKernel):
    """Product of numbers and an argument."""

    schema: ClassVar = {"factor": Argument(np.float32, (None,), high=9)}

    def infer(self, numbers, *, factor):
        return numbers

    def sample(self, context, numbers, *, factor):
        assert factor.dtype == np.float32
        return numbers * factor


def test_argument_computed_in_same_stage_is_checked_per_row():
    numbers = [np.arange(n, dtype=np.float32) for n in (2, 3, 1)]

    def times(data, factor):
        return apply(Times(), data, factor=fn.reshape(fn.cast(data, dtype=np.int32), shape=[-1]) * factor)

    (products,) = run(lambda data: times(data, 2), numbers)
    assert [sample.tolist() for sample in products] == [[0, 2], [0, 2, 8], [0]]
    with pytest.raises(SampleError, match="an argument is"):
        run(lambda data: times(data, 5), numbers)


@dataclass(frozen=True)
class Refuse(Operator, WholeBatchKernel):
    """Whole-batch kernel that fails if the batch contains a two."""

    def infer(self, numbers):
        return numbers

    def whole_batch(self, context, numbers):
        if 2 in numbers:
            raise ValueError("these do not go together")
        return numbers


def test_whole_batch_failure_names_no_sample():
    with Pipeline(4, 1, exec_async=False) as pipeline:
        pipeline.set_outputs(apply(Refuse(), fn.readers.arrays(np.arange(8))))
    with pytest.raises(SampleError) as caught:
        pipeline.run()
    said = str(caught.value)
    assert "failed on a batch: ValueError: these do not go together" in said
    assert "sample 0" not in said
    assert __file__ in said


@dataclass(frozen=True, eq=False, kw_only=True)
class Annotated(Reader):
    """Third-party reader with a field without a default."""

    annotations: str


def test_sample_0_of_reader_with_extra_fields():
    ragged = ListSource([[np.zeros((2, 3), np.uint8)] * 4], ["HW"], [(None, None)])
    with Pipeline(2, 1) as pipeline:
        (images,) = apply_many(Annotated(source=ragged, annotations="more.json"))
        pipeline.set_outputs(fn.reshape(images, shape=[6]))
    assert next(DataIterator(pipeline, ["x"]))["x"].shape == (2, 6)


@dataclass(frozen=True)
class Liar(Operator, SampleKernel):
    """Kernel that declares float32 and returns float64."""

    def infer(self, numbers):
        return Spec(FLOAT, numbers.shape)

    def sample(self, context, numbers):
        return numbers.astype(np.float64)


def test_broken_contract_is_reported_once():
    with Pipeline(2, 1, exec_async=False) as pipeline:
        pipeline.set_outputs(apply(Liar(), fn.readers.arrays(np.zeros((2, 3), np.float32))))
    with pytest.raises(InternalError) as caught:
        pipeline.run()
    said = str(caught.value)
    assert said.startswith("[internal error] ")
    assert "failed on sample 0 " in said
    assert "given:    float64[3]" in said
    assert [said.count(part) for part in ("[internal error]", "please report it", "given:")] == [1, 1, 1]


def flipped(images, **arguments):
    """Return mirrored images and their numbers, in sample order over several epochs."""

    @data_iterator(output_map=["images", "numbers"], reader_name="reader", **arguments)
    def definition():
        numbers = np.arange(len(images), dtype=np.int32)
        data, numbers = fn.readers.arrays((images, numbers), layout=("HWC", ""), random_shuffle=True, name="reader")
        return fn.flip(data, horizontal=1), numbers

    return definition(batch_size=4, num_threads=1)


@pytest.mark.parametrize("dtype", ["uint8", "float32", "int16", "bool"])
@pytest.mark.parametrize("lying", [np.ascontiguousarray, np.asfortranarray, lambda x: np.repeat(x, 2, axis=0)[::2]])
def test_images_in_memory_are_processed_in_place(dtype, lying):
    images = np.random.default_rng(0).integers(0, 2 if dtype == "bool" else 200, (12, 5, 7, 3)).astype(dtype)
    for batch in flipped(lying(images)):
        np.testing.assert_array_equal(batch["images"], images[np.asarray(batch["numbers"])][:, :, ::-1])


def test_images_in_memory_are_not_copied_for_single_chain(monkeypatch):
    copied, copy = [], RowSelection.gather

    def counted(picked, out=None):
        copied.append(picked.array.ndim)
        return copy(picked, out)

    monkeypatch.setattr(RowSelection, "gather", counted)
    iterator = flipped(np.zeros((12, 5, 7, 3), np.uint8))
    copied.clear()  # of planning
    assert len([*iterator, *iterator]) == 6
    assert set(copied) == {1}


def test_failing_image_in_memory_is_replaced_or_named():
    images = np.arange(12 * 6 * 6 * 3, dtype=np.uint8).reshape(12, 6, 6, 3)

    def iterator(on_error):
        @data_iterator(output_map=["images", "numbers"], reader_name="reader", on_error=on_error, max_bad_samples=None)
        def definition():
            data, number = fn.readers.arrays((images, np.arange(12)), layout=("HWC", ""), name="reader")
            start = fn.cast(number == 5, dtype=types.INT32) * 4
            return fn.slice(data, start=fn.stack(start, 0 * start), shape=(3, 3), axes=(0, 1)), number

        return definition(batch_size=4, num_threads=1, prefetch_queue_depth=1)

    with pytest.raises(SampleError, match="sample 5"):
        list(iterator("raise"))
    for batch in iterator("replace"):
        numbers = np.asarray(batch["numbers"])
        assert 5 not in numbers
        np.testing.assert_array_equal(batch["images"], images[numbers][:, :3, :3])
