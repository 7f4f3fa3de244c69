"""Tests that read the weights of checkpoints without a training, with Penstock and without it."""

import json
import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
import pytest
from train_callbacks import StopAt

from penstock import train
from penstock.errors import StateError, UsageError
from penstock.train.checkpoint_files import CheckpointFiles

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "train" / "training.md").read_text()
LOAD = re.search(r"<!-- program: load -->\n```{code-cell} python\n(.*?)```", PAGE, re.DOTALL)[1]
DATA = np.arange(32.0, dtype=np.float32)


def devices(count):
    return train.batch_sharding(train.data_mesh(jax.devices()[:count]))


def initial():
    """Return a state: a pair of a model and an optimizer."""
    model = {"body": {"w": np.zeros((4, 2), np.float32)}, "head": np.zeros(3, np.float32), "name": "net"}
    return model, {"mu": {"body": {"w": np.ones((4, 2), np.float32)}}, "count": 0}


def add(state, batch):
    model, optimizer = state
    total = batch["x"].sum()
    model = {"body": {"w": model["body"]["w"] + total}, "head": model["head"] - total, "name": model["name"]}
    return (model, {**optimizer, "count": optimizer["count"] + 1}), {"sum": total}


def run(folder, *callbacks, count=1, state=None, step=add, steps=6, **options):
    sharding = devices(count)
    data = train.batches(DATA, 8, shuffle=True, seed=3, sharding=sharding)
    callbacks = [*callbacks, train.Checkpoint(folder, save_interval_steps=1, max_to_keep=None, **options)]
    state = initial() if state is None else state
    return train.fit(train.data_parallel(step, sharding), state, data, steps=steps, callbacks=callbacks).state


def assert_same(restored, state):
    for mine, right in zip(jax.tree.leaves(restored), jax.tree.leaves(state), strict=True):
        assert mine == right if isinstance(mine, str) else np.asarray(mine).tobytes() == np.asarray(right).tobytes()


@pytest.mark.parametrize(("before", "after"), [(1, 8), (8, 2)])
def test_whole_state_or_a_part_on_other_devices(before, after, tmp_path):
    state = run(tmp_path, count=before)
    placement = train.replicated_sharding(devices(after).mesh)
    target = train.replicate(initial(), placement)
    restored = train.restore_weights(tmp_path, target)
    assert_same(restored, state)
    assert restored[0]["body"]["w"].sharding == placement
    assert isinstance(restored[1]["count"], jax.Array)
    assert_same(train.restore_weights(tmp_path, (target[0], None))[0], state[0])
    assert_same(train.restore_weights(tmp_path, (None, {"mu": target[1]["mu"]}))[1]["mu"], state[1]["mu"])
    # Kinds of nodes do not matter, only names: a list is as good as a tuple.
    assert_same(train.restore_weights(tmp_path, [{"head": np.zeros(3, np.float32)}])[0]["head"], state[0]["head"])


def test_weak_types_are_those_of_the_target(tmp_path):
    def state():
        return {"w": np.ones(2, jnp.bfloat16), "decay": jnp.asarray(0.5), "row": jnp.full(3, 0.25)}

    def step(state, batch):
        return {**state, "w": state["w"] * state["decay"], "row": state["row"] / 2}

    for steps in (3, 6):
        after = run(tmp_path, state=state(), step=step, steps=steps)
    assert (after["w"].dtype, after["w"][0], after["row"].tolist()) == (jnp.bfloat16, 0.5**6, [0.5**8] * 3)
    plain = jax.jit(lambda state: step(state, None))
    for target in (state(), train.replicate(state())):
        restored = train.restore_weights(tmp_path, target)
        assert plain(restored)["w"].dtype == jnp.bfloat16
        assert restored["row"].sharding.device_set == jnp.asarray(target["row"]).sharding.device_set


