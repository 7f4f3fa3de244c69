"""Starting the processes of a job on this machine, and ending them.

The contract:

* Nothing listens to the network: the processes meet on the loopback interface.
* Output is passed on as it comes, with the number of the process in front of each line.
* When a process fails, the others are ended at once. They are asked first (SIGTERM), and killed a few seconds later: to
  a JAX program SIGTERM is a notice of preemption.
* The same happens when the launcher is interrupted or terminated. What the processes have started ends with them, in
  sessions of its own, too.
* On Linux all that is so where the launcher is killed, as well: a small process outlives it for that.
"""

from __future__ import annotations

import os
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
from os import PathLike
from pathlib import Path
from typing import Annotated, Any

from penstock.errors import UsageError
from penstock.graph.arguments.argument_checks import check_annotations
from penstock.graph.arguments.argument_marks import Range
from penstock.launch import watchdog
from penstock.launch.distributed import BIND, COORDINATOR, LOOPBACK, NUM_PROCESSES, PROCESS_ID, check_port
from penstock.launch.output_prefix import Printer, forward_output
from penstock.launch.watchdog import JOB, kill

_GRACE = 3.0
"""Seconds that a process has to end when it is asked to."""

_POLL = 0.02
"""Seconds between two looks at the processes."""


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
        command: the program and its arguments, the same for all.
        processes: how many.
        devices: how many devices each has on JAX's CPU backend. GPUs are divided evenly.
        environment: the variables that they inherit; None takes this process's.
        port: where process 0 listens for the others; None takes a free one.

    Returns:
        0 if all processes ended well; otherwise the exit code of the one that failed first, 128 + n where signal n
        ended it or the launcher.

    Raises:
        UsageError: there is no such program, or there cannot be that many processes or devices.

    Example:
        >>> import sys
        >>> launch([sys.executable, "-c", "import sys; sys.exit(3)"], processes=2)
        3
    """
    if port is not None:
        check_port(port)
    inherited = dict(os.environ if environment is None else environment)
    words = [os.fspath(word) for word in command]
    if not words or shutil.which(words[0], path=inherited.get("PATH")) is None:
        raise UsageError("there is no such program", given=words)
    shares = _gpu_shares(processes, inherited)
    name = secrets.token_hex(8)
    out, error = Printer(sys.stdout), Printer(sys.stderr)
    job: list[_Process] = []
    stop = _Interruptions()
    with stop, _keeper(name), nullcontext(port) if port is not None else free_port() as meeting:
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
                own |= {"JAX_LOCAL_DEVICE_IDS": shares[number]} if shares else {}
                # NCCL prefers every other interface
                job.append(_Process(number, words, {"NCCL_SOCKET_IFNAME": "lo", **inherited, **own}, out, error))
            code, why = _wait(job, stop, error)
        finally:
            _end(job, name)
        if lost := out.failure or error.failure:
            why = "; ".join([*([why] if why else []), f"what the processes print could not be written: {lost}"])
        if why:  # below what the others print while they end
            error.say(f"penstock launch: {why}")
        return code or int(lost is not None)


class _Interruptions:
    """While entered, takes note of the signals that would end this process."""

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:  # as nohup asks for
                    self._before[number] = signal.signal(number, self._note)

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, _frame: object) -> None:
        self.signal = signal.Signals(number)


class _Process:
    """One process of the job, and the threads that pass on what it prints."""

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
        """Its exit code, 128 + n for signal n; None while it runs."""
        code = self.running.poll()
        return 128 - code if code is not None and code < 0 else code

    @property
    def fate(self) -> str:
        """How it ended, in words."""
        code = self.running.returncode
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        return f"process {self.number} (pid {self.running.pid}) {how}"

    def send(self, number: signal.Signals) -> None:
        """Send a signal to it and to all that it has started."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.running.pid, number)

    def finish(self) -> None:
        """Wait until it is gone and all that it printed has been passed on."""
        self.running.wait()
        for thread in self._threads:
            thread.join(timeout=_GRACE)


def _wait(job: Sequence[_Process], stop: _Interruptions, error: Printer) -> tuple[int, str]:
    """Wait until all have ended, one has failed, or the launcher is told to stop.

    Returns:
        The exit code of the job, and which processes have failed, in words.
    """
    while True:
        if stop.signal is not None:
            error.say(f"penstock launch: {stop.signal.name}: ending {len(job)} processes")
            return 128 + stop.signal, ""
        codes = [process.code for process in job]
        # one that loses its peer fails, too: where two have ended since the last look, a signal was there first
        failed = sorted((process for process in job if process.code), key=lambda process: -(process.code or 0))
        if failed:
            others = [f"the launcher ended the other {codes.count(None)}"] if None in codes else []
            return failed[0].code or 1, "; ".join([*(process.fate for process in failed), *others])
        if None not in codes:
            return 0, ""
        time.sleep(_POLL)


def _end(job: Sequence[_Process], name: str) -> None:
    """End all processes, and what they have started."""
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
def _keeper(name: str) -> Iterator[None]:
    """A process that ends the job if this one is killed."""
    if sys.platform != "linux":
        yield
        return
    command = [sys.executable, "-I", "-S", str(watchdog.__file__), name]
    # without variables, so that it is no member of a job itself
    with subprocess.Popen(command, env={}, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True):
        yield


@contextmanager
def free_port() -> Iterator[int]:
    """A port at which process 0 can listen. On Linux no other program is given it while this is entered."""
    with socket.socket() as held:
        if sys.platform == "linux":  # who asks for this port may have it, as long as nobody listens
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind((LOOPBACK, 0))
        port: int = held.getsockname()[1]
        if sys.platform != "linux":
            held.close()
        yield port


def _gpu_shares(processes: int, environment: Mapping[str, str]) -> list[str]:
    """Per process the numbers of its GPUs, separated by commas; nothing where it has none or JAX is not to see them.

    Raises:
        UsageError: there are fewer GPUs than processes.
    """
    if environment.get("JAX_PLATFORMS", "") == "cpu":
        return []
    listed = environment.get("CUDA_VISIBLE_DEVICES")
    found = len(list(Path("/dev").glob("nvidia[0-9]*"))) if listed is None else len([x for x in listed.split(",") if x])
    if not found:
        return []
    share = found // processes
    if not share:
        raise UsageError(
            "there are fewer GPUs than processes",
            given=f"{found} GPUs for {processes} processes",
            fix="fewer processes, or JAX_PLATFORMS=cpu",
        )
    return [",".join(map(str, range(number * share, (number + 1) * share))) for number in range(processes)]
