"""Executor that sends chunks to input hosts, and computes what they do not in this process."""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import replace
from typing import Any, cast

import numpy as np

from penstock.core import Array, Column
from penstock.core.slice_recorder import recorded
from penstock.engine.host.batch_buffers import aligned_memory
from penstock.engine.host.chunk_executor import Chunk, ChunkExecutor, ChunkResult
from penstock.engine.host.host_program import HostProgram
from penstock.engine.host.machine_identity import machine_identity
from penstock.engine.host.worker_threads import ThreadExecutor
from penstock.engine.input_hosts import json_messages as messages
from penstock.engine.input_hosts.chunk_protocol import OPEN, STATUS, STATUS_FIELDS, ChunkRequest
from penstock.engine.input_hosts.host_address import HostAddress, HostCredentials
from penstock.engine.input_hosts.host_connection import (
    ChecksumError,
    HostConnection,
    HostFailureError,
    HostTimeoutError,
    load_grpc,
)
from penstock.engine.input_hosts.host_names import HostName, HostNames
from penstock.engine.input_hosts.host_pool import HostPool, InputHost, Loan
from penstock.engine.input_hosts.json_messages import MessageError
from penstock.errors import ContextError, UsageError

_log = logging.getLogger("penstock")

# Seconds that a chunk may spend on hosts before this process computes it: a batch must not wait for 10 s.
_REMOTE_SECONDS = 6.0

# Bounds of the time limit of one request, and its ratio to the expected time. A host that only is busy must not be
# taken for one that has stopped.
_MIN_REQUEST_SECONDS, _PATIENCE = 1.0, 10.0

# Seconds for a host to say that it is there, and that it has built a program or is building it.
_STATUS_SECONDS, _OPEN_SECONDS = 3.0, 5.0

# Seconds that the first batch waits for hosts that are building the program and compiling its loops. If no host is
# there, it does not wait.
_FIRST_SECONDS = 30.0

# Seconds that it waits for the addresses of DNS names.
_LOOKUP_SECONDS = 10.0

# Fields of the answer to `OPEN`.
_ANSWER = ("threads", "differences", "reason", "building")

# Threads that wait for answers, per host and in all.
_MAX_WAITING, _MAX_WAITING_PER_HOST = 128, 32

# Hosts of DNS names that are connected to at the same time.
_MAX_OPENERS = 64


