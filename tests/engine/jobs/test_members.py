"""Tests of job members, which report their ends over a store in memory."""

import os
import subprocess
import sys

import jax
import pytest

from penstock.engine.jobs import members
from penstock.engine.jobs.members import JobMembers
from penstock.errors import JobError


class Store(dict):
    """In-memory replacement of the key-value store of JAX's coordination service."""

    def key_value_set(self, key, value, allow_overwrite=False):
        if key in self and not allow_overwrite:
            raise RuntimeError("ALREADY_EXISTS")
        self[key] = value

    def key_value_dir_get(self, folder):
        return [(key, value) for key, value in self.items() if key.startswith(folder)]


class Left(BaseException):
    """Raised instead of ending the process."""


@pytest.fixture
def job(monkeypatch):
    """Return the members of a job with three processes."""

    def leave(code, *, interrupted):
        raise Left(code)

    store = Store()
    monkeypatch.setattr(jax.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(members, "_exit", leave)
    return [JobMembers(store, number, 3) for number in range(3)]


def take(part, times=1):
    for _ in range(times):
        with part.taking():
            pass


def leaves(process):
    """Publish that a process has finished."""
    process._set(f"left/{process.process}", members.json.dumps(process._batches))


def test_first_failure_is_raised_in_all_processes(job):
    parts = [process.begin(range(3)) for process in job]
    take(parts[0])
    job[1].fail(ValueError("first"))
    job[2].fail(ValueError("second"))
    job[0]._read()
    for part in parts:
        with pytest.raises(JobError, match=r"process 1 of 3 \(host (.|\n)* has failed:\n(.|\n)*ValueError: first"):
            take(part)


def test_process_that_left_early_is_detected_at_its_missing_batch(job):
    parts = [process.begin(range(3)) for process in job]
    take(parts[0], 2)
    take(parts[2], 2)
    leaves(job[2])
    job[0]._read()
    assert job[0]._failure is None
    with pytest.raises(
        JobError, match="process 2 of 3 has ended after 2 batches of an iterator of which process 0 takes 3"
    ):
        take(parts[0])
    job[1]._read()
    with pytest.raises(JobError, match="of which process 0 takes 3"):  # it found it first
        take(parts[1])


def test_iterator_that_another_process_did_not_create(job):
    for process in job:
        process.begin(range(3))
    second = job[0].begin([1, 0])
    job[2].begin(range(3))
    leaves(job[2])
    job[0]._read()
    take(second)  # process 2 has no part in it
    job[0].begin([2, 1, 0])
    job[0]._check_batches()
    assert job[0]._failure is None  # both have made two
    job[0].begin(range(3))
    with pytest.raises(JobError, match="process 2 of 3 has ended without making an iterator that process 0 makes"):
        take(second)


def test_equal_moves_of_an_iterator_are_no_failure(job):
    parts = [process.begin(range(3)) for process in job]
    for positions in (["epoch 0"], ["epoch 1", "epoch 2"]):
        for part in parts:
            take(part, 2)  # one process is ahead of the others
            for position in positions:
                part.move(position)
            part.peers._check_moves()
    for part in parts:
        take(part, 2)


@pytest.mark.parametrize(
    ("moves", "told"),
    [
        ({1: "epoch 1"}, "process 1 .* to epoch 1 after 2 batches, process 0 has not before it took 3"),
        ({0: "epoch 1", 1: "epoch 2", 2: "epoch 1"}, "to epoch . after 2 batches, process . to epoch . after 2"),
    ],
)
def test_different_moves_of_an_iterator_are_detected(job, moves, told):
    parts = [process.begin(range(3)) for process in job]
    for part in parts:
        take(part, 2)
    for process, position in moves.items():
        parts[process].move(position)
    take(parts[0])
    for process in job:
        process._read()
        process._check_moves()
    with pytest.raises(JobError, match=told):
        take(parts[0])


def test_fast_process_detects_a_move_before_it_leaves(job):
    """All others may have left, and would end as soon as this process leaves, too."""
    parts = [process.begin(range(3)) for process in job]
    take(parts[0], 3)
    take(parts[1], 2)
    parts[1].move("epoch 1")
    take(parts[1])
    take(parts[2], 3)
    for process in job[:2]:
        leaves(process)
    for process in (job[2], job[1]):
        with pytest.raises(Left, match="1"):
            process.end()
    assert members._FOLDER + "left/2" not in job[2]._client


def test_failed_batch_can_be_requested_again(job):
    part = job[0].begin(range(3))
    for _ in range(3):
        with pytest.raises(OSError, match="gone"), part.taking():
            raise OSError("gone")
    assert list(job[0]._batches.values()) == [0]


def test_failing_process_publishes_exit_code_without_waiting(job):
    job[1].fail(KeyboardInterrupt())
    with pytest.raises(Left, match="130"):
        job[1].end()
    with pytest.raises(Left, match="130"):
        job[2].end()
    assert members._FOLDER + "heard/2" in job[2]._client


def test_finished_processes_leave_together(job):
    for process in job[1:]:
        leaves(process)
    job[0].end()


def test_forked_process_does_not_report(job):
    job[1]._pid = os.getpid() + 1
    job[1].fail(ValueError("in a child"))
    job[1].end()
    assert not job[1]._client


def test_finished_process_does_not_wait_forever(job, monkeypatch):
    monkeypatch.setattr(members, "_JOINED_WAIT", -1)
    for process in job:
        process._set(f"watches/{process.process}", "")
    leaves(job[1])
    with pytest.raises(Left, match="1"):
        job[2].end()
    job[0]._read()
    with pytest.raises(JobError, match="process 2 of 3 has ended and waited -1 s for process 0\n  fix: "):
        take(job[0].begin(range(3)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("sys.exit(3)", None),
        ("sys.exit()", None),
        ("1 / 0", "ZeroDivisionError('division by zero')"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt()"),
        ("with contextlib.suppress(SystemExit): sys.exit(3)", None),
        ("pass", None),
        ("sys.excepthook = lambda *_: None; 1 / 0", "ZeroDivisionError('division by zero')"),
    ],
)
def test_uncaught_exception_is_reported(program, reason, tmp_path):
    script = tmp_path / "program.py"
    script.write_text(
        "import contextlib, sys\n"
        "from types import SimpleNamespace\n"
        "from penstock.engine.jobs import members\n"
        "errors = []\n"
        "members._members = SimpleNamespace(fail=errors.append, end=lambda: print(*map(repr, errors[:1])))\n"
        f"def main():\n    {program}\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == (reason or "")
