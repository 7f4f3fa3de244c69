"""Tests of `jax_function`: the behavior of DALI's operator, and Penstock's extensions."""

import functools
import gc
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from pipeline_runs import run

from penstock import Pipeline, data_iterator, fn, pipeline_def, types
from penstock.errors import ArgumentTypeError, ContextError, DefinitionError, SampleError, UsageError
from penstock.plugin.jax.fn import jax_function
from penstock.testing.source_checks import ListSource

IMAGES = np.random.default_rng(0).integers(0, 256, (16, 6, 8, 3), np.uint8)
NUMBERS = np.arange(16, dtype=np.float32)
DEVICES = np.array(jax.devices())


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["plain", "jit"])
@pytest.mark.parametrize("dtype", ["uint8", "int32", "float32", "float16", "bool"])
def test_identity(wrap, dtype):
    function = jax_function(wrap(lambda x: x))
    (same,) = run(lambda x: function(x), IMAGES.astype(dtype), batch_size=4)
    assert same.dtype == dtype
    assert np.array_equal(same, IMAGES[:4].astype(dtype))


def test_decorator_decorator_with_arguments_and_call():
    @jax_function
    def bare(x):
        return x + 1

    @jax_function(num_outputs=2)
    def called(x):
        return x + 1, x + 2

    named = jax_function(lambda x: [x, x + 3], num_outputs=2)
    results = run(lambda x: (bare(x), *called(x), *named(x)), NUMBERS, batch_size=4)
    assert [result[0] for result in results] == [1, 1, 2, 0, 3]


def test_state_that_jax_would_wrap_is_refused():
    for number in (2**40 + 5, np.int64(-(2**31) - 1), np.uint64(2**32)):
        with pytest.raises(DefinitionError, match=r"does not fit u?int32"):
            run(lambda x: jax_function(lambda s, x: (s, x), state=number)(x), NUMBERS)


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_integers_that_jax_would_wrap_are_refused(dtype):
    numbers = np.array([2**32 + 7, 1], dtype)
    for also_output in (False, True):
        with Pipeline(batch_size=2) as pipeline:
            x = fn.readers.arrays(numbers)
            pipeline.set_outputs(jax_function(lambda x: x + 1)(x), *([x] if also_output else []))
        with pytest.raises(SampleError, match=r"do not fit u?int32, which JAX delivers"):
            pipeline.run()
    with pytest.raises(SampleError, match=r"do not fit u?int32, which JAX delivers"):
        jax_function(lambda x: x)(numbers)
    # A column that only the host uses keeps its 64 bits.
    with Pipeline(batch_size=2) as pipeline:
        x = fn.readers.arrays(numbers)
        pipeline.set_outputs(x, jax_function(lambda x: x + 1)(fn.cast(x % 8, dtype=types.INT32)))
    wide, narrow = pipeline.run()
    assert wide.as_array().tolist() == [2**32 + 7, 1]
    assert narrow.as_cpu().as_array().tolist() == [8, 2]


def test_scalars_arrive_as_rows_and_64_bit_values_as_in_jax():
    seen = []

    @jax_function
    def look(flag, wide):
        seen.append((flag.shape, flag.dtype, wide.dtype))
        return flag + wide.astype(jnp.float32)

    (result,) = run(look, NUMBERS, np.arange(16), batch_size=4)
    assert set(seen) == {((4,), np.dtype("float32"), np.dtype("int32"))}
    assert result.tolist() == [0, 2, 4, 6]


def test_constants_flip_and_center_crop_around_jax_function():
    def scale(x, factor, offset):
        return x.astype(jnp.float32) * factor[:, None, None, None] + offset[:, None, None]

    double = jax_function(scale)

    def build(x):
        cropped = fn.crop_mirror_normalize(fn.flip(x), crop=(4, 4), output_layout="HWC")
        return fn.crop_mirror_normalize(double(cropped, 2.0, np.float32([1, 2, 3])), mirror=1)

    (result,) = run(build, IMAGES, layout="HWC", batch_size=4)
    centre = IMAGES[:4, 1:5, ::-1][:, :, 2:6][:, :, ::-1].astype(np.float32)
    expected = (centre * 2 + np.float32([1, 2, 3])).transpose(0, 3, 1, 2)
    assert np.array_equal(result, expected)


def test_inputs_of_mixed_kinds_and_memory():
    transposed = np.asfortranarray(IMAGES)
    three = jax_function(lambda a, b, c: (c, a, b), num_outputs=3)
    c, a, b = run(lambda x, y: three(x, fn.flip(y), 7), IMAGES, transposed, layout="HWC", batch_size=4)
    assert np.array_equal(a, IMAGES[:4])
    assert np.array_equal(b, IMAGES[:4, :, ::-1])
    assert c.tolist() == [7, 7, 7, 7]


