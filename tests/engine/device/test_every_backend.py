"""Device programs lower for the accelerators that this machine does not have: CUDA, ROCm and TPU."""

import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import CASES

from penstock import data_iterator, fn, train
from penstock.pipeline import Pipeline
from penstock.testing import write_photographs
from penstock.testing.operator_checks import _inputs

PLATFORMS = ("cuda", "rocm", "tpu")
ATTRIBUTES = re.compile(r"<\{.*?\}>|dense<.*?> : tensor<.*?>")
WIDE = re.compile(r"tensor<(?:[\d?]+x)*(?:f64|i64|ui64)>")
INTEGER_CONVOLUTION = re.compile(r"stablehlo\.convolution.*tensor<(?:[\d?]+x)*u?i\d+>")
LIBRARY_CALL = re.compile(r"stablehlo\.custom_call @(\w+)")


@pytest.fixture
def modules(monkeypatch):
    """StableHLO of the functions that are compiled with `jax.jit` and called during the test, for all platforms."""
    found, jit = [], jax.jit

    def recording(function=None, **options):
        if function is None:
            return partial(recording, **options)
        compiled = jit(function, **options)

        def call(*arguments):
            if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(arguments)):
                return compiled(*arguments)
            exported = jax.export.export(compiled, platforms=PLATFORMS)(*arguments)
            found.append(exported.mlir_module())
            if exported.nr_devices > 1:
                return compiled(*arguments)
            # Nobody looks at the values, and to compile the program for this machine takes longer than to lower it.
            zeros = (jnp.zeros(leaf.shape, leaf.dtype) for leaf in exported.out_avals)
            return jax.tree.unflatten(exported.out_tree, zeros)

        return call

    monkeypatch.setattr(jax, "jit", recording)
    return found


def check(module):
    """Check that a program has no 64-bit values, no convolution of integers, and no call of a library."""
    lines = [ATTRIBUTES.sub("", line) for line in module.splitlines()]
    assert not [line for line in lines if WIDE.search(line)]
    assert not [line for line in lines if INTEGER_CONVOLUTION.search(line)]
    assert {*LIBRARY_CALL.findall(module)} <= {"Sharding"}


@pytest.mark.parametrize(
    "line",
    [
        "%1 = stablehlo.add %0, %0 : tensor<4x2xf64>",
        "%1 = stablehlo.convolution(%0, %2) dim_numbers = [b, f] : (tensor<1x3xi32>, tensor<3xf32>) -> tensor<1xf32>",
        "%1 = stablehlo.custom_call @lapack_sgetrf(%0) : (tensor<2x2xf32>) -> tensor<2x2xf32>",
    ],
)
def test_the_check_finds(line):
    with pytest.raises(AssertionError):
        check(line)


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(cases[0], id=name)  # further uses differ in numbers more than in operations
        for name, cases in CASES.items()
        if cases
    ],
)
def test_operators_lower(case, modules, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    if not all(isinstance(column, np.ndarray) for column in case.inputs):
        pytest.skip("ragged inputs stay on the host")
    pipeline = Pipeline(4, 2, seed=1, placement="device", exec_async=False)
    with pipeline:
        result = case.build(*(_inputs(case, False) if case.inputs else []))
        pipeline.set_outputs(*(result if isinstance(result, tuple | list) else (result,)))
    pipeline.run()
    on_device = bool(pipeline._start().executable.plan.device)
    pipeline.close()
    assert on_device <= bool(modules)
    if not on_device:
        pytest.skip("it runs on the host")
    for module in modules:
        check(module)


def test_ragged_images_on_a_canvas_lower(modules, tmp_path):
    photos = write_photographs(tmp_path, samples_per_class=2, sizes=(20, 40))

    @data_iterator
    def definition():
        files, _ = fn.readers.file(file_root=photos)
        images = fn.resize(fn.decoders.image(files, device="mixed", max_size=(40, 40)), size=(16, 16))
        return {"images": fn.crop_mirror_normalize(images, std=64.0)}

    with definition(batch_size=4, device_id=0, placement="device") as iterator:
        assert "described resize" in iterator.explain()
        next(iterator)
    assert modules
    for module in modules:
        check(module)


def test_collectives_of_jax_functions_lower(modules):
    sharding = jax.NamedSharding(jax.make_mesh((8,), ("batch",)), jax.P("batch"))

    @fn.jax_function(sharding=sharding)
    @partial(jax.shard_map, mesh=sharding.mesh, in_specs=sharding.spec, out_specs=sharding.spec)
    def mixup(images):
        return 0.7 * images + 0.3 * jax.lax.ppermute(images, "batch", [(n, (n + 1) % 8) for n in range(8)])

    @data_iterator(sharding=sharding)
    def definition():
        return {"images": mixup(fn.readers.arrays(np.ones((16, 4, 4, 3), np.float32)))}

    with definition(batch_size=16) as iterator:
        next(iterator)
    assert any("collective_permute" in module for module in modules)
    for module in modules:
        check(module)


def test_training_steps_lower(modules):
    @train.data_parallel
    def step(weights, batch):
        loss, gradient = jax.value_and_grad(lambda w: jnp.mean((batch["x"] @ w) ** 2))(weights)
        return weights - 0.1 * gradient, {"loss": loss}

    step(np.ones((3, 2), np.float32), {"x": np.ones((8, 3), np.float32)})
    assert modules
    for module in modules:
        check(module)
