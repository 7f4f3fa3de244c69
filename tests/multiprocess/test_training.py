"""Tests of `penstock.train` in a job of two processes."""

import json
import re

import numpy as np
import pytest

from tests.train.stateful_models import TRAININGS, arrays_of, run
from tests.train.test_gradient_accumulation import mlp_training


def reports(out, processes):
    found = [json.loads(text) for text in re.findall(r"^\[\d\] REPORT (.*)$", out, re.MULTILINE)]
    assert len(found) == processes
    assert all(report == found[0] for report in found), "the processes differ"
    return found[0]


@pytest.mark.slow
def test_two_processes_match_single_process_training(job, tmp_path):
    rng = np.random.default_rng(0)
    logits, y = rng.normal(size=(9973, 10)).astype(np.float32).astype(np.float64), rng.integers(0, 10, 9973)
    two, one = (reports(job(n, 8 // n, "training.py", tmp_path, "whole", 49), n) for n in (2, 1))
    assert (one["devices"], two["devices"]) == ([8, 8], [4, 8])
    loss = np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(9973), y]
    for report in (one, two):
        assert report["first"]["accuracy"] == (logits.argmax(axis=1) == y).mean()
        assert report["first"]["loss"] == pytest.approx(loss.mean(), rel=1e-6)
        assert report["step"] == 49
    mine, right = (np.frombuffer(bytes.fromhex(report["weights"]), np.float32) for report in (two, one))
    np.testing.assert_allclose(mine, right, rtol=1e-4, atol=1e-6)
    assert len(two["history"]["steps"]["loss"]) == 49


@pytest.mark.slow
def test_signal_to_one_process_stops_both_and_they_resume(job, tmp_path):
    stopped = reports(job(2, 1, "training.py", tmp_path / "a", "signal", 10**9), 2)
    assert stopped["stopped"] == "SIGTERM"
    assert stopped["step"] >= 20
    last = stopped["step"] + 30
    resumed = reports(job(2, 1, "training.py", tmp_path / "a", "resume", last), 2)
    whole = reports(job(2, 1, "training.py", tmp_path / "b", "whole", last), 2)
    assert resumed["step"] == whole["step"] == last
    assert resumed["weights"] == whole["weights"]
    assert resumed["history"] == whole["history"]


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1)])
def test_checkpoint_manager_restores_on_other_processes(before, after, job, tmp_path):
    saved, restored = (
        reports(job(processes, 2, "checkpoint_manager.py", tmp_path, how), processes)
        for processes, how in ((before, "save"), (after, "restore"))
    )
    assert saved == restored


@pytest.mark.slow
def test_normalization_dropout_and_accumulation_of_two_processes(job):
    two = reports(job(2, 4, "model_state.py", timeout=240), 2)
    assert two["devices"] == [4, 8]
    for training in [*TRAININGS, mlp_training]:
        state = run(training, 8, steps=10, rows=32).state
        arrays = [array.ravel() for array in arrays_of(state) if array.dtype == np.float32]
        assert arrays
        for array, other in zip(arrays, two["arrays"].pop(training.__name__), strict=True):
            np.testing.assert_allclose(other, array, rtol=0, atol=1e-5, err_msg=training.__name__)
    assert not two["arrays"]
