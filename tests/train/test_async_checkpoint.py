"""Tests of checkpoints that are written while the training continues."""

import errno
import logging
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import jax
import numpy as np
import pytest

from penstock import train
from penstock.errors import CheckpointError
from penstock.train.checkpoint_files import CheckpointFiles

ONE = train.batch_sharding(train.data_mesh(jax.devices()[:1]))
ZERO = np.zeros(1000, np.float32)


def add(total, batch):
    return total + batch["x"].sum(), {"sum": batch["x"].sum()}


def run(folder, *callbacks, devices=1, steps=6, **options):
    sharding = train.batch_sharding(train.data_mesh(jax.devices()[:devices]))
    data = train.batches(np.arange(64.0, dtype=np.float32), 8, shuffle=True, seed=3, sharding=sharding)
    options = {"save_interval_steps": 2, "enable_async_checkpointing": True, **options}
    callbacks = [*callbacks, train.Checkpoint(folder, **options)]
    return train.fit(train.data_parallel(add, sharding), ZERO, data, steps=steps, callbacks=callbacks)


def names(folder):
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith(".unfinished"))


class Watch(train.Callback):
    """Records the state and the checkpoints after each step, and calls a function."""

    def __init__(self, folder, act=lambda step: None):
        self.folder, self.act, self.states, self.saved = folder, act, [], []

    def on_step_end(self, loop):
        self.states.append(np.array(loop.state))
        self.saved.append(names(self.folder))
        self.act(loop.step)


class Held:
    """A point of the background thread that waits until a step."""

    def __init__(self, step):
        self.step, self.event, self.passed = step, threading.Event(), 0

    def at(self, step):
        if step == self.step:
            self.event.set()

    def wait(self):
        if threading.current_thread() is not threading.main_thread():
            assert self.event.wait(60)
            self.passed += 1


@pytest.mark.parametrize("devices", [1, 8])
def test_donated_state_is_intact_while_it_is_written(devices, tmp_path, monkeypatch):
    held = Held(step=5)

    def mkdir(path, *args, real=os.mkdir, **options):
        # Orbax writes arrays into a directory that it creates in the background.
        if "state" in Path(path).name:
            held.wait()
        return real(path, *args, **options)

    monkeypatch.setattr(os, "mkdir", mkdir)
    watch = Watch(tmp_path, held.at)
    run(tmp_path, watch, devices=devices, steps=5, save_interval_steps=3)
    assert held.passed, "nothing was written in the background"
    assert watch.saved == [["history.jsonl"] if step > 3 else [] for step in range(1, 6)]
    assert names(tmp_path) == ["3", "5", "history.jsonl"]
    for step in (3, 5):
        restored = train.restore_weights(tmp_path, ZERO, step=step)
        assert np.asarray(restored).tobytes() == watch.states[step - 1].tobytes()


def test_older_checkpoint_is_removed_only_when_the_new_one_is_complete(tmp_path, monkeypatch):
    run(tmp_path, steps=2)
    held = Held(step=5)

    def commit(files, folder, step, about, real=CheckpointFiles.commit):
        held.wait()
        real(files, folder, step, about)

    monkeypatch.setattr(CheckpointFiles, "commit", commit)
    watch = Watch(tmp_path, held.at)
    run(tmp_path, watch, max_to_keep=1)
    assert watch.saved[:3] == [["2", "history.jsonl"]] * 3
    assert names(tmp_path) == ["6", "history.jsonl"]


@pytest.mark.slow
@pytest.mark.parametrize("asynchronous", [True, False])
@pytest.mark.parametrize("interrupted", [3, 4, 5])
def test_interrupted_run_equals_uninterrupted_run(asynchronous, interrupted, tmp_path):
    def stop(step):
        if step == interrupted:
            raise ZeroDivisionError

    whole = run(tmp_path / "whole", steps=11)
    folder = tmp_path / "interrupted"
    folder.mkdir()
    with pytest.raises(ZeroDivisionError):
        run(folder, Watch(folder, stop), steps=11, enable_async_checkpointing=asynchronous)
    # The save that was being written when the error ended the training is complete.
    assert names(folder) == ["2", *(["4"] if interrupted == 5 else []), "history.jsonl"]
    again = run(folder, steps=11, enable_async_checkpointing=asynchronous)
    assert np.asarray(again.state).tobytes() == np.asarray(whole.state).tobytes()
    assert (again.history.steps, again.history.epochs) == (whole.history.steps, whole.history.epochs)