@pytest.mark.parametrize("preserve", [True, False])
def test_preserve_keeps_unused_function(preserve):
    calls = []

    def watch(x):
        jax.debug.callback(lambda v: calls.append(v.tolist()), x, ordered=False)

    watched = jax_function(watch, num_outputs=0, preserve=preserve)

    def build(x):
        assert watched(x) == []
        return x

    run(build, NUMBERS, batch_size=4)
    jax.effects_barrier()
    assert calls == ([[0, 1, 2, 3]] if preserve else [])


def test_without_inputs_and_without_outputs():
    calls = []
    nothing = jax_function(lambda: jax.debug.callback(lambda: calls.append(1)), num_outputs=0)
    ones = jax_function(lambda: jnp.ones((4, 2)), device="cpu")

    def build():
        nothing()
        return ones()

    assert run(build, batch_size=4)[0].tolist() == [[1, 1]] * 4
    jax.effects_barrier()
    assert calls == [1]


def test_layouts_are_explicit_or_inherited():
    @pipeline_def(batch_size=2)
    def definition():
        x = fn.readers.arrays(IMAGES, layout="HWC")
        first, second = jax_function(lambda a: (a, a[:, None]), num_outputs=2, output_layouts=["HWC", "FHWC"])(x)
        same, other = jax_function(lambda a: (a + 1, a.sum()[None].repeat(2)), num_outputs=2)(x)
        both = jax_function(lambda a: (a, a), num_outputs=2, output_layouts="CHW")(x)
        return first, second, same, other, *both

    layouts = [node.spec.layout for node in definition().graph.outputs]
    assert layouts == ["HWC", "FHWC", "HWC", "", "CHW", "CHW"]


def test_bfloat16_and_float0_ranks():
    (half,) = run(jax_function(lambda x: x.astype(jnp.bfloat16) / 3), NUMBERS, batch_size=4)
    assert half.dtype == jnp.bfloat16
    assert np.array_equal(half, NUMBERS[:4].astype(jnp.bfloat16) / np.array(3, jnp.bfloat16))
    (again,) = run(
        lambda x: jax_function(lambda y: y * 2)(jax_function(lambda x: x.astype(jnp.bfloat16))(x)),
        NUMBERS,
        batch_size=4,
    )
    assert again.tolist() == [0, 2, 4, 6]


MISUSES = {
    "two outputs for one": (lambda x: jax_function(lambda a: (a, a))(x), "must return as many outputs"),
    "one output for two": (lambda x: jax_function(lambda a: a, num_outputs=2)(x), "must return as many outputs"),
    "None": (lambda x: jax_function(lambda a: None)(x), "must return as many outputs"),
    "another batch": (lambda x: jax_function(lambda a: a[:-1])(x), "leading axis of rows"),
    "no axis": (lambda x: jax_function(lambda a: a.sum())(x), "leading axis of rows"),
    "keys": (lambda x: jax_function(lambda a: jax.random.split(jax.random.key(0), 4))(x), "is not an array of numbers"),
    "a layout of another rank": (
        lambda x: jax_function(lambda a: a, output_layouts="CHWF")(x),
        "must name each axis once",
    ),
    "three layouts for one": (lambda x: jax_function(lambda a: a, output_layouts=["H", "W", "C"])(x), "one per output"),
    "a device": (lambda x: jax_function(lambda a: a, device="tpu")(x), "unknown device"),
    "no function": (lambda x: jax_function(3), "function has the wrong type"),
    "no sharding": (lambda x: jax_function(lambda a: a, sharding="batch")(x), "NamedSharding"),
    "a keyword": (lambda x: jax_function(lambda a: a)(a=x), "no argument 'a'"),
    "an error inside": (lambda x: jax_function(lambda a: {}["lost"])(x), "KeyError: 'lost'"),
    "NumPy": (lambda x: jax_function(lambda a: np.asarray(a) + 1)(x), "fn.python_function"),
    "a branch on a value": (lambda x: jax_function(lambda a: a if a.sum() > 0 else -a)(x), "fn.python_function"),
    "an empty state": (lambda x: jax_function(lambda s, a: (s, a), state={})(x), "holds no arrays"),
    "no new state": (lambda x: jax_function(lambda s, a: a, state=1)(x), "must return (new state, outputs)"),
    "another state": (lambda x: jax_function(lambda s, a: (s + 0.5, a), state=1)(x), "a state of another structure"),
}


