"""Tests of bad samples in jobs: identical batches for any number of processes; counts and limits of the job."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

BAD = range(0, 60, 7)
PROGRAM = Path(__file__).parent / "programs" / "bad.py"


@pytest.fixture(scope="module")
def jobs(execute, launched, tmp_path_factory):
    """Run jobs and return, per number of processes, batches by name, output, and lines of the quarantine file."""
    found = {}
    for processes in (1, 2, 4):
        folder = tmp_path_factory.mktemp(f"bad{processes}")
        done = execute(launched(processes, 4 // processes, PROGRAM, folder))
        assert done.returncode == 1, done.stderr[-4000:]
        out = done.stdout + done.stderr
        parts = {}
        for path in sorted(folder.glob("*.npy")):
            parts.setdefault(path.stem.rpartition("-")[0], []).append(np.load(path))
        lines = {
            path.stem: [json.loads(line) for line in path.read_text().splitlines()] for path in folder.glob("*.jsonl")
        }
        found[processes] = {name: np.concatenate(rows) for name, rows in parts.items()}, out, lines
    return found


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2, 4])
def test_bad_samples_do_not_depend_on_number_of_processes(jobs, processes):
    (alone, *_), (batches, out, lines) = jobs[1], jobs[processes]
    assert alone.keys() == batches.keys()
    for name, batch in alone.items():
        assert np.array_equal(batch, batches[name]), name
    skipped = {*re.findall(r"COUNTS skip (.*)", out)}
    assert skipped == {json.dumps({"readers.arrays 'r'": 2 * len(BAD), "readers.arrays 's'": 0})}
    assert len({*re.findall(r"COUNTS replace (.*)", out)}) == 1
    good = sorted(set(range(60)) - set(BAD))
    assert {float(mean) for mean in re.findall(r"MEAN (.*)", out)} == {float(np.mean(good))}
    assert "bad samples in" in out
    assert "max_bad_samples=4" in out
    for kind in ("skip", "replace"):
        assert sorted(line["index"] for line in lines[kind]) == list(BAD), kind
