"""What functions for whole batches may do with their inputs."""

import numpy as np
import pytest
from pipeline_runs import build_pipeline, run

from penstock import Pipeline, data_iterator, fn, pipeline_def
from penstock.errors import DefinitionError, SampleError
from penstock.operators.readers.reader_arguments import apply_reader
from penstock.testing import ListSource


def test_inputs_that_a_function_keeps_or_returns_stay_as_they_are():
    numbers, kept = np.arange(32, dtype=np.int32).reshape(16, 2), []

    def keep(samples):
        kept.append(samples[1])
        for sample in samples:
            np.add(sample, 100, out=sample)
        return samples[::-1]

    with Pipeline(4, 2) as made:
        given = fn.readers.arrays(numbers)
        made.set_outputs(fn.python_function(given, function=keep, batch_processing=True, dtype=np.int32, ndim=1), given)
    batches = [made.run() for _ in range(4)]
    for batch, rows in zip(batches, numbers.reshape(4, 4, 2), strict=True):
        changed, same = ([np.asarray(sample) for sample in output] for output in batch)
        np.testing.assert_array_equal(changed, rows[::-1] + 100)
        np.testing.assert_array_equal(same, rows)
    assert {sample[0] for sample in kept} >= {102, 110, 118, 126}


def test_numbers_come_as_arrays():
    def seen(samples):
        return [np.int64([type(sample) is np.ndarray, sample.ndim]) for sample in samples]

    (kinds,) = run(lambda x: fn.python_function(x, function=seen, batch_processing=True), np.int32([5, 6]))
    assert kinds.tolist() == [[1, 0], [1, 0]]


def clips(lengths=(3, 5, 4)):
    """Videos of unknown extents: a value with four unknown axes."""
    return [np.full((length, 4 + length, 5, 3), length, np.uint8) for length in lengths]


@pytest.mark.parametrize("by_batch", [False, True])
def test_while_it_is_traced_a_function_sees_nothing_but_the_first_sample(by_batch):
    seen = []

    def brightest(clip):
        seen.extend((sample.shape, int(sample.max())) for sample in (clip if by_batch else [clip]))
        return [sample.max(axis=(1, 2)) for sample in clip] if by_batch else clip.max(axis=(1, 2))

    def define(clip):
        assert clip.spec.shape == (None,) * 4
        return fn.python_function(clip, function=brightest, batch_processing=by_batch)

    pipeline = build_pipeline(define, clips(), layout="FHWC")
    assert set(seen) == {((3, 7, 5, 3), 3)}
    assert [np.asarray(sample).shape for sample in pipeline.run()[0]] == [(3, 3), (5, 3), (4, 3)]


def test_a_function_may_fail_on_zeros():
    def normalized(clip):
        if not clip.any():
            raise ValueError("all of it is black")
        return clip / np.float32(clip.max())

    (samples,) = run(lambda clip: fn.python_function(clip, function=normalized), clips(), layout="FHWC")
    assert [sample.max() for sample in samples] == [1, 1, 1]


def test_a_function_that_fails_on_the_first_sample_is_named_with_it():
    def fails(clip):
        raise ValueError("no")

    with Pipeline(3, 1), pytest.raises(DefinitionError, match=r"(?s)fails on the first sample.*uint8\[3, 7, 5, 3\]"):
        fn.python_function(apply_reader(ListSource([clips()], ["FHWC"]), {})[0], function=fails)


def test_what_is_fed_later_is_tried_with_small_zeros():
    sizes = []

    def first(clip):
        sizes.append(clip.size)
        return clip[:1]

    with Pipeline(3, 1) as pipeline:
        clip = fn.external_source(name="clip", dtype=np.uint8, ndim=4)
        pipeline.set_outputs(fn.python_function(clip, function=first))
    assert max(sizes) < 10**7
    pipeline.feed_input("clip", clips())
    assert [np.asarray(sample).shape for sample in pipeline.run()[0]] == [(1, 7, 5, 3), (1, 9, 5, 3), (1, 8, 5, 3)]


def test_a_function_of_many_inputs_that_are_fed_later_is_not_called_for_all_kinds():
    calls = []

    def cut(image, first, last, scale):
        calls.append(1)
        (top, left), (bottom, right) = first, last
        return image[top:bottom, left:right] * np.float32(scale)

    with Pipeline(2) as pipeline:
        image = fn.external_source(name="image", layout="HWC")
        rest = [fn.external_source(name=name) for name in ("first", "last", "scale")]
        part = fn.python_function(image, *rest, function=cut)
        pipeline.set_outputs(fn.reshape(part, layout="HWC"))
    assert len(calls) < 200
    images = np.arange(2 * 5 * 6 * 3, dtype=np.uint8).reshape(2, 5, 6, 3)
    pipeline.feed_input("image", images)
    pipeline.feed_input("first", np.int32([[0, 1]] * 2))
    pipeline.feed_input("last", np.int32([[2, 4]] * 2))
    pipeline.feed_input("scale", np.float32([2, 3]))
    results = pipeline.run()[0].as_array()
    np.testing.assert_array_equal(results, images[:, 0:2, 1:4] * np.float32([2, 3]).reshape(2, 1, 1, 1))


def test_what_a_function_makes_of_a_ragged_value_goes_into_a_function_for_jax_that_takes_one_size_only():
    def define(clip):
        small = fn.python_function(clip, function=lambda clip: clip[:2, :2, :2])
        flat = fn.jax_function(lambda clips: clips.reshape(3, 24))(small)
        assert flat.spec.shape == (None,)
        return flat

    assert run(define, clips(), layout="FHWC")[0].tolist() == [[n] * 24 for n in (3, 5, 4)]


