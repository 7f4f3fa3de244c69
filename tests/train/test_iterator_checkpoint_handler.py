"""Tests of Orbax checkpoints that contain iterators."""

import subprocess
import sys

import jax
import numpy as np
import optax
import orbax.checkpoint as ocp
import pytest

from penstock import data_iterator, fn, train
from penstock.errors import StateError, UsageError
from penstock.train import IteratorCheckpointHandler

X = np.arange(64.0, dtype=np.float32)


def rows(devices):
    return train.batch_sharding(train.data_mesh(jax.devices()[:devices]))


def batches(devices=1, values=X):
    return train.batches(values, 8, shuffle=True, seed=3, sharding=rows(devices))


def manager(folder):
    return ocp.CheckpointManager(folder)


@pytest.fixture
def adam():
    with jax.numpy_dtype_promotion("standard"):  # Optax is written for it
        yield optax.adam(0.01)


@pytest.mark.parametrize(("before", "after"), [(1, 8), (8, 2), (8, 8)])
def test_manager_restores_model_optimizer_and_iterator_on_other_devices(before, after, adam, tmp_path):
    def update(state, batch):
        weights, moments = state
        loss, slopes = jax.value_and_grad(lambda weights: ((batch["x"] * weights - 1) ** 2).mean())(weights)
        updates, moments = adam.update(slopes, moments)
        return (optax.apply_updates(weights, updates), moments), loss

    first = np.float32([0.5])
    weights, moments = train.replicate((first, adam.init(first)), train.replicated_sharding(rows(before).mesh))
    data, step = batches(before), train.data_parallel(update, rows(before))
    for batch in data.take(5):
        (weights, moments), _ = step((weights, moments), batch)
    with manager(tmp_path) as saving:
        args = {"model": ocp.args.StandardSave({"w": weights}), "optimizer": ocp.args.StandardSave(moments)}
        saving.save(5, args=ocp.args.Composite(**args, data=train.IteratorSave(data)))
    rest = [np.asarray(batch["x"]) for batch in data.take(9)]

    there = train.replicated_sharding(rows(after).mesh)
    like = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=there), ({"w": weights}, moments)
    )
    other = batches(after)
    with manager(tmp_path) as restoring:
        args = {"model": ocp.args.StandardRestore(like[0]), "optimizer": ocp.args.StandardRestore(like[1])}
        restored = restoring.restore(5, args=ocp.args.Composite(**args, data=train.IteratorRestore(other)))
    assert restored["data"] is other
    for leaf, right in zip(
        jax.tree.leaves((restored["model"]["w"], restored["optimizer"])),
        jax.tree.leaves((weights, moments)),
        strict=True,
    ):
        assert leaf.sharding == there
        assert np.asarray(leaf).tobytes() == np.asarray(right).tobytes()
    np.testing.assert_array_equal([np.asarray(batch["x"]) for batch in other.take(9)], rest)


@pytest.mark.parametrize("kind", [ocp.Checkpointer, ocp.AsyncCheckpointer])
def test_saved_state_is_that_of_the_call(kind, tmp_path):
    data, other = batches(), batches()
    next(data)
    with kind(IteratorCheckpointHandler()) as checkpointer:
        args = train.IteratorSave(data)
        second = np.asarray(next(data)["x"])
        checkpointer.save(tmp_path / "data", args=args)
        getattr(checkpointer, "wait_until_finished", lambda: None)()
        assert checkpointer.restore(tmp_path / "data", args=train.IteratorRestore(other)) is other
    np.testing.assert_array_equal(next(other)["x"], second)


def test_state_of_operators_is_saved(tmp_path):
    def add(state, x):
        return state + 1, x + state

    def definition():
        return fn.jax_function(add, state=np.float32(0))(fn.readers.arrays(X, random_shuffle=True, name="reader"))

    make = data_iterator(definition, ["x"], reader_name="reader", sharding=rows(8))
    data, other = make(batch_size=8), make(batch_size=8)
    for _ in range(3):
        next(data)
    with manager(tmp_path) as both:
        both.save(1, args=ocp.args.Composite(data=train.IteratorSave(data)))
        both.wait_until_finished()
        both.restore(1, args=ocp.args.Composite(data=train.IteratorRestore(other)))
    fourth = np.asarray(next(data)["x"])
    np.testing.assert_array_equal(next(other)["x"], fourth)


def test_restore_without_an_iterator_returns_the_state(tmp_path):
    data = batches()
    next(data)
    with manager(tmp_path) as saving:
        saving.save(1, args=ocp.args.Composite(data=train.IteratorSave(data)))
    with manager(tmp_path) as restoring:
        assert restoring.restore(1)["data"] == data.get_state()
        restored = restoring.restore(1, args=ocp.args.Composite(data=train.IteratorRestore()))
    assert restored["data"] == data.get_state()


def test_state_of_another_data_set_is_refused(tmp_path):
    with manager(tmp_path) as both:
        both.save(1, args=ocp.args.Composite(data=train.IteratorSave(batches()), other=ocp.args.JsonSave({"a": 1})))
        both.wait_until_finished()
        with pytest.raises(StateError, match="belongs to another dataset"):
            both.restore(1, args=ocp.args.Composite(data=train.IteratorRestore(batches(values=X + 1))))
    missing = r"does not contain the state of an iterator: .*other\n(.|\n)*IteratorSave"
    with manager(tmp_path) as both, pytest.raises(StateError, match=missing):
        both.restore(1, args=ocp.args.Composite(other=train.IteratorRestore(batches())))
    (tmp_path / "1" / "data" / "iterator.json").write_text("{")
    with manager(tmp_path) as both, pytest.raises(StateError, match="does not contain the state of an iterator"):
        both.restore(1, args=ocp.args.Composite(data=train.IteratorRestore(batches())))


def test_other_objects_are_refused():
    for make in (train.IteratorSave, train.IteratorRestore):
        with pytest.raises(UsageError, match=r"an iterator with a state\n  given:    list"):
            make([1, 2])
    with pytest.raises(UsageError, match="primary_host"):
        IteratorCheckpointHandler(primary_host="0")


def test_only_the_primary_host_writes(tmp_path):
    for host, written in ((0, True), (1, False), (None, True)):
        folder = tmp_path / str(host)
        folder.mkdir()
        IteratorCheckpointHandler(primary_host=host).save(folder, train.IteratorSave(batches()))
        assert (folder / "iterator.json").exists() == written


def run_python(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize("name", ["IteratorSave", "IteratorRestore"])
def test_arguments_without_orbax_name_the_extra(name):
    code = "import sys\nfrom penstock import train\nsys.modules['orbax.checkpoint'] = None\n"
    use = f"try:\n    train.{name}\nexcept ImportError as error:\n    print(error)"
    assert 'pip install "penstock[train]"' in run_python(code + use)


def test_names_are_lazy():
    assert run_python("import sys\nfrom penstock.train import *\nprint('orbax' in sys.modules)") == "False"
    assert {"IteratorSave", "IteratorRestore"} <= set(dir(train))
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = train.Nothing
