"""What `Pipeline.run` returns: as DALI's users call it, and as NumPy's users do."""

import pickle

import jax
import numpy as np
import pytest

from penstock import Pipeline, fn

ROWS = np.arange(12, dtype=np.float32).reshape(2, 2, 3)


@pytest.fixture(params=["host", "device"])
def batch(request):
    with (pipeline := Pipeline(batch_size=2, placement=request.param)):
        pipeline.set_outputs(fn.readers.arrays(ROWS, layout="HW") + 0)
    return pipeline.run()[0]


def test_samples_have_dalis_methods_and_numpys(batch):
    for number, sample in enumerate(batch):
        assert sample.shape() == [2, 3]
        assert sample.shape == (2, 3) == batch.shape()[number]
        assert sample.layout() == "HW"
        assert (sample.ndim, sample.dtype, len(sample), batch.ndim) == (2, np.float32, 2, 2)
        assert np.array_equal(np.asarray(sample), ROWS[number])
        assert np.array_equal(np.array(sample, np.int32), ROWS[number])
        assert np.array_equal(sample[0], ROWS[number, 0])
        assert np.array_equal(jax.numpy.asarray(sample), ROWS[number])
        assert sample.max() == ROWS[number].max()
        assert float(sample[1, 1]) == ROWS[number, 1, 1]
        cpu = sample.as_cpu()
        assert (cpu.shape(), cpu.layout(), type(np.asarray(cpu))) == ([2, 3], "HW", np.ndarray)
        assert pickle.loads(pickle.dumps(sample)).shape() == [2, 3]
        assert batch.at(number).shape == (2, 3)


def test_host_samples_are_arrays():
    with (pipeline := Pipeline(batch_size=2, placement="host")):
        pipeline.set_outputs(fn.readers.arrays(ROWS, layout="HW"), fn.constant(3))
    sample = pipeline.run()[0][1]
    assert isinstance(sample, np.ndarray)
    assert (sample + 1).shape() == [2, 3]
    assert not sample.T.layout()
    number = pipeline.run()[1][0]
    assert (number.shape(), int(number)) == ([], 3)
