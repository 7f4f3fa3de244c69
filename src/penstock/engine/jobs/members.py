"""Membership in a job: each process reports how it ends, and learns how the others do.

JAX ends a process only together with all others: at exit a process waits for them in a barrier, up to 300 seconds,
while they wait for its part of a collective. So each process of a job writes its end to the key-value store of JAX's
coordination service:

* A process that *fails*, by an exception, writes its traceback there and ends without the barrier. Every other process
  reads it within a second, raises it at its next batch, and ends a few seconds later at the latest, with the traceback
  as its last output and the same exit code. The first failure counts.
* A process that *leaves*, because its program has ended, writes how many batches it has taken, and waits for the
  others. A process that needs more batches than that would wait forever, so it fails.
* A process that *moves* an iterator, by `set_state` or `seek`, writes where to. Batches would consist of rows of
  different steps if another process moved it to another position, or not at all, so it fails.

Python tells exit hooks neither about `SystemExit` nor about the exit code, so a process that calls `sys.exit` leaves.
Process 0 runs the coordination service and therefore ends last.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict
from typing import Any, NoReturn

# `atexit` runs the latest hook first. JAX registers its own at import, so `_end` below runs before JAX's barrier.
import jax

from penstock.core import slow_waits
from penstock.core.dataclass import dataclass
from penstock.engine.jobs.jax_runtime import coordination_client, process_number
from penstock.engine.jobs.key_value_store import KeyValueStore
from penstock.engine.jobs.loopback import confine_gloo, confine_nccl
from penstock.errors import JobError

# Seconds between two reads of the store.
_PERIOD = 1.0

# Seconds that a process has to end by itself once the job has failed: to raise the failure, and to close its files.
_GRACE = 3.0

# Seconds that process 0 keeps the store open for the others once the job has failed. One of them may never have joined.
_FAREWELL = 5.0

# Seconds that a process which has left waits for processes that have not joined, and perhaps never import penstock.
_UNJOINED_WAIT = 60.0

# Seconds that a process which has left waits for processes that have joined. They may have work to do that needs no
# other process, such as a last evaluation; but they may also wait for a step that this process never takes.
_JOINED_WAIT = 3600.0

# Characters of a traceback to report, from its end. Bounds what every process of a large job prints.
_LONGEST_TRACEBACK = 20_000

_FOLDER = "penstock/peers/"
_ITERATORS = "penstock/boards"
_FAILURE, _JOINED, _LEFT, _INFORMED, _MOVES = "failure", "watches", "left", "heard", "moves"


@dataclass(frozen=True)
class JobFailure:
    """Failure of a job.

    Args:
        what: A sentence that names the process that failed.
        text: A traceback, or the line with the fix.
        code: The exit code of the job.
    """

    what: str
    text: str
    code: int = 1


class JobMembers:
    """The other processes of this process's job. `join_job` builds the only instance.

    Args:
        client: JAX's client of the coordination service.
        process: The number of this process.
        processes: The number of processes.
    """

    def __init__(self, client: Any, process: int, processes: int) -> None:
        self._client, self.process, self.processes = client, process, processes
        self._pid = os.getpid()
        self._batches: dict[str, int] = {}
        self._iterators: Counter[str] = Counter()
        self._left: dict[int, dict[str, int]] = {}
        # Per process and iterator: the number of moves, the batches taken before the last one, and where it led.
        self._moves: dict[int, dict[str, tuple[int, int, str]]] = {process: {}}
        self._failure: JobFailure | None = None
        self._error: BaseException | None = None
        self._ending = threading.Event()
        self._end_callbacks: list[Callable[[], None]] = []
        self._finishing = threading.Lock()

    def watch(self) -> None:
        """Start the thread that watches the others."""
        self._set(f"{_JOINED}/{self.process}", "")
        threading.Thread(target=self._watch, name="penstock peers", daemon=True).start()

    def begin(self, processes: Iterable[int]) -> IteratorMembership:
        """Join the next iterator that these processes build together."""
        group = ",".join(map(str, sorted(processes)))
        self._iterators[group] += 1
        key = f"{group}#{self._iterators[group]}"
        self._batches[key] = 0
        return IteratorMembership(self, key, KeyValueStore(self._client, f"{_ITERATORS}/{key}", self.process))

    def move(self, key: str, position: str) -> None:
        """Tell the others that an iterator has moved; see `IteratorMembership.move`."""
        mine = self._moves[self.process]
        mine[key] = mine.get(key, (0,))[0] + 1, self._batches[key], position
        with suppress(Exception):  # the service is gone
            self._client.key_value_set(f"{_FOLDER}{_MOVES}/{self.process}", json.dumps(mine), allow_overwrite=True)
            self._read()

    def at_end(self, callback: Callable[[], None]) -> None:
        """Call a function when all others have left, or have been informed that the job fails."""
        self._end_callbacks.append(callback)

    @contextmanager
    def taking_batch(self, key: str) -> Iterator[None]:
        """Count a batch of an iterator; see `IteratorMembership.taking`."""
        self._batches[key] += 1
        try:
            self._check_batches()
            self.check()
            yield
        except BaseException:
            # The caller may ask for the same batch again.
            self._batches[key] -= 1
            raise

    def check(self) -> None:
        """Check that no process has failed.

        Raises:
            JobError: A process has failed.
        """
        if self._failure is not None:
            raise JobError(f"{self._failure.what}\n{self._failure.text}")

    def fail(self, error: BaseException) -> None:
        """Report to the others that an exception ends this process."""
        # A fork inherits the hooks, but its end is not the end of this member.
        if os.getpid() != self._pid:
            return
        self._error = error
        if not isinstance(error, JobError):
            name = f"process {self.process} of {self.processes} (host {socket.gethostname()}, pid {self._pid})"
            code = 128 + signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
            self._report(JobFailure(f"{name} has failed:", _traceback(error), code))

    def end(self) -> None:
        """Leave the job, before JAX's own shutdown. Does not return if the job has failed."""
        if os.getpid() != self._pid or not jax.distributed.is_initialized():
            return
        self._ending.set()
        # Before this process leaves: once all have left, the others end, and would not read a failure.
        self._check_others()
        if self._error is None and self._failure is None:
            self._set(f"{_LEFT}/{self.process}", json.dumps(self._batches))
            self._wait_for_all()
        if self._failure is not None:
            self._finish(self._failure)
        self._call_back()

    def _watch(self) -> None:
        deadline = float("inf")
        while not self._ending.wait(_PERIOD if self._failure is None else 0.1):
            self._check_others()
            if self._failure is not None:
                deadline = min(deadline, time.monotonic() + _GRACE)
                if time.monotonic() >= deadline:
                    self._finish(self._failure)

    def _read(self) -> dict[str, set[int]]:
        """Read the store. Returns the numbers of the processes that have joined, left and been informed."""
        entries = {key.removeprefix(_FOLDER): text for key, text in self._client.key_value_dir_get(_FOLDER)}
        if self._failure is None and _FAILURE in entries:
            self._failure = JobFailure(**json.loads(entries[_FAILURE]))
        numbers: dict[str, set[int]] = {_JOINED: set(), _LEFT: set(), _INFORMED: set(), _MOVES: set()}
        for key, text in entries.items():
            kind, _, process = key.partition("/")
            if process:
                numbers[kind].add(int(process))
            if kind == _LEFT:
                self._left[int(process)] = json.loads(text)
            if kind == _MOVES and int(process) != self.process:
                self._moves[int(process)] = {name: tuple(move) for name, move in json.loads(text).items()}
        return numbers

    def _check_others(self) -> None:
        """Read the store, and fail if a process has moved or left in a way that this process cannot follow."""
        with suppress(Exception):  # the service is gone, and JAX ends the process
            self._read()
        self._check_moves()
        self._check_batches()

    def _check_moves(self) -> None:
        """Fail if a process has moved one of this process's iterators in another way."""
        if self._failure is not None:
            return
        mine = self._moves[self.process]
        for process, moves in list(self._moves.items()):
            for key, (count, batches, position) in moves.items():
                own_count, own_batches, own_position = mine.get(key, (0, 0, ""))
                taken = self._batches.get(key, 0)
                if count == own_count and (batches, position) != (own_batches, own_position):
                    here = f"process {self.process} to {own_position} after {own_batches}"
                elif count > own_count and taken > batches:
                    here = f"process {self.process} has not before it took {taken}"
                else:
                    continue
                there = f"process {process} of {self.processes} has moved an iterator to {position} after {batches}"
                fix = "let all processes pass the same states to set_state, and positions to seek, at the same batch"
                self._report(JobFailure(f"{there} batches, {here}", f"  fix:      {fix}"))
                return

    def _check_batches(self) -> None:
        """Fail if a process has left that one of this process's iterators needs."""
        if self._failure is not None or not self._left:
            return
        for key, mine in list(self._batches.items()):
            for process in map(int, key.partition("#")[0].split(",")):
                theirs = self._left.get(process, self._batches).get(key, -1)
                if theirs < mine:
                    fewer = f"after {theirs} batches of an iterator of which process {self.process} takes {mine}"
                    none = f"without making an iterator that process {self.process} makes"
                    what = f"process {process} of {self.processes} has ended {none if theirs < 0 else fewer}"
                    fix = "let all processes make the same iterators and take the same number of batches of each"
                    self._report(JobFailure(what, f"  fix:      {fix}"))
                    return

    def _report(self, failure: JobFailure) -> None:
        if self._failure is None:
            # The store refuses to overwrite, so the first failure of the job stays; reading returns it.
            self._set(_FAILURE, json.dumps(asdict(failure)))
            with suppress(Exception):
                self._read()
            self._failure = self._failure or failure

    def _wait_for_all(self) -> None:
        """Wait until all processes have left, or one has failed. Reports a failure if the others take too long."""
        start, pause = time.monotonic(), 0.02
        while self._failure is None:
            try:
                numbers = self._read()
            except Exception:  # noqa: BLE001  # without the service, no process can be waited for
                return
            self._check_moves()
            missing, waited = set(range(self.processes)) - numbers[_LEFT], time.monotonic() - start
            if not missing or (not missing & numbers[_JOINED] and waited > _UNJOINED_WAIT):
                return
            if waited > _JOINED_WAIT:
                listed = ", ".join(map(str, sorted(missing)))
                what = f"process {self.process} of {self.processes} has ended and waited {_JOINED_WAIT:.0f} s for "
                fix = "let all processes take the same steps: each step waits for all of them"
                self._report(JobFailure(f"{what}process {listed}", f"  fix:      {fix}"))
            time.sleep(pause)
            pause = min(2 * pause, _PERIOD)

    def _finish(self, failure: JobFailure) -> NoReturn:
        """End this process at once, with the traceback and the exit code of the failure."""
        self._finishing.acquire()  # never released: the watching thread and the main thread may both get here
        with suppress(Exception):
            logging.shutdown()
        with suppress(Exception):
            sys.stdout.flush()
            # Python has already printed this process's own exception.
            if not (isinstance(self._error, JobError) or (self._error and _traceback(self._error) == failure.text)):
                sys.stderr.write(f"penstock: this process ends, because {failure.what}\n{failure.text}\n")
            sys.stderr.flush()
        self._set(f"{_INFORMED}/{self.process}", "")
        if self.process == 0:
            self._wait_until_informed()
        self._call_back()
        _exit(failure.code, interrupted=isinstance(self._error, KeyboardInterrupt))

    def _call_back(self) -> None:
        for callback in self._end_callbacks:
            with suppress(Exception):  # it must not keep the process from ending
                callback()

    def _wait_until_informed(self) -> None:
        """Keep the store open until all others have read the failure."""
        until, others = time.monotonic() + _FAREWELL, set(range(1, self.processes))
        with suppress(Exception):
            while not others <= self._read()[_INFORMED] and time.monotonic() < until:
                time.sleep(0.1)

    def _set(self, key: str, value: str) -> None:
        with suppress(Exception):  # the key exists, or the service is gone
            self._client.key_value_set(_FOLDER + key, value)


