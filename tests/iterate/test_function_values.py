"""Digests of values tell functions apart that agree in their code."""

import functools
import sys
from argparse import Namespace

import numpy as np
import pytest

from penstock import Pipeline, fn
from penstock.iterate.function_values import function_values

GAIN = 2.0
MEMO = {}


def values(function):
    with Pipeline(batch_size=1) as pipeline:
        x = fn.readers.arrays([1.0, 2.0])
        pipeline.set_outputs(fn.python_function(x, function=function, dtype=np.float64, ndim=0))
    return function_values(pipeline.graph)


def closing_over(value):
    def function(x):
        return x * value

    return function


def with_default(value):
    def function(x, gain=value):
        return x * gain

    return function


def helper(x):
    return x * GAIN


def calling(x):
    return helper(x)


def remembering(x):
    MEMO[float(x)] = x
    return x


class Scale:
    def __init__(self, gain):
        self.gain, self.calls = gain, 0

    def __call__(self, x):
        self.calls += 1
        return x * self.gain


class OtherScale(Scale):
    offset = 0.0

    def __call__(self, x):
        return x * self.gain + self.offset


TABLES = [[1, 2], [1, 3]], [{"a": 1, "b": 2}, {"b": 2, "a": 1}], [{"a", "b"}, {"a", "c"}]
ARRAYS = [np.arange(3), np.arange(3) * 2], [np.arange(3), np.arange(3.0)]


@pytest.mark.parametrize("make", [closing_over, with_default, Scale, lambda value: functools.partial(max, value)])
@pytest.mark.parametrize(
    "pair",
    [(1.0, 2.0), ("one", "two"), *TABLES, *ARRAYS],
    ids=["numbers", "texts", "lists", "dicts", "sets", "arrays", "arrays of other dtypes"],
)
def test_values_differ(make, pair):
    one, other = (values(make(value)) for value in pair)
    assert one.keys() == other.keys()
    assert one != other
    assert values(make(pair[0])) == one


def test_globals_of_helpers_count(monkeypatch):
    before = values(calling)
    monkeypatch.setitem(globals(), "GAIN", 3.0)
    assert values(calling) != before
    monkeypatch.setitem(globals(), "GAIN", 2.0)
    monkeypatch.setitem(globals(), "helper", lambda x: x)
    assert values(calling) != before


def test_class_attributes_count(monkeypatch):
    before = values(OtherScale(2.0))
    monkeypatch.setattr(OtherScale, "offset", 1.0)
    assert values(OtherScale(2.0)) != before


def test_arguments_that_a_function_names_count():
    def closing_over_gain(options):
        return lambda x: x * options.gain

    one, same, other = (
        values(closing_over_gain(Namespace(gain=gain, port=port))) for gain, port in ((1.0, 1), (1.0, 2), (2.0, 1))
    )
    assert one == same != other


def test_what_functions_change_does_not_count():
    scale = Scale(2.0)
    before = values(scale), values(remembering)
    scale(1.0)
    remembering(1.0)
    assert MEMO
    assert (values(scale), values(remembering)) == before


def test_locations_do_not_count():
    assert values(closing_over("/one/photos")) == values(closing_over("/other/photos"))
    assert values(closing_over("/one/photos")) != values(closing_over("/one/videos"))


def test_modules_of_the_user_count(tmp_path, monkeypatch):
    (tmp_path / "first_part.py").write_text("import second_part\ndef scale(x): return x * second_part.factor\n")
    (tmp_path / "second_part.py").write_text("import first_part\nfactor = 2.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    import first_part
    import second_part

    def function(x):
        return first_part.scale(second_part.first_part.second_part.factor * x)

    before = values(function)
    second_part.factor = 3.0
    assert values(function) != before
    for name in ("first_part", "second_part"):
        monkeypatch.delitem(sys.modules, name)


def test_cycles_end():
    cycle = []
    cycle.append(cycle)
    assert values(closing_over(cycle)) != values(closing_over([]))
    deep = None
    for _ in range(100_000):
        deep = [deep]
    assert values(closing_over(deep)) != values(closing_over([]))
