"""Watchdog: kills the processes of a job, also as a program that outlives the launcher.

It only needs the standard library.

The launcher sets an environment variable with the job's name for every process, and child processes inherit it. So they
can be found after their parents have ended, and in other sessions. As a program, the watchdog waits until the launcher
has ended, and kills the remaining processes. It works on Linux only; elsewhere it finds no processes.
"""

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

# Environment variable with the name of the job.
JOB = "PENSTOCK_JOB"


def job_pids(job: str) -> list[int]:
    """Return the pids of all running processes of a job."""
    wanted = f"{JOB}={job}".encode()
    pids: list[int] = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # the process has ended, or belongs to another user
            if wanted in (path / "environ").read_bytes().split(b"\0") and int(path.name) != os.getpid():
                pids.append(int(path.name))
    return pids


def kill(job: str, patience: float = 5.0) -> None:
    """Kill all processes of a job."""
    # Repeated, because a process may start another one between listing and killing.
    until = time.monotonic() + patience
    while (pids := job_pids(job)) and time.monotonic() < until:
        for pid in pids:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # Returns when the launcher closes the pipe, or the kernel does because the launcher has ended.
    sys.stdin.buffer.read()
    kill(sys.argv[1])
