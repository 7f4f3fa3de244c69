"""The operators that make affine maps give DALI's numbers."""

import numpy as np
import pytest

RNG = np.random.default_rng(5)
PLANE = [*RNG.normal(size=(3, 2, 3)).astype(np.float32)]
SPACE = [*RNG.normal(size=(3, 3, 4)).astype(np.float32)]
CLOSE = {"rtol": 1e-5, "atol": 1e-5}

PLANE_USES = [
    ("translation", {"offset": [3, -4]}),
    ("scale", {"scale": [2, 0.3]}),
    ("scale", {"scale": 2.5}),
    ("scale", {"scale": [2, 3], "center": [5, 7]}),
    ("rotation", {"angle": 33.0}),
    ("rotation", {"angle": -200.0, "center": [1, 2]}),
    ("shear", {"shear": [2, 0.3]}),
    ("shear", {"angles": [20, -45], "center": [5, 7]}),
    ("crop", {"from_start": [1, 2], "from_end": [5, 10]}),
    ("crop", {"from_start": 0.5, "from_end": [5, -1], "to_start": [3, 3], "to_end": [4, 1], "absolute": True}),
]
SPACE_USES = [
    ("translation", {"offset": [3, -4, 0.5]}),
    ("scale", {"scale": [2, 0.3, 1], "center": [5, 7, 1]}),
    ("rotation", {"angle": 33.0, "axis": [1, 2, 3]}),
    ("rotation", {"angle": 133.0, "axis": [0, -2, 1], "center": [5, 7, 1]}),
    ("shear", {"shear": [1, 2, 3, 4, 5, 6], "center": [1, 2, 3]}),
    ("shear", {"angles": [10, 20, 30, 40, 50, 60]}),
    ("crop", {"from_start": [1, 2, 3], "from_end": [5, 10, 4], "to_start": 0, "to_end": [2, 2, 2]}),
]


def test_a_box_without_extent(both):
    actual, expected = both(
        lambda lib: lib.fn.transforms.crop(from_start=[0, 1], from_end=[1, 1], to_end=[0.8, 0.5]), rows=2
    )
    np.testing.assert_allclose(actual, expected, rtol=1e-6)


@pytest.mark.parametrize(("name", "arguments"), [*PLANE_USES, *SPACE_USES])
def test_constants(agree, name, arguments):
    plane = (name, arguments) in PLANE_USES

    def define(lib, before):
        make = getattr(lib.fn.transforms, name)
        alone = () if arguments.get("scale") == 2.5 else (make(**arguments),)
        return *alone, make(before, **arguments), make(before, reverse_order=True, **arguments)

    agree(define, PLANE if plane else SPACE, **CLOSE)


@pytest.mark.parametrize(("name", "arguments"), [use for use in (*PLANE_USES, *SPACE_USES) if "absolute" not in use[1]])
def test_one_for_each_sample(agree, name, arguments):
    values = [np.float32(value) for value in arguments.values()]
    values = [value.reshape(3, 2) if value.size == 6 else value for value in values]  # as DALI wants six angles
    columns = [[value * np.float32(factor) for factor in (1, 0.5, 1.25)] for value in values]
    before = PLANE if (name, arguments) in PLANE_USES else SPACE
    if arguments.get("scale") == 2.5:
        pytest.skip("DALI needs as many numbers as dimensions of a node")

    def define(lib, before, *nodes):
        return getattr(lib.fn.transforms, name)(before, **dict(zip(arguments, nodes, strict=True)))

    agree(define, before, *columns, **CLOSE)


def test_one_factor_for_all_dimensions(agree):
    agree(lambda lib, m: lib.fn.transforms.scale(m, scale=2, ndim=3), SPACE)


@pytest.mark.parametrize("reverse", [False, True])
def test_combine(agree, reverse):
    agree(lambda lib, a, b: lib.fn.transforms.combine(a, b, a, reverse_order=reverse), PLANE, PLANE[::-1], **CLOSE)
    constant = np.float32([[1, 0, 10], [0, 2, 20]])
    agree(lambda lib, a: lib.fn.transforms.combine(a, constant, reverse_order=reverse), PLANE, **CLOSE)
