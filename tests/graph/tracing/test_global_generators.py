"""Numbers that a definition draws from the global random generators of Python and NumPy."""

# ruff: noqa: NPY002  # the global generator of NumPy is the subject
import random

import numpy as np
import pytest

from penstock import Pipeline, data_iterator, fn, pipeline_def
from penstock.core import user_call_site
from penstock.errors import PenstockWarning

NUMBERS = np.arange(8, dtype=np.float32)


def test_a_frozen_number_is_named_with_its_line():
    here = None

    @data_iterator
    def training():
        x = fn.readers.arrays(np.zeros((4, 6, 6, 1), np.uint8), layout="HWC")
        nonlocal here
        here = user_call_site()
        return {"x": fn.rotate(x, angle=random.uniform(-10, 10))}

    def twice():
        training(batch_size=2, device_id=0)
        training(batch_size=2, device_id=0)

    with pytest.warns(PenstockWarning) as caught:
        twice()
    (warning,) = caught
    assert "training draws from random while it is traced" in str(warning.message)
    assert "fix: fn.random.uniform" in str(warning.message)
    assert (warning.filename, warning.lineno) == (__file__, here.line + 1)


def test_a_number_that_no_operator_follows_is_named_with_the_call_of_the_definition():
    @data_iterator
    def training():
        x = fn.readers.arrays(NUMBERS)
        random.random()
        return {"x": x}

    with pytest.warns(PenstockWarning) as caught:
        here, _ = user_call_site(), training(batch_size=2, device_id=0)
    assert [(warning.filename, warning.lineno) for warning in caught] == [(__file__, here.line)]


def test_both_generators_and_normal_numbers_that_come_in_pairs_count():
    np.random.standard_normal()  # NumPy keeps the second of a pair, which changes no other part of the state

    @pipeline_def(batch_size=2)
    def draws():
        scale, shift = np.random.standard_normal(), random.random()
        return fn.readers.arrays(NUMBERS) * scale + shift

    with pytest.warns(PenstockWarning) as caught:
        draws()
    assert sorted(str(warning.message).split()[3] for warning in caught) == ["np.random", "random"]


def test_draws_outside_of_a_definition_and_in_functions_are_not_meant():
    def noisy(x):
        return x + np.float32(np.random.standard_normal())

    random.random()
    pipeline = Pipeline(2)
    with pipeline:
        x = fn.python_function(fn.readers.arrays(NUMBERS), function=noisy)
        pipeline.set_outputs(x + np.random.default_rng(0).normal())
    np.random.standard_normal()
    pipeline.run()
    with pytest.warns(PenstockWarning, match=r"draws from np\.random"), Pipeline(2) as pipeline:
        pipeline.set_outputs(fn.readers.arrays(np.random.standard_normal(4)))
