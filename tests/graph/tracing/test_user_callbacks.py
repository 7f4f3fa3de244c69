"""Operators in the user's functions and data sets compute on data, also while a definition is traced."""

from contextvars import ContextVar

import numpy as np
import pytest

from penstock import Batch, Pipeline, fn, pipeline_def, types
from penstock import dynamic as ndd

IMAGES = np.arange(48, dtype=np.uint8).reshape(1, 4, 4, 3).repeat(4, 0)
FLIPPED = IMAGES[:, :, ::-1]


def flipped(image):
    return fn.flip(np.asarray(image), layout="HWC")


class Flipped:
    def __len__(self):
        return len(IMAGES)

    def __getitem__(self, index):
        return flipped(IMAGES[index])


def generated():
    while True:
        yield [flipped(image) for image in IMAGES]


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize(
    "define",
    [
        lambda: fn.external_source(source=lambda: list(map(flipped, IMAGES))),
        lambda: fn.external_source(source=lambda info: flipped(IMAGES[info.idx_in_batch]), batch=False),
        lambda: fn.external_source(source=generated),
        lambda: fn.readers.items(Flipped()),
        lambda: fn.python_function(fn.readers.arrays(IMAGES), function=flipped),
        lambda: fn.python_function(
            fn.readers.arrays(IMAGES), function=lambda images: list(map(flipped, images)), batch_processing=True
        ),
        lambda: fn.readers.arrays(FLIPPED, subset=lambda numbers: fn.cast(numbers, dtype=types.INT64)),
    ],
    ids=["function", "samples", "generator", "items", "python_function", "batches", "subset"],
)
def test_operators_in_callbacks_compute_at_once(define, debug):
    pipeline = pipeline_def(define, batch_size=4, seed=1, debug=debug)()
    np.testing.assert_array_equal(pipeline.run()[0].as_array(), FLIPPED)


def test_arithmetic_of_batches_and_tensors_in_callbacks():
    def doubled(image):
        return next(iter(Batch([image]) * np.uint8(2)))

    def added(image):
        return np.asarray(ndd.tensor(image) + np.uint8(1))

    with Pipeline(batch_size=4) as pipeline:
        images = fn.readers.arrays(IMAGES)
        pipeline.set_outputs(*(fn.python_function(images, function=function) for function in (doubled, added)))
    twice, more = (output.as_array() for output in pipeline.run())
    np.testing.assert_array_equal(twice, IMAGES * 2)
    np.testing.assert_array_equal(more, IMAGES + 1)


def test_tensors_of_dynamic_mode_are_data_in_a_definition():
    with Pipeline(batch_size=2) as pipeline:
        pipeline.set_outputs(types.Constant(np.asarray(ndd.tensor([1, 2]) * 3 + 1)))
    assert pipeline.run()[0].as_array().tolist() == [[4, 7]] * 2


def test_callbacks_do_not_change_the_random_numbers_of_a_definition():
    def noisy(image):
        fn.noise.gaussian(image.astype(np.float32), stddev=1.0, seed=5)
        return image

    def numbers(function):
        with Pipeline(batch_size=4, seed=1) as pipeline:
            images = fn.python_function(fn.readers.arrays(IMAGES), function=function)
            pipeline.set_outputs(images, fn.random.uniform())
        return pipeline.run()[1].as_array().tolist()

    assert numbers(noisy) == numbers(np.copy)


def test_callbacks_see_other_context_variables_and_no_pipeline():
    own = ContextVar("own", default=0)
    own.set(3)
    seen = []

    def source():
        seen.append((own.get(), Pipeline.current()))
        return [np.float32(1)]

    with Pipeline(batch_size=1) as pipeline:
        pipeline.set_outputs(fn.external_source(source=source))
        assert seen == [(3, None)]
        assert Pipeline.current() is pipeline