class RemoteExecutor(ChunkExecutor):
    """Executor that computes the chunks of one program on input hosts.

    A thread per request sends it to the host that is expected to complete it first, waits, and copies the answer into
    the slots. If a host fails, refuses or does not answer in time, the chunk goes to another host, and finally to a
    thread of this process. Errors of a host's computation are not transferred: this process computes the chunk or the
    failed rows, too, and raises its own error. A sample may be bad on the host only, for example because a file is
    missing there.

    Args:
        addresses: The hosts. A DNS name means all hosts whose IP addresses it leads to at the moment.
        description: Description of the program for the hosts, as plain JSON.
        identity: Fingerprints of the program, which those of the hosts must equal, by name.
        iterator: Random text of the iterator. Hosts open the data sets for it, as the iterator has done.
        local_threads: Number of threads of this process for chunks that no host computes.
        credentials: Token and certificates.
    """

    in_process = False
    read_executor = None
    prefetched = ()

    def __init__(
        self,
        addresses: Sequence[HostAddress],
        description: Mapping[str, Any],
        identity: Mapping[str, str],
        iterator: str,
        local_threads: int,
        credentials: HostCredentials | None = None,
    ) -> None:
        load_grpc()
        self._credentials = HostCredentials() if credentials is None else credentials
        facts = {**machine_identity(), **identity}
        body = messages.encode({"description": description, "identity": facts, "iterator": iterator})
        if len(body) > messages.MAX_MESSAGE_BYTES:
            raise UsageError(
                "the arguments of the definition are too long for input hosts",
                given=f"{len(body)} bytes of JSON",
                expected=f"at most {messages.MAX_MESSAGE_BYTES}",
                fix="read them from a file in the definition",
            )
        self._open_body, self._key = body, program_key(description, iterator)
        self._names = HostNames([address for address in addresses if not address.is_ip])
        self._pool = HostPool([address for address in addresses if address.is_ip])
        self._local_threads = local_threads
        self._local = threading.BoundedSemaphore(local_threads)
        named = len(self._names.names)
        count = _MAX_WAITING if named else min(_MAX_WAITING, _MAX_WAITING_PER_HOST * len(addresses))
        self._threads = ThreadExecutor(max(count, local_threads), name="penstock-input-host")
        # A host may build this program for minutes, and other programs must not wait for it.
        openers = _MAX_OPENERS if named else len(addresses)
        self._openers = ThreadExecutor(openers, name=f"penstock-open-{self._key[:8]}")
        self._resolvers = ThreadExecutor(max(named, 1), name=f"penstock-resolve-{self._key[:8]}")
        self._prepared = self._checked = False
        self._closes = 0
        self._computed_here = 0

    @property
    def workers(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]  # hosts join and leave
        """Number of chunks that the hosts compute at the same time; the threads of this process without hosts."""
        return min(self._pool.threads or self._local_threads, _MAX_WAITING)

    def prepare(self, program: HostProgram) -> None:
        """Connect to the hosts. One that is not there is tried again later.

        Raises:
            UsageError: A host has another definition, other data, other versions, or cannot compute the definition.
        """
        if self._prepared:
            return
        self._prepared = True
        deadline = time.monotonic() + _FIRST_SECONDS
        lookups, openings = self._look_up(), self._connect()
        wait(lookups, _LOOKUP_SECONDS)
        wait(openings + self._connect(), max(deadline - time.monotonic(), 0.0))
        # A host that changes later is excluded with a warning: the training goes on without it.
        if not self._checked:
            self._checked = True
            for host in self._pool.hosts:
                if host.refused:
                    self.close()
                    raise _refusal(host)

    def compute(self, program: HostProgram, chunk: Chunk) -> Future[ChunkResult]:
        """Compute a chunk on a host, or on a thread of this process."""
        self.prepare(program)
        self._look_up()
        self._connect()
        return self._threads.submit(self._compute, program, chunk, self._closes)

    def empty(self, size: int) -> Array:
        """Return memory of this process."""
        return aligned_memory(size)

    def summary(self) -> str:
        """Describe the hosts and their work."""
        hosts = self._pool.summary()
        hosts += [f"{name.address}: not reachable ({name.reason})" for name in self._names.unresolved()]
        here = f"{self._computed_here} rows in this process" if self._computed_here else ""
        parts = "; ".join(filter(None, [*hosts, self._pool.former(), here]))
        return f"{len(hosts)} input host{'' if len(hosts) == 1 else 's'} ({parts})"

    def close(self, patience: float | None = None) -> None:
        """Cancel chunks that have not started and requests in flight, and close the connections."""
        self._closes += 1
        self._threads.shutdown_nowait()
        self._pool.close()
        self._threads.close(patience)
        self._end_connecting()
        self._prepared = False

    def shutdown_nowait(self) -> None:
        """Cancel chunks that have not started. Requests in flight end by their time limits."""
        self._closes += 1
        self._threads.shutdown_nowait()
        self._end_connecting()

    def _end_connecting(self) -> None:
        self._openers.shutdown_nowait()
        self._resolvers.shutdown_nowait()

    def _look_up(self) -> list[Future[None]]:
        """Look up the DNS names whose time has come, on threads of their own: a look-up may take seconds."""
        return [self._resolvers.submit(self._resolve, name) for name in self._names.due()]

    def _connect(self) -> list[Future[None]]:
        """Connect to the hosts that are due."""
        return [self._openers.submit(self._open, host) for host in self._pool.due()]

    def _resolve(self, name: HostName) -> None:
        news = not name.reason
        addresses = self._names.resolve(name)
        if addresses is not None:
            self._pool.update(name.address, addresses)
        elif news:
            _log.warning("input host %s: %s; it is tried again", name.address, name.reason)

    def _compute(self, program: HostProgram, chunk: Chunk, closes: int) -> ChunkResult:
        deadline = time.monotonic() + _REMOTE_SECONDS
        tried: list[InputHost] = []

        def cancelled() -> bool:
            return closes != self._closes

        request = self._request(program, chunk)
        while (loan := self._pool.borrow(len(chunk.rows), tried, deadline, cancelled)) is not None:
            tried.append(loan.host)
            result = self._ask(loan, request, program, chunk, deadline)
            if result is not None:
                return result
            if time.monotonic() >= deadline:
                break
        if cancelled():
            raise ContextError("the iterator was closed while a chunk was computed")
        return self._compute_here(program, chunk)

    def _compute_here(self, program: HostProgram, chunk: Chunk) -> ChunkResult:
        with self._local:
            self._computed_here += len(chunk.rows)
            return program.run_rows(chunk)

    def _compute_failed(
        self, program: HostProgram, chunk: Chunk, columns: Sequence[Column], failed: Sequence[int]
    ) -> ChunkResult:
        """Compute rows that failed on a host, and return the columns with them."""
        places = np.flatnonzero(np.isin(chunk.rows, failed))
        if not len(places):
            return ChunkResult(tuple(columns), [])
        if not program.row_independent:
            return self._compute_here(program, chunk)
        slots = [None if slot is None else np.empty_like(slot[places]) for slot in chunk.slots]
        result = self._compute_here(program, replace(chunk, rows=chunk.rows[places], slots=slots))
        # The rows of a ragged column may have other shapes.
        whole = [list(column) if slot is None else column for column, slot in zip(columns, chunk.slots, strict=True)]
        for column, rows in zip(whole, result.columns, strict=True):
            for place, row in zip(places.tolist(), rows, strict=True):
                column[place] = row
        return ChunkResult(tuple(whole), result.failed)

    def _request(self, program: HostProgram, chunk: Chunk) -> bytes:
        dtypes = tuple([None if slot is None else slot.dtype.name for slot in chunk.slots])
        return ChunkRequest(self._key, chunk.step, chunk.rows, dtypes).encode()

    def _ask(
        self, loan: Loan, request: bytes, program: HostProgram, chunk: Chunk, deadline: float
    ) -> ChunkResult | None:
        """Request a chunk from a host. Returns None if the host does not compute it."""
        dtypes = [
            value.spec.dtype if slot is None else slot.dtype
            for value, slot in zip(program.plan.results, chunk.slots, strict=True)
        ]
        remaining = deadline - time.monotonic()
        limit = remaining
        if loan.expected is not None:
            limit = min(remaining, _MIN_REQUEST_SECONDS + _PATIENCE * loan.expected)
        step, start = chunk.step, time.perf_counter()
        try:
            with recorded(f"rows on {loan.host.address}", epoch=step.epoch, row=step.row, samples=len(chunk.rows)):
                head, columns, received = loan.connection.fetch(request, chunk.slots, dtypes, limit)
        except ChecksumError as error:
            self._pool.declined(loan)
            if self._pool.exclude(loan.host, str(error)):
                self._warn_of_exclusion(loan.host, str(error))
            return None
        except HostFailureError as error:
            if self._pool.failed(loan, str(error), slow=isinstance(error, HostTimeoutError)):
                _log.warning(
                    "input host %s: %s; others compute its rows, and it is tried again", loan.host.address, error
                )
            return None
        except BaseException:
            self._pool.declined(loan)
            raise
        if head.refusal:
            if head.unknown:
                self._pool.reconnect(loan)
            else:
                self._pool.declined(loan)
            return None
        self._pool.completed(loan, received)
        program.context.timers.merge(head.totals(start, time.perf_counter()))
        program.scheduler.record(head.seconds, len(chunk.rows))
        return self._compute_failed(program, chunk, columns, head.failed)

    def _open(self, host: InputHost) -> None:
        """Connect to a host, and have it build the program."""
        connection: HostConnection | None = None
        try:
            connection = HostConnection(host.address, self._credentials)
            status = messages.decode(connection.call(STATUS, b"{}", _STATUS_SECONDS), STATUS_FIELDS)
            if self._pool.is_alias(host, messages.text(status["instance"], 64, "instance")):
                connection.close()
                return
            answer = self._build_on(connection)
            threads = messages.integer(answer["threads"], 1, 4096, "threads")
            refused = [
                cast(tuple[str, str, str], tuple([messages.text(part, 4096, "a fact") for part in item]))
                for item in messages.sequence(answer["differences"], 1000, "differences")
            ]
            if reason := messages.text(answer["reason"], 1 << 16, "reason"):
                refused = [("", reason, "")]
        except (HostFailureError, MessageError) as error:
            if connection is not None:
                connection.close()
            if self._pool.unreachable(host, str(error)):
                _log.warning("input host %s: %s; it is tried again", host.address, error)
            return
        if refused:
            host.refused = refused
            reason = str(_refusal(host).args[0]).partition("\n")[0]
            if self._pool.exclude(host, reason) and self._checked:  # before, `prepare` raises it
                self._warn_of_exclusion(host, reason)
            connection.close()
        elif not self._pool.opened(host, connection, threads):
            connection.close()
        else:
            _log.info("input host %s computes chunks, on %d threads", host.address, threads)

    def _build_on(self, connection: HostConnection) -> dict[str, Any]:
        """Have a host build the program. Returns its answer."""
        closes = self._closes
        while closes == self._closes:
            answer = messages.decode(connection.call(OPEN, self._open_body, _OPEN_SECONDS), _ANSWER)
            # It may have to list a data set, which takes minutes.
            if not messages.flag(answer["building"], "building"):
                return answer
        raise HostFailureError("the iterator was closed")

    def _warn_of_exclusion(self, host: InputHost, reason: str) -> None:
        _log.warning("input host %s is not used any more: %s", host.address, reason)


def program_key(description: Mapping[str, Any], iterator: str) -> str:
    """Return the key of a program in requests: a digest of its description and of the iterator.

    Iterators do not share programs: the files may have been replaced since another iterator opened them, and that one
    must keep its data.
    """
    return hashlib.sha256(messages.encode({"description": description, "iterator": iterator})).hexdigest()


def _refusal(host: InputHost) -> UsageError:
    name, there, here = host.refused[0]
    if not name:
        return UsageError(f"the input host {host.address} cannot compute this definition: {there}")
    names = ", ".join(entry[0] for entry in host.refused[:3])
    others = f", and {len(host.refused) - 3} more" if len(host.refused) > 3 else ""
    return UsageError(
        f"the input host {host.address} would compute other batches: it differs in {names}{others}",
        given=f"{name} {there} on the host",
        expected=f"{name} {here}, as in this process",
        fix="start `penstock serve` with the same program, data and versions, on a CPU of the same kind",
    )
