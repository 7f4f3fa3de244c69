"""Tests of checkpoints after disk and process failures."""

import errno
import json
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from train_callbacks import StopAt

from penstock import train
from penstock.errors import CheckpointError, NotFiniteError, StateError, UsageError
from penstock.train import checkpoint_files
from penstock.train.checkpoint_files import CheckpointFiles
from penstock.train.first_process import run_on_process_0

ONE = train.batch_sharding(train.data_mesh(jax.devices()[:1]))
ZERO = np.float32(0)
STEP = train.data_parallel(lambda total, batch: (total + batch["x"].sum(), {"sum": batch["x"].sum()}), ONE)


def run(folder, *callbacks, steps=6, state=ZERO, size=32, step=STEP, **options):
    data = train.batches(np.arange(float(size), dtype=np.float32), 8, shuffle=True, seed=3, sharding=ONE)
    return train.fit(step, state, data, steps=steps, callbacks=[*callbacks, train.Checkpoint(folder, **options)])


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def damage(path, how):
    data = bytearray(path.read_bytes())
    if how == "flipped":
        data[len(data) // 2] ^= 0x10
    elif how == "cut":
        del data[len(data) // 2 :]
    if how == "gone":
        path.unlink()
    else:
        path.write_bytes(data)


def largest(folder):
    return max((path for path in folder.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["flipped", "cut", "gone"])
@pytest.mark.parametrize("what", ["arrays", "training.json", "checksums.json"])
def test_damaged_save_falls_back_to_previous_with_warning(how, what, tmp_path, caplog):
    whole = run(tmp_path / "whole", save_interval_steps=1)
    folder = tmp_path / "damaged"
    run(folder, StopAt(3), save_interval_steps=1)
    assert names(folder) == ["2", "3", "history.jsonl"]
    damage(largest(folder / "3" / "state") if what == "arrays" else folder / "3" / what, how)
    again = run(folder, save_interval_steps=1)
    (told,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert "step 3 is damaged" in told
    assert "taking that of step 2" in told
    assert (float(again.state), again.history.steps) == (float(whole.state), whole.history.steps)
    assert again.history.epochs == whole.history.epochs
    assert names(folder) == ["3.damaged", "5", "6", "history.jsonl"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no pipes with names")
@pytest.mark.parametrize("what", ["checksums.json", "training.json"])
def test_pipe_in_place_of_a_file_is_damage(what, tmp_path, caplog):
    run(tmp_path, StopAt(3), save_interval_steps=1)
    (tmp_path / "3" / what).unlink()
    os.mkfifo(tmp_path / "3" / what)
    assert CheckpointFiles(tmp_path).metrics(3) == {} or what == "checksums.json"
    assert run(tmp_path).step == 6
    assert "step 3 is damaged" in caplog.text


def test_arrays_without_elements_are_saved(tmp_path):
    step = train.data_parallel(lambda s, batch: {**s, "sum": s["sum"] + batch["x"].sum()}, ONE)
    state = {"sum": ZERO, "none": np.zeros((0, 3), np.float32)}
    run(tmp_path, steps=2, state=state, step=step)
    second = run(tmp_path, steps=4, state=state, step=step)
    assert second.step == 4
    assert float(second.state["sum"]) == np.arange(32).sum()
    assert second.state["none"].shape == (0, 3)
    with pytest.raises(StateError, match=r"none: float32\[0, 3\] in the checkpoint"):
        run(tmp_path, steps=6, state={**state, "none": np.zeros((0, 4), np.float32)}, step=step)


def test_renamed_save_is_not_a_save(tmp_path):
    run(tmp_path, StopAt(3), save_interval_steps=1)
    (tmp_path / "3").rename(tmp_path / "003")
    assert CheckpointFiles(tmp_path).steps() == [2]
    assert run(tmp_path).step == 6
    assert "003" in names(tmp_path)


@pytest.mark.parametrize("what", ["a file", "a link to nothing"])
def test_file_with_the_name_of_a_save_is_reported_before_the_first_step(what, tmp_path):
    place = tmp_path / "6"
    place.write_text("notes") if what == "a file" else place.symlink_to(tmp_path / "nowhere")
    steps = []
    with pytest.raises(CheckpointError, match=rf"has the name of a save: {place}\n  given:    {what}"):
        run(tmp_path, step=lambda *batch: steps.append(batch))
    assert not steps


def test_all_saves_damaged_raises(tmp_path):
    run(tmp_path, steps=2)
    damage(tmp_path / "2" / "training.json", "cut")
    with pytest.raises(StateError, match=r"no save in .* is whole\n  given:    step 2: training.json has"):
        run(tmp_path)
    assert names(tmp_path) == ["2", "history.jsonl"]


def test_directory_of_another_program_is_refused(tmp_path):
    (tmp_path / "7" / "default").mkdir(parents=True)
    with pytest.raises(StateError, match=r"holds something else.*\n  given:    sub-folders 7"):
        run(tmp_path)
    assert names(tmp_path) == ["7"]
    (tmp_path / "file").write_text("a file")
    with pytest.raises(CheckpointError, match="cannot be written"):
        run(tmp_path / "file")


def test_reason_comes_before_paths(tmp_path):
    text = f"Error writing {tmp_path}/{'x' * 300} in OCDBT database: No space left on device [os_error_code='28']"
    error = CheckpointFiles(tmp_path)._unwritable(ValueError(text))
    assert str(error).startswith("the checkpoint cannot be written: No space left on device\n")
    assert str(tmp_path) in str(error)


@pytest.mark.parametrize("number", [errno.EROFS, errno.ENOSPC, errno.EACCES])
def test_unwritable_directory_raises_before_first_step(number, tmp_path, monkeypatch):
    def refuse(path, *_):
        raise OSError(number, os.strerror(number), str(path))

    steps = []
    monkeypatch.setattr(checkpoint_files, "_write", refuse)
    with pytest.raises(CheckpointError, match=os.strerror(number)) as caught:
        run(tmp_path, step=lambda *batch: steps.append(batch))
    assert not steps
    assert "fix:" in str(caught.value)
    assert names(tmp_path) == []


@pytest.mark.parametrize("where", ["arrays", "training.json", "history", "checksums.json", "rename"])
def test_full_disk_raises_and_keeps_last_save(where, tmp_path, monkeypatch):
    whole = run(tmp_path / "whole")
    folder = tmp_path / "full"
    run(folder, steps=2)

    def full(*arguments, **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    def write(path, text, real=checkpoint_files._write):
        return full() if path.name == where else real(path, text)

    def rename(path, target, real=Path.rename):
        return full() if target.name.isdecimal() else real(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint_files, "_write", write)
        if where == "arrays":
            import orbax.checkpoint as ocp

            patch.setattr(ocp.AsyncCheckpointer, "save", full)
        elif where == "history":
            patch.setattr("penstock.train.metrics_file.MetricsFile.append", full)
        elif where == "rename":
            patch.setattr(Path, "rename", rename)
        with pytest.raises(CheckpointError, match=r"No space left on device\n  given: .* step 2"):
            run(folder)
    assert names(folder) == ["2", "history.jsonl"]
    again = run(folder)
    assert (float(again.state), again.history.steps) == (float(whole.state), whole.history.steps)


LIMITED = """
import resource, sys
import jax
import numpy as np
from penstock import train
from penstock.errors import CheckpointError
def run(steps):
    step = train.data_parallel(lambda total, batch: total + batch["x"].sum())
    data = train.batches(np.ones(32, np.float32), 8, shuffle=True)
    state = np.random.default_rng(0).normal(size=30_000).astype(np.float32)
    return train.fit(step, state, data, steps=steps, callbacks=[train.Checkpoint(sys.argv[1])])
run(1)
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
try:
    run(2)
except CheckpointError as error:
    print("REFUSED", error)
"""


@pytest.mark.slow
def test_write_error_of_operating_system(tmp_path):
    variables = {**os.environ, "JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "1"}
    command = [sys.executable, "-c", LIMITED, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=variables)
    assert done.stdout.startswith("resumed at step 1 of 2\nREFUSED the checkpoint cannot be written"), done.stderr
    assert names(tmp_path) == ["1", "history.jsonl"]


KILLED = """
import os, signal, sys
import numpy as np
from penstock import train
from penstock.train import checkpoint_files, metrics_file
where, kill = sys.argv[2], lambda *_: os.kill(os.getpid(), signal.SIGKILL)
if where == "history":
    metrics_file.zlib.crc32 = kill
else:
    real = checkpoint_files._write
    checkpoint_files._write = lambda path, text: kill() if path.name == where else real(path, text)
step = train.data_parallel(lambda total, batch: total + batch["x"].sum())
train.fit(step, np.float32(0), train.batches(np.ones(32, np.float32), 8, shuffle=True), steps=2,
          callbacks=[train.Checkpoint(sys.argv[1])])
"""


@pytest.mark.slow
@pytest.mark.parametrize("where", ["history", "training.json"])
def test_killed_save_is_ignored_and_removed(where, tmp_path):
    """The first save, which has no previous one; test_async_checkpoint.py kills the second save at other points."""
    variables = {**os.environ, "JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "1"}
    command = [sys.executable, "-c", KILLED, str(tmp_path / "other"), where]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=variables, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert [name[:12] for name in names(tmp_path / "other") if name != "history.jsonl"] == [".unfinished-"]
    loop = run(tmp_path / "other", steps=2)
    assert loop.step == 2
    assert names(tmp_path / "other") == ["2", "history.jsonl"]


def test_partial_save_of_running_process_is_kept(tmp_path):
    pytest.importorskip("fcntl", reason="Windows has no locks of folders")
    other, mine = CheckpointFiles(tmp_path, 2), CheckpointFiles(tmp_path, 2)
    writing = other.begin(3)
    mine.prepare()
    assert writing.is_dir()
    other._unlock()  # as the kernel does when it dies
    mine.prepare()
    assert names(tmp_path) == []


def test_max_to_keep_limits_saves(tmp_path):
    for keep, left in ((1, ["6"]), (None, ["1", "2", "3", "4", "5", "6"]), (np.int64(3), ["4", "5", "6"])):
        run(tmp_path / str(keep), save_interval_steps=1, max_to_keep=keep)
        assert names(tmp_path / str(keep)) == [*left, "history.jsonl"]
    counts = [("max_to_keep", value) for value in (0, -1, 1.5)] + [("save_interval_steps", value) for value in (0, 2.5)]
    for wrong in map(dict, ([pair] for pair in counts)):
        with pytest.raises(UsageError, match="whole number") as caught:
            train.Checkpoint(tmp_path, **wrong)
        assert "test_checkpoint.py" in str(caught.value)


def test_other_batch_size_is_refused(tmp_path):
    run(tmp_path, steps=3)
    data = train.batches(np.arange(32, dtype=np.float32), 16, shuffle=True, seed=3, sharding=ONE)
    with pytest.raises(StateError, match=r"another batch size(.|\n)*fix: +batch_size=8"):
        train.fit(STEP, ZERO, data, epochs=2, callbacks=[train.Checkpoint(tmp_path)])


def test_end_of_epoch_is_found_from_any_row():
    def over(rows):
        return train.batches(np.arange(64, dtype=np.float32), rows, sharding=ONE)

    begun = over(8)
    for _ in range(5):
        next(begun)
    rest = over(24)
    rest.set_state(begun.get_state())  # at row 40, from where one batch ends the epoch
    loop = train.fit(STEP, ZERO, rest, steps=1)
    assert (loop.step, loop.epoch, len(loop.history.epochs)) == (1, 1, 1)


def test_history_is_appended(tmp_path):
    class Sizes(train.Callback):
        def __init__(self):
            self.seen = []

        def on_step_end(self, loop):
            path = tmp_path / "history.jsonl"
            self.seen.append(path.stat().st_size if path.exists() else 0)

    sizes = Sizes()
    whole = run(tmp_path, sizes, steps=30, save_interval_steps=1)
    growth = np.diff(sizes.seen[2:])
    assert max(growth) < 200, "each save adds a line, and none writes the lines before it again"
    lines = (tmp_path / "history.jsonl").read_text().splitlines()
    assert sum(len(json.loads(line)["steps"].get("sum", [])) for line in lines) == 30
    again = run(tmp_path, steps=30)
    assert (again.history.steps, again.history.epochs) == (whole.history.steps, whole.history.epochs)


def test_records_after_a_save_are_in_the_next_save(tmp_path):
    class Late(train.Callback):
        def on_step_end(self, loop):
            if loop.history.epochs:
                loop.history.epochs[-1]["late"] = float(loop.step)

    whole = run(tmp_path, Late(), steps=9)
    assert [epoch["late"] for epoch in whole.history.epochs] == [8, 9]
    assert run(tmp_path, steps=9).history.epochs == whole.history.epochs


def test_damaged_history_starts_empty_with_warning(tmp_path, caplog):
    run(tmp_path, steps=4)
    damage(tmp_path / "history.jsonl", "flipped")
    again = run(tmp_path)
    assert (again.step, len(again.history.steps["sum"])) == (6, 2)
    assert "history.jsonl is damaged" in caplog.text
    assert len(run(tmp_path).history.steps["sum"]) == 2


def test_nan_metric_warns_or_raises(tmp_path, caplog):
    def spoil(state, batch):
        return state * 1e15, state

    step = train.data_parallel(spoil, ONE)
    with pytest.raises(NotFiniteError, match="loss is inf at step 4"):
        run(tmp_path / "a", train.TerminateOnNaN(), state=np.float32(1), step=step, save_interval_steps=1)
    saved = [int(name) for name in names(tmp_path / "a") if name.isdecimal()]
    assert saved == [2, 3], "what is saved is from before"
    with pytest.raises(NotFiniteError, match="loss is inf at step 4"):
        run(tmp_path / "b", train.TerminateOnNaN("loss"), state=np.float32(1), step=step)
    assert not caplog.records
    run(tmp_path / "c", train.TerminateOnNaN(["other"]), state=np.float32(1), step=step)
    assert not caplog.records
    run(tmp_path / "d", state=np.float32(1), step=step)
    assert [record.getMessage()[:21] for record in caplog.records] == ["loss is inf at step 4"]


def test_error_of_first_process_is_raised_in_all():
    def act():
        raise CheckpointError("no room")

    posted = []
    with pytest.raises(CheckpointError, match=r"^no room"):
        run_on_process_0(act, True, lambda message: posted.append(message) or posted)
    with pytest.raises(CheckpointError, match="in process 0: no room"):
        run_on_process_0(act, False, lambda _: posted)
    assert run_on_process_0(lambda: 3, True, lambda message: [message]) == 3
    assert run_on_process_0(act, False, lambda _: [{"found": 3, "error": None}]) == 3


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"epochs": 1.5}, r"epochs(.|\n)*whole number of at least 0"),
        ({"epochs": -1}, r"epochs(.|\n)*whole number of at least 0"),
        ({"epochs": float("inf")}, r"epochs(.|\n)*whole number of at least 0"),
        ({"steps": float("nan")}, r"steps(.|\n)*whole number of at least 0"),
        ({"steps": "3"}, r"steps(.|\n)*whole number of at least 0"),
        ({"steps": 1, "epochs": 1}, "number of epochs or of steps"),
        ({"epochs": 1, "callbacks": [train.StopOnSignal]}, r"an instance: StopOnSignal\(...\)"),
        ({"epochs": 1, "callbacks": train.StopOnSignal()}, r"callbacks(.|\n)*a sequence \(a Callback\)"),
        ({"epochs": 1, "callbacks": None}, r"callbacks(.|\n)*a sequence \(a Callback\)"),
        ({"epochs": 1, "callbacks": [print]}, r"callbacks(.|\n)*a sequence \(a Callback\)"),
        ({"epochs": 1, "step": None}, r"step(.|\n)*a function"),
        ({"epochs": 1, "iterator": 3}, r"iterator(.|\n)*a sequence"),
    ],
)
def test_invalid_fit_arguments_raise_with_line(wrong, message):
    given = {"step": STEP, "state": np.float32(0), "iterator": [], **wrong}
    with pytest.raises(UsageError, match=message) as caught:
        train.fit(**given)
    assert "test_checkpoint.py" in str(caught.value)


@pytest.mark.parametrize("names", [np.array(["a", "b"]), np.array([None]), np.str_("a")])
def test_arrays_of_text_are_refused_before_the_first_step(names, tmp_path):
    def step(state, batch):
        pytest.fail("a step was run")

    with pytest.raises(UsageError, match="JAX has no arrays of this kind"):
        train.fit(
            step, {"names": names}, train.batches(np.ones(8), 8), epochs=1, callbacks=[train.Checkpoint(tmp_path)]
        )


def test_a_directory_in_a_store_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"local or mounted directory(.|\n)*gs://bucket/run"):
        train.Checkpoint("gs://bucket/run")
    with pytest.raises(UsageError, match="local or mounted directory"):
        train.restore_weights("s3://bucket/run", np.zeros(2))
    assert not list(tmp_path.iterdir())
