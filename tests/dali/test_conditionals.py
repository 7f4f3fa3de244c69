"""Definitions with conditions give what DALI gives."""
# ruff: noqa: SIM108, PLC3002  # the statements and lambdas are what is tested

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

import penstock
from penstock.operators.readers.reader_arguments import apply_reader
from penstock.testing import ListSource

dali = pytest.importorskip("nvidia.dali", reason="DALI is not installed (dependency group dali)")

Ours = SimpleNamespace(fn=penstock.fn, types=penstock.types)
Theirs = SimpleNamespace(fn=dali.fn, types=dali.types)

NUMBERS = np.arange(-2, 6, dtype=np.int32)
FLAGS = np.array([0, 1, 1, 0, 1, 0, 0, 1], np.bool_)
RNG = np.random.default_rng(8)
IMAGES = [RNG.integers(0, 256, (h, 4, 3), np.uint8) for h in range(3, 11)]


def if_and_else(lib, x, flag):
    if flag:
        y = x * 10
    else:
        y = x - 5
    return y


def if_alone(lib, x, flag):
    if flag:
        x = x * 10
    return x


def a_number_as_condition(lib, x, flag):
    if x:
        x = x + 100
    return x


def a_float_as_condition(lib, x, flag):
    if lib.fn.cast(x, dtype=lib.types.FLOAT) * 0.5:
        x = x + 100
    return x


def elif_chain(lib, x, flag):
    if x == 0:
        y = x + 100
    elif x == 1:
        y = x + 200
    elif flag:
        y = x + 300
    else:
        y = x
    return y


def nested(lib, x, flag):
    if flag:
        z = x * 3
        if x > 2:
            y = z + 7
        else:
            y = z - 7
        z = z + y
    else:
        y, z = x, x * 2
        if x < 0:
            y = z + x
    return y, z


def constants(lib, x, flag):
    if flag:
        y, z = 1, 1.5
    else:
        y, z = -1, 0.5
    return x * y, z, y


def logic(lib, x, flag):
    return flag and x > 1, flag or x > 1, not flag, not x, flag and x > 0 and x < 4, (flag and x < 2) or not x > 3


def logic_with_constants(lib, x, flag):
    return flag and True, True and flag, False or flag, flag or False, flag and False


def chained_comparison(lib, x, flag):
    if -1 < x <= 3:
        x = x * 10
    return x


def entries_and_attributes(lib, x, flag):
    @dataclasses.dataclass
    class Box:
        value: object

    box, data = Box(x), {"a": x, "b": x}
    if flag:
        box.value = x * 2
        data["a"] = x * 3
    return box.value, data["a"], data["b"]


def containers(lib, x, flag):
    if flag:
        pair, data = [x, x * 2], {"k": (x, 1)}
    else:
        pair, data = [x, x * 3], {"k": (x + 1, 2)}
    return pair[0], pair[1], *data["k"]


def returns(lib, x, flag):
    if flag:
        return x * 2, x
    else:
        return x, x


def early_return(lib, x, flag):
    def helper(value):
        if value > 1:
            return value * 2
        return value - 1

    return helper(x)


def loop(lib, x, flag):
    for i in range(3):
        if i == 1:
            continue
        if x > i:
            x = x + 10
    return x


def python_conditions(lib, x, flag):
    y = None
    if lib is None:
        return x
    if not y and len("ab") == 2:
        x = x + 1
    while y is None:
        y = x if lib.types.Constant(1) else 0
    return y


def called_functions(lib, x, flag):
    return _twice_if(x, flag), _Adder(3)(x), _Adder(4).where(x, flag), (lambda v: v > 1 and v < 4)(x)


def _twice_if(x, flag):
    if flag:
        x = x + x
    return x


class _Adder:
    def __init__(self, amount):
        self.amount = amount

    def __call__(self, x):
        if x > 0:
            x = x + self.amount
        return x

    def where(self, x, flag):
        if flag:
            return self(x)
        return x


def in_place(lib, x, flag):
    if flag:
        x += 5
    else:
        x *= 2
    return x


@pytest.fixture
def conditional():
    """A function that runs a definition with conditionals in both libraries."""

    def run(define, *inputs, layouts=(), placement="auto"):
        columns, names = [list(map(np.asarray, column)) for column in inputs], layouts or ("",) * len(inputs)
        sources = [
            ({"source": [c], "layout": name or None, "cycle": True}) for c, name in zip(columns, names, strict=True)
        ]

        @dali.pipeline_def(enable_conditionals=True, batch_size=len(inputs[0]), num_threads=1, device_id=None, seed=1)
        def theirs():
            return define(Theirs, *[dali.fn.external_source(**source) for source in sources])

        @penstock.pipeline_def(enable_conditionals=True, batch_size=len(inputs[0]), num_threads=1, seed=1)
        def ours():
            return define(Ours, *apply_reader(ListSource(columns, names), {}))

        expected = [[np.array(sample) for sample in output] for output in theirs().run()]
        mine = [list(map(np.asarray, output.as_cpu())) for output in ours(placement=placement).run()]
        for number, (a, b) in enumerate(zip(mine, expected, strict=True)):
            for left, right in zip(a, b, strict=True):
                assert left.dtype == right.dtype
                np.testing.assert_array_equal(left, right, err_msg=f"output {number}")

    return run


@pytest.mark.parametrize("placement", ["host", "device"])
@pytest.mark.parametrize(
    "define",
    [
        if_and_else,
        if_alone,
        a_number_as_condition,
        a_float_as_condition,
        elif_chain,
        nested,
        constants,
        logic,
        logic_with_constants,
        chained_comparison,
        entries_and_attributes,
        containers,
        returns,
        early_return,
        loop,
        python_conditions,
        called_functions,
        in_place,
    ],
    ids=lambda define: define.__name__,
)
def test_definitions(conditional, define, placement):
    conditional(define, NUMBERS, FLAGS, placement=placement)


def flipped(lib, images, flag):
    if flag:
        images = lib.fn.flip(images, horizontal=1)
        images = lib.fn.crop(images, crop=(2, 2), crop_pos_x=0.0, crop_pos_y=1.0)
    else:
        images = lib.fn.crop_mirror_normalize(images, mean=0.0, std=1.0, dtype=lib.types.UINT8, output_layout="HWC")
    return images, lib.fn.flip(images, vertical=1)


def test_images_of_several_sizes(conditional):
    conditional(flipped, IMAGES, FLAGS, layouts=("HWC", ""))
