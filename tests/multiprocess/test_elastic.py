"""Tests that a killed job resumes with other numbers of processes and yields the same batches."""

import importlib.util
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

PROGRAM = Path(__file__).parent / "programs" / "elastic.py"


def uninterrupted(steps):
    """Return the batches of an uninterrupted job by step."""
    spec = importlib.util.spec_from_file_location("elastic", PROGRAM)
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    iterator, batches = program.stream(None), []
    while len(batches) < steps:
        batches += [np.asarray(batch["x"]) for batch in iterator]
    return batches[:steps]


@pytest.mark.slow
def test_killed_job_resumes_with_other_numbers_of_processes(tmp_path, execute, launched):
    steps = 14
    for processes, devices, killed_at in ((3, 1, 5), (1, 2, 9), (2, 2, 0)):
        done = execute(launched(processes, devices, PROGRAM, tmp_path, steps, killed_at), timeout=60)
        assert done.returncode == (137 if killed_at else 0), done.stderr[-3000:]
        if killed_at:  # the other processes wait in a collective
            assert f"penstock launch: process {processes - 1} (pid" in done.stderr
            assert "was ended by SIGKILL" in done.stderr
        assert done.stdout.count(f"REACHED {steps}") == (0 if killed_at else processes)
    for step, batch in enumerate(uninterrupted(steps)):
        files = sorted(tmp_path.glob(f"{step:03d}-*.npy"))
        rows = {}
        for path in files:  # of the runs before and after: the same rows in other parts
            first = int(path.stem.split("-")[1])
            for number, row in enumerate(np.load(path)):
                assert rows.setdefault(first + number, row) == row
        assert [rows[number] for number in sorted(rows)] == batch.tolist(), f"step {step}"


@pytest.mark.slow
def test_paused_process_is_waited_for(tmp_path, launched, environment):
    command = [*map(str, launched(2, 1, PROGRAM, tmp_path, 300, 0))]
    job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
    try:
        while not (tmp_path / "state.json").exists():
            assert job.poll() is None, job.communicate()
            time.sleep(0.1)
        stopped = next(
            process
            for process in psutil.Process(job.pid).children(recursive=True)
            if process.environ().get("PENSTOCK_PROCESS_ID") == "1"
        )
        stopped.send_signal(signal.SIGSTOP)
        with pytest.raises(subprocess.TimeoutExpired):
            job.wait(5)
        stopped.send_signal(signal.SIGCONT)
        out, error = job.communicate(timeout=240)
    finally:
        job.terminate()
    assert job.returncode == 0, error
    assert out.count("REACHED 300") == 2
