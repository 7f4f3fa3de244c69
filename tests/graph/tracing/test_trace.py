"""Misuse in a definition is found while it is traced, and the message says given, expected, fix and the user's line."""

import inspect
import subprocess
import sys
from collections.abc import Iterable

import numpy as np
import pytest

from penstock import DataIterator, Pipeline, fn, pipeline_def, types
from penstock.errors import (
    ArgumentTypeError,
    ContextError,
    DefinitionError,
    PenstockError,
    SourceNotFoundError,
    UnknownNameError,
)
from penstock.graph import Operator, operator
from penstock.graph.identity.fingerprint import fingerprint
from penstock.graph.ir.node import infer_specs
from penstock.operators.elementwise import arithmetic

IMAGES = np.zeros((2, 6, 5, 3), np.uint8)
HERE = __file__


def traced(build):
    with Pipeline(batch_size=2) as pipeline:
        pipeline.set_outputs(build())
    return pipeline


def images():
    return fn.readers.arrays(IMAGES, layout="HWC")


@pytest.mark.parametrize(
    ("build", "error", "parts"),
    [
        (lambda: fn.flip(images(), horizontl=1), ArgumentTypeError, ["no argument 'horizontl'", "'horizontal'"]),
        (lambda: fn.flip(), ArgumentTypeError, ["missing", "data"]),
        (lambda: fn.flipp(images()), UnknownNameError, ["'flipp'", "'flip'"]),
        (lambda: fn.readers.fiel(files=[]), UnknownNameError, ["'readers.fiel'", "'readers.file'"]),
        (lambda: fn.cast(images(), dtype="flaot32"), ArgumentTypeError, ["'flaot32'", "types.FLOAT"]),
        (lambda: fn.cast(images(), dtype=None), ArgumentTypeError, ["None"]),
        (lambda: fn.cast("text", dtype=types.FLOAT), ArgumentTypeError, ["'text'", "a node"]),
        (lambda: fn.cast(images(), dtype=types.FLOAT, device="gppu"), ArgumentTypeError, ["'gppu'", "'gpu'"]),
        (lambda: fn.reshape(images(), shape=[7]), DefinitionError, ["[7]", "90 elements", "-1"]),
        (lambda: fn.reshape(images(), shape=[-1, 7]), DefinitionError, ["no extent fits"]),
        (lambda: fn.reshape(images(), shape=[-1, -1]), DefinitionError, ["at most one"]),
        (lambda: fn.reshape(images(), shape=[90], rel_shape=[1]), DefinitionError, ["more than once"]),
        (lambda: fn.reshape(images(), layout="HWW"), DefinitionError, ["'HWW'", "each axis once"]),
        (lambda: fn.reshape(images(), src_dims=[0, 5]), DefinitionError, ["src_dims"]),
        (lambda: fn.flip(fn.readers.arrays(np.zeros((2, 4)))), DefinitionError, ["images", "HWC", "fn.reshape"]),
        (lambda: fn.pad(images(), axes=0, axis_names="H"), DefinitionError, ["either axes or axis_names"]),
        (lambda: fn.crop_mirror_normalize(images(), output_layout="CHX"), DefinitionError, ["'CHX'", "permutation"]),
        (
            lambda: fn.crop_mirror_normalize(images(), dtype=types.INT32),
            DefinitionError,
            ["int32", "float32", "bfloat16"],
        ),
        (lambda: fn.crop_mirror_normalize(images(), crop=(7, 2)), DefinitionError, ["7 of 6", "resize"]),
        (lambda: fn.crop_mirror_normalize(images(), crop=3), DefinitionError, ["2 numbers"]),
        (lambda: fn.crop_mirror_normalize(images(), crop=(3, 3), crop_h=2), DefinitionError, ["twice", "crop_h"]),
        (lambda: fn.crop_mirror_normalize(images(), crop_h=2), DefinitionError, ["together"]),
        (lambda: fn.crop_mirror_normalize(images(), mean=[1, 2]), DefinitionError, ["2 numbers", "1 or 3"]),
        (lambda: fn.crop_mirror_normalize(images(), crop_pos_x=2, crop=(2, 2)), DefinitionError, ["from 0 to 1"]),
        (
            lambda: fn.crop_mirror_normalize(images(), out_of_bounds_policy="padd"),
            DefinitionError,
            ["'padd'", "'pad'"],
        ),
        (lambda: fn.one_hot(images(), num_classes=3, dtype=types.FLOAT16), DefinitionError, ["float16", "fn.cast"]),
        (lambda: fn.one_hot(images(), num_classes=3, axis=9), DefinitionError, ["axis=9"]),
        (lambda: fn.one_hot(images(), num_classes=3, dtype=types.UINT8, on_value=300), DefinitionError, ["300"]),
        (lambda: fn.random.uniform(range=[3, 1]), DefinitionError, ["the first less"]),
        (lambda: fn.random.uniform(range=[0, 1], values=[1]), DefinitionError, ["either"]),
        (lambda: fn.random.coin_flip(probability=2), DefinitionError, ["from 0 to 1"]),
        (lambda: fn.random.coin_flip(shape=[-3]), DefinitionError, ["positive"]),
        (lambda: fn.decoders.image(images()), DefinitionError, ["uint8[6, 5, 3]", "reader"]),
        (lambda: fn.readers.arrays(IMAGES, layout="HW"), DefinitionError, ["'HW'", "3 different letters"]),
        (lambda: fn.readers.arrays(["text"]), ArgumentTypeError, ["numbers"]),
        (lambda: fn.readers.arrays(IMAGES, shard_id=2, num_shards=2), DefinitionError, ["shard 2 of 2"]),
        (lambda: fn.readers.arrays(IMAGES, num_shards=9), DefinitionError, ["9 shards for 2 samples"]),
        (lambda: fn.readers.arrays(IMAGES, shard_mode="globl"), DefinitionError, ["'globl'"]),
        (
            lambda: fn.readers.arrays(IMAGES, random_shuffle=True, shuffle_after_epoch=True),
            DefinitionError,
            ["excludes"],
        ),
        (
            lambda: fn.readers.file(files=[HERE], labels=[0.9]),
            ArgumentTypeError,
            ["0.9 of type float, at [0]", "a whole number"],
        ),
        (
            lambda: fn.readers.file(files=[HERE] * 2, labels=[0, "cat"]),
            ArgumentTypeError,
            ["'cat' of type str, at [1]"],
        ),
        (lambda: fn.readers.file(files=[HERE], labels=np.float32([0.5])), ArgumentTypeError, ["0.5", "at [0]"]),
        (
            lambda: fn.readers.file(files=[HERE], labels=[2**33]),
            DefinitionError,
            [f"{2**33} of type int, at [0]", str(2**31 - 1)],
        ),
        (lambda: fn.readers.file(), DefinitionError, ["file_root"]),
        (lambda: fn.readers.file(file_root="/nowhere/at/all"), SourceNotFoundError, ["/nowhere/at/all"]),
        (lambda: fn.readers.mnist(path="/nowhere", split="tset"), DefinitionError, ["'tset'", "'test'"]),
        (lambda: fn.readers.caffe2(path="/nowhere"), SourceNotFoundError, ["/nowhere"]),
        (
            lambda: fn.python_function(images(), function=lambda x: x, output_layouts=["HWC", "C"]),
            DefinitionError,
            ["2 entries", "up to 1"],
        ),
        (lambda: images()[9], DefinitionError, ["9 along an axis of 6"]),
        (lambda: images()[0, 0, 0, 0], DefinitionError, ["4 for a value"]),
        (lambda: images()[..., 0, ...], DefinitionError, ["..."]),
        (lambda: images()["x"], ArgumentTypeError, ["'x'"]),
        (lambda: images() + fn.constant(np.zeros((4, 4))), DefinitionError, ["(6, 5, 3) and (4, 4)"]),
        (lambda: (images() > 3) + (images() > 4), DefinitionError, ["booleans"]),
        (lambda: images() & 1.5, DefinitionError, ["integers"]),
        (lambda: 1 if images() else 2, ArgumentTypeError, ["truth"]),
        (lambda: max(images()[0, 0, 0], 1), ArgumentTypeError, ["truth", "penstock.math.max"]),
        (lambda: np.clip(images(), 0, 9), ArgumentTypeError, ["np.clip", "penstock.math.clamp"]),
        (lambda: np.where(images() > 3, images(), 0), ArgumentTypeError, ["np.where", "fn.jax_function"]),
        (lambda: len(images()), ArgumentTypeError, ["length"]),
        (lambda: images()[0, 0, 0] in {1, 2}, ArgumentTypeError, ["hash", "(node == 1) | (node == 2)"]),
        (lambda: {0: 5}.get(images(), -1), ArgumentTypeError, ["hash", "fn.lookup_table"]),
        (lambda: fn.resize(images(), size=[fn.random.uniform(), 5]), ArgumentTypeError, ["at [0]", "fn.stack"]),
        (lambda: range(images()), ArgumentTypeError, ["integer value"]),
        (lambda: {"a": images()}, ArgumentTypeError, ["dict"]),
        (lambda: None, ArgumentTypeError, ["returns nothing", "return images"]),
    ],
)
def test_misuse_is_refused_with_the_users_line(build, error, parts):
    with pytest.raises(error) as caught:
        traced(build)
    message = str(caught.value)
    for part in parts:
        assert part in message, message
    assert f"{HERE}:" in message, message


