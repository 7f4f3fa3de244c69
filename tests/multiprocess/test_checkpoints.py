"""Tests of checkpoints that two processes write while the training continues."""

import json
import re
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "programs" / "async_checkpoint.py"


def reports(out):
    found = [json.loads(text) for text in re.findall(r"^\[\d\] REPORT (.*)$", out, re.MULTILINE)]
    return sorted(found, key=lambda report: report["process"])


def names(folder):
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith(".unfinished"))


@pytest.fixture(scope="module")
def whole(job, tmp_path_factory):
    first, second = reports(job(2, 2, PROGRAM.name, tmp_path_factory.mktemp("whole"), "-", 0))
    assert first["total"] == second["total"] != None  # noqa: E711
    return first["total"]


@pytest.mark.slow
@pytest.mark.parametrize(("how", "process"), [("arrays", 0), ("arrays", 1), ("commit", 0)])
def test_failed_background_save_raises_in_all_processes(how, process, whole, job, tmp_path):
    both = reports(job(2, 2, PROGRAM.name, tmp_path, how, process))
    assert [report["step"] for report in both] == [6, 6], "both raise at the next save"
    failed, other = both[process], both[1 - process]
    assert re.match(
        r"the checkpoint cannot be written(.|\n)*No space left on device\n  given: .* step 2", failed["error"]
    )
    assert failed["cause"] == "OSError"
    assert other["error"].startswith(f"in process {process}: the checkpoint cannot be written")
    assert names(tmp_path) == ["2", "history.jsonl"]
    again = reports(job(2, 2, PROGRAM.name, tmp_path, "-", 0))
    assert [report["total"] for report in again] == [whole, whole]


@pytest.mark.slow
@pytest.mark.parametrize("process", [0, 1])
def test_killed_process_leaves_the_previous_checkpoint(process, whole, job, execute, launched, tmp_path):
    killed = execute(launched(2, 2, PROGRAM, tmp_path, "kill", process))
    assert killed.returncode != 0
    assert not reports(killed.stdout)
    assert names(tmp_path) == ["2", "history.jsonl"]
    again = reports(job(2, 2, PROGRAM.name, tmp_path, "-", 0))
    assert [report["total"] for report in again] == [whole, whole]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["7", "history.jsonl"]
