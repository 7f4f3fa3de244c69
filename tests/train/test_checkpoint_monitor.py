"""Tests of checkpoints that a monitored value ranks."""

import logging

import numpy as np
import pytest
from train_callbacks import StopAt

from penstock import train
from penstock.errors import UsageError

STEP = train.data_parallel(lambda total, batch: (total + batch["x"].sum(), {"sum": batch["x"].sum()}))
SCORES = [0.5, 0.7, 0.9, 0.6, 0.9, 0.1]


class Score(train.Callback):
    """Records a value for each epoch; None leaves the record without it."""

    def __init__(self, values, name="score"):
        self.values, self.name = values, name

    def on_epoch_end(self, loop):
        value = self.values[loop.epoch - 1]
        if value is not None:
            loop.history.epochs[-1][self.name] = value


def run(folder, values=SCORES, *callbacks, epochs=6, monitor="score", mode="max", **options):
    data = train.batches(np.arange(16.0, dtype=np.float32), 8, shuffle=True, seed=3)
    checkpoint = train.Checkpoint(folder, monitor=monitor, mode=mode, **options)
    return train.fit(STEP, np.float32(0), data, epochs=epochs, callbacks=[Score(values), *callbacks, checkpoint])


def saved(folder):
    """Return the epochs of the checkpoints."""
    return sorted(int(path.name) / 2 for path in folder.iterdir() if path.name.isdecimal())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "keep", "kept"),
    [("max", 1, [3, 6]), ("max", 2, [3, 5, 6]), ("min", 2, [1, 6]), ("min", 1, [6]), ("max", None, [1, 2, 3, 4, 5, 6])],
)
def test_best_and_latest_are_kept(mode, keep, kept, tmp_path):
    run(tmp_path, mode=mode, max_to_keep=keep)
    assert saved(tmp_path) == kept


def test_best_values_survive_a_resume(tmp_path):
    run(tmp_path, epochs=4, max_to_keep=1)
    assert saved(tmp_path) == [3, 4]
    run(tmp_path, max_to_keep=1)
    assert saved(tmp_path) == [3, 6]
    values = [0.5, 0.7, 0.9, 0.8, 0.9]
    run(tmp_path / "other", values, epochs=4, max_to_keep=3)
    run(tmp_path / "other", values, epochs=5, max_to_keep=1, mode="min")
    assert saved(tmp_path / "other") == [2, 5], "the values of the run before count, under any mode"


def test_nan_is_never_the_best(tmp_path):
    run(tmp_path, [float("nan"), 0.2, float("nan"), 0.1], epochs=4, max_to_keep=1)
    assert saved(tmp_path) == [2, 4]


def test_checkpoints_within_an_epoch_are_kept_for_the_resume_only(tmp_path):
    run(tmp_path, SCORES, StopAt(1), save_interval_steps=1, max_to_keep=2)
    assert saved(tmp_path) == [0.5]
    run(tmp_path, SCORES, StopAt(5), save_interval_steps=1, max_to_keep=2)
    assert saved(tmp_path) == [1, 2, 2.5]
    whole = run(tmp_path / "whole")
    assert float(run(tmp_path, max_to_keep=2).state) == float(whole.state)


def test_damaged_latest_falls_back_to_best(tmp_path, caplog):
    whole = run(tmp_path / "whole")
    run(tmp_path, epochs=5, max_to_keep=1)
    assert saved(tmp_path) == [3, 5]
    (tmp_path / "10" / "training.json").write_text("{")
    again = run(tmp_path, max_to_keep=1)
    (warning,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert "step 10 is damaged" in warning
    assert "taking that of step 6" in warning
    assert (float(again.state), again.history.epochs) == (float(whole.state), whole.history.epochs)
    assert saved(tmp_path) == [3, 6]


def test_damaged_metadata_of_an_older_checkpoint_do_not_end_the_training(tmp_path):
    run(tmp_path, epochs=4, max_to_keep=1)
    (tmp_path / "6" / "training.json").write_text("{")
    run(tmp_path, max_to_keep=1)
    assert saved(tmp_path) == [5, 6]


def test_name_that_is_not_recorded_raises_after_first_epoch(tmp_path):
    with pytest.raises(UsageError, match=r"given:    accuracy\n  expected: sum, score\n  fix:(.|\n)*Evaluate"):
        run(tmp_path, monitor="accuracy")
    assert saved(tmp_path) == []
    run(tmp_path / "rare", [0.5, None, 0.7, None, None, None], max_to_keep=1)
    assert saved(tmp_path / "rare") == [3, 6]


def test_monitor_and_mode_belong_together(tmp_path):
    for wrong in ({"mode": None}, {"monitor": None}):
        with pytest.raises(UsageError, match=r"monitor and mode belong together(.|\n)*mode=\"max\""):
            run(tmp_path, **wrong)
    with pytest.raises(UsageError, match="mode"):
        run(tmp_path, mode="largest")