@pytest.mark.parametrize("name", MISUSES)
def test_misuse_raises_while_tracing(name):
    build, message = MISUSES[name]
    pipeline = Pipeline(batch_size=4)
    with pipeline, pytest.raises((DefinitionError, ArgumentTypeError), match="jax_function") as caught:
        build(fn.readers.arrays(IMAGES, layout="HWC"))
    assert message in str(caught.value)
    assert caught.value.where.file == __file__


def test_outside_a_definition():
    with pytest.raises(ContextError, match="outside a pipeline definition"):
        jax_function(lambda x: x)(fn.constant(NUMBERS))


def test_device_outputs_cannot_reach_host_operators():
    with Pipeline(batch_size=2):
        made = jax_function(lambda x: x)(fn.readers.arrays(IMAGES))
        with pytest.raises(DefinitionError, match="cannot use a value of the device program") as caught:
            fn.python_function(made + 1, function=np.sort)
    assert "fn.python_function(made + 1" in str(caught.value.where)


def test_unsupported_use_of_output_raises_with_line():
    with Pipeline(batch_size=2) as pipeline:
        made = jax_function(lambda x: x)(fn.readers.arrays(NUMBERS))
        pipeline.set_outputs(fn.cast(made, dtype=np.int64))
    with pytest.raises(DefinitionError, match="cannot run on the device") as caught:
        pipeline.build()
    assert "fn.cast(made, dtype=np.int64)" in str(caught.value.where)


def test_ragged_samples_raise_with_line(digits):
    images = [np.zeros((3 + n, 4, 1), np.uint8) for n in range(4)]
    make = data_iterator(lambda: jax_function(lambda x: x / 2)(ragged(images)), ["x"])
    with pytest.raises(Exception, match="the samples differ in shape"):
        list(zip(range(2), make(batch_size=4), strict=False))


def ragged(images):
    from penstock.operators.readers.reader_arguments import apply_reader

    return apply_reader(ListSource([images], ["HWC"]), {})[0]


def test_samples_of_unknown_but_equal_shape_are_accepted():
    @data_iterator(output_map=["x", "y"])
    def definition():
        x = ragged(list(IMAGES[:4]))
        half = jax_function(lambda a: a[:, ::2])(x)
        assert half.spec.shape == (None, None, None)
        return half + 1, jax_function(lambda a: a[:, :2, :2].astype(jnp.float32))(x)

    batch = next(definition(batch_size=4))
    assert np.array_equal(batch["x"], IMAGES[:4, ::2].astype(np.int32) + 1)
    assert batch["y"].shape == (4, 2, 2, 3)


# what DALI cannot do

SHARDING = NamedSharding(Mesh(DEVICES, ("batch",)), P("batch"))


def values(build, sharding=SHARDING, batch_size=16, **options):
    make = data_iterator(build, ["x"], sharding=sharding, **options)
    return np.asarray(next(make(batch_size=batch_size, seed=3))["x"])


def test_without_sharding_function_sees_rows_of_one_device():
    shapes = set()

    def centre(x):
        shapes.add(x.shape)
        return x - x.mean()

    result = values(lambda: jax_function(centre)(fn.readers.arrays(NUMBERS)))
    assert shapes == {(2,)}
    assert result.tolist() == [-0.5, 0.5] * 8
    stacked = data_iterator(lambda: jax_function(centre)(fn.readers.arrays(NUMBERS)), ["x"], devices=list(DEVICES[:4]))
    assert next(stacked(batch_size=16))["x"].tolist() == [[-1.5, -0.5, 0.5, 1.5]] * 4


MESHES = {
    "auto": NamedSharding(Mesh(DEVICES, ("batch",)), P("batch")),
    "explicit": NamedSharding(jax.make_mesh((8,), ("batch",), axis_types=(AxisType.Explicit,)), P("batch")),
    "two axes": NamedSharding(Mesh(DEVICES.reshape(4, 2), ("a", "batch")), P(("a", "batch"))),
    "replicated": NamedSharding(Mesh(DEVICES.reshape(4, 2), ("batch", "model")), P("batch")),
    "reversed": NamedSharding(Mesh(DEVICES[::-1], ("batch",)), P("batch")),
}


