"""Chunk service: builds programs and computes their chunks for trainers, for `penstock serve`."""

from __future__ import annotations

import copy
import logging
import math
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from penstock.core import Array
from penstock.core.stage_timers import StageTimers
from penstock.engine.host.batch_buffers import BatchBuffers
from penstock.engine.host.chunk_executor import Chunk
from penstock.engine.host.host_program import HostProgram
from penstock.engine.host.machine_identity import differences, machine_identity
from penstock.engine.host.worker_threads import ThreadExecutor
from penstock.engine.input_hosts import json_messages as messages
from penstock.engine.input_hosts.chunk_protocol import (
    MAX_CHUNK_BYTES,
    MAX_CHUNK_ROWS,
    PIECE_BYTES,
    STATUS,
    ChunkHead,
    ChunkRequest,
    column_bytes,
    extended_checksum,
)
from penstock.engine.input_hosts.json_messages import MessageError
from penstock.engine.input_hosts.program_table import HostedProgram, ProgramEntry, ProgramTable
from penstock.engine.input_hosts.remote_executor import program_key
from penstock.errors import PenstockError
from penstock.graph import Value

_log = logging.getLogger("penstock")

# Programs that wait to be built. Trainers of others ask again.
_MAX_BUILDING = 16

# Requests that a host accepts beyond those that it computes, per thread. A trainer sends the others elsewhere.
_MAX_WAITING_PER_THREAD = 8

# Bytes of answers that wait to be read, from which on a host accepts no further requests. Trainers that do not read
# must not fill its memory.
_MAX_UNREAD_BYTES = 2 << 30

# Seconds that a call waits for a program. A trainer that asks again notices a host that has stopped; one that waits in
# a call of minutes does not.
_BUILD_SECONDS = 1.0

_NARROWED = {"int64": "int32", "uint64": "uint32", "float64": "float32", "complex128": "complex64"}


class ProgramBuilder(Protocol):
    """Builds programs from their descriptions."""

    def __call__(self, description: Mapping[str, Any]) -> HostedProgram:
        """Build a program.

        Raises:
            MessageError: The description is wrong.
            PenstockError: The definition does not exist, or cannot be computed by a host.
        """
        ...


@dataclass
class ServiceTotals:
    """Work of a service since its start."""

    requests: int = 0
    refused: int = 0
    rows: int = 0
    sent: int = 0
    seconds: float = 0.0
    waiting: int = 0
    programs: int = 0


