"""Sums of floats on devices do not depend on how many rows a device has."""

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from pipeline_runs import run

from penstock import data_iterator, fn

DATA = (np.random.default_rng(0).normal(size=(16, 7, 5, 3)) * 10 + 3).astype(np.float32)

OPERATORS = {
    "normalize": lambda x: fn.normalize(x, scale=3.3, shift=1.7),
    "normalize along axes": lambda x: fn.normalize(x, axes=[0, 1], scale=1.7, shift=3.0),
    "deviation": lambda x: fn.reductions.std_dev(x, fn.reductions.mean(x, axes=[0]), axes=[0]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATORS)
def test_bits_do_not_depend_on_the_rows_of_a_device(name):
    def definition():
        return OPERATORS[name](fn.readers.arrays(DATA, name="r"))

    def stream(devices, batch_size):
        sharding = NamedSharding(Mesh(np.array(jax.devices()[:devices]), ("batch",)), P("batch"))
        make = data_iterator(definition, ["x"], reader_name="r", sharding=sharding)
        return np.concatenate([np.asarray(b["x"]) for b in make(batch_size=batch_size, seed=1, placement="device")])

    expected = stream(1, 16)
    for devices, batch_size in ((2, 8), (8, 8)):
        np.testing.assert_array_equal(stream(devices, batch_size), expected)


def test_a_deviation_of_zero_gives_the_infinities_of_the_host():
    def results(placement):
        (result,) = run(lambda x: fn.normalize(x, mean=3.0, stddev=0.0), DATA, placement=placement)
        return result

    with np.errstate(divide="ignore", invalid="ignore"):
        expected = results("host")
    assert {-np.inf, np.inf} <= set(expected.flat)
    np.testing.assert_array_equal(results("device"), expected)
