"""Tests of `penstock.math` in the device program."""

import inspect

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from penstock import data_iterator, fn, math

FUNCTIONS = {name: f for name, f in vars(math).items() if inspect.isfunction(f) and f.__module__ == math.__name__}
ROWS = 64


def computed(functions, numbers, devices):
    """Apply functions to numbers in one program on a number of devices."""

    def build():
        x = fn.readers.arrays(numbers, name="reader")
        return tuple(f(*[x + n for n in range(len(inspect.signature(f).parameters))]) for f in functions.values())

    sharding = NamedSharding(Mesh(np.array(jax.devices()[:devices]), ("batch",)), P("batch"))
    make = data_iterator(build, list(functions), reader_name="reader", sharding=sharding)
    return {name: np.asarray(array) for name, array in next(make(batch_size=ROWS, placement="device")).items()}


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(), (3,)])
def test_math_functions_are_bit_identical_on_any_number_of_devices(shape):
    numbers = np.random.default_rng(0).uniform(0.05, 0.95, (ROWS, *shape)).astype(np.float32)
    one, eight = (computed(FUNCTIONS, numbers, devices) for devices in (1, 8))
    assert [name for name in one if one[name].tobytes() != eight[name].tobytes()] == []


def test_single_math_function_is_bit_identical():
    numbers = np.random.default_rng(0).uniform(0.05, 0.95, ROWS).astype(np.float32)
    one, eight = (computed({"atan": math.atan}, numbers, devices)["atan"] for devices in (1, 8))
    np.testing.assert_array_equal(one, eight)


@pytest.mark.parametrize("name", ["rsqrt", "atan", "asinh", "acosh", "cbrt", "fabs"])
def test_values_match_numpy(name):
    tiny, huge = 1e-30, 1e30
    numbers = np.float32(
        [0, -0.0, tiny, -tiny, 0.3, -0.3, 1, -1, 1.5, -1.5, 7, -7, huge, -huge, np.inf, -np.inf, np.nan]
    )
    numbers = np.resize(numbers, ROWS)
    functions = {name: FUNCTIONS[name]}
    with np.errstate(all="ignore"):
        reference = {"rsqrt": lambda x: 1 / np.sqrt(x), "atan": np.arctan, "asinh": np.arcsinh, "acosh": np.arccosh}
        right = {**reference, "cbrt": np.cbrt, "fabs": np.abs}[name](numbers.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(computed(functions, numbers, 1)[name], right, rtol=4e-7, atol=1e-38)
