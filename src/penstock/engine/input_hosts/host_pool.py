"""Pool of input hosts: which of them work, what each has to do, and which one takes the next chunk."""

from __future__ import annotations

import enum
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

from penstock.engine.input_hosts.host_address import HostAddress
from penstock.engine.input_hosts.host_connection import HostConnection

# Seconds until a host that failed is tried again; doubled by each further failure.
_FIRST_RETRY_SECONDS, _LAST_RETRY_SECONDS = 0.5, 15.0

# Weight of the newest chunk in the average cost of a row.
_NEWEST = 0.3


class HostState(enum.Enum):
    """State of an input host."""

    DOWN = "not reachable"
    OPENING = "connecting"
    UP = "up"
    ALIAS = "another address of a host"
    EXCLUDED = "excluded"


@dataclass(eq=False)
class InputHost:
    """An input host and what is known of it. The pool's lock guards its fields.

    Args:
        address: The host.

    Attributes:
        threads: Number of chunks that it computes at the same time.
        window: Number of requests that may be in flight.
        in_flight: Number of requests in flight.
        queued: Rows of the requests in flight.
        fresh: True until the first chunk after it was connected to: it may still compile loops that its first row did
            not need.
        row_seconds: Seconds that a row takes, counted from the request to the answer, divided by the rows in flight;
            None until a chunk is done.
        rows: Rows computed.
        received: Bytes received.
        retries: Requests that another host or this process computed instead.
        reason: Reason of the last failure or of the exclusion.
        instance: Identity of its process.
        listed: False if its DNS name does not lead to it any more.
        alias_of: The host whose process it is, too, if two addresses lead to one process.
    """

    address: HostAddress
    state: HostState = HostState.DOWN
    connection: HostConnection | None = None
    threads: int = 0
    window: int = 0
    in_flight: int = 0
    queued: int = 0
    fresh: bool = True
    row_seconds: float | None = None
    rows: int = 0
    received: int = 0
    retries: int = 0
    failures: int = 0
    retry_at: float = 0.0
    reason: str = ""
    instance: str = ""
    listed: bool = True
    alias_of: InputHost | None = None
    refused: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])

    @property
    def full(self) -> bool:
        """True if no further request may be in flight."""
        return self.in_flight >= (1 if self.fresh else self.window)


@dataclass(frozen=True)
class Loan:
    """Permission to send a request to a host.

    Args:
        host: The host.
        connection: The connection to use.
        rows: Rows of the chunk.
        queued: Rows in flight, these included, when the request was sent.
        expected: Expected seconds until the answer; None if unknown.
        start: Time of the request.
    """

    host: InputHost
    connection: HostConnection
    rows: int
    queued: int
    expected: float | None
    start: float