def full(*arguments, **options):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(("steps", "raised_after"), [(9, 8), (5, 5)])
def test_error_in_background_is_raised_at_next_save_or_end(steps, raised_after, tmp_path, monkeypatch):
    run(tmp_path, steps=2)
    watch = Watch(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("penstock.train.checkpoint_files._write", lambda path, text: path.name == "trial" or full())
        with pytest.raises(CheckpointError, match=r"No space left on device\n  given: .* step 2") as caught:
            run(tmp_path, watch, steps=steps, save_interval_steps=4)
    assert isinstance(caught.value.__cause__, OSError)
    assert len(watch.states) == raised_after - 2
    assert names(tmp_path) == ["2", "history.jsonl"]
    assert run(tmp_path, steps=9).step == 9


def test_error_of_training_matters_more_than_that_of_the_save(tmp_path, monkeypatch, caplog):
    def stop(step):
        if step == 3:
            raise ZeroDivisionError

    (tmp_path / "run").mkdir()
    monkeypatch.setattr(CheckpointFiles, "commit", full)
    with pytest.raises(ZeroDivisionError):
        run(tmp_path / "run", Watch(tmp_path / "run", stop))
    (warning,) = [record.getMessage() for record in caplog.records if record.name == "penstock"]
    assert "last save of the training is lost: the checkpoint cannot be written" in warning


def test_damaged_background_save_falls_back_to_previous(tmp_path, caplog):
    whole = run(tmp_path / "whole")
    folder = tmp_path / "damaged"
    run(folder, steps=4)
    assert names(folder) == ["2", "4", "history.jsonl"]
    arrays = max((folder / "4" / "state").rglob("*"), key=lambda path: path.stat().st_size * path.is_file())
    arrays.write_bytes(arrays.read_bytes()[:-1])
    again = run(folder)
    (warning,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert "step 4 is damaged" in warning
    assert "taking that of step 2" in warning
    assert np.asarray(again.state).tobytes() == np.asarray(whole.state).tobytes()


def test_own_loop_waits_for_its_last_save(tmp_path):
    step, data = train.data_parallel(add, ONE), train.batches(np.ones(64, np.float32), 8, sharding=ONE)
    checkpoint = train.Checkpoint(tmp_path, enable_async_checkpointing=True)
    loop = train.TrainLoop(ZERO, data)
    for batch in data.take(3):
        loop.state, _ = step(loop.state, batch)
        loop.step += 1
        checkpoint.save(loop, {"loss": 1.0})
    checkpoint.wait_until_finished()
    assert names(tmp_path) == ["2", "3", "history.jsonl"]
    checkpoint.teardown()


KILLED = """
import os, signal, sys, threading
import numpy as np
from pathlib import Path
from penstock import train
from penstock.train import checkpoint_files

where, *folders = sys.argv[1:]
kill_now, saves = threading.Event(), []

def kill():
    # The first save is the previous checkpoint; the second is killed while steps continue.
    saves.append(where)
    if len(saves) == 2:
        assert threading.current_thread() is not threading.main_thread()
        assert kill_now.wait(60)
        os.kill(os.getpid(), signal.SIGKILL)

def after(function):
    def call(*arguments, **options):
        kill()
        return function(*arguments, **options)
    return call

if where == "arrays":
    import orbax.checkpoint as ocp
    ocp.StandardCheckpointHandler.finalize = after(ocp.StandardCheckpointHandler.finalize)
elif where == "rename":
    real = Path.rename
    Path.rename = lambda path, target: (str(target).endswith(("2", "4")) and kill(), real(path, target))[1]
elif where == "checksums.json":
    real = checkpoint_files._write
    checkpoint_files._write = lambda path, text: (path.name == where and kill(), real(path, text))[1]

class Steps(train.Callback):
    def on_step_end(self, loop):
        if loop.step == 5 and where != "-":
            kill_now.set()

step = train.data_parallel(lambda total, batch: total + batch["x"].sum())
for folder in folders:
    data = train.batches(np.arange(64, dtype=np.float32), 8, shuffle=True)
    checkpoint = train.Checkpoint(folder, save_interval_steps=2, max_to_keep=1, enable_async_checkpointing=True)
    loop = train.fit(step, np.zeros(1000, np.float32), data, steps=7, callbacks=[Steps(), checkpoint])
    print(np.asarray(loop.state).tobytes().hex())
"""


def run_killed(where, *folders):
    variables = {**os.environ, "JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "1"}
    command = [sys.executable, "-c", KILLED, where, *map(str, folders)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=variables, check=False)


@pytest.mark.slow
def test_process_killed_during_a_background_save_resumes_from_the_previous_one(tmp_path):
    folders = [tmp_path / where for where in ("arrays", "checksums.json", "rename")]
    for folder in folders:
        killed = run_killed(folder.name, folder)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        assert names(folder) == ["2", "history.jsonl"]
        assert len(list(folder.iterdir())) == 3, "the partial save"
    again = run_killed("-", *folders, tmp_path / "whole")
    reports, results = again.stdout.splitlines()[:-1:2], again.stdout.splitlines()[1::2]
    assert len(reports) == 3, again.stderr
    assert all(report.startswith("resumed at step 2 of ") for report in reports)
    assert results == again.stdout.splitlines()[-1:] * 3
    for folder in folders:
        assert names(folder) == ["7", "history.jsonl"]
        assert len(list(folder.iterdir())) == 2
