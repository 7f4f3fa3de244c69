"""Local launcher: starts and ends the processes of a job on this machine.

* No process listens on the network: they meet on the loopback interface.
* Output is forwarded immediately, each line prefixed with the number of the process.
* If a process fails, the others get SIGTERM at once and SIGKILL a few seconds later: JAX programs take SIGTERM as a
  notice of preemption.
* The same happens if the launcher is interrupted or terminated. Child processes end with their parents, also in other
  sessions.
* On Linux, this includes SIGKILL to the launcher: a small watchdog process outlives it.
"""

import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from itertools import takewhile
from os import PathLike
from pathlib import Path
from typing import Annotated, Any

from penstock.engine.jobs.job_environment import BIND, COORDINATOR, LOOPBACK, NUM_PROCESSES, PROCESS_ID
from penstock.errors import UsageError
from penstock.graph import Range, check_annotations
from penstock.launch import watchdog
from penstock.launch.distributed import check_port
from penstock.launch.output_prefix import Printer, forward_output
from penstock.launch.watchdog import JOB, kill

# Seconds between SIGTERM and SIGKILL.
_GRACE = 3.0

# Seconds between two polls of the processes.
_POLL = 0.02

# Seconds in which a killed process may end after a peer that misses it.
_SETTLE = 0.3


@check_annotations
def launch(
    command: Sequence[str | PathLike[str]],
    processes: Annotated[int, Range(1, 4096)],
    devices: Annotated[int, Range(1, 4096)] = 1,
    environment: Mapping[str, str] | None = None,
    port: int | None = None,
) -> int:
    """Run a command as several processes of one job, and wait for them.

    Args:
        command: The program and its arguments, the same for all processes.
        processes: The number of processes.
        devices: The number of devices of each process on JAX's CPU backend. GPUs are divided evenly.
        environment: Environment variables that the processes inherit; those of this process by default.
        port: The port at which process 0 listens for the others; a free one by default.

    Returns:
        0 if all processes succeeded; otherwise the exit code of the first that failed, or 128 + n if signal n ended it
        or the launcher.

    Raises:
        UsageError: the program does not exist, the port is in use, there are fewer GPUs than processes, or this is
            Windows.

    Example:
        >>> import sys
        >>> launch([sys.executable, "-c", "import sys; sys.exit(3)"], processes=2)
        3
    """
    if not hasattr(os, "killpg"):
        raise UsageError(
            "Windows cannot run a job of several processes",
            fix="run it in WSL2; or several devices in one process, by the environment variable JAX_NUM_CPU_DEVICES",
        )
    if port is not None:
        check_port(port)
    inherited = dict(os.environ if environment is None else environment)
    words = [os.fspath(word) for word in command]
    if not words or shutil.which(words[0], path=inherited.get("PATH")) is None:
        raise UsageError("the program does not exist", given=words)
    gpus = _gpu_shares(processes, inherited)
    name = secrets.token_hex(8)
    out, error = Printer(sys.stdout), Printer(sys.stderr)
    job: list[_Process] = []
    stop = _Interruptions()
    with stop, _watchdog(name), nullcontext(port) if port is not None else free_port() as meeting:
        try:
            for number in range(processes):
                own = {
                    COORDINATOR: f"{LOOPBACK}:{meeting}",
                    BIND: f"{LOOPBACK}:{meeting}",
                    NUM_PROCESSES: str(processes),
                    PROCESS_ID: str(number),
                    JOB: name,
                    "JAX_NUM_CPU_DEVICES": str(devices),
                    "PYTHONUNBUFFERED": "1",
                }
                own |= {"JAX_LOCAL_DEVICE_IDS": gpus[number]} if gpus else {}
                # By default, NCCL takes the first interface that is not the loopback interface.
                job.append(_Process(number, words, {"NCCL_SOCKET_IFNAME": "lo", **inherited, **own}, out, error))
            code, reason = _wait(job, stop, error)
        finally:
            _end(job, name)
        if lost := out.failure or error.failure:
            reason = "; ".join([*([reason] if reason else []), f"the output could not be written: {lost}"])
        # After `_end`, so that it is the last line.
        if reason:
            error.say(f"penstock launch: {reason}")
        return code or int(lost is not None)


class _Interruptions:
    """Context that records signals in place of ending this process."""

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                # `nohup` ignores SIGHUP. A shell ignores SIGINT for jobs in the background, but the launcher needs it.
                if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._note)

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, _frame: object) -> None:
        self.signal = signal.Signals(number)