class HostPool:
    """Input hosts of an executor. Thread-safe.

    Args:
        addresses: The hosts whose IP addresses are known; DNS names add others.

    Attributes:
        hosts: The hosts. A change replaces the list, so that it can be iterated over without the lock.
    """

    def __init__(self, addresses: Sequence[HostAddress]) -> None:
        self.hosts = [InputHost(address) for address in addresses]
        self._former: list[InputHost] = []
        self._changed = threading.Condition()
        self._start = time.monotonic()

    @property
    def threads(self) -> int:
        """Number of chunks that all hosts together compute at the same time."""
        with self._changed:
            return sum(host.threads for host in self.hosts if host.state is HostState.UP)

    def update(self, name: HostAddress, addresses: Sequence[HostAddress]) -> None:
        """Set the hosts of a DNS name. One that it does not lead to any more stays until it does not answer.

        Args:
            name: The name and the port.
            addresses: The hosts that it leads to now.
        """
        with self._changed:
            own = [host for host in self.hosts if replace(host.address, host=host.address.name, name="") == name]
            for host in own:
                host.listed = host.address in addresses
            known = {host.address for host in own}
            self.hosts = self.hosts + [InputHost(address) for address in addresses if address not in known]
            self._forget()

    def due(self) -> list[InputHost]:
        """Return the hosts to connect to now, and mark them as connecting."""
        now = time.monotonic()
        with self._changed:
            hosts = [host for host in self.hosts if host.state is HostState.DOWN and host.retry_at <= now]
            for host in hosts:
                host.state = HostState.OPENING
        return hosts

    def is_alias(self, host: InputHost, instance: str) -> bool:
        """Note the process of a host that is connected to. Returns True if another address already leads to it.

        `localhost` is ::1 and 127.0.0.1, and a pod in a dual-stack cluster has two addresses: one of them is enough.
        """
        with self._changed:
            host.instance = instance
            used = (HostState.OPENING, HostState.UP, HostState.EXCLUDED)
            same = [other for other in self.hosts if other is not host and other.instance == instance]
            others = [other for other in same if other.state in used]
            # Another state means that the iterator was closed.
            if not others or host.state is not HostState.OPENING:
                return False
            host.state, host.alias_of, host.reason = HostState.ALIAS, others[0], ""
            return True

    def opened(self, host: InputHost, connection: HostConnection, threads: int) -> bool:
        """Note that a host is ready. Returns False if it is not wanted any more."""
        with self._changed:
            if host.state is not HostState.OPENING:
                return False
            host.state, host.connection = HostState.UP, connection
            # More than it computes, so that its threads need not wait for the next request.
            host.threads, host.window = threads, threads + max(2, threads // 2)
            host.in_flight = host.queued = 0
            host.fresh, host.reason = True, ""
            self._changed.notify_all()
            return True

    def borrow(
        self, rows: int, tried: Collection[InputHost], deadline: float, cancelled: Callable[[], bool]
    ) -> Loan | None:
        """Choose the host that is expected to complete a chunk first, and wait until it takes another request.

        Args:
            rows: Rows of the chunk.
            tried: Hosts that failed to compute it.
            deadline: Time of `time.monotonic` until which to wait.
            cancelled: Returns True to end the wait.

        Returns:
            None if no host is left, or none has become free.
        """
        with self._changed:
            while not cancelled():
                ready = [host for host in self.hosts if host.state is HostState.UP and host not in tried]
                if not ready:
                    return None
                # A chunk waits for a fast host rather than to go to a slow one, but not for a fresh one.
                known = [host for host in ready if not (host.fresh and host.full)]
                cost = min([host.row_seconds for host in self.hosts if host.row_seconds is not None], default=1.0)
                host = min(
                    known or ready,
                    key=lambda host: (
                        (host.queued + rows) * (cost if host.row_seconds is None else host.row_seconds),
                        host.queued,
                        host.rows,
                    ),
                )
                if not host.full and host.connection is not None:
                    host.in_flight += 1
                    host.queued += rows
                    expected = None if host.row_seconds is None else host.queued * host.row_seconds
                    return Loan(host, host.connection, rows, host.queued, expected, time.monotonic())
                if not self._changed.wait(deadline - time.monotonic()) and time.monotonic() >= deadline:
                    return None
            return None

    def completed(self, loan: Loan, received: int) -> None:
        """Note that a host computed a chunk."""
        host, elapsed = loan.host, time.monotonic() - loan.start
        with self._changed:
            self._returned(loan)
            cost = elapsed / loan.queued
            old = host.row_seconds
            host.row_seconds = cost if old is None else (1 - _NEWEST) * old + _NEWEST * cost
            host.rows += loan.rows
            host.received += received
            host.failures, host.fresh = 0, False

    def declined(self, loan: Loan) -> None:
        """Note that a host did not compute a chunk, although it works."""
        with self._changed:
            self._returned(loan)
            loan.host.retries += 1

    def failed(self, loan: Loan, reason: str, *, slow: bool) -> bool:
        """Note that a host failed. Returns True if this is news.

        Args:
            loan: The request.
            reason: What happened.
            slow: True if the answer did not arrive in time.
        """
        host = loan.host
        with self._changed:
            self._returned(loan)
            host.retries += 1
            # Other requests of the same connection fail with it, and a new connection may have taken its place.
            if host.connection is not loan.connection or host.state is not HostState.UP:
                return False
            if slow:  # so that a chunk that only takes long gets more time after the retry
                cost = (time.monotonic() - loan.start) / loan.queued
                host.row_seconds = max(host.row_seconds or 0.0, cost)
            self._down(host, reason)
        loan.connection.close()
        return True

    def unreachable(self, host: InputHost, reason: str) -> bool:
        """Note that a host cannot be connected to. Returns True if this is news."""
        with self._changed:
            if host.state is not HostState.OPENING:
                return False
            news = host.reason != reason
            self._down(host, reason)
            return news

    def exclude(self, host: InputHost, reason: str) -> bool:
        """Never use a host again. Returns True if this is news."""
        with self._changed:
            connection, news = host.connection, host.state is not HostState.EXCLUDED
            host.state, host.reason, host.connection = HostState.EXCLUDED, reason, None
            self._changed.notify_all()
        if connection is not None:
            connection.close()
        return news

    def reconnect(self, loan: Loan) -> None:
        """Open the program of a host again, because it has lost it."""
        with self._changed:
            self._returned(loan)
            host = loan.host
            if host.connection is loan.connection and host.state is HostState.UP:
                host.state, host.retry_at = HostState.DOWN, 0.0
                self._changed.notify_all()

    def close(self) -> None:
        """Close all connections. Hosts that are not excluded are connected to again at the next use."""
        with self._changed:
            connections = [host.connection for host in self.hosts if host.connection is not None]
            for host in self.hosts:
                host.connection, host.retry_at = None, 0.0
                # Not the global name: when Python exits, a generator may close an iterator after the names are gone.
                states = type(host.state)
                if host.state is not states.EXCLUDED:
                    host.state = states.DOWN
            self._changed.notify_all()
        for connection in connections:
            connection.close()

    def wake(self) -> None:
        """Wake threads that wait for a host."""
        with self._changed:
            self._changed.notify_all()

    def summary(self) -> list[str]:
        """Describe each host: state, rows per second, queue, retries and bytes."""
        with self._changed:
            elapsed = max(time.monotonic() - self._start, 1e-9)
            return [_described(host, elapsed) for host in self.hosts if host.state is not HostState.ALIAS]

    def former(self) -> str:
        """Describe the hosts that have left; "" if there are none."""
        with self._changed:
            hosts = [host for host in self._former if host.rows or host.retries]
            rows, received, retries = (
                sum(getattr(host, name) for host in hosts) for name in ("rows", "received", "retries")
            )
            return f"{len(hosts)} former: {rows} rows, {received / 1e6:.1f} MB, retried {retries}" if hosts else ""

    def _returned(self, loan: Loan) -> None:
        if loan.host.connection is loan.connection:
            loan.host.in_flight -= 1
            loan.host.queued -= loan.rows
        self._changed.notify_all()

    def _down(self, host: InputHost, reason: str) -> None:
        wait = min(_FIRST_RETRY_SECONDS * 2**host.failures, _LAST_RETRY_SECONDS)
        host.state, host.reason, host.retry_at = HostState.DOWN, reason, time.monotonic() + wait
        host.failures = min(host.failures + 1, 10)
        for other in self.hosts:
            if other.alias_of is host:
                other.state, other.alias_of, other.retry_at = HostState.DOWN, None, 0.0
        self._forget()
        self._changed.notify_all()

    def _forget(self) -> None:
        """Remove hosts that have left. Their work still counts."""
        left = [host for host in self.hosts if not host.listed and host.state not in (HostState.OPENING, HostState.UP)]
        if left:
            self._former += left
            self.hosts = [host for host in self.hosts if host not in left]


def _described(host: InputHost, elapsed: float) -> str:
    text = f"{host.address}: {host.rows / elapsed:.0f} rows per second, {host.rows} rows, "
    text += f"{host.received / 1e6:.1f} MB, in flight {host.in_flight}, retried {host.retries}"
    reason = f" ({host.reason})" if host.reason else ""
    return text if host.state is HostState.UP else f"{text}, {host.state.value}{reason}"
