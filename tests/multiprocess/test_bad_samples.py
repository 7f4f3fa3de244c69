"""Tests of bad samples: the same batches in one process and in two of two devices; counts and limits of the job."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from penstock.errors import SampleError

BAD = range(0, 60, 7)
PROGRAM = Path(__file__).parent / "programs" / "bad.py"


def batches_and_lines(folder):
    """Return batches by name, and the lines of the quarantine files."""
    parts = {}
    for path in sorted(folder.glob("*.npy")):
        parts.setdefault(path.stem.rpartition("-")[0], []).append(np.load(path))
    lines = {path.stem: [json.loads(line) for line in path.read_text().splitlines()] for path in folder.glob("*.jsonl")}
    return {name: np.concatenate(rows) for name, rows in parts.items()}, lines


@pytest.mark.slow
def test_bad_samples_do_not_depend_on_number_of_processes(alone, execute, launched, tmp_path):
    for name in ("alone", "job"):
        (tmp_path / name).mkdir()
    with pytest.raises(SampleError, match=r"bad samples in(.|\n)*max_bad_samples=4"):
        alone(PROGRAM.name, tmp_path / "alone")
    done = execute(launched(2, 2, PROGRAM, tmp_path / "job"))
    assert done.returncode == 1, done.stderr[-4000:]
    out = done.stdout + done.stderr
    (right, right_lines), (batches, lines) = (batches_and_lines(tmp_path / name) for name in ("alone", "job"))
    assert right.keys() == batches.keys()
    for name, batch in right.items():
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
        assert sorted(line["index"] for line in right_lines[kind]) == list(BAD), kind