@dataclass(frozen=True)
class IteratorMembership:
    """Membership of this process in an iterator that several processes build together.

    Args:
        peers: The members of the job.
        key: Names the iterator in the job.
        store: Store of the processes that share the iterator.
    """

    peers: JobMembers
    key: str
    store: KeyValueStore

    def taking(self) -> AbstractContextManager[None]:
        """Enter this context around each batch. Counts it, so that processes that take fewer batches are detected.

        Raises:
            JobError: a process has failed, or has left without taking this batch.
        """
        return self.peers.taking_batch(self.key)

    def move(self, position: str) -> None:
        """Tell the other processes that this one continues at another position, which all of them must do."""
        self.peers.move(self.key, position)


def _traceback(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)).rstrip()[-_LONGEST_TRACEBACK:]


def _exit(code: int, *, interrupted: bool) -> NoReturn:
    if interrupted:
        # Only death by the signal tells a shell that Ctrl-C was pressed; an exit code of 130 does not stop its loops.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    # `sys.exit` would run JAX's exit hook, which waits for all processes.
    os._exit(code)


_members: JobMembers | None = None
_joining = threading.Lock()


def join_job() -> JobMembers | None:
    """Return the members of the job that `jax.distributed` was initialized for; None if this process is alone."""
    global _members  # noqa: PLW0603  # a process belongs to one job
    with _joining:
        if _members is None and (members := _build()) is not None:
            _members = members
            slow_waits.process_name = f"process {members.process} of {members.processes}: "
            confine_nccl()
            members.watch()
        return _members


def _build() -> JobMembers | None:
    client, (process, processes) = coordination_client(), process_number()
    return None if client is None or processes <= 1 else JobMembers(client, process, processes)


def _report_exceptions() -> None:
    """Report the exception that ends the program before Python prints it.

    `atexit` hooks alone would be too late: Python first waits for all threads that are not daemons.
    """
    previous = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: Any) -> None:
        if (members := join_job()) is not None:
            members.fail(error)
        previous(kind, error, trace)

    sys.excepthook = hook


@atexit.register
def _end() -> None:
    # A process that leaves without having joined has no use for the watching thread.
    if (members := _members or _build()) is not None:
        # A hook that the program installed after ours may not call it. A session has survived its last exception.
        error = None if sys.flags.interactive or hasattr(sys, "ps1") else getattr(sys, "last_value", None)
        if isinstance(error, BaseException):
            members.fail(error)
        members.end()


_report_exceptions()
confine_gloo()
join_job()