def test_an_error_has_one_fix():
    with pytest.raises(ArgumentTypeError, match=r"fn\.readers\.mix") as caught:
        traced(lambda: fn.readers.mix([images(), images()]))
    assert not hasattr(caught.value, "__notes__")


def test_a_node_is_no_iterable():
    node = images()
    assert not isinstance(node, Iterable)
    with pytest.raises(TypeError, match="not iterable"):
        list(node)


def test_one_number_stands_for_a_sequence_of_one():
    one, many = (fn.slice(images(), 1, 2, axes=axes, normalized_anchor=False).spec for axes in (0, [0]))
    assert one == many
    with pytest.raises(ArgumentTypeError, match="a sequence"):
        fn.slice(images(), 1, 2, axes="H")


def test_the_line_is_that_of_the_definition_not_of_its_caller():
    def wrong():
        data = images()
        return fn.crop(data, crop=(9, 9))

    with pytest.raises(DefinitionError) as caught:
        traced(wrong)
    lines, first = inspect.getsourcelines(wrong)
    number = first + next(i for i, line in enumerate(lines) if "fn.crop(data" in line)
    assert f"{HERE}:{number} in wrong: return fn.crop(data, crop=(9, 9))" in str(caught.value)


def test_errors_are_of_the_builtin_kinds_too():
    for error, builtin in [
        (ArgumentTypeError, TypeError),
        (DefinitionError, ValueError),
        (UnknownNameError, AttributeError),
        (ContextError, RuntimeError),
        (SourceNotFoundError, FileNotFoundError),
    ]:
        assert issubclass(error, builtin)
        assert issubclass(error, PenstockError)


