"""What the processes of a job learn of each other while they run: who has failed, and who has left.

JAX ends a process only together with all others: on its way out a process waits for them, up to 300 seconds, while they
wait for its part of a collective. So each process of a job tells the others how it ends, through the key-value store
of JAX's coordination service:

* One that *fails*, by an exception or by `sys.exit` with an exit code, writes its traceback there and ends without
  waiting. Every other process reads it within a second, raises it at its next batch, and ends a few seconds later at
  the latest, with the traceback as its last words and the same exit code. The first failure counts.
* One that *leaves*, because its program is over, writes how many batches it has taken, and waits for the others. A
  process that needs more batches than that would wait for ever; it fails.

Process 0 has the coordination service, so it ends last.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import Any, NoReturn

import jax  # noqa: F401  # its exit hook is there before ours, so ours runs first
from jax._src.distributed import global_state

from penstock.engine.jobs import exit_status
from penstock.engine.jobs.key_value_store import KeyValueStore
from penstock.engine.jobs.loopback import confine_collectives
from penstock.errors import JobError

_PERIOD = 1.0
"""Seconds between two looks at the store."""

_GRACE = 3.0
"""Seconds that a process has to end by itself when another one has failed, or it has."""

_FAREWELL = 5.0
"""Seconds that process 0 keeps the store open at most for the others when the job fails."""

_STRANGERS = 60.0
"""Seconds that a process which is over waits for processes that have not begun to watch, and perhaps never do."""

_SHUTDOWN = 300
"""Seconds that a process may wait in one call when another is over, unless `jax.distributed.initialize` was told how
long shutting down may take: without us, JAX would end both then."""

_FOLDER = "penstock/peers/"
_BOARDS = "penstock/boards"
_FAILURE, _WATCHES, _LEFT, _HEARD = "failure", "watches", "left", "heard"


@dataclass(frozen=True)
class JobFailure:
    """How a job fails.

    Args:
        what: a sentence that names the process that is to blame.
        text: the last words: a traceback, or what to do.
        code: the exit code of the job.
    """

    what: str
    text: str
    code: int = 1


class JobMembers:
    """The other processes of this one's job. There is one object, made by `join`.

    Args:
        client: JAX's client of the coordination service.
        process: this process's number.
        processes: how many the job has.
    """

    def __init__(self, client: Any, process: int, processes: int) -> None:
        self._client, self._process, self._processes = client, process, processes
        self._pid = os.getpid()
        self._taken: dict[str, int] = {}
        self._groups: Counter[str] = Counter()
        self._left: dict[int, dict[str, int]] = {}
        self._failure: JobFailure | None = None
        self._failing = False  # by itself: then it says so itself
        self._over = threading.Event()
        self._last: list[Callable[[], None]] = []
        self._finishing = threading.Lock()

    def watch(self) -> None:
        """Begin to watch the others."""
        self._set(f"{_WATCHES}/{self._process}", "")
        threading.Thread(target=self._watch, name="penstock peers", daemon=True).start()

    def begin(self, processes: Iterable[int]) -> IteratorMembership:
        """This process's part in the next iterator that these processes make together."""
        group = ",".join(map(str, sorted(processes)))
        self._groups[group] += 1
        key = f"{group}#{self._groups[group]}"
        self._taken[key] = 0
        return IteratorMembership(self, key)

    def board(self, key: str) -> KeyValueStore:
        """What the processes show each other that make an iterator together."""
        return KeyValueStore(self._client, f"{_BOARDS}/{key}", self._process)

    def at_end(self, act: Callable[[], None]) -> None:
        """Do something when all others have left, or have heard that the job fails."""
        self._last.append(act)

    @contextmanager
    def taking_batch(self, key: str) -> Iterator[None]:
        """Around the taking of a batch of an iterator; see `IteratorMembership`."""
        self._taken[key] += 1
        try:
            self._find_missing()
            if self._failure is not None:
                raise JobError(f"{self._failure.what}\n{self._failure.text}")
            yield
        except BaseException:
            self._taken[key] -= 1  # the caller may ask again
            raise

    def fail(self, error: BaseException) -> None:
        """Tell the others that this process fails."""
        if os.getpid() != self._pid:  # a fork of it does
            return
        self._failing = True
        if not isinstance(error, JobError):
            name = f"process {self._process} of {self._processes} (host {socket.gethostname()}, pid {self._pid})"
            self._report(
                JobFailure(f"{name} has failed:", exit_status.format_exception(error), exit_status.exit_code(error))
            )

    def end(self) -> None:
        """The last thing that a process does before JAX's own shutdown. Does not return where the job fails."""
        if os.getpid() != self._pid or global_state.client is None:
            return
        self._over.set()
        error = exit_status.exit_cause()
        if error is not None:
            self.fail(error)
        elif self._failure is None:
            self._set(f"{_LEFT}/{self._process}", json.dumps(self._taken))
            self._wait_for_all()
            self._do_last()
        if self._failure is not None:
            said = isinstance(error, JobError) or (
                error is not None and exit_status.format_exception(error) == self._failure.text
            )
            self._finish(self._failure, say=not said)

    def _watch(self) -> None:
        deadline = float("inf")
        pulse = exit_status.MainThreadMonitor()
        while not self._over.wait(_PERIOD if self._failure is None else 0.1):
            with suppress(Exception):  # the service may be slow, or gone: JAX deals with that
                self._look()
            self._find_missing()
            if self._left and pulse.seconds() > _patience:
                self._report(self._missed())
            if self._failure is not None:
                deadline = min(deadline, time.monotonic() + _GRACE)
                if time.monotonic() >= deadline:
                    self._finish(self._failure, say=not self._failing)

    def _look(self) -> dict[str, set[int]]:
        """Read the store; which processes watch, have left, have heard."""
        found = {key.removeprefix(_FOLDER): text for key, text in self._client.key_value_dir_get(_FOLDER)}
        if self._failure is None and _FAILURE in found:
            self._failure = JobFailure(**json.loads(found[_FAILURE]))
        numbers: dict[str, set[int]] = {_WATCHES: set(), _LEFT: set(), _HEARD: set()}
        for key, text in found.items():
            kind, _, process = key.partition("/")
            if process:
                numbers[kind].add(int(process))
            if kind == _LEFT:
                self._left[int(process)] = json.loads(text)
        return numbers

    def _find_missing(self) -> None:
        """Fail if a process has left that one of this process's iterators needs."""
        if self._failure is not None or not self._left:
            return
        for key, mine in list(self._taken.items()):
            for process in map(int, key.partition("#")[0].split(",")):
                theirs = self._left.get(process, self._taken).get(key, -1)
                if theirs < mine:
                    made = f"after {theirs} batches of an iterator of which process {self._process} takes {mine}"
                    none = f"without making an iterator that process {self._process} makes"
                    what = f"process {process} of {self._processes} has ended {none if theirs < 0 else made}"
                    fix = "let all processes make the same iterators and take the same number of batches of each"
                    self._report(JobFailure(what, f"  fix:      {fix}"))
                    return

    def _missed(self) -> JobFailure:
        """The failure of this process where it waits for one that is over."""
        listed = ", ".join(map(str, sorted(self._left)))
        what = f"process {self._process} of {self._processes} has waited in one call for {_patience:.0f} s, while the "
        what += f"program is over in process {listed}"
        fix = "let all processes take the same steps: one that ends before the step of its last batch is missed in it"
        return JobFailure(what, f"  fix:      {fix}")

    def _report(self, failure: JobFailure) -> None:
        if self._failure is None:
            self._set(_FAILURE, json.dumps(asdict(failure)))  # refused where another one was first
            with suppress(Exception):
                self._look()
            self._failure = self._failure or failure

    def _wait_for_all(self) -> None:
        """Wait until all processes have left, or one has failed; for those that do not know of this, a while."""
        pause, until = 0.02, time.monotonic() + _STRANGERS
        while self._failure is None:
            try:
                numbers = self._look()
            except Exception:  # noqa: BLE001  # without the service there is nobody to wait for
                return
            missing = set(range(self._processes)) - numbers[_LEFT]
            if not missing or (not missing & numbers[_WATCHES] and time.monotonic() > until):
                return
            time.sleep(pause)
            pause = min(2 * pause, _PERIOD)

    def _finish(self, failure: JobFailure, *, say: bool) -> NoReturn:
        """End this process at once, with the exit code of the first that failed, and with its last words."""
        self._finishing.acquire()  # for ever: one thread does this
        with suppress(Exception):
            logging.shutdown()
        with suppress(Exception):
            sys.stdout.flush()
            if say:
                sys.stderr.write(f"penstock: this process ends, because {failure.what}\n{failure.text}\n")
            sys.stderr.flush()
        self._set(f"{_HEARD}/{self._process}", "")
        if self._process == 0:
            self._serve_the_last()
        self._do_last()
        exit_status.exit_now(failure.code)

    def _do_last(self) -> None:
        for act in self._last:
            with suppress(Exception):  # it must not keep the process from ending
                act()

    def _serve_the_last(self) -> None:
        """Keep the store until all others have heard of the failure."""
        until, others = time.monotonic() + _FAREWELL, set(range(1, self._processes))
        with suppress(Exception):
            while not others <= self._look()[_HEARD] and time.monotonic() < until:  # some may not have joined yet
                time.sleep(0.1)

    def _set(self, key: str, value: str) -> None:
        with suppress(Exception):  # it is there already, or the service is gone
            self._client.key_value_set(_FOLDER + key, value)


