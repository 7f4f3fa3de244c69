"""Loggers write what the history records, and nothing twice."""

import csv
import os
import subprocess
import sys

import numpy as np
import pytest
from train_callbacks import StopAt

from penstock import train
from penstock.errors import CheckpointError, MissingExtraError, UsageError
from penstock.train.loggers import Logger


class Lines(Logger):
    """Logger in memory."""

    def __init__(self):
        self.lines, self.closed = [], 0

    def log(self, values, step):
        self.lines.append((step, dict(values)))

    def resume(self, step):
        self.lines = [line for line in self.lines if line[0] <= step]

    def close(self):
        self.closed += 1


def fit(loggers, epochs=2, callbacks=(), data=None, **options):
    data = data or train.batches(np.arange(24.0), 8)
    step = train.data_parallel(lambda state, batch: (state + 1, {"loss": 10 - state, "mean": batch["x"].mean()}))
    evaluate = train.Evaluate(lambda state, batch: batch["x"] * 0 + state, train.batches(np.ones(8), 8), "val")
    callbacks = [evaluate, train.LogMetrics(loggers, **options), *callbacks]
    return train.fit(step, np.float32(0), data, epochs=epochs, callbacks=callbacks)


def test_values_and_steps():
    lines = Lines()
    fit(lines, every=2, learning_rate=lambda step: 0.1 * step)
    steps = [(step, values) for step, values in lines.lines if "loss" in values]
    assert [(step, values["loss"], values["mean"]) for step, values in steps] == [
        (2, 9, 11.5),
        (4, 7, 3.5),
        (6, 5, 19.5),
    ]
    assert [values["learning_rate"] for _, values in steps] == pytest.approx([0.1, 0.3, 0.5])
    assert all(values["samples_per_second"] > 0 and 0 <= values["data_wait"] <= 1 for _, values in steps)
    epochs = [(step, values) for step, values in lines.lines if "epoch" in values]
    assert epochs == [
        (3, {"epoch": 1, "epoch_loss": 9, "epoch_mean": 11.5, "val": 3}),
        (6, {"epoch": 2, "epoch_loss": 6, "epoch_mean": 11.5, "val": 6}),
    ]
    assert [step for step, _ in lines.lines] == sorted(step for step, _ in lines.lines)
    assert lines.closed == 1


def test_an_iterator_without_a_batch_size_logs_steps_per_second():
    lines = Lines()
    fit([lines], every=1, data=[{"x": np.ones(8, np.float32)}] * 3)
    assert all("steps_per_second" in values for _, values in lines.lines if "loss" in values)


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_csv_of_a_resumed_run_has_each_step_once(tmp_path):
    def logged(name, callbacks, **options):
        fit(train.CSVLogger(tmp_path / name), every=1, callbacks=callbacks, **options)
        columns = ("step", "loss", "mean", "epoch", "epoch_loss", "val")
        return [[row[column] for column in columns] for row in rows(tmp_path / name)]

    whole = logged("whole.csv", [])
    saves = train.Checkpoint(tmp_path / "saves", save_interval_steps=2)
    fit(train.CSVLogger(tmp_path / "cut.csv"), every=1, callbacks=[saves, StopAt(4)])
    # a killed run: its last step was logged, but not saved
    with (tmp_path / "cut.csv").open("a") as file:
        file.write("5,6.0,11.5,1,0.0,,,,\n6,5")
    assert logged("cut.csv", [saves]) == whole
    assert len(whole) == 8


def test_csv_appends_and_adds_columns(tmp_path):
    logger = train.CSVLogger(tmp_path / "new" / "metrics.csv")
    logger.log({"loss": 1.5}, 1)
    train.CSVLogger(logger.path).log({"loss": 0.5, "a, b": 2}, 2)
    assert logger.path.read_text() == 'step,loss,"a, b"\n1,1.5,\n2,0.5,2\n'


@pytest.mark.parametrize("resumed", [False, True])
@pytest.mark.parametrize(("text", "kept"), [("step,loss\n10,0.5\n20,0", "10,0.5\n"), ("step,lo", "")])
def test_csv_does_not_continue_a_part_of_a_row(tmp_path, text, kept, resumed):
    path = tmp_path / "metrics.csv"
    path.write_text(text)  # of a process that was killed
    logger = train.CSVLogger(path)
    if resumed:
        logger.resume(20)
    logger.log({"loss": 0.25}, 20)
    assert path.read_text() == f"step,loss\n{kept}20,0.25\n"


def test_csv_that_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(
        CheckpointError, match=r"metrics cannot be written: (Not a directory|File exists)\n.*metrics.csv"
    ):
        train.CSVLogger(tmp_path / "file" / "metrics.csv").log({"loss": 1.0}, 1)


@pytest.mark.parametrize("text", ["name,age\na,3\n", "step,loss\nfirst,3\n", "step,loss\n1,2,3\n"])
def test_csv_of_another_program_is_not_touched(tmp_path, text):
    path = tmp_path / "metrics.csv"
    path.write_text(text)
    with pytest.raises(CheckpointError, match="did not write"):
        train.CSVLogger(path).resume(3)
    with pytest.raises(CheckpointError, match="did not write"):
        train.CSVLogger(path).log({"accuracy": 1.0}, 1)
    assert path.read_text() == text


def test_tensorboard_reads_the_scalars(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    saves = train.Checkpoint(tmp_path / "saves", save_interval_steps=2)
    fit(train.TensorBoardLogger(tmp_path / "events"), every=1, callbacks=[saves, StopAt(5)])
    fit(train.TensorBoardLogger(tmp_path / "events"), every=1, callbacks=[saves])
    events = EventAccumulator(str(tmp_path / "events"))
    events.Reload()
    assert [(event.step, event.value) for event in events.Scalars("loss")] == [(n + 1, 10 - n) for n in range(6)]
    assert [(event.step, event.value) for event in events.Scalars("val")] == [(3, 3), (6, 6)]


@pytest.mark.slow
def test_wandb_stores_a_run_offline(tmp_path):
    code = (
        "import numpy as np; from penstock import train; "
        "log = train.LogMetrics(train.WandbLogger(project='test', mode='offline'), every=1); "
        "step = train.data_parallel(lambda state, batch: (state + 1, state)); "
        "train.fit(step, np.float32(0), train.batches(np.ones(16), 8), epochs=1, callbacks=[log])"
    )
    variables = {**os.environ, "WANDB_DIR": str(tmp_path), "WANDB_SILENT": "true"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=variables,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (stored,) = (tmp_path / "wandb").glob("offline-run-*/run-*.wandb")
    assert b"loss" in stored.read_bytes()


@pytest.mark.parametrize(
    ("module", "make", "extra"),
    [
        ("tensorboardX", lambda: train.TensorBoardLogger("x"), "tensorboard"),
        ("wandb", train.WandbLogger, "wandb"),
    ],
)
def test_missing_package_is_named(module, make, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=rf'pip install "penstock\[{extra}\]"'):
        make()


def test_value_with_the_name_of_the_first_column_is_refused(tmp_path):
    step = train.data_parallel(lambda count, batch: (count + 1, {"loss": batch["x"].mean(), "step": count}))
    log = train.LogMetrics(train.CSVLogger(tmp_path / "metrics.csv"), every=1)
    with pytest.raises(UsageError, match=r"called step(.|\n)*given:    loss, step, "):
        train.fit(step, np.int32(0), train.batches(np.ones(16), 8), epochs=2, callbacks=[log])
    assert not list(tmp_path.iterdir())
