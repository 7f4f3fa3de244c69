"""A definition is named by what the user wrote, so that neither a new release nor tidying up makes it another one."""

import functools
import pathlib
from dataclasses import make_dataclass
from typing import Annotated, TypedDict, Unpack

import numpy as np
import pytest
from pipeline_runs import build_pipeline

from penstock import fn, types
from penstock.core import Spec
from penstock.graph import BatchKernel, DataLocation, DataNode, Default, Operator, PerformanceHint, apply, operator
from penstock.graph.identity.canonical_text import canonical_text
from penstock.graph.identity.fingerprint import canonical_definition
from penstock.graph.tracing import registry

IMAGES = np.zeros((2, 6, 5, 3), np.uint8)


def traced(build):
    return canonical_definition(build_pipeline(lambda: build(), batch_size=2).graph)


def images(**options):
    return fn.readers.arrays(IMAGES, layout="HWC", **options)


def halve(numbers):
    return numbers / 2


def small():
    arrays, layouts = {"image": IMAGES, "label": np.arange(2)}, {"image": "HWC", "label": ""}
    data = fn.readers.arrays(arrays, layout=layouts, random_shuffle=True, name="train")
    image = fn.slice(fn.pad(data["image"], fill_value=0, align=4), start=[1, 1], shape=[4, 4], axes=[0, 1])
    mirror = fn.random.coin_flip(probability=0.3)
    image = fn.crop_mirror_normalize(image.gpu(), mirror=mirror, mean=[125.3, 123.0, 113.9], dtype=types.FLOAT16)
    return image, fn.one_hot(data["label"], num_classes=10)


def photographs():
    data = fn.readers.arrays(np.zeros((2, 50), np.uint8), seed=5, shard_mode="contiguous", num_shards=2)
    image = fn.decoders.image_random_crop(data, random_area=(0.1, 1), output_type=types.GRAY, device="mixed")
    return fn.resize_crop_mirror(image, size=[30, 30], crop=(24, 24), interp_type=types.INTERP_CUBIC, name="small")


def computed():
    x = images()
    noise = fn.random.normal(x, stddev=2.0)
    larger = fn.jax_function(halve)(x * np.float32([1, 2, 3]) + noise)
    return larger, -x[:, 1:3], fn.cast(x > types.Constant(7, types.UINT8), dtype=types.INT64)


# A release never changes these: they are in every state that was ever saved.
GOLDEN = {
    small: (
        "2e58c298f4f0675b",
        [
            "readers.arrays(layout={image: 'HWC', label: ''}, random_shuffle=True), reader 0",
            "pad(readers.arrays[0], align=4)",
            "slice(pad, axes=(0, 1), shape=(4, 4), start=(1, 1))",
            "random.coin_flip(probability=0.3), stream 0",
            "crop_mirror_normalize(slice, dtype=float16, mean=(125.3, 123.0, 113.9), mirror=random.coin_flip)",
            "one_hot(readers.arrays[1], num_classes=10)",
            "outputs(crop_mirror_normalize, one_hot)",
        ],
    ),
    photographs: (
        "7957a8ca0de2960d",
        [
            "readers.arrays(seed=5, shard_mode='contiguous'), reader 0 of 2 parts",
            "decoders.image_random_crop(readers.arrays, output_type=GRAY, random_area=(0.1, 1)), stream 0",
            "resize_crop_mirror(decoders.image_random_crop, crop=(24, 24), interp_type=INTERP_CUBIC, size=(30, 30))",
            "outputs(resize_crop_mirror)",
        ],
    ),
    computed: (
        "fe5426513b9e04ca",
        [
            "readers.arrays(layout='HWC'), reader 0",
            "arithmetic.mul(readers.arrays, float32[3](1.0, 2.0, 3.0))",
            "random.normal(shape_like=readers.arrays, stddev=2.0), stream 0",
            "arithmetic.add(arithmetic.mul, random.normal)",
            "jax_function(arithmetic.add, function=halve)",
            "getitem(readers.arrays, ::, 1:3:)",
            "arithmetic.neg(getitem)",
            "arithmetic.gt(readers.arrays, Constant(uint8(7)))",
            "cast(arithmetic.gt, dtype=int64)",
            "outputs(jax_function, arithmetic.neg, cast)",
        ],
    ),
}


@pytest.mark.parametrize("build", GOLDEN, ids=lambda build: build.__name__)
def test_fingerprints_are_pinned(build):
    found = traced(build)
    assert (found.fingerprint, list(found.calls)) == GOLDEN[build]


def moved():
    """`halve` under the name of another place."""

    def halve(numbers):
        return numbers / 2

    return halve


def by_number(number):
    return np.full(2, number)


def reordered(*, first):
    reader = images()
    bright, dark = (lambda: reader + 1), (lambda: fn.flip(reader))
    return (bright(), dark()) if first else (dark(), bright())[::-1]