def collectives(sharding):
    """Return a function with psum, pshuffle and all_gather over the axis "batch", under jit, shard_map and vmap."""
    size = sharding.mesh.shape["batch"]
    swap = [number ^ 1 for number in range(size)]

    @jax.jit
    @functools.partial(jax.shard_map, mesh=sharding.mesh, in_specs=sharding.spec, out_specs=sharding.spec)
    @jax.vmap
    def mix(x):
        swapped = jax.lax.pshuffle(x, "batch", swap)
        mean = jax.lax.psum(x, "batch") / size
        return jnp.stack([swapped, mean, jax.lax.all_gather(x, "batch")[size - 1]])

    return mix


@pytest.mark.parametrize("name", MESHES)
def test_with_sharding_function_sees_global_array(name):
    sharding = MESHES[name]
    mix = jax_function(collectives(sharding), sharding=sharding)
    result = values(lambda: mix(fn.readers.arrays(NUMBERS)), sharding)
    parts = NUMBERS.reshape(-1, 16 // sharding.mesh.size if name != "replicated" else 4)
    groups = parts.reshape(-1, sharding.mesh.shape["batch"], parts.shape[-1])
    swapped = groups[:, [n ^ 1 for n in range(groups.shape[1])]]
    expected = np.stack([swapped, groups.mean(1, keepdims=True) + 0 * groups, groups[:, -1:] + 0 * groups], -1)
    assert np.array_equal(result, expected.reshape(16, 3))


def test_a_sharding_over_other_devices_is_refused():
    other = NamedSharding(Mesh(DEVICES[::-1], ("batch",)), P("batch"))
    with pytest.raises(UsageError, match="in the same order"):
        values(lambda: jax_function(lambda x: x, sharding=other)(fn.readers.arrays(NUMBERS)))
    with pytest.raises(UsageError, match="the devices of the batches"):
        next(
            data_iterator(lambda: jax_function(lambda x: x, sharding=other)(fn.readers.arrays(NUMBERS)), ["x"])(
                batch_size=8
            )
        )


@pytest.mark.parametrize("count", [1, 2, 8])
def test_keys_give_the_same_numbers_on_any_devices(count):
    @jax_function
    @jax.vmap
    def noise(x, key):
        return x + jax.random.normal(jax.random.wrap_key_data(key, impl="threefry2x32"), ())

    def build():
        return noise(fn.readers.arrays(NUMBERS), fn.random.keys())

    sharding = NamedSharding(Mesh(DEVICES[:count], ("batch",)), P("batch"))
    alone = np.asarray(next(data_iterator(build, ["x"])(batch_size=16, seed=3))["x"])
    assert np.array_equal(values(build, sharding), alone)
    assert len(set((alone - NUMBERS).tolist())) == 16


def test_definition_per_shard_may_recreate_function():
    @data_iterator(output_map=["x"], sharding=SHARDING)
    def definition(shard_id, num_shards):
        scale = np.float32([2.0])
        function = jax_function(lambda x: x * scale)
        return function(fn.readers.arrays(NUMBERS, shard_id=shard_id, num_shards=num_shards))

    assert np.array_equal(next(definition(batch_size=16))["x"], NUMBERS * 2)

    @data_iterator(output_map=["x"], sharding=SHARDING)
    def different(shard_id, num_shards):
        return jax_function(lambda x: x * shard_id)(fn.readers.arrays(NUMBERS))

    with pytest.raises(DefinitionError, match="different pipelines for different shards"):
        different(batch_size=16)


def test_no_tracer_leaks():
    seen = []

    def keep(x):
        seen.append(weakref.ref(x))
        return x * 2

    values(lambda: jax_function(keep)(fn.readers.arrays(NUMBERS)))
    gc.collect()
    assert seen
    assert not [reference for reference in seen if reference() is not None]


def test_functions_of_dropped_definitions_are_freed():
    def define():
        def twice(x):
            return x * 2

        with Pipeline(batch_size=4) as pipeline:
            pipeline.set_outputs(jax_function(twice)(fn.readers.arrays(NUMBERS)))
        pipeline.run()
        pipeline.close()
        return weakref.ref(twice)

    functions = [define() for _ in range(3)]
    gc.collect()
    assert [function() for function in functions] == [None] * 3


def test_xla_compiles_function_with_neighbors():
    with Pipeline(batch_size=4, placement="device") as pipeline:
        x = fn.readers.arrays(NUMBERS)
        pipeline.set_outputs(jax_function(lambda x: x * 3)(x * 2.0) - 1.0)
    text = pipeline.explain()
    assert text.count("device  batch") == 5  # two of them are constants
    assert "a JAX function" in text
    assert "computes from a JAX function" in text
    assert pipeline.run()[0].as_array().tolist() == [-1, 5, 11, 17]
