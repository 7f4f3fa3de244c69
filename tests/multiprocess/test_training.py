"""Tests of `penstock.train` in a job of two processes."""

import json
import re

import numpy as np
import pytest

from tests.train.stateful_models import arrays_of, nnx_training, run
from tests.train.test_gradient_accumulation import mlp_training


def reports(out, processes=1):
    """Return the reports in their order. The processes must print the same ones."""
    by_process = [[] for _ in range(processes)]
    for process, text in re.findall(r"^(?:\[(\d)\] )?REPORT (.*)$", out, re.MULTILINE):
        by_process[int(process or 0)].append(json.loads(text))
    assert all(found == by_process[0] for found in by_process), "the processes differ"
    return by_process[0]


def check_training(one, two):
    rng = np.random.default_rng(0)
    logits, y = rng.normal(size=(9973, 10)).astype(np.float32).astype(np.float64), rng.integers(0, 10, 9973)
    assert (one["devices"], two["devices"]) == ([8, 8], [4, 8])
    loss = np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(9973), y]
    for report in (one, two):
        assert report["first"]["accuracy"] == (logits.argmax(axis=1) == y).mean()
        assert report["first"]["loss"] == pytest.approx(loss.mean(), rel=1e-6)
        assert report["step"] == 49
    mine, right = (np.frombuffer(bytes.fromhex(report["weights"]), np.float32) for report in (two, one))
    np.testing.assert_allclose(mine, right, rtol=1e-4, atol=1e-6)
    assert len(two["history"]["steps"]["loss"]) == 49


def check_models(two):
    """Normalization, dropout and accumulation; tests of one process compare the libraries."""
    assert two["devices"] == [4, 8]
    for training in (nnx_training, mlp_training):
        state = run(training, 8, steps=10, rows=32).state
        arrays = [array.ravel() for array in arrays_of(state) if array.dtype == np.float32]
        assert arrays
        for array, other in zip(arrays, two["arrays"].pop(training.__name__), strict=True):
            np.testing.assert_allclose(other, array, rtol=0, atol=1e-5, err_msg=training.__name__)
    assert not two["arrays"]


@pytest.mark.slow
def test_two_processes_match_single_process_training(job, alone, tmp_path):
    """One job runs all programs, and exchanges checkpoints of a `CheckpointManager` with this process."""
    (saved,) = reports(alone("checkpoint_manager.py", tmp_path / "one", "save"))
    programs = [
        ["training.py", tmp_path, "whole", 49],
        ["model_state.py"],
        ["checkpoint_manager.py", tmp_path / "two", "save"],
        ["checkpoint_manager.py", tmp_path / "one", "restore"],
    ]
    words = [word for program in programs for word in (*program, "+")][:-1]
    whole, models, saved_by_two, restored = reports(job(2, 4, "several.py", *words, timeout=240), 2)
    assert restored == saved
    assert reports(alone("checkpoint_manager.py", tmp_path / "two", "restore")) == [saved_by_two]
    check_training(reports(alone("training.py", tmp_path, "whole", 49))[0], whole)
    check_models(models)


@pytest.mark.slow
def test_signal_to_one_process_stops_both_and_they_resume(job, tmp_path):
    (stopped,) = reports(job(2, 1, "training.py", tmp_path / "a", "signal", 10**9), 2)
    assert stopped["stopped"] == "SIGTERM"
    assert stopped["step"] >= 20
    last = stopped["step"] + 30
    programs = ["training.py", tmp_path / "a", "resume", last, "+", "training.py", tmp_path / "b", "whole", last]
    resumed, whole = reports(job(2, 1, "several.py", *programs), 2)
    assert resumed["step"] == whole["step"] == last
    assert resumed["weights"] == whole["weights"]
    assert resumed["history"] == whole["history"]