SAME = {
    "defaults": (lambda: fn.flip(images()), lambda: fn.flip(images(), horizontal=1, vertical=0)),
    "a reader's": (images, lambda: images(random_shuffle=False, seed=-1, pad_last_batch=False)),
    "defaults of images": (
        lambda: fn.resize(fn.crop(images(), crop=(4, 4)), size=3),
        lambda: fn.resize(
            fn.crop(images(), crop=[4, 4], crop_pos_x=0.5, rounding="round", out_of_bounds_policy="error"),
            size=3,
            mode="default",
            interp_type=types.INTERP_LINEAR,
            antialias=True,
            minibatch_size=8,
        ),
    ),
    "defaults of decoders": (
        lambda: fn.decoders.image_random_crop(fn.readers.arrays(np.zeros((2, 9), np.uint8))),
        lambda: fn.decoders.image_random_crop(
            fn.readers.arrays(np.zeros((2, 9), np.uint8)),
            output_type=types.RGB,
            dtype=np.uint8,
            random_area=[0.08, 1.0],
            num_attempts=10,
            hw_decoder_load=0.9,
        ),
    ),
    "hints": (images, lambda: images(initial_fill=100, read_ahead=True)),
    "worker processes": (
        lambda: fn.external_source(by_number, dtype=types.INT64, ndim=0),
        lambda: fn.external_source(by_number, dtype=types.INT64, ndim=0, parallel=True, prefetch_queue_depth=2),
    ),
    "shards": (images, lambda: images(shard_id=1, num_shards=2)),
    "other data": (images, lambda: fn.readers.arrays(IMAGES + 1, layout="HWC")),
    "names": (images, lambda: images(name="train")),
    "devices": (lambda: fn.flip(images()), lambda: fn.flip(images().gpu().cpu(), device="gpu", preserve=True)),
    "a type": (lambda: fn.cast(images(), dtype=types.FLOAT), lambda: fn.cast(images(), dtype=np.float32)),
    "its number": (lambda: fn.cast(images(), dtype="float32"), lambda: fn.cast(images(), dtype=9)),
    "0 and 0.0": (fn.random.normal, lambda: fn.random.normal(mean=0, stddev=1)),
    "list and tuple": (lambda: fn.random.uniform(range=[0, 1]), lambda: fn.random.uniform(range=(0, 1))),
    "by position": (lambda: fn.random.normal(images()), lambda: fn.random.normal(shape_like=images())),
    "a constant": (
        lambda: fn.resize(images(), size=[4, 3]),
        lambda: fn.resize(images(), size=types.Constant([4, 3])),
    ),
    "a list of inputs": (
        lambda: tuple(fn.flip([x := images(), x + 1])),
        lambda: (fn.flip(x := images()), fn.flip(x + 1)),
    ),
    "where a function is made": (
        lambda: fn.jax_function(halve)(images()),
        lambda: fn.jax_function(moved(), num_outputs=1)(images()),
    ),
    "the order of lines": (lambda: reordered(first=True), lambda: reordered(first=False)),
    "what is not used": (images, lambda: (images(), fn.flip(images()), fn.random.uniform())[0]),
}


@pytest.mark.parametrize(("one", "other"), SAME.values(), ids=SAME)
def test_what_means_the_same_has_the_same_fingerprint(one, other):
    assert traced(one).calls == traced(other).calls


OTHERS = {
    "an argument": (lambda: fn.flip(images()), lambda: fn.flip(images(), horizontal=0)),
    "shuffling": (images, lambda: images(random_shuffle=True)),
    "a reader's seed": (images, lambda: images(seed=3)),
    "a layout": (images, lambda: fn.readers.arrays(IMAGES)),
    "a number's type": (lambda: images() * 2, lambda: images() * 2.0),
    "the order of operands": (lambda: images() - 2, lambda: 2 - images()),
    "an index": (lambda: images()[0], lambda: images()[1]),
    "an axis": (lambda: images()[:, 0:1], lambda: images()[0:1, :]),
    "the content of an array": (lambda: images() + IMAGES[0], lambda: images() + (IMAGES[0] + 1)),
    "shards": (lambda: images(), lambda: images(shard_mode="contiguous")),
    "their number": (
        lambda: images(shard_mode="contiguous", num_shards=1),
        lambda: images(shard_mode="contiguous", num_shards=2),
    ),
    "a seed": (lambda: fn.random.uniform(seed=1), lambda: fn.random.uniform(seed=2)),
    "a stream": (fn.random.uniform, lambda: (fn.random.uniform(), fn.random.uniform())[1]),
    "the order of outputs": (lambda: (images(), images() + 1), lambda: (images() + 1, images())),
    "a function": (lambda: fn.jax_function(halve)(images()), lambda: fn.jax_function(abs)(images())),
    "a function's state": (
        lambda: fn.jax_function(carrying, state=np.zeros(2))(images()),
        lambda: fn.jax_function(carrying, state=np.ones(2))(images()),
    ),
    "a function's arguments": (
        lambda: fn.python_function(images(), function=functools.partial(scaled, by=1)),
        lambda: fn.python_function(images(), function=functools.partial(scaled, by=2)),
    ),
}


