"""Tests that all processes of a job report the end of one and exit with the same code.

JAX would wait 300 seconds for a process that does not end; these tests wait much less.
"""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.launch.local_launcher import free_port

PROGRAM = Path(__file__).parent / "programs" / "failing.py"
PATIENCE = 60

TOLD = "has failed:\nTraceback (most recent call last):"


def started(how, address, environment, front=((), ()), **variables):
    """Start two processes without a launcher."""
    return [
        subprocess.Popen(
            [*front[number], sys.executable, PROGRAM, how],
            env=environment(JAX_NUM_CPU_DEVICES="1", BARE=address, NUMBER=str(number), **variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in (0, 1)
    ]


def ended(processes):
    """Wait for processes and return their exit codes and standard errors."""
    try:
        errors = [process.communicate(timeout=PATIENCE)[1].rstrip() for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    return [process.returncode for process in processes], errors


@pytest.fixture
def bare(environment):
    """Return a function that runs two processes without a launcher."""

    def run(how):
        with free_port() as port:
            return ended(started(how, f"127.0.0.1:{port}", environment))

    return run


def test_exception_ends_both_with_same_last_message(bare):
    codes, errors = bare("exception")
    assert codes == [1, 1]
    for error in errors:
        assert error.splitlines()[-1] == "ValueError: bad luck"
    assert "process 1 of 2 (host" in errors[0]
    assert TOLD in errors[0]
    assert TOLD not in errors[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "code", "last"),
    [
        ("exception in 0", 1, "ValueError: bad luck"),
        ("before", 1, "ValueError: bad luck"),
        ("before in 0", 1, "ValueError: bad luck"),
        ("exit", 1, "  fix:      let all processes make the same iterators"),
        ("no step", 1, "let all processes take the same steps"),
        ("sample", 1, "  at:       "),
        ("early", 1, "  fix:      let all processes make the same iterators"),
        ("no iterator", 1, "  fix:      let all processes make the same iterators"),
        ("moved", 1, "  fix:      let all processes pass the same states to set_state"),
    ],
)
def test_all_processes_end_with_code_of_failed_one(bare, how, code, last):
    codes, errors = bare(how)
    assert codes == [code, code], "\n\n".join(errors)
    waiting = errors[1 if how.endswith("in 0") else 0]
    assert last in waiting.splitlines()[-1], waiting
    if how == "sample":
        assert all("SampleError: python_function failed on sample 21" in error for error in errors)
    if how == "moved":
        assert "process 1 of 2 has moved an iterator to row 32 of epoch 0 with seeds 1 and 1 after 7 batches" in waiting
    if how in ("early", "exit"):
        assert "process 1 of 2 has ended after 7 batches of an iterator of which process 0 takes 8" in waiting
    if how == "no iterator":
        assert "process 1 of 2 has ended without making an iterator that process 0 makes" in waiting


@pytest.mark.slow
def test_under_the_launcher(execute, launched):
    """Python's `exit`, as an example; test_fitting.py raises an exception under the launcher."""
    done = execute(launched(2, 1, PROGRAM, "quit"), timeout=PATIENCE)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]  # it may name process 0, too, which fails without its peer
    assert re.match(r"penstock launch: .*process 1 \(pid \d+\) ended with exit code 1", last), done.stderr


@pytest.mark.slow
def test_under_open_mpi(mpi, execute):
    done = execute([*mpi("mpirun", 2), sys.executable, PROGRAM, "exit"], timeout=PATIENCE, JAX_NUM_CPU_DEVICES="1")
    assert done.returncode == 1
    assert "process 1 of 2 has ended after 7 batches" in done.stderr or "exited with non-zero" in done.stderr


@pytest.mark.slow
def test_killed_process_ends_both(bare):
    codes, errors = bare("killed")
    assert codes == [1, -signal.SIGKILL]
    assert "by peer" in errors[0]


@pytest.mark.slow
def test_network_failure_ends_both_after_heartbeat_timeout(hosts, environment):
    names, addresses = hosts
    front = [("ip", "netns", "exec", name) for name in names]
    processes = started("endless", f"{addresses[0]}:29433", environment, front, HEARTBEAT="10")
    try:
        for process in processes:
            assert "PLAN goes on\n" in iter(process.stdout.readline, "")
        subprocess.run(["ip", "-n", names[0], "link", "set", "penstock0", "down"], check=True)
    finally:
        codes, errors = ended(processes)
    assert codes == [-signal.SIGABRT, -signal.SIGABRT]
    assert all("another task died" in error for error in errors)
