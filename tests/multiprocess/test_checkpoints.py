"""Tests of checkpoints that two processes write while the training continues."""

import json
import re
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "programs" / "async_checkpoint.py"


def reports(out, name):
    """Return the reports on the runs of a name: pairs of process 0 and process 1."""
    parsed = [json.loads(text) for text in re.findall(r"^\[\d\] REPORT (.*)$", out, re.MULTILINE)]
    by_process = [[one for one in parsed if (one["process"], one["name"]) == (process, name)] for process in (0, 1)]
    return list(zip(*by_process, strict=True))


def complete(names):
    return [name for name in names if not name.startswith(".unfinished")]


@pytest.mark.slow
def test_failed_background_save_raises_in_all_processes(job, tmp_path):
    """One job runs all cases, and resumes each after its failure."""
    cases = ["arrays-0", "arrays-1", "commit-0"]
    out = job(2, 2, PROGRAM.name, tmp_path, "whole", *(name for case in cases for name in (case, case)))
    ((whole, other),) = reports(out, "whole")
    assert whole["total"] == other["total"] != None  # noqa: E711
    for case in cases:
        both, again = reports(out, case)
        process = int(case[-1])
        assert [report["step"] for report in both] == [6, 6], "both raise at the next save"
        failed, other = both[process], both[1 - process]
        assert re.match(
            r"the checkpoint cannot be written(.|\n)*No space left on device\n  given: .* step 2", failed["error"]
        )
        assert failed["cause"] == "OSError"
        assert other["error"].startswith(f"in process {process}: the checkpoint cannot be written")
        assert complete(both[0]["left"]) == ["2", "history.jsonl"]
        assert [report["total"] for report in again] == [whole["total"]] * 2


@pytest.mark.slow
def test_killed_process_leaves_the_previous_checkpoint(job, execute, launched, tmp_path):
    """One job resumes what two jobs leave."""
    for process in (0, 1):
        killed = execute(launched(2, 2, PROGRAM, tmp_path, f"kill-{process}"))
        assert killed.returncode != 0
        assert "REPORT" not in killed.stdout
        left = sorted(path.name for path in (tmp_path / f"kill-{process}").iterdir())
        assert complete(left) == ["2", "history.jsonl"]
    out = job(2, 2, PROGRAM.name, tmp_path, "kill-0", "kill-1", "whole")
    (whole,) = reports(out, "whole")
    for process in (0, 1):
        (again,) = reports(out, f"kill-{process}")
        assert [report["total"] for report in again] == [report["total"] for report in whole]
        assert again[0]["left"] == ["7", "history.jsonl"]
