"""What `Pipeline.run` returns: as DALI's users call it, and as NumPy's users do."""

import ctypes
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from penstock import Pipeline, backend, fn, tensors, types
from penstock.errors import ArgumentTypeError, DefinitionError
from penstock.tensors import TensorListCPU

ROWS = np.arange(12, dtype=np.float32).reshape(2, 2, 3)


@pytest.fixture(params=["host", "device"])
def batch(request):
    with Pipeline(batch_size=2, placement=request.param) as pipeline:
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
    with Pipeline(batch_size=2, placement="host") as pipeline:
        pipeline.set_outputs(fn.readers.arrays(ROWS, layout="HW"), fn.constant(3))
    sample = pipeline.run()[0][1]
    assert isinstance(sample, np.ndarray)
    assert (sample + 1).shape() == [2, 3]
    assert not sample.T.layout()
    number = pipeline.run()[1][0]
    assert (number.shape(), int(number)) == ([], 3)


def test_batches_are_arrays_where_their_samples_have_one_shape(batch):
    assert np.array_equal(np.asarray(batch), ROWS)
    assert np.array_equal(jax.numpy.asarray(batch.as_cpu().as_array()), ROWS)
    assert np.array_equal(np.from_dlpack(batch.as_cpu()), ROWS)
    assert batch.as_tensor().shape() == [2, 2, 3]
    assert batch.as_tensor().layout() == "NHW"
    assert batch.as_reshaped_tensor([4, 3]).shape() == [4, 3]
    assert batch.dtype == types.FLOAT
    assert batch.dtype != types.UINT8
    assert isinstance(batch.as_cpu(), backend.TensorListCPU)
    assert isinstance(batch, backend.TensorListCPU) != isinstance(batch, tensors.TensorListGPU)
    batch.set_layout("XY")
    assert batch.layout() == batch[0].layout() == "XY"


def test_batches_are_made_of_arrays():
    ragged = backend.TensorListCPU([np.zeros(2), np.zeros(3)], layout="X")
    assert (ragged.shape(), ragged.is_dense_tensor(), ragged[1].layout()) == ([(2,), (3,)], False, "X")
    dense = backend.TensorListCPU(np.zeros((2, 3, 4)), "HW")
    assert (dense.shape(), dense[0].get_property("layout")) == ([(3, 4), (3, 4)], "HW")
    assert backend.TensorListCPU.broadcast(backend.TensorCPU(ROWS[0], "HW"), 3).shape() == [(2, 3)] * 3
    assert dense[0].data_ptr() == dense.at(0).ctypes.data
    assert (dense.at(0).shape, dense.at(0).shape()) == ((3, 4), [3, 4])


@pytest.mark.parametrize("batch", [backend.TensorListCPU, backend.TensorListGPU])
def test_batches_and_samples_are_written_to_addresses(batch):
    made = batch(jnp.asarray(ROWS))
    copied = np.zeros_like(ROWS)
    address = ctypes.c_void_p(copied.ctypes.data)
    for each in (made, made.as_tensor()):
        copied[:] = 0
        each.copy_to_external(address)
        np.testing.assert_array_equal(copied, ROWS)
    made.at(1).copy_to_external(address)
    np.testing.assert_array_equal(copied[0], ROWS[1])
    with pytest.raises(ArgumentTypeError, match="writes to an address"):
        made.copy_to_external(copied)


def test_samples_of_several_shapes_are_written_one_after_another():
    copied = np.zeros(5, np.int32)
    samples = [np.arange(6, dtype=np.int32)[::2], np.array([7, 8], np.int32)]
    backend.TensorListCPU(samples).copy_to_external(ctypes.c_void_p(copied.ctypes.data))
    assert copied.tolist() == [0, 2, 4, 7, 8]


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (lambda: backend.TensorListCPU(np.zeros((2, 3)), "HW"), "a letter for each axis"),
        (lambda: backend.TensorListCPU([np.zeros(2), np.zeros((2, 2))]), "one dtype and one number of axes"),
        (lambda: backend.TensorListCPU([np.zeros(2), np.zeros(3)]).as_tensor(), "differ in shape"),
        (lambda: backend.TensorListCPU(np.zeros((2, 3))).as_reshaped_tensor([5]), "another number of elements"),
        (lambda: backend.TensorListCPU(np.zeros((2, 3)))[0:1], "indexed with the number of one sample"),
    ],
    ids=["layout", "axes", "ragged", "size", "slice"],
)
def test_mistakes_are_told(mistake, message):
    with pytest.raises((ArgumentTypeError, DefinitionError), match=message):
        mistake()


def test_a_copy_of_a_sample_is_the_same_sample():
    sample = tensors.TensorCPU(np.zeros((2, 3), np.uint8), "HW", lambda: "a.jpg")
    copy = sample.copy()
    assert (copy.layout(), copy.source_info(), copy.shape()) == ("HW", "a.jpg", [2, 3])
    assert copy.data_ptr() != sample.data_ptr()


def test_batches_are_reinterpreted_and_addressed_as_in_dali():
    batch = TensorListCPU([np.float32([1, 2]), np.float32([3, 4])], "W")
    address = ctypes.cast(batch.data_ptr(), ctypes.POINTER(ctypes.c_float))
    assert address[:4] == [1, 2, 3, 4]
    batch.reinterpret(types.INT32)
    assert (batch.dtype, batch[1].tolist(), batch.layout()) == (np.int32, [0x40400000, 0x40800000], "W")
    sample = batch[0]
    sample.reinterpret(types.FLOAT)
    assert (sample.dtype, sample.tolist()) == (np.float32, [1, 2])
    with pytest.raises(DefinitionError, match="same size"):
        batch.reinterpret(types.UINT8)
    batch.reset()
    assert len(batch) == 0
    ragged = TensorListCPU.from_dlpack_list([np.zeros(2), np.zeros(3)], "W")
    assert (ragged.shape(), ragged.layout()) == ([(2,), (3,)], "W")
    with pytest.raises(DefinitionError, match="differ in shape"):
        ragged.data_ptr()
    dense = TensorListCPU.from_dlpack_list([np.zeros(2), np.ones(2)], contiguous=True)
    assert dense.as_array().tolist() == [[0, 0], [1, 1]]
