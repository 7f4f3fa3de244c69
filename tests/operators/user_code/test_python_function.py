"""What functions for whole batches may do with their inputs."""

import numpy as np

from penstock import Pipeline, fn


def test_inputs_that_a_function_keeps_or_returns_stay_as_they_are():
    numbers, kept = np.arange(32, dtype=np.int32).reshape(16, 2), []

    def keep(samples):
        kept.append(samples[1])
        for sample in samples:
            np.add(sample, 100, out=sample)
        return samples[::-1]

    made = Pipeline(4, 2)
    with made:
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

    made = Pipeline(2, 1)
    with made:
        numbers = fn.readers.arrays(np.int32([5, 6]))
        made.set_outputs(fn.python_function(numbers, function=seen, batch_processing=True))
    assert made.run()[0].as_array().tolist() == [[1, 0], [1, 0]]
