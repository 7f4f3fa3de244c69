"""Arithmetic, mathematical functions and operators on tensors give DALI's numbers, types and layouts."""

import itertools
import operator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import penstock
from penstock import math
from penstock.operators.elementwise.math_functions import FUNCTIONS

dali = pytest.importorskip("nvidia.dali", reason="DALI is not installed (dependency group dali)")
dali_math = pytest.importorskip("nvidia.dali.math")

RNG = np.random.default_rng(5)
TYPES = ["bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float32", "float64"]
HWC = ("HWC",)
IMAGES = [RNG.integers(0, 256, (h, w, 3), np.uint8) for h, w in ((6, 5), (9, 4), (5, 8))]
SAME = [RNG.integers(0, 256, (4, 5, 3), np.uint8) for _ in range(3)]
FLOATS = [RNG.normal(size=(4, 5)).astype(np.float32) * 10 for _ in range(3)]


def maths(lib):
    return math if lib.fn is penstock.fn else dali_math


BINARY = {
    **{name: getattr(operator, name) for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")},
    **{name: getattr(operator, name) for name in ("and_", "or_", "xor", "lshift", "rshift")},
    **{name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    **{name: getattr(dali_math, name) for name in ("min", "max", "atan2", "fpow")},
}


@pytest.mark.parametrize("name", BINARY)
def test_types_of_all_combinations_are_dalis(name):
    """Each combination alone in DALI, which gives its types while running only; those that it refuses are refused."""

    def theirs(left, right):
        with dali.Pipeline(1, 1, None) as pipeline:
            nodes = [dali.fn.external_source([[np.ones(1, kind)]]) for kind in (left, right)]
            pipeline.set_outputs(BINARY[name](*nodes))
        try:
            return np.asarray(pipeline.run()[0].as_array()).dtype
        except RuntimeError:
            return None

    def mine(left, right):
        combine = BINARY.get(name) if name not in ("min", "max", "atan2", "fpow") else getattr(math, name)
        try:
            with penstock.Pipeline(1):
                return combine(*(penstock.fn.constant(np.ones(1, kind), dtype=kind) for kind in (left, right))).dtype
        except penstock.errors.DefinitionError:
            return None

    pairs = list(itertools.product(TYPES, TYPES))
    assert {pair: mine(*pair) for pair in pairs} == {pair: theirs(*pair) for pair in pairs}


@pytest.mark.parametrize("compare", [operator.lt, operator.le, operator.eq, operator.ne, operator.ge, operator.gt])
@pytest.mark.parametrize("signed", ["int8", "int32", "int64"])
@pytest.mark.parametrize("unsigned", ["uint8", "uint32", "uint64"])
def test_signed_and_unsigned_are_compared_as_numbers(agree, compare, signed, unsigned):
    small, large = np.iinfo(signed), np.iinfo(unsigned)
    a = [np.array([-1, 0, 5, small.min, small.max, 7], signed)]
    b = [np.array([large.max, 0, 4, large.max, large.max // 2, 7], unsigned)]
    agree(lambda lib, x, y: (compare(x, y), compare(y, x)), a, b)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("kind", ["uint8", "int32", "float32", "float64"])
def test_functions(agree, name, kind):
    inside = name in ("asin", "acos", "atanh")
    least = 1 if name == "acosh" else 0 if inside else 0.1
    values = [np.linspace(least, 1 if inside else 3, 7)[1:-1].astype(kind) + (kind[0] != "f" and not inside)]
    if name == "atanh":
        values = [value * 0 if kind[0] != "f" else value for value in values]
    rtol = 1e-3 if name == "rsqrt" else 3e-6  # DALI approximates it
    agree(lambda lib, x: getattr(maths(lib), name)(x), values, rtol=rtol, atol=1e-7)


def test_functions_of_two_and_three(agree):
    x, y = [np.float32([1, -2, 3, 0.5])], [np.float32([2, 3, -1, 0.5])]
    agree(lambda lib, a, b: (maths(lib).min(a, b), maths(lib).max(a, 1), maths(lib).min(3, a)), x, y)
    agree(lambda lib, a, b: (maths(lib).atan2(a, b), maths(lib).fpow(abs(a), b)), x, y, rtol=1e-6)
    agree(lambda lib, a, b: (maths(lib).clamp(a, 0, b), maths(lib).clamp(a, 5, 2), maths(lib).abs(a)), x, y)
    agree(lambda lib, a: (maths(lib).clamp(a, 2, 7), maths(lib).pow(a, 2), maths(lib).fabs(a)), [np.uint8([1, 5, 9])])
    odd = [np.float32([np.nan, 3, -9])]
    agree(lambda lib, a: (maths(lib).clamp(a, 0.0, 2.0), maths(lib).min(a, 1.0), maths(lib).max(1.0, a)), odd)


@pytest.mark.parametrize("kind", ["int8", "int32", "int64", "uint8"])
def test_negative_powers_of_integers(agree, kind):
    bases, exponents = [np.array([1, 2, 0, 7]), np.array([-1, -1, -2, 1])], [np.int32([-2]), np.int32([-3, -2, -1, 2])]
    agree(lambda lib, a, b: (a**b, maths(lib).pow(a, b)), [base.astype(kind) for base in bases], exponents)
    agree(lambda lib, b: (1**b, (-1) ** b), exponents)


@pytest.mark.parametrize("layouts", [("HWC", ""), ("HWC", "WC"), ("", "HWC"), ("HWC", "C"), ("", "")])
def test_layouts_of_expressions_are_dalis(layouts):
    shapes = [(2, 3, 4)[-len(layout or "HWC") :] for layout in layouts]
    arrays = [np.ones(shape, np.uint8) for shape in shapes]
    with dali.Pipeline(1, 1, None) as theirs:
        theirs.set_outputs(
            operator.add(*(dali.fn.external_source([[a]], layout=n) for a, n in zip(arrays, layouts, strict=True)))
        )
    with penstock.Pipeline(1):
        nodes = (penstock.fn.constant(a, layout=n) for a, n in zip(arrays, layouts, strict=True))
        assert operator.add(*nodes).layout == theirs.run()[0].layout()


def test_layouts_that_differ_are_refused():
    with penstock.Pipeline(1), pytest.raises(penstock.errors.DefinitionError, match="HWC and CHW"):
        penstock.fn.constant(np.ones((2, 2, 2)), layout="HWC") + penstock.fn.constant(np.ones((2, 2, 2)), layout="CHW")


@pytest.mark.parametrize("order", list(itertools.permutations([("", 2), ("H", 1), ("W", 1)])))
def test_layouts_of_a_clamp_that_differ_are_refused(order):
    with penstock.Pipeline(1), pytest.raises(penstock.errors.DefinitionError, match="axes of the operands"):
        math.clamp(*(penstock.fn.constant(np.ones((2,) * ndim), layout=layout) for layout, ndim in order))


NUMBERS = st.sampled_from([1, 2, 7, 0.5, 1.25, 3.0])
LEAVES = st.one_of(st.sampled_from(["u1", "i2", "i4", "f4"]), NUMBERS)
NAMES = st.sampled_from(["add", "sub", "mul", "min", "max", "lt", "eq", "floordiv", "truediv", "clamp", "abs", "sqrt"])
TREES = st.recursive(LEAVES, lambda inner: st.tuples(NAMES, inner, inner, NUMBERS), max_leaves=8)
FACTS = {
    "u1": [np.array([[1, 2, 3]], np.uint8), np.array([[7, 0, 250], [1, 1, 9]], np.uint8)],
    "i2": [np.array([[-5], [6]], np.int16), np.array([[11], [-300]], np.int16)],
    "i4": [np.array([9, -4, 1000], np.int32), np.array([3, 0, -77], np.int32)],
    "f4": [np.array(1.5, np.float32), np.array(-0.25, np.float32)],
}


def evaluated(tree, lib, leaves):
    """The tree as a node, or as a number; truth values count as numbers where they are computed with."""
    if not isinstance(tree, tuple):
        return leaves.get(tree, tree)
    name, left, right, number = tree
    a, b = evaluated(left, lib, leaves), evaluated(right, lib, leaves)
    if isinstance(a, int | float):
        a = leaves["i4"] + a
    if name == "clamp":
        return maths(lib).clamp(a, number, b)
    if name in ("min", "max"):
        return getattr(maths(lib), name)(a, b)
    if name in ("abs", "sqrt"):
        return getattr(maths(lib), name)(maths(lib).abs(a + b))
    if name in ("floordiv", "truediv"):
        return getattr(operator, name)(a, number)
    result = getattr(operator, name)(a, b)
    return lib.fn.cast(result, dtype=lib.types.INT32) if name in ("lt", "eq") else result


@pytest.mark.parametrize("placement", ["host", "device"])
@given(tree=TREES.filter(lambda tree: isinstance(tree, tuple)))
@settings(max_examples=30, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_expression_trees(agree, placement, tree):
    columns = FACTS.values() if placement == "host" else [[column[0], -column[0]] for column in FACTS.values()]
    agree(
        lambda lib, *nodes: evaluated(tree, lib, dict(zip(FACTS, nodes, strict=True))),
        *columns,
        rtol=1e-5,
        placement=placement,
    )


JOINS = {
    "cat": lambda lib, x: (lib.fn.cat(x, x), lib.fn.cat(x, x, x, axis=-1), lib.fn.cat(x, x[1:3], axis_name="H")),
    "stack": lambda lib, x: (lib.fn.stack(x, x), lib.fn.stack(x, x, axis=-1), lib.fn.stack(x, x, axis_name="F")),
    "stack inside": lambda lib, x: (lib.fn.stack(x, x, axis=2, axis_name="N"), lib.fn.stack(x, axis=-2)),
    "stack numbers": lambda lib, x: (lib.fn.stack(x[0, 0, 0], x[0, 1, 1]), lib.fn.stack(x[0, 0, 0], axis_name="C")),
    "cat numbers": lambda lib, x: lib.fn.cat(lib.fn.cast(x[0, 0], dtype=lib.types.INT32), [1, 2]),
    "squeeze": lambda lib, x: (lib.fn.squeeze(x[:1], axes=0), lib.fn.squeeze(x[1:2, :, 2:], axes=[0, 2])),
    "squeeze names": lambda lib, x: lib.fn.squeeze(x[1:2, :, 2:], axis_names="CH"),
    "expand nothing": lambda lib, x: (
        lib.fn.expand_dims(x, axes=[]),
        lib.fn.expand_dims(x, axes=[], new_axis_names=""),
    ),
    "expand": lambda lib, x: (lib.fn.expand_dims(x, axes=0), lib.fn.expand_dims(x, axes=[0, 4])),
    "expand names": lambda lib, x: lib.fn.expand_dims(x, axes=[3, 0], new_axis_names="XY"),
    "expand number": lambda lib, x: lib.fn.expand_dims(x[0, 0, 0], axes=[1, 0], new_axis_names="YX"),
    "shapes": lambda lib, x: (lib.fn.shapes(x), lib.fn.shapes(x, dtype=lib.types.INT32), x.shape(), x[0, 0].shape()),
    "cast_like": lambda lib, x: lib.fn.cast_like(x * 1.7, x),
    "full": lambda lib, x: (lib.fn.full(x[0, 0], shape=[2, 3]), lib.fn.full(7, shape=[2])),
    "full layout": lambda lib, x: lib.fn.full(1.5, shape=[2, 2], layout="HW"),
    "full_like": lambda lib, x: (lib.fn.full_like(x, 1.5), lib.fn.full_like(x, -1), lib.fn.full_like(x, x[0, 0])),
    "zeros": lambda lib, x: (
        lib.fn.zeros(shape=[2, 3]),
        lib.fn.zeros(),
        lib.fn.zeros(shape=x.shape(dtype=lib.types.INT32)),
    ),
    "ones": lambda lib, x: (lib.fn.ones(shape=2, dtype=lib.types.UINT8), lib.fn.ones(shape=[1], layout="C")),
    "likes": lambda lib, x: (lib.fn.zeros_like(x), lib.fn.ones_like(x, dtype=lib.types.FLOAT)),
    "bytes": lambda lib, x: lib.fn.reinterpret(x, dtype=lib.types.BOOL),
    "plain shape": lambda lib, x: (lib.fn.reinterpret(x, layout="ABC"), lib.fn.reinterpret(x, rel_shape=[1, -1])),
    "factors": lambda lib, x: lib.fn.reshape(x, rel_shape=lib.fn.stack(*map(lib.types.Constant, (1.0, -2.0, 1.0)))),
    "wider by a factor": lambda lib, x: lib.fn.reinterpret(x[:, :4], dtype=lib.types.INT32, rel_shape=[1, 0.25, 1]),
    "wider in another order": lambda lib, x: (
        lib.fn.reinterpret(x[:, :4, :2], dtype=lib.types.INT16, src_dims=[1, 0, 2]),
        lib.fn.reinterpret(x[:, :4, :2], dtype=lib.types.INT16, src_dims=[0, -1, 1, 2], layout="ABCD"),
        lib.fn.reinterpret(x[:, :4, :2], dtype=lib.types.INT16, src_dims=[1, 0, 2], rel_shape=[1, 1, -1]),
        lib.fn.reinterpret(x[:, :4, :2], dtype=lib.types.INT16, src_dims=[1, 0, 2], rel_shape=[1, 1, 0.5]),
        lib.fn.reinterpret(x[:4, :4, :2], dtype=lib.types.INT16, src_dims=[2, 1], shape=[-1, 4]),
    ),
    "factors in another order": lambda lib, x: (
        lib.fn.reshape(x[:, :4, :2], src_dims=[1, -1, 0], rel_shape=[0.5, 4, -1]),
        lib.fn.reshape(x[:, :4, :2], src_dims=[1, -1, 0], rel_shape=lib.fn.constant(fdata=[0.5, 1, -1])),
    ),
    "wider": lambda lib, x: lib.fn.reinterpret(x[:4, :4], dtype=lib.types.INT32, shape=[-1]),
    "wider last": lambda lib, x: lib.fn.reinterpret(x[:4, :4, :2], dtype=lib.types.INT16),
    "narrower": lambda lib, x: lib.fn.reinterpret(lib.fn.cast(x, dtype=lib.types.FLOAT), dtype=lib.types.UINT8),
}


@pytest.mark.parametrize("name", JOINS)
def test_joins_and_shapes(agree, layouts_agree, name):
    agree(lambda lib, x: JOINS[name](lib, x), IMAGES, layouts=HWC)
    layouts_agree(lambda lib, x: JOINS[name](lib, x), IMAGES[0], "HWC")


@pytest.fixture
def layouts_agree():
    def check(define, sample, layout):
        with dali.Pipeline(1, 1, None) as theirs:
            made = define(dali, dali.fn.external_source([[sample]], layout=layout))
            theirs.set_outputs(*(made if isinstance(made, tuple | list) else (made,)))
        with penstock.Pipeline(1):
            mine = define(penstock, penstock.fn.constant(sample, layout=layout))
            nodes = mine if isinstance(mine, tuple | list) else (mine,)
        assert [node.layout for node in nodes] == [output.layout() for output in theirs.run()]

    return check


REDUCTIONS = ["sum", "mean", "mean_square", "rms", "min", "max"]


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"axes": 0},
        {"axes": [0, -1]},
        {"axes": []},
        {"axis_names": "HW"},
        {"axis_names": "C", "keep_dims": True},
        {"axes": [1, 2], "keep_dims": True},
    ],
    ids=str,
)
def test_reductions(agree, layouts_agree, name, arguments):
    def define(lib, x):
        return getattr(lib.fn.reductions, name)(x, **arguments)

    agree(define, IMAGES, layouts=HWC, rtol=1e-6)
    agree(define, [image.astype(np.int16) - 99 for image in IMAGES], layouts=HWC, rtol=1e-5, atol=1e-5)
    agree(define, [image.astype(np.float32) - 99 for image in IMAGES], layouts=HWC, rtol=1e-5, atol=1e-2)
    layouts_agree(define, IMAGES[0], "HWC")


@pytest.mark.parametrize("name", ["sum", "mean", "mean_square", "rms"])
@pytest.mark.parametrize("kind", ["UINT8", "UINT64", "FLOAT"])
def test_types_of_reductions(agree, name, kind):
    if (name, kind) in [("mean_square", "UINT8"), ("mean", "UINT64"), ("rms", "UINT64")]:
        pytest.skip("DALI refuses it")
    values = [np.array([[3, 5, 7], [1, 5, 9]], np.uint8)]
    agree(lambda lib, x: getattr(lib.fn.reductions, name)(x, axes=0, dtype=getattr(lib.types, kind)), values, rtol=1e-6)


@pytest.mark.parametrize("arguments", [{}, {"axes": 0}, {"axes": [0, 1], "ddof": 1}, {"axes": 2, "keep_dims": True}])
def test_spread(agree, arguments):
    def define(lib, x):
        along = {name: value for name, value in arguments.items() if name != "ddof"}
        mean = lib.fn.reductions.mean(x, **along)
        spreads = [getattr(lib.fn.reductions, kind)(x, mean, **arguments) for kind in ("std_dev", "variance")]
        return (*spreads, lib.fn.reductions.variance(x, 5.0))

    agree(define, IMAGES, layouts=HWC, rtol=1e-5)
    agree(define, [image.astype(np.float32) / 7 for image in IMAGES], layouts=HWC, rtol=1e-5)


def test_reductions_of_what_is_not_a_number_or_not_there(agree):
    odd = [np.float32([1, np.nan, 2])]
    agree(lambda lib, x: (lib.fn.reductions.max(x), lib.fn.reductions.min(x)), odd)
    agree(lambda lib, x: (lib.fn.reductions.sum(x), lib.fn.reductions.mean(x)), [np.zeros((0, 3), np.int32)])
    large = [np.full(300, 2**31 - 1, np.int32)]
    agree(lambda lib, x: lib.fn.reductions.sum(x), large)


def test_a_mean_of_many_is_exact_enough(agree):
    many = [(RNG.normal(size=100_000) + 100).astype(np.float32)]
    actual = [np.float64(many[0]).mean(), np.float64(many[0]).var()]
    with penstock.Pipeline(1) as pipeline:
        node = penstock.fn.readers.arrays(many[0][None])
        mean = penstock.fn.reductions.mean(node)
        pipeline.set_outputs(mean, penstock.fn.reductions.variance(node, mean))
    np.testing.assert_allclose([float(output.as_array()[0]) for output in pipeline.run()], actual, rtol=2e-7)


ORDERS = {
    "permute_batch": lambda lib, x: lib.fn.permute_batch(x, indices=[2, 0, 0]),
    "sequence_rearrange": lambda lib, x: lib.fn.sequence_rearrange(x, new_order=[3, 0, 3]),
    "element_extract": lambda lib, x: tuple(lib.fn.element_extract(x, element_map=[2, 0])),
    "get_property": lambda lib, x: lib.fn.get_property(x, key="layout"),
}


@pytest.mark.parametrize("name", ORDERS)
def test_orders(agree, name):
    agree(lambda lib, x: ORDERS[name](lib, x), [image[..., None] for image in IMAGES], layouts=("FHWC",))


def test_orders_of_each_sample(agree):
    orders = [np.array([[1, 0, 1][row], 3], np.int32) for row in range(3)]
    agree(lambda lib, x, order: lib.fn.sequence_rearrange(x, new_order=order), IMAGES, orders)
    numbers = [np.array(number, np.int32) for number in (1, 2, 0)]
    agree(lambda lib, x, order: lib.fn.permute_batch(x, indices=order), IMAGES, numbers)


def test_files_and_arrays(agree, tmp_path):
    paths = []
    for number, array in enumerate((FLOATS[0], FLOATS[1][:2])):
        np.save(tmp_path / f"{number}.npy", array)
        paths.append(np.frombuffer(str(tmp_path / f"{number}.npy").encode(), np.uint8))
    agree(lambda lib, x: lib.fn.io.file.read(x), paths)

    def decode(lib, x):
        more = {"ndim": 2} if lib.fn is penstock.fn else {}
        return lib.fn.decoders.numpy(lib.fn.io.file.read(x), dtype=lib.types.FLOAT, **more)

    agree(decode, paths)


@pytest.mark.parametrize(
    "define",
    [
        lambda lib: lib.fn.random.choice(5, shape=[40, 50]),
        lambda lib: lib.fn.random.choice([1.5, 2.5, 9.0], p=[0.2, 0.0, 0.8], shape=2000),
        lambda lib: lib.fn.random.beta(shape=2000),
        lambda lib: lib.fn.random.beta(alpha=0.2, beta=0.2, shape=2000),
        lambda lib: lib.fn.random.beta(alpha=2.0, beta=5.0, shape=2000),
        lambda lib: lib.fn.random.beta(alpha=0.3, beta=4.0, shape=2000),
        lambda lib: lib.fn.random.beta(alpha=0.9, beta=0.1, shape=2000, dtype=lib.types.FLOAT64),
        lambda lib: lib.fn.random.beta(alpha=0.001, beta=0.001, shape=2000, dtype=lib.types.FLOAT64),
        lambda lib: lib.fn.random.beta(alpha=1e-44, beta=1e-44, shape=2000),
        lambda lib: lib.fn.random.beta(alpha=1e-40, beta=1e-41, shape=2000),
        lambda lib: lib.fn.random.choice(lib.fn.cast(3 * 2.0**50, dtype=lib.types.INT64), shape=2000),
        lambda lib: lib.fn.random.choice(lib.fn.cast(np.int64(5), dtype=lib.types.INT64), shape=2000),
        lambda lib: lib.fn.random.choice(lib.fn.cast(3.0 * 2**30, dtype=lib.types.UINT32), shape=2000),
        lambda lib: lib.fn.random.uniform(range=[0.0, 2.0**62], shape=2000, dtype=lib.types.INT64),
        lambda lib: lib.fn.random.normal(mean=2.0, shape=2000, dtype=lib.types.FLOAT64),
    ],
    ids=range(15),
)
def test_choices_and_beta_are_distributed_alike(both, define):
    (mine,), (theirs,) = both(define, rows=10)
    a, b = np.concatenate([s.ravel() for s in mine]), np.concatenate([s.ravel() for s in theirs])
    assert (mine[0].shape, mine[0].dtype) == (theirs[0].shape, theirs[0].dtype)
    points = np.unique(np.quantile(b, np.linspace(0.05, 0.95, 19)))
    distance = max(abs((a <= point).mean() - (b <= point).mean()) for point in points)
    assert distance < 0.02  # Kolmogorov and Smirnov: 1 in 10 thousand for samples of 20 thousand


WIDE = {
    "uniform": lambda lib: lib.fn.random.uniform(range=[0.1, 0.2], shape=4000, dtype=lib.types.FLOAT64),
    "uniform int64": lambda lib: lib.fn.random.uniform(range=[0.0, 2.0**62], shape=4000, dtype=lib.types.INT64),
    "normal": lambda lib: lib.fn.random.normal(shape=4000, dtype=lib.types.FLOAT64),
    "normal int64": lambda lib: lib.fn.random.normal(stddev=2.0**60, shape=4000, dtype=lib.types.INT64),
    "beta": lambda lib: lib.fn.random.beta(alpha=2.0, beta=2.0, shape=4000, dtype=lib.types.FLOAT64),
    "choice": lambda lib: lib.fn.random.choice(lib.fn.cast(2.0**62, dtype=lib.types.INT64), shape=4000),
}


@pytest.mark.parametrize("define", WIDE.values(), ids=WIDE)
def test_draws_of_64_bits_use_more_than_a_float32_holds(both, define):
    for column in both(define, rows=2):
        for sample in column[0]:
            assert len(np.unique(sample)) == sample.size
            assert (sample.astype(np.float32).astype(sample.dtype) == sample).mean() < 0.01


def test_choices_up_to_64_bits_have_all_bits():
    limits = np.array([2**63 - 1, 2**40, 3, 1], np.int64)
    with penstock.Pipeline(4, seed=5) as pipeline:
        limit = penstock.fn.readers.arrays(limits)
        drawn = penstock.fn.random.choice(limit, shape=5000)
        unsigned = penstock.fn.cast(limit, dtype=penstock.types.UINT64) * np.uint64(2)
        pipeline.set_outputs(drawn, penstock.fn.random.choice(unsigned, shape=5000))
    for output, ends in zip(pipeline.run(), (limits, limits.astype(np.uint64) * 2), strict=True):
        for sample, end in zip(output.as_array(), ends, strict=True):
            assert sample.min() >= 0
            assert sample.max() < end
            assert abs(sample.astype(np.float64).mean() / float(end) - (0.5 - 0.5 / float(end))) < 0.02
            assert len(np.unique(sample % 64)) == min(int(end), 64), "the lowest bits vary, too"
    pipeline.close()


@pytest.mark.parametrize("kind", ["uniform", "normal", "coin_flip", "beta"])
def test_random_shapes_of_each_sample(both, kind):
    shapes = [np.array(shape, np.int32) for shape in ((2, 3), (1, 5), (4, 4))]

    def define(lib, x, shape):
        random = getattr(lib.fn.random, kind)
        return random(shape=lib.fn.reshape(shape, shape=[2])), random(x)

    mine, theirs = both(define, IMAGES, shapes)
    assert [[s.shape for s in column] for column in mine] == [[s.shape for s in column] for column in theirs]
    assert [column[0].dtype for column in mine] == [column[0].dtype for column in theirs]


def test_permutations_of_a_batch():
    with penstock.Pipeline(9, seed=3) as pipeline:
        plain = penstock.fn.batch_permutation()
        moved = penstock.fn.batch_permutation(no_fixed_points=True)
        pipeline.set_outputs(plain, moved, penstock.fn.batch_permutation(allow_repetitions=True, no_fixed_points=True))
    for _ in range(20):
        first, second, third = (output.as_array() for output in pipeline.run())
        assert sorted(first) == sorted(second) == list(range(9))
        assert not (second == np.arange(9)).any()
        assert not (third == np.arange(9)).any()
        assert 0 <= third.min() <= third.max() < 9


CONSTANTS = {
    "a whole number": lambda types: types.Constant(3),
    "a float": lambda types: types.Constant(-2.5),
    "a truth value": lambda types: types.Constant(True),
    "a float as an integer": lambda types: types.Constant(2.5, types.UINT8),
    "beyond its type": lambda types: types.Constant(300, types.UINT8),
    "of NumPy": lambda types: types.Constant(np.int64(5)),
    "of NumPy, a float": lambda types: types.Constant(np.float64(1.5)),
    "of one number": lambda types: types.Constant(7, shape=[1]),
}


@pytest.mark.parametrize("number", CONSTANTS.values(), ids=CONSTANTS)
def test_a_constant_number_tells_the_same(number):
    told = []
    for lib in (dali, penstock):
        made = number(lib.types)
        kinds = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split()  # noqa: SIM905  # reads better
        every = [made, *(getattr(made, kind)() for kind in kinds)]
        texts = [(each.value, type(each.value), each.dtype.name, each.shape, str(each), repr(each)) for each in every]
        as_python = []
        for kind in (bool, int, float):
            try:
                as_python.append(kind(made))
            except TypeError:
                as_python.append("refused")
        alike = [other == made for other in (lib.types.Constant(3), lib.types.Constant(-2.5), 3, [3], None)]
        told.append((texts, as_python, alike, [other != made for other in (lib.types.Constant(3), 3)]))
    assert told[0] == told[1]


ARRAYS = {
    "a list": lambda types: types.Constant([1, 2]),
    "floats": lambda types: types.Constant((1.5, -2.5)),
    "rounded": lambda types: types.Constant([1.5, 300.0], types.UINT8),
    "an array": lambda types: types.Constant(np.arange(4).reshape(2, 2), layout="HW"),
    "on the host": lambda types: types.Constant(3, device="cpu"),
    "filled": lambda types: types.Constant(3, shape=[2, 2]),
    "with a name": lambda types: types.Constant(3, name="three"),
}


@pytest.mark.parametrize("array", ARRAYS.values(), ids=ARRAYS)
def test_a_constant_array_can_what_a_node_can(agree, array):
    def define(lib, x):
        made = array(lib.types)
        compared = made == 3, made != x, made < 2, made >= 2, x > made, made == lib.types.Constant(3)
        computed = -made, +made, abs(made), made.shape(), made.source_info(), made.property("layout"), made.cpu()
        return *compared, *computed

    agree(define, [np.int32(3), np.int32(1)], rtol=1e-6)


def test_what_is_no_number_is_refused_as_a_constant():
    for value in (None, "3", 1j, object()):
        with pytest.raises(TypeError, match="holds numbers"):
            penstock.types.Constant(value)
    with pytest.raises(TypeError, match=r"no argument 'nmae'(.|\n)*name"):
        penstock.types.Constant(3, nmae="x")
    with pytest.raises(TypeError, match="dtype cannot hold"):
        penstock.types.Constant(float("inf"), penstock.types.INT32)