@dataclass(frozen=True)
class IteratorMembership:
    """What one process has to do with an iterator that several make together."""

    peers: JobMembers
    key: str

    def taking(self) -> AbstractContextManager[None]:
        """Around the taking of a batch: counts it, so that processes that take other numbers of batches are found.

        Raises:
            JobError: a process has failed, or has left without taking this batch.
        """
        return self.peers.taking_batch(self.key)

    def board(self) -> KeyValueStore:
        """What the processes show each other."""
        return self.peers.board(self.key)


_peers: JobMembers | None = None
_patience = _SHUTDOWN
_joining = threading.Lock()


def join_job() -> JobMembers | None:
    """The other processes of the job that `jax.distributed` was initialized for; None where this one is alone."""
    global _peers  # noqa: PLW0603  # a process belongs to one job
    with _joining:
        if _peers is None and (made := _make()) is not None:
            _peers = made
            exit_status.watch_exit(made.fail)
            made.watch()
        return _peers


def _make() -> JobMembers | None:
    state = global_state
    alone = state.client is None or state.num_processes <= 1
    return None if alone else JobMembers(state.client, state.process_id, state.num_processes)


def _join_from_now_on() -> None:
    """Join as soon as `jax.distributed` is initialized, whoever does that: any process may fail from then on."""
    plain = global_state.initialize

    def initialize(*args: Any, shutdown_timeout_seconds: int = _SHUTDOWN, **kwargs: Any) -> None:
        global _patience  # noqa: PLW0603  # as `_peers`
        plain(*args, shutdown_timeout_seconds=shutdown_timeout_seconds, **kwargs)
        _patience = shutdown_timeout_seconds
        confine_collectives()
        join_job()

    global_state.initialize = initialize
    confine_collectives()
    join_job()


_join_from_now_on()


@atexit.register
def _end() -> None:
    peers = _peers or _make()  # one that has not joined yet has failed early, or has no use for the others
    if peers is not None:
        peers.end()