def test_what_is_made_outside_belongs_to_whatever_uses_it():
    drawn = fn.random.uniform(name="drawn")
    pair = fn.stack(drawn, drawn + fn.random.uniform())
    runs = []
    for _ in range(2):
        made = Pipeline(batch_size=3, seed=7)
        made.set_outputs(pair, drawn, pair - drawn)
        assert made.graph.nodes[0] is not drawn.value.node
        runs.append([batch.as_array().tolist() for batch in made.run()])
        assert [row[0] for row in runs[-1][0]] == runs[-1][1]
    assert runs[0] == runs[1]
    with Pipeline(batch_size=3) as one:
        named = fn.random.uniform(name="drawn")
    with pytest.raises(ArgumentTypeError, match="two nodes are named 'drawn'"):
        one.set_outputs(named, drawn)
    with pytest.raises(ContextError, match="belongs to another pipeline"):
        made.set_outputs(named)


def test_what_is_made_outside_of_what_is_fed_needs_its_kind():
    made = Pipeline(batch_size=1)
    made.set_outputs(fn.external_source(name="x", dtype=types.INT32, ndim=1) * 2)
    made.feed_input("x", np.int32([[3]]))
    assert made.run()[0].as_array().tolist() == [[6]]
    doubled = fn.external_source(name="x") * 2
    with Pipeline(batch_size=1) as made:
        made.set_outputs(doubled)
    made.feed_input("x", np.int32([[3]]))
    with pytest.raises(DefinitionError, match=r"dtype=\.\.\., ndim="):
        made.run()


