"""Addresses of input hosts, and the credentials that a trainer presents to them."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Sequence
from pathlib import Path

from penstock.core import user_call_site
from penstock.core.dataclass import dataclass
from penstock.errors import UsageError

ADDRESSES = "PENSTOCK_INPUT_HOSTS"
TOKEN = "PENSTOCK_INPUT_HOSTS_TOKEN"  # the name of a variable
ROOTS = "PENSTOCK_INPUT_HOSTS_CA"

_ADDRESS = re.compile(r"(?:(grpc|grpc\+tcp|grpc\+tls)://)?(\[[0-9a-fA-F:.]+\]|[\w.-]+):(\d{1,5})")


@dataclass(frozen=True)
class HostAddress:
    """Address of an input host.

    Args:
        host: Name or IP address; an IPv6 address without brackets.
        port: Port; 0 lets the system choose, for a host that listens.
        tls: True if the connection is encrypted.
        name: DNS name that led to the IP address `host`; "" for an address as it was given.
    """

    host: str
    port: int
    tls: bool
    name: str = ""

    def __str__(self) -> str:
        scheme = "grpc+tls" if self.tls else "grpc"
        return f"{scheme}://{self.name}:{self.port} ({self.host})" if self.name else f"{scheme}://{self.location}"

    @property
    def location(self) -> str:
        """Host and port, with the brackets of an IPv6 address."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_ip(self) -> bool:
        """True if `host` is an IP address, not a name."""
        try:
            ipaddress.ip_address(self.host)
        except ValueError:
            return False
        return True


def parse_address(text: str) -> HostAddress:
    """Return the address in a text such as ``grpc://10.0.0.1:7000``, ``grpc+tls://input-1:7000`` or ``10.0.0.1:7000``.

    Raises:
        UsageError: The text is not an address.

    Example:
        >>> str(parse_address("127.0.0.1:7000"))
        'grpc://127.0.0.1:7000'
    """
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match[3]) > 65535:
        raise UsageError(
            "the address of an input host is wrong",
            given=repr(text),
            expected="grpc://HOST:PORT, or grpc+tls://HOST:PORT for TLS",
            where=user_call_site(),
        )
    return HostAddress(match[2].strip("[]"), int(match[3]), match[1] == "grpc+tls")


def parse_addresses(texts: Sequence[str]) -> tuple[HostAddress, ...]:
    """Return the addresses of several hosts.

    Raises:
        UsageError: A text is not an address, or two are the same.
    """
    addresses = tuple([parse_address(text) for text in texts])
    if len(set(addresses)) < len(addresses):
        raise UsageError("an input host is listed twice", given=list(texts), where=user_call_site())
    return addresses


def addresses_of_environment() -> tuple[str, ...]:
    """Return the addresses in ``PENSTOCK_INPUT_HOSTS``, which commas separate."""
    return tuple([part for text in os.environ.get(ADDRESSES, "").split(",") if (part := text.strip())])


@dataclass(frozen=True)
class HostCredentials:
    """Credentials for the connections to input hosts.

    Args:
        token: Secret that the hosts require; "" for none.
        roots: Certificates of the authorities that sign the hosts' certificates, in PEM; None for those of the system.
    """

    token: str = ""
    roots: bytes | None = None

    @staticmethod
    def of_environment() -> HostCredentials:
        """Return the token of ``PENSTOCK_INPUT_HOSTS_TOKEN`` and the file of ``PENSTOCK_INPUT_HOSTS_CA``.

        Raises:
            UsageError: The file cannot be read.
        """
        path = os.environ.get(ROOTS)
        try:
            roots = Path(path).read_bytes() if path else None
        except OSError as error:
            raise UsageError(
                f"the certificates of {ROOTS} cannot be read", given=path, fix=f"a PEM file ({error.strerror})"
            ) from None
        return HostCredentials(os.environ.get(TOKEN, "").strip(), roots)
