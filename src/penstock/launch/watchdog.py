"""Ends what a job has started, whoever is left to do it. A program of its own, too: it needs nothing but Python.

The launcher gives every process of a job a variable with the job's name, and all that they start inherits it: so it is
found after its parent has ended, and in a session of its own. As a program this waits until the launcher is gone,
however that happens, and then ends what is left. It is for Linux; elsewhere nothing is found.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

JOB = "PENSTOCK_JOB"
"""The variable with the name of the job."""


def job_pids(job: str) -> list[int]:
    """The pids of all processes of a job that run."""
    wanted = f"{JOB}={job}".encode()
    found: list[int] = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or belongs to somebody else
            if wanted in (path / "environ").read_bytes().split(b"\0") and int(path.name) != os.getpid():
                found.append(int(path.name))
    return found


def kill(job: str, patience: float = 5.0) -> None:
    """Kill all processes of a job, and those that they start meanwhile."""
    until = time.monotonic() + patience
    while (pids := job_pids(job)) and time.monotonic() < until:
        for pid in pids:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()  # until the launcher closes it, or the kernel does
    kill(sys.argv[1])
