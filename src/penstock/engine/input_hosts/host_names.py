"""DNS names of input hosts: a name with several addresses is several hosts, and they change."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.engine.input_hosts.host_address import HostAddress

# Seconds between two look-ups of a name.
_FIRST_RETRY_SECONDS, RESOLVE_SECONDS = 0.5, 5.0


@dataclass(eq=False)
class HostName:
    """A DNS name, and the state of its look-up. The lock of `HostNames` guards its fields.

    Args:
        address: The name and the port.
    """

    address: HostAddress
    failures: int = 0
    due_at: float = 0.0
    reason: str = ""


class HostNames:
    """DNS names of an executor's hosts. Thread-safe.

    Args:
        addresses: Names and ports.
    """

    def __init__(self, addresses: Sequence[HostAddress]) -> None:
        self.names = tuple(map(HostName, addresses))
        self._lock = threading.Lock()

    def due(self) -> list[HostName]:
        """Return the names to look up now. Each is returned again only after its look-up."""
        now = time.monotonic()
        with self._lock:
            names = [name for name in self.names if name.due_at <= now]
            for name in names:
                name.due_at = float("inf")
        return names

    def resolve(self, name: HostName) -> list[HostAddress] | None:
        """Look up a name, which may take seconds. Returns the addresses of its hosts; None if it does not resolve."""
        try:
            addresses = resolved(name.address)
        except OSError as error:
            with self._lock:
                name.reason = f"the name does not resolve: {error.strerror or error}"
                name.due_at = time.monotonic() + min(_FIRST_RETRY_SECONDS * 2**name.failures, RESOLVE_SECONDS)
                name.failures = min(name.failures + 1, 10)
            return None
        with self._lock:
            name.reason, name.failures, name.due_at = "", 0, time.monotonic() + RESOLVE_SECONDS
        return addresses

    def unresolved(self) -> list[HostName]:
        """Return the names whose last look-up failed."""
        with self._lock:
            return [name for name in self.names if name.reason]


def resolved(address: HostAddress) -> list[HostAddress]:
    """Return the addresses of the hosts that a name leads to; an IP address as it is.

    Raises:
        OSError: The name does not resolve.
    """
    if address.is_ip:
        return [address]
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except UnicodeError:  # a label that is empty or too long
        raise OSError("it is not a DNS name") from None
    ips = dict.fromkeys(str(entry[4][0]) for entry in found)
    return [HostAddress(ip, address.port, address.tls, address.host) for ip in ips]