def test_step_selects_the_checkpoint(tmp_path):
    class Score(train.Callback):
        def on_epoch_end(self, loop):
            loop.history.epochs[-1]["score"] = 1.0 / loop.epoch

    run(tmp_path, Score(), monitor="score", mode="max", steps=13)
    values = {
        step: train.restore_weights(tmp_path, [{"head": np.zeros(3, np.float32)}], step=step)[0]["head"][0]
        for step in (None, 13, "best", 4, 3)
    }
    assert values[None] == values[13]
    assert values["best"] == values[4]
    assert len({float(value) for value in values.values()}) == 3
    with pytest.raises(StateError, match=r"step 99 cannot be read(.|\n)*does not exist\n  expected: one of 1, 2, 3, "):
        train.restore_weights(tmp_path, initial(), step=99)
    for wrong in (-1, 1.5, "last"):
        with pytest.raises(UsageError, match="step"):
            train.restore_weights(tmp_path, initial(), step=wrong)


def test_damaged_checkpoint_is_named(tmp_path, caplog):
    run(tmp_path, steps=3)
    (tmp_path / "3" / "training.json").write_text("{")
    two = train.restore_weights(tmp_path, initial(), step=2)
    assert_same(train.restore_weights(tmp_path, initial()), two)
    (warning,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert re.search(r"step 3 is damaged \(training.json has 1 bytes of \d+\); taking that of step 2", warning)
    assert (tmp_path / "3").is_dir(), "the directory is only read"
    with pytest.raises(StateError, match=r"step 3 cannot be read(.|\n)*training.json has 1 bytes"):
        train.restore_weights(tmp_path, initial(), step=3)
    with pytest.raises(StateError, match=r"best checkpoint of .* is not known\n  given: .*3 checkpoints without"):
        train.restore_weights(tmp_path, initial(), step="best")
    with pytest.raises(StateError, match="does not contain checkpoints"):
        train.restore_weights(tmp_path / "none", initial())


def test_leaf_that_differs_is_named(tmp_path):
    run(tmp_path, steps=1)
    model, _ = initial()
    with pytest.raises(StateError, match=r"0/head: float32\[3\] in the checkpoint\n  expected: float32\[10\] here"):
        train.restore_weights(tmp_path, ({**model, "head": np.zeros(10, np.float32)}, None))
    with pytest.raises(StateError, match=r"0/head: float32\[3\] in the checkpoint\n  expected: int32\[3\] here"):
        train.restore_weights(tmp_path, ({**model, "head": np.zeros(3, np.int32)}, None))
    with pytest.raises(StateError, match=r"0/new: nothing in the checkpoint\n"):
        train.restore_weights(tmp_path, ({**model, "new": np.zeros(3, np.float32)}, None))
    with pytest.raises(StateError, match=r"body/w: nothing in the checkpoint, but 0/body/w\n(.|\n)*\(model, None\)"):
        train.restore_weights(tmp_path, model)


def test_targets_without_arrays_are_refused(tmp_path):
    run(tmp_path, steps=1)
    with pytest.raises(UsageError, match="does not have arrays"):
        train.restore_weights(tmp_path, {"name": "net"})
    with pytest.raises(UsageError, match="shapes in place of arrays"):
        train.restore_weights(tmp_path, jax.eval_shape(lambda: [jnp.zeros(3)]))


def test_parameters_of_flax_train_state(tmp_path):
    from flax.training.train_state import TrainState

    params = {"dense": {"kernel": np.ones((2, 2), np.float32)}}
    with jax.numpy_dtype_promotion("standard"):
        state = TrainState.create(apply_fn=None, params=params, tx=optax.adam(0.1))
        trained = run(tmp_path, state=state, step=lambda state, _: state.apply_gradients(grads=state.params), steps=2)
    restored = train.restore_weights(tmp_path, {"params": params})
    assert_same(restored["params"], trained.params)


def test_nnx_model_without_its_optimizer(tmp_path):
    from flax import nnx

    def make(seed):
        model = nnx.Linear(2, 3, rngs=nnx.Rngs(seed))
        return model, nnx.Optimizer(model, optax.sgd(0.1, momentum=0.9), wrt=nnx.Param)

    def step(state, batch):
        model, optimizer = state
        optimizer.update(model, nnx.grad(lambda model: (model(batch["x"][:, None] * jnp.ones(2)) ** 2).mean())(model))
        return model, optimizer

    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        trained = run(tmp_path, state=make(0), step=step, steps=2)
    fresh = make(1)[0]
    restored = train.restore_weights(tmp_path, (fresh, None))[0]
    assert isinstance(restored, nnx.Linear)
    assert_same(restored, trained[0])


def test_states_of_any_form_are_saved_and_restored(tmp_path):
    for name, state in {
        "array": np.float32(2),
        "key": {"key": jax.random.key(3), "old": jax.random.PRNGKey(4)},
        "names": {"a.b": np.ones(2, np.float32), "a/b": {"c": np.zeros(2, np.float32)}, "": np.ones(1, np.float32)},
    }.items():
        run(tmp_path / name, state=state, step=lambda state, _: state, steps=1)
        restored = train.restore_weights(tmp_path / name, jax.tree.map(lambda leaf: leaf, state))
        assert_same(jax.tree.map(plain, restored), jax.tree.map(plain, state))
    clash = {"a.b": np.ones(2, np.float32), "a": {"b": np.zeros(2, np.float32)}}
    with pytest.raises(UsageError, match=r"two arrays of the state have the same name(.|\n)*keys without dots"):
        run(tmp_path / "clash", state=clash, step=lambda state, _: state, steps=1)


def plain(leaf):
    return jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf


def write_as_version_0_1(folder, source):
    """Write a checkpoint of this version in the layout of Penstock 0.1: arrays under numbers."""
    files = CheckpointFiles(folder)
    files.prepare()
    metadata = json.loads((source / "training.json").read_text())
    state = train.restore_weights(source.parent, initial(), step=int(source.name))
    leaves = {jax.tree_util.keystr(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(state)}
    leaves = {name: leaf for name, leaf in leaves.items() if isinstance(leaf, jax.Array)}
    unfinished = files.begin(source.name)
    with ocp.Checkpointer(ocp.StandardCheckpointHandler()) as checkpointer:
        numbered = {str(number): leaf for number, leaf in enumerate(leaves.values())}
        checkpointer.save(unfinished / "state", args=ocp.args.StandardSave(numbered))
    for name in ("arrays", "metrics", "monitor"):
        del metadata[name]
    metadata["leaves"] = {name: [list(leaf.shape), str(leaf.dtype)] for name, leaf in leaves.items()}
    (folder / "history.jsonl").write_bytes((source.parent / "history.jsonl").read_bytes())
    files.commit(unfinished, int(source.name), metadata)


def test_checkpoints_of_version_0_1_are_restored(tmp_path):
    whole = run(tmp_path / "whole")
    run(tmp_path / "new", StopAt(3))
    write_as_version_0_1(tmp_path / "old", tmp_path / "new" / "3")
    third = train.restore_weights(tmp_path / "old", (initial()[0], None))[0]
    assert_same(third, train.restore_weights(tmp_path / "new", initial(), step=3)[0])
    with pytest.raises(StateError, match=r"\['head'\]: float32\[3\] in the checkpoint"):
        train.restore_weights(tmp_path / "old", ({"head": np.zeros(4, np.float32)}, None))
    assert_same(run(tmp_path / "old"), whole)


def test_plain_script_reads_names_and_arrays(tmp_path):
    state = run(tmp_path / "checkpoints", count=8, steps=2)
    program = (
        f"{LOAD}\nimport sys\nprint('penstock' in sys.modules)\nprint(jax.tree.map(lambda a: a.tolist(), weights))"
    )
    variables = {**os.environ, "JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "1"}
    (tmp_path / "checkpoints" / "2").rename(tmp_path / "checkpoints" / "12")
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=120,
        env=variables,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    imported, printed = done.stdout.splitlines()
    assert imported == "False"
    weights = json.loads(printed.replace("'", '"'))
    assert weights["0"]["body"]["w"] == state[0]["body"]["w"].tolist()
    assert weights["0"]["head"] == state[0]["head"].tolist()
    assert weights["1"]["count"] == 2
