"""Running programs as several real processes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"
ROOT = Path(__file__).parents[2]


def _environment(**more):
    """The variables of a test, without those that would make it a part of another job."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "PENSTOCK_", "OMPI_"))}
    return {**kept, "JAX_PLATFORMS": "cpu", "PYTHONWARNINGS": "ignore::DeprecationWarning", **more}


def _execute(command, timeout=120, **options):
    """Run a command to its end; with the time over, it and all that it started is killed, and the test fails."""
    process = subprocess.Popen(
        [*map(str, command)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=_environment(**options),
    )
    try:
        out, error = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        for number in (signal.SIGINT, signal.SIGKILL):  # a launcher ends its processes when it is interrupted
            os.killpg(process.pid, number)
            try:
                out, error = process.communicate(timeout=10)
                break
            except subprocess.TimeoutExpired:
                continue
        pytest.fail(f"{command} did not end within {timeout} s\n{out[-3000:]}\n{error[-3000:]}")
    return subprocess.CompletedProcess(command, process.returncode, out, error)


def _launched(processes, devices, script, *arguments):
    """The command that runs a script as a job."""
    launcher = [sys.executable, "-m", "penstock.cli", "launch", "-n", processes, "-d", devices]
    return [*launcher, script, *arguments]


@pytest.fixture(scope="session")
def environment():
    """A function that gives the variables of a test's process."""
    return _environment


@pytest.fixture(scope="session")
def execute():
    """A function that runs a command to its end."""
    return _execute


@pytest.fixture(scope="session")
def launched():
    """A function that gives the command which runs a script as a job."""
    return _launched


@pytest.fixture(scope="session")
def job():
    """A function that runs a program of ours as a job, and returns what it printed."""

    def run(processes, devices, program, *arguments, timeout=120):
        done = _execute(_launched(processes, devices, PROGRAMS / program, *arguments), timeout)
        assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-4000:]}"
        return done.stdout

    return run