@pytest.mark.parametrize(("one", "other"), OTHERS.values(), ids=OTHERS)
def test_what_means_something_else_has_another_fingerprint(one, other):
    assert traced(one).fingerprint != traced(other).fingerprint


def carrying(state, images):
    return state, images


def scaled(image, by):
    return image * by


def brighten(field, name):
    """An operator `test.brighten` whose class and field have these names."""

    def infer(self, images):
        return images

    def batch(self, context, images):
        return images + np.uint8(getattr(self, field))

    functions = {"infer": infer, "batch": batch}
    made = make_dataclass(name, [(field, int)], bases=(Operator, BatchKernel), namespace=functions, frozen=True)

    @operator("test.brighten")
    def function(images: DataNode, *, by: int = 1) -> DataNode:
        return apply(made(by), images)

    return function


@pytest.fixture
def unregister():
    yield
    for name in [name for name in registry.registered() if name.startswith("test.")]:
        del registry._operators[name]


def test_classes_and_fields_may_be_renamed(unregister):
    before = traced(lambda: brighten("by", "Brighten")(images(), by=3))
    del registry._operators["test.brighten"]
    after = traced(lambda: brighten("amount", "Brightening")(images(), by=3))
    assert before.calls == after.calls
    assert before.calls[1] == "test.brighten(readers.arrays, by=3)"


class Options(TypedDict, total=False):
    """Arguments of an operator of somebody else's."""

    strength: Annotated[float, Default(0.5)]
    buffer: PerformanceHint[int]


def test_somebody_elses_arguments_say_whether_they_count(unregister):
    @operator("test.read")
    def read(path: DataLocation[str], *, fast: PerformanceHint[bool] = True, **options: Unpack[Options]) -> DataNode:
        return images() + 1

    plain = traced(lambda: read("here"))
    assert plain.calls[0] == "test.read(), reader 0"
    assert traced(lambda: read("there", fast=False, strength=0.5, buffer=3)).calls == plain.calls
    assert traced(lambda: read("here", strength=0.6)).calls[0] == "test.read(strength=0.6), reader 0"


def test_an_operator_without_a_public_function_counts_by_its_fields():
    class Doubled(Operator, BatchKernel):
        def infer(self, images: Spec) -> Spec:
            return images

        def batch(self, context, images):
            return images * 2

    made = make_dataclass("Made", [("by", int)], bases=(Doubled,), frozen=True)
    one, other = (traced(lambda by=by: fn.flip(apply(made(by), images()))) for by in (1, 2))
    assert one.calls[1:3] == ("operator(Made{by: 1}, readers.arrays)", "flip(operator)")
    assert one.fingerprint != other.fingerprint


class Unnamed:
    """Its repr would show an address."""


class Unreadable:
    """What has no form as an array."""

    def __array__(self, dtype=None, copy=None):
        raise TypeError


TEXTS = [
    ([1, (True, None)], "(1, (True, None))"),
    ({"b": 1, "a": "x"}, "{a: 'x', b: 1}"),
    ({3, 1}, "{1, 3}"),
    (types.RGB, "RGB"),
    (types.FLOAT16, "float16"),
    (types.NO_TYPE, "NO_TYPE"),
    (np.dtype("int8"), "int8"),
    (np.uint8, "uint8"),
    (np.float32(0.1), "float32(0.10000000149011612)"),
    (np.zeros((2, 0)), "float64[2, 0]()"),
    (np.arange(3, dtype=np.int16), "int16[3](0, 1, 2)"),
    (np.zeros(100), "float64[100]#67042dfda5683aea"),
    (np.array([None, "x"], object), "object[2](None, 'x')"),
    (types.Constant([1, 2], layout="C"), "Constant(int32[2](1, 2), C)"),
    (types.newaxis("F"), "newaxis(F)"),
    (pathlib.PurePosixPath("a/b"), "'a/b'"),
    (slice(None, 3), ":3:"),
    (max, "max"),
    (int, "int"),
    (functools.partial(scaled, by=2), "scaled({by: 2})"),
    (Unnamed(), "Unnamed"),
    (Unreadable(), "Unreadable"),
    ("x" * 200, "'" + "x" * 39 + "...#"),
]


@pytest.mark.parametrize(("thing", "text"), TEXTS, ids=[text for _, text in TEXTS])
def test_arguments_as_text(thing, text):
    (found,) = canonical_text(thing)
    assert found == text or (text.endswith("#") and found.startswith(text) and len(found) < 100)
