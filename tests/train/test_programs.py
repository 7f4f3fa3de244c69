"""Tests that the training examples give the same results on other devices."""

import importlib
from pathlib import Path

import jax
import numpy as np
import pytest

from penstock import train

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def as_programs_are_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def run(name, *arguments):
    return importlib.import_module(name).main([str(argument) for argument in arguments])


def close(one, other, rtol):
    """Return True if trees match, with a tolerance relative to the largest value of each array."""
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    for a, b in ((np.asarray(a), np.asarray(b)) for a, b in pairs if isinstance(a, jax.Array)):
        np.testing.assert_allclose(a, b.reshape(a.shape), rtol=0, atol=rtol * np.abs(b).max())


@pytest.mark.slow
def test_flax_matches_in_all_modes(compilations):
    loops = {
        mode: run("flax_cnn", "--steps", 20, "--batch-size", 64, "--mode", mode)
        for mode in ("single", "sharding", "pmap")
    }
    right = loops["single"].history
    for loop in loops.values():
        np.testing.assert_allclose(loop.history.steps["loss"], right.steps["loss"], rtol=1e-4)
    params = {mode: loop.state.params for mode, loop in loops.items()}
    close(params["sharding"], params["single"], 1e-3)
    close(train.unreplicate_from_pmap(params["pmap"]), params["single"], 1e-3)
    assert compilations("step") == 2  # one for eight devices, one for one
    assert compilations("_fun") == 1  # what `jax.pmap` calls its program
    assert (Path("out") / "flax_cnn" / "learning_curves.png").stat().st_size


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["sharding", "pmap"])
def test_nnx_trains(mode, compilations):
    loop = run("flax_cnn", "--flax", "nnx", "--steps", 20, "--batch-size", 64, "--mode", mode)
    losses = loop.history.steps["loss"]
    assert losses[-1] < losses[0] / 2
    assert compilations("step") + compilations("_fun") == 1


@pytest.mark.slow
@pytest.mark.parametrize("samples", [64, 61])
def test_equinox_matches_single_device(samples, compilations):
    (loop, error), (alone, right) = (run("equinox_mlp", "--samples", samples, "--devices", n) for n in (8, 1))
    assert loop.step == 10
    close(loop.state, alone.state, 1e-6)
    close(loop.state[0], alone.state[0], 1e-6)
    assert error == pytest.approx(right, rel=1e-6)
    xs = np.random.default_rng(0).normal(size=(samples, 4)).astype(np.float32)
    plain = np.square(np.sin(xs) - np.asarray(jax.vmap(alone.state[0])(xs)), dtype=np.float64).mean()
    assert error == pytest.approx(plain, rel=1e-6)
    assert compilations("step") == 2


@pytest.mark.slow
def test_residual_network_trains(compilations):
    import resnet
    from flax import nnx

    whole = nnx.eval_shape(lambda: resnet.ResNet(1000, nnx.Rngs(0)))
    assert sum(leaf.size for leaf in jax.tree.leaves(nnx.state(whole, nnx.Param))) == 25_557_032  # ResNet-50's
    loop = run("imagenet_resnet", "--small", "--batch-size", 48, "--epochs", 1, "--accumulate", 3)
    assert (loop.step, loop.epoch) == (2, 1)
    assert 0 <= loop.history.epochs[0]["val_top1"] <= loop.history.epochs[0]["val_top5"] == 1
    assert compilations("step") == 1
    model = loop.state[0]
    folder = Path("out") / "imagenet_resnet" / "checkpoints"
    best, _, _ = train.restore_weights(folder, (model, None, None), step="best")
    for one, other in zip(jax.tree.leaves(nnx.state(best)), jax.tree.leaves(nnx.state(model)), strict=True):
        assert np.array_equal(one, other)  # the only checkpoint