class ChunkService:
    """Computes chunks for any number of trainers, and knows none of them. Thread-safe.

    Args:
        build: Builds programs.
        executor: Threads that compute chunks.
        clock: Returns the time in seconds.

    Attributes:
        totals: Work since the start.
        max_requests: Number of requests for chunks that it admits at the same time.
    """

    def __init__(
        self, build: ProgramBuilder, executor: ThreadExecutor, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.totals = ServiceTotals()
        self._build, self._executor = build, executor
        self._lock = threading.Lock()
        # One at a time, beside the threads that compute chunks.
        self._builder = ThreadExecutor(1, name="penstock-build")
        self._building: dict[str, Future[ProgramEntry]] = {}
        self._programs = ProgramTable(clock)
        self.max_requests = _MAX_WAITING_PER_THREAD * executor.workers + 16
        self._unread = 0
        # By which a trainer notices that two addresses lead to one process.
        self._instance = secrets.token_hex(16)
        self._buffers, self._buffers_lock = BatchBuffers(2 * executor.workers), threading.Lock()

    def call(self, action: str, body: bytes) -> bytes:
        """Answer a call: `STATUS` tells that the host is there, `OPEN` builds a program.

        Raises:
            MessageError: The message violates the protocol.
        """
        try:
            if action == STATUS:
                messages.decode(body, ())
                answer: dict[str, Any] = {
                    "threads": self._executor.workers,
                    "identity": dict(machine_identity()),
                    "instance": self._instance,
                }
            else:
                answer = self._open(messages.decode(body, ("description", "identity", "iterator")))
        except MessageError:
            self._count_refusal()
            raise
        return messages.encode(answer)

    def chunk(self, ticket: bytes, cancelled: Callable[[], bool]) -> Iterator[bytes | Array]:
        """Return an iterator over the answer to a request: the head, and pieces of the columns.

        The chunk is computed when the head is needed.

        Args:
            ticket: The request.
            cancelled: Returns True if the trainer has given up.

        Raises:
            MessageError: The message violates the protocol.
        """
        try:
            request = ChunkRequest.decode(ticket)
        except MessageError:
            self._count_refusal()
            raise
        return self._answer(request, cancelled)

    def _answer(self, request: ChunkRequest, cancelled: Callable[[], bool]) -> Iterator[bytes | Array]:
        if not self._admit():
            yield ChunkHead(refusal="the host is busy").encode()
            return
        unread = 0
        # The garbage collector closes an iterator that is not read to its end.
        try:
            head, parts = self.compute(request, cancelled)
            unread = sum(part.nbytes for part in parts)
            with self._lock:
                self._unread += unread
            yield head.encode()
            while parts:
                part = parts.pop(0)
                for start in range(0, len(part), PIECE_BYTES):
                    yield part[start : start + PIECE_BYTES]
        finally:
            with self._lock:
                self.totals.waiting -= 1
                self._unread -= unread

    def _admit(self) -> bool:
        """Count a request. Returns False if too many wait, or too many answers are not read."""
        with self._lock:
            if self.totals.waiting >= self.max_requests or self._unread >= _MAX_UNREAD_BYTES:
                return False
            self.totals.waiting += 1
            self.totals.requests += 1
            return True

    def _count_refusal(self) -> None:
        with self._lock:
            self.totals.refused += 1

    def _open(self, message: Mapping[str, Any]) -> dict[str, Any]:
        description, identity = message["description"], message["identity"]
        if not isinstance(identity, dict):
            raise MessageError("identity must be an object")
        theirs = {name: messages.text(value, 4096, "a fact") for name, value in identity.items()}
        answer = {"threads": self._executor.workers, "differences": [], "reason": "", "building": False}
        # Versions first: another version may not even understand the description.
        differing = differences(machine_identity(), theirs)
        if not differing:
            messages.fields(description, (), tuple(description) if isinstance(description, dict) else ())
            key = program_key(description, messages.text(message["iterator"], 64, "iterator"))
            try:
                entry = self._programs.find(key)
                # The data have changed since, here or at the trainer.
                if entry is not None and differences(entry.hosted.identity, theirs):
                    self._forget(key)
                    entry = None
                entry = entry or self._add(key, description)
            except PenstockError as error:
                return {**answer, "reason": str(error)[: 1 << 15]}
            except MessageError:
                raise
            except Exception as error:  # noqa: BLE001  # the user's definition may raise anything
                _log.exception("the definition cannot be built")
                return {**answer, "reason": f"{type(error).__name__}: {error}"[: 1 << 15]}
            if entry is None:
                return {**answer, "building": True}
            differing = differences(entry.hosted.identity, theirs)
        return {**answer, "differences": [[part[:4096] for part in item] for item in differing]}

    def _forget(self, key: str) -> None:
        with self._lock:
            self._programs.remove(key)
            self.totals.programs = len(self._programs)

    def _add(self, key: str, description: Mapping[str, Any]) -> ProgramEntry | None:
        """Build a program. Returns None if that takes long; the trainer asks again."""
        with self._lock:  # a trainer may ask again before its first call has returned
            future = self._building.get(key)
            if future is None:
                self._keep_finished()
                if len(self._building) >= _MAX_BUILDING:
                    return None
                future = self._building[key] = self._builder.submit(self._prepared, description)
        wait([future], _BUILD_SECONDS)
        if not future.done():
            return None
        with self._lock:
            self._building.pop(key, None)
            return self._keep(key, future.result())

    def _keep(self, key: str, entry: ProgramEntry) -> ProgramEntry:
        """Keep a program. Needs the lock."""
        kept = self._programs.add(key, entry)
        self.totals.programs = len(self._programs)
        return kept

    def _keep_finished(self) -> None:
        """Keep programs whose trainers have gone while they were built. Needs the lock."""
        for key, future in list(self._building.items()):
            if future.done():
                del self._building[key]
                if future.exception() is None:
                    self._keep(key, future.result())

    def _prepared(self, description: Mapping[str, Any]) -> ProgramEntry:
        """Build a program, and compute its first row, so that its loops are compiled.

        A trainer waits only a few seconds for a chunk, but as long as necessary for a program.
        """
        entry = ProgramEntry(self._build(description), program_key(description, ""))
        program = copy.copy(entry.hosted.program)
        program.context = replace(program.context, timers=StageTimers())
        dtypes = [value.spec.dtype.name if value.spec.dense else None for value in program.plan.results]
        request = ChunkRequest("", program.context.schedule.first(), np.zeros(1, np.int64), tuple(dtypes))
        # A bad sample is not reported here, but when a trainer requests its row.
        with suppress(Exception):
            program.run_rows(Chunk(request.step, request.rows, self._slots(program, request)))
        return entry

    def compute(self, request: ChunkRequest, cancelled: Callable[[], bool]) -> tuple[ChunkHead, list[Array]]:
        """Compute a chunk on a thread. Returns the head of the answer, and the bytes of the columns."""
        entry = self._programs.find(request.program)
        if entry is None:
            return ChunkHead(refusal="the host does not have the program", unknown=True), []
        try:
            return self._executor.submit(self._compute, entry, request, cancelled).result()
        except MessageError as error:
            self._count_refusal()
            return ChunkHead(refusal=f"the host received {error}"), []
        except Exception as error:  # noqa: BLE001  # the trainer computes the chunk, too, and raises its own error
            return ChunkHead(refusal=f"{type(error).__name__}: {error}"[:4096] or "failed"), []

    def _compute(
        self, entry: ProgramEntry, request: ChunkRequest, cancelled: Callable[[], bool]
    ) -> tuple[ChunkHead, list[Array]]:
        if cancelled():
            raise MessageError("a request that was cancelled")
        program, timers = copy.copy(entry.hosted.program), StageTimers()
        # The totals of each chunk belong to the trainer that requested it.
        program.context = replace(program.context, timers=timers)
        slots = self._slots(program, request)
        start = time.perf_counter()
        with entry.read_ahead.prefetched(request.step, request.rows):
            result = program.run_rows(Chunk(request.step, request.rows, slots))
        seconds = time.perf_counter() - start
        shapes: list[tuple[Any, ...]] = []
        names: list[str] = []
        parts: list[Array] = []
        checksum = 0
        for column in result.columns:
            shape, name, arrays = column_bytes(column)
            shapes.append(shape)
            names.append(name)
            for array in arrays:
                array.flags.writeable = False
                checksum = extended_checksum(checksum, array)
            parts += arrays
        totals, sent = timers.take(), sum(part.nbytes for part in parts)
        if sent > MAX_CHUNK_BYTES:
            raise MessageError(f"a request for {sent} bytes; at most {MAX_CHUNK_BYTES} are sent")
        with self._lock:
            self.totals.rows += len(request.rows)
            self.totals.seconds += seconds
            self.totals.sent += sent
        head = ChunkHead(
            shapes=tuple(shapes),
            dtypes=tuple(names),
            checksum=checksum,
            failed=tuple(dict.fromkeys(row.number for row in result.failed)),
            seconds=seconds,
            stages=totals.stages,
            compilation=max(totals.compilation, 0.0),
        )
        return head, parts

    def _slots(self, program: HostProgram, request: ChunkRequest) -> list[Array | None]:
        """Allocate the slots of a chunk.

        Raises:
            MessageError: The program has no such rows or results, or they are too large.
        """
        context, step, results = program.context, request.step, program.plan.results
        # Small batches are computed in pairs, whose second one has the row numbers after the first.
        if not 0 < step.rows <= MAX_CHUNK_ROWS or step.rows > context.schedule.batch_size:
            raise MessageError(f"a batch of {step.rows} rows")
        if int(request.rows[-1]) >= 2 * step.rows:
            raise MessageError(f"row {int(request.rows[-1])} of a batch of {step.rows} rows")
        if len(step.consumed) != len(context.schedule.strides):
            raise MessageError("a step of another number of readers")
        if len(request.dtypes) != len(results):
            raise MessageError(f"{len(request.dtypes)} dtypes for {len(results)} results")
        plans = [_slot_of(value, name) for value, name in zip(results, request.dtypes, strict=True)]
        rows = len(request.rows)
        if sum(rows * math.prod(shape) * dtype.itemsize for shape, dtype in filter(None, plans)) > MAX_CHUNK_BYTES:
            raise MessageError(f"a request for more than {MAX_CHUNK_BYTES} bytes")
        with self._buffers_lock:
            return [None if slot is None else self._buffers.empty((rows, *slot[0]), slot[1]) for slot in plans]


def _slot_of(value: Value, name: str | None) -> tuple[tuple[int, ...], np.dtype[Any]] | None:
    if (name is None) == value.spec.dense:
        raise MessageError("a slot for a ragged result" if name else "a dense result without a slot")
    if name is None:
        return None
    own = value.spec.dtype
    if name == own.name:
        return value.spec.fixed_shape, own
    if name == _NARROWED.get(own.name):
        return value.spec.fixed_shape, np.dtype(name)
    raise MessageError(f"the dtype {name!r} for a result of {own.name}")