def test_a_generator_per_sample_depends_on_seed_epoch_and_position_alone():
    numbers = np.arange(6, dtype=np.float32)

    def plain(x, rng):
        return x + np.float32(rng.random())

    def named(samples, *, rng):
        return [sample + np.float32(one.random()) for sample, one in zip(samples, rng, strict=True)]

    def unused(x, rng=None):
        return x if rng is None else x * 0

    def batches(batch_size, seed, threads=2):
        pipeline = Pipeline(batch_size, threads, seed=seed)
        with pipeline:
            x = fn.readers.arrays(numbers)
            noisy = [
                fn.python_function(x, function=plain),
                fn.python_function(x, function=named, batch_processing=True, dtype=np.float32, ndim=0),
                fn.python_function(x, function=unused),
                fn.python_function(x, x, function=lambda image, rng: image - rng),
            ]
            pipeline.set_outputs(*noisy)
        columns = zip(*[pipeline.run() for _ in range(12 // batch_size)], strict=True)
        return [np.concatenate([np.asarray(batch.as_array()) for batch in column]) for column in columns]

    one, listed, same, difference = batches(2, seed=1)
    for twin in (batches(6, seed=1), batches(3, seed=1, threads=1)):
        np.testing.assert_array_equal(twin, [one, listed, same, difference])
    assert (same == np.tile(numbers, 2)).all()
    assert (difference == 0).all()
    draws = one - np.tile(numbers, 2)
    assert ((draws >= 0) & (draws <= 1)).all()
    assert len(np.unique(np.round(draws, 4))) == 12  # other numbers in each epoch
    assert (batches(2, seed=2)[0] != one).all()


@pytest.mark.parametrize("by_batch", [False, True])
@pytest.mark.parametrize("declared", [{}, {"dtype": np.float32, "ndim": 1}], ids=["inferred", "declared"])
def test_a_function_may_return_the_same_memory_for_each_call(declared, by_batch):
    numbers = np.arange(16, dtype=np.float32).reshape(8, 2)
    memory = np.zeros((4, 2), np.float32)

    def first_row(x):
        memory[0] = x
        return memory[0]

    def all_rows(samples):
        memory[: len(samples)] = samples
        return list(memory[: len(samples)])

    with Pipeline(4, 1) as pipeline:
        x = fn.readers.arrays(numbers)
        same = fn.python_function(
            x, function=all_rows if by_batch else first_row, batch_processing=by_batch, **declared
        )
        pipeline.set_outputs(same, same[:1])
    first, second = pipeline.run(), pipeline.run()
    for outputs, rows in ((first, numbers[:4]), (second, numbers[4:])):
        whole, part = ([np.asarray(sample) for sample in output] for output in outputs)
        np.testing.assert_array_equal(whole, rows)
        np.testing.assert_array_equal(part, rows[:, :1])


@pytest.mark.parametrize("dtype", ["O", "U3", "M8[D]", "V4", [("x", np.int32)], "g"])
@pytest.mark.parametrize("by_batch", [False, True])
def test_results_that_are_not_numbers_are_refused(dtype, by_batch):
    def wrong(x):
        return [np.zeros(2, dtype)] * len(x) if by_batch else np.zeros(2, dtype)

    with Pipeline(2), pytest.raises(DefinitionError, match=r"(?s)wrong must return arrays of numbers.*fix: .*astype"):
        fn.python_function(fn.readers.arrays(np.float32([1, 2])), function=wrong, batch_processing=by_batch)
    with Pipeline(2) as pipeline:
        x = fn.readers.arrays(np.float32([1, 2]))
        pipeline.set_outputs(fn.python_function(x, function=wrong, batch_processing=by_batch, dtype=np.float32, ndim=1))
    with pytest.raises(SampleError, match="wrong must return arrays of numbers"):
        pipeline.run()


@pytest.mark.parametrize("declared", [{}, {"dtype": ">f4", "ndim": 0}], ids=["inferred", "declared"])
def test_results_in_another_byte_order_are_converted(declared):
    (results,) = run(
        lambda x: fn.python_function(x, function=lambda x: x.astype(">f4"), **declared) + 1, np.float32([1, 2])
    )
    assert results.tolist() == [2, 3]


@pytest.mark.parametrize(
    "other", [lambda x: x[:1], lambda x: x.astype(int), lambda x: x[0]], ids=["shape", "dtype", "rank"]
)
@pytest.mark.parametrize("by_batch", [False, True])
def test_a_result_that_differs_from_the_trial_is_the_fault_of_the_function(other, by_batch):
    def differs(x):
        return [differs(sample) for sample in x] if isinstance(x, list) else other(x) if x[0] == 6 else x

    def training(on_error):
        numbers = fn.readers.arrays(np.arange(12, dtype=np.float32).reshape(6, 2), name="reader")
        return fn.python_function(numbers, function=differs, batch_processing=by_batch)

    def batch(on_error):
        names = ["x", "valid"] if on_error == "skip" else ["x"]
        made = data_iterator(pipeline_def(training), output_map=names, reader_name="reader", on_error=on_error)
        return next(made(on_error, batch_size=6, num_threads=2))

    with pytest.raises(SampleError, match=r"(?s)sample 3 .*another dtype or shape.*fix: .*dtype= and ndim="):
        batch("raise")
    if not by_batch:
        assert batch("skip")["valid"].tolist() == [True] * 3 + [False] + [True] * 2