def test_what_is_fed_outside_is_seen_when_it_is_fed():
    flag, image = fn.external_source(name="flag"), fn.external_source(layout="HWC")

    @pipeline_def(batch_size=2, enable_conditionals=True)
    def definition():
        if flag:  # noqa: SIM108  # branches are meant
            made = fn.flip(image) + 1
        else:
            made = image * 1
        return made, flag

    for _ in range(2):
        pipeline = definition()
        pipeline.feed_input("flag", np.array([True, False]))
        pipeline.feed_input(image, np.arange(8, dtype=np.int16).reshape(2, 2, 2, 1))
        assert pipeline.run()[0].as_array().ravel().tolist() == [2, 1, 4, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("used", [False, True])
def test_branches_that_disagree_on_what_was_fed(used):
    @pipeline_def(batch_size=2, enable_conditionals=True)
    def definition():
        x = fn.external_source(name="x")
        if fn.external_source(name="flag"):
            scaled = x / 2
            total = scaled + 1
        else:
            scaled = x
            total = scaled * 2.0
        return (total, scaled) if used else total

    pipeline = definition()
    pipeline.feed_input("x", np.uint8([[2], [3]]))
    pipeline.feed_input("flag", np.array([True, False]))
    if used:
        with pytest.raises(DefinitionError, match=r"uint8(.|\n)*test_trace"):
            pipeline.run()
    else:
        assert pipeline.run()[0].as_array().tolist() == [[2.0], [6.0]]


def test_functions_need_a_definition():
    with pytest.raises(
        ContextError, match=r"fn\.python_function: the operator was called outside a pipeline definition"
    ):
        fn.python_function(fn.random.uniform(), function=np.sqrt, batch_processing=True)


def test_names_are_distinct():
    with pytest.raises(ArgumentTypeError, match="two nodes are named 'r'"):
        traced(lambda: fn.readers.arrays(IMAGES, name="r") + fn.readers.arrays(IMAGES, name="r"))


def test_a_name_is_registered_once():
    with pytest.raises(ArgumentTypeError, match="already"):

        @operator("flip")
        def flip_again(data):
            return data


def test_a_name_is_registered_once_though_operators_are_loaded_when_they_are_asked_for():
    program = """
from penstock import fn
from penstock.graph.tracing.registry import operator
try:
    operator("flip")(lambda data: data)
except TypeError as error:
    print("already" in str(error))
fn.flip
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "True\n"


def test_layouts_follow():
    with Pipeline(batch_size=2):
        x = images()
        assert x[0].layout == "WC"
        assert x[types.newaxis("F")].layout == "FHWC"
        assert (x + 1).layout == "HWC"
        assert fn.crop_mirror_normalize(x).layout == "CHW"
        assert fn.reshape(x, shape=[-1]).layout == ""
        assert x.gpu().device == "gpu"
        assert fn.flip(x.gpu()).device == "gpu"
        assert x.gpu().cpu().device == "cpu"
        assert (x.dtype, x.ndim, x.name) == (np.uint8, 3, "readers.arrays")


NUMERIC = ["bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float32", "float64"]
# DALI 2.4.0: the type of a + b (a * b for two truth values)
PROMOTIONS = """
bool uint8 int8 uint16 int16 uint32 int32 uint64 int64 float32 float64
uint8 uint8 int16 uint16 int16 uint32 int32 uint64 int64 float32 float64
int8 int16 int8 int32 int16 int64 int32 int64 int64 float32 float64
uint16 uint16 int32 uint16 int32 uint32 int32 uint64 int64 float32 float64
int16 int16 int16 int32 int16 int64 int32 int64 int64 float32 float64
uint32 uint32 int64 uint32 int64 uint32 int64 uint64 int64 float32 float64
int32 int32 int32 int32 int32 int64 int32 int64 int64 float32 float64
uint64 uint64 int64 uint64 int64 uint64 int64 uint64 int64 float32 float64
int64 int64 int64 int64 int64 int64 int64 int64 int64 float32 float64
float32 float32 float32 float32 float32 float32 float32 float32 float32 float32 float64
float64 float64 float64 float64 float64 float64 float64 float64 float64 float64 float64
"""


def test_types_combine_as_in_dali():
    table = [line.split() for line in PROMOTIONS.strip().splitlines()]
    for row, left in enumerate(NUMERIC):
        for column, right in enumerate(NUMERIC):
            assert arithmetic.promote(np.dtype(left), np.dtype(right)) == table[row][column], (left, right)


def test_python_numbers_are_32_bits_wide():
    with Pipeline(batch_size=2):
        x = images()
        assert [(x + 1).dtype, (x * 2.0).dtype, (x / 2).dtype, (x - 300).dtype, (x + True).dtype] == [
            np.int32,
            np.float32,
            np.float32,
            np.int32,
            np.uint8,
        ]


def test_a_third_partys_operator_works_by_one_file(monkeypatch):
    from dataclasses import dataclass, replace

    from penstock.graph.ir.operator import BatchKernel
    from penstock.graph.tracing import registry
    from penstock.graph.tracing.apply import apply

    @dataclass(frozen=True)
    class Negative(Operator, BatchKernel):
        def infer(self, images):
            return replace(images, dtype=np.dtype(np.uint8))

        def batch(self, context, images):
            return 255 - images

    def negative(images):
        return apply(Negative(), images)

    class Entry:
        def load(self):
            return operator("test.negative")(negative)

    monkeypatch.setattr(registry, "_offered_by_packages", lambda: {"test.negative": [Entry()]})
    try:
        result = traced(lambda: registry.lookup("test.negative")(images())).run()[0].as_array()
        assert (result == 255).all()
    finally:
        registry._operators.pop("test.negative", None)


def test_fingerprints_tell_definitions_apart():
    @pipeline_def(batch_size=2)
    def define(mean=0.0, flip=True, seed=-1, shard_id=0, data=IMAGES, device=None):
        x = fn.readers.arrays(data, layout="HWC", num_shards=2, shard_id=shard_id, name="r")
        x = fn.crop_mirror_normalize(x, mean=mean, device=device)
        return x + fn.random.uniform(seed=seed) if flip else x

    base = fingerprint(define().graph)
    assert fingerprint(define().graph) == base
    assert fingerprint(define(shard_id=1, device="gpu", data=IMAGES + 1).graph) == base
    others = [fingerprint(define(**change).graph) for change in ({"mean": 1.0}, {"flip": False}, {"seed": 3})]
    assert len({base, *others}) == 4


def test_specs_are_inferred_again_from_a_node():
    with Pipeline(batch_size=2) as pipeline:
        value = fn.flip(images()).value
        pipeline.set_outputs(images())
    assert infer_specs(value.node.operator, value.node.inputs, value.node.arguments) == value.node.specs


def test_a_long_definition_is_no_deep_recursion():
    with Pipeline(2, 1) as pipeline:
        numbers = fn.readers.arrays(np.arange(4, dtype=np.int32), name="r")
        for _ in range(400):
            numbers = numbers + 1
        pipeline.set_outputs(numbers)
    iterator = DataIterator(pipeline, ["x"], reader_name="r")
    assert next(iterator)["x"].tolist() == [400, 401]
    iterator.set_state(iterator.get_state())
    assert "arithmetic.add" in iterator.explain()


@pytest.mark.parametrize("fed", [False, True])
def test_lists_and_arrays_may_change_after_the_call(fed):
    rows, begin, place = np.arange(12, dtype=np.int32).reshape(2, 6), [0], np.array([0])
    with Pipeline(batch_size=2) as pipeline:
        numbers = fn.external_source(name="numbers") if fed else fn.readers.arrays(rows)
        outputs = []
        for step in range(3):
            begin[0] = place[0] = step
            outputs += [fn.slice(numbers, start=begin, shape=[1], axes=[0]), fn.slice(numbers, place, 1, axes=[0])]
            outputs.append(numbers[:1] + place)
        begin[0] = place[0] = 4
        pipeline.set_outputs(*outputs)
    if fed:
        pipeline.feed_input("numbers", rows)
    assert [output.as_array().tolist() for output in pipeline.run()] == [
        [[row + step] for row in (0, 6)] for step in range(3) for _ in range(3)
    ]


def test_constants_copy_lists_and_arrays():
    array, numbers, nested = np.float32([1, 2]), [3, 4], ([5, 6],)
    constants = [types.Constant(value) for value in (array, numbers, nested)]
    array[:] = numbers[:] = nested[0][:] = [0, 0]
    assert [constant.array().tolist() for constant in constants] == [[1, 2], [3, 4], [[5, 6]]]


def test_a_list_of_batches_may_change_until_it_is_read():
    batches = [np.zeros((2, 3), np.int32)]
    with Pipeline(batch_size=2, exec_async=False, prefetch_queue_depth=0) as pipeline:
        pipeline.set_outputs(fn.external_source(batches, cycle=True))
    assert pipeline.run()[0].as_array().tolist() == [[0] * 3] * 2
    batches[0] = np.ones((2, 3), np.int32)
    assert pipeline.run()[0].as_array().tolist() == [[1] * 3] * 2