class _Process:
    """Process of the job, and the threads that forward its output."""

    def __init__(
        self, number: int, command: Sequence[str], environment: Mapping[str, str], out: Printer, error: Printer
    ) -> None:
        self.number = number
        self.running = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            # Ctrl-C in a terminal reaches the launcher only, which ends the processes in order.
            start_new_session=True,
        )
        streams = ((self.running.stdout, out), (self.running.stderr, error))
        self._threads = [
            threading.Thread(
                target=forward_output, args=(source, printer, number), name=f"output {number}", daemon=True
            )
            for source, printer in streams
        ]
        for thread in self._threads:
            thread.start()

    @property
    def code(self) -> int | None:
        """The exit code, 128 + n for signal n; None while the process runs."""
        code = self.running.poll()
        return 128 - code if code is not None and code < 0 else code

    @property
    def outcome(self) -> str:
        """Description of the end of the process."""
        code = self.running.returncode
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        return f"process {self.number} (pid {self.running.pid}) {how}"

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process and its children."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.running.pid, number)

    def finish(self) -> None:
        """Wait until the process has ended and its output is forwarded."""
        self.running.wait()
        for thread in self._threads:
            thread.join(timeout=_GRACE)


def _wait(job: Sequence[_Process], stop: _Interruptions, error: Printer) -> tuple[int, str]:
    """Wait until all processes have ended, one has failed, or the launcher gets a signal.

    Returns:
        The exit code of the job, and a description of the processes that failed.
    """
    settled = False
    while True:
        if stop.signal is not None:
            error.say(f"penstock launch: {stop.signal.name}: ending {len(job)} processes")
            return 128 + stop.signal, ""
        codes = [process.code for process in job]
        # A process that loses a peer fails, too. If both ended since the last poll, the one with a signal was first.
        failed = sorted((process for process in job if process.code), key=lambda process: -(process.code or 0))
        # A killed process ends only when its memory is free, and a peer that misses it may be faster: look once more.
        if failed and (failed[0].code or 0) > 0 and None in codes and not settled:
            settled = True
            time.sleep(_SETTLE)
        elif failed:
            others = [f"the launcher ended the other {codes.count(None)}"] if None in codes else []
            return failed[0].code or 1, "; ".join([*(process.outcome for process in failed), *others])
        elif None not in codes:
            return 0, ""
        else:
            time.sleep(_POLL)


def _end(job: Sequence[_Process], name: str) -> None:
    """End all processes and their children."""
    for process in job:
        process.send(signal.SIGTERM)
    deadline = time.monotonic() + _GRACE
    while any(process.code is None for process in job) and time.monotonic() < deadline:
        time.sleep(_POLL)
    for process in job:
        process.send(signal.SIGKILL)
    kill(name)
    for process in job:
        process.finish()


@contextmanager
def _watchdog(name: str) -> Iterator[None]:
    """Run a process that ends the job if the launcher is killed."""
    if sys.platform != "linux":
        yield
        return
    command = [sys.executable, "-I", "-S", str(watchdog.__file__), name]
    # With an empty environment, so that it is not a process of the job itself.
    with subprocess.Popen(command, env={}, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True):
        yield


@contextmanager
def free_port() -> Iterator[int]:
    """Reserve a port at which process 0 can listen. On Linux, no other program can get it inside of the context."""
    with socket.socket() as reserved:
        # On Linux, with this option on both sockets, process 0 can bind the port while it is reserved but not
        # listening.
        if sys.platform == "linux":
            reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind((LOOPBACK, 0))
        port: int = reserved.getsockname()[1]
        if sys.platform != "linux":
            reserved.close()
        yield port


def _gpu_shares(processes: int, environment: Mapping[str, str]) -> list[str]:
    """Return the GPU numbers of each process, separated by commas; empty if there are none or JAX ignores them.

    Raises:
        UsageError: there are fewer GPUs than processes.
    """
    if environment.get("JAX_PLATFORMS", "") == "cpu":
        return []
    listed = environment.get("CUDA_VISIBLE_DEVICES")
    if listed is None:
        # Counted by device files: asking JAX would initialize the GPUs in the launcher, too.
        gpus = len(list(Path("/dev").glob("nvidia[0-9]*")))
    else:
        # For CUDA, the list ends at the first entry that is not a GPU, such as -1 or NoDevFiles.
        gpus = len(list(takewhile(re.compile(r"\s*(\d|GPU-|MIG-)").match, listed.split(","))))
    if not gpus:
        return []
    share = gpus // processes
    if not share:
        raise UsageError(
            "there are fewer GPUs than processes",
            given=f"{gpus} GPUs for {processes} processes",
            fix="fewer processes, or JAX_PLATFORMS=cpu",
        )
    return [",".join(map(str, range(number * share, (number + 1) * share))) for number in range(processes)]
