"""Callbacks of a training of two processes: one reports, both stop, and none waits for one that failed."""

import csv

import pytest

from tests.multiprocess.conftest import PROGRAMS

PROGRAM = "fitting.py"


def lines(out):
    return [line for line in out.splitlines() if "[Gloo]" not in line and "connected peer ranks" not in line]


@pytest.mark.slow
def test_one_process_reports_and_both_stop(job, execute, launched, tmp_path):
    """The second job resumes the training, and then runs one whose callback raises an exception in process 1."""
    printed = lines(job(2, 2, PROGRAM, tmp_path, "run"))
    reason = "val has not improved for 2 epochs; the best is 4 in epoch 1"
    # val is 4 after epoch 1, then 0, then 4 again
    assert {line for line in printed if "END" in line} == {f"[{n}] END {n} 3 4.0 {reason}" for n in (0, 1)}
    assert {path.name for path in (tmp_path / "saves").iterdir() if path.is_dir()} == {"4", "12"}
    assert sum(line.startswith("[0] epoch ") for line in printed) == 12 + 3
    assert f"[0] stopped at step 12 of 36: {reason}" in printed
    assert not any(line.startswith("[1]") for line in printed if "END" not in line)
    with (tmp_path / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["step"] for row in rows if row["loss"]] == [str(number) for number in range(1, 13)]
    assert [row["val"] for row in rows if row["epoch"]] == ["4.0", "0.0", "4.0"]
    resumed = [PROGRAM, tmp_path, "run"]
    (tmp_path / "raise").mkdir()
    done = execute(launched(2, 1, PROGRAMS / "several.py", *resumed, "+", PROGRAM, tmp_path / "raise", "raise"))
    assert "[0] resumed at step 12 of 36 (3 of 9 epochs are complete)" in lines(done.stdout)
    assert done.returncode == 1
    assert "[1] ValueError: the callback is wrong" in done.stderr.splitlines()
    assert "process 1" in done.stderr.splitlines()[-1]
