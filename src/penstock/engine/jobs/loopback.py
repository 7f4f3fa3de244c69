"""Loopback sockets: collectives of a job on one machine do not listen on the network."""

import ipaddress
import os
from contextlib import suppress
from typing import Any

import jax

from penstock.engine.jobs.jax_runtime import coordinator_host, cpu_client, register_cpu_client


def is_loopback(host: str) -> bool:
    """True for `localhost` and for literal loopback addresses; False for every other name."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def confine_gloo() -> None:
    """Make Gloo listen on the loopback interface if the coordinator does.

    By default, Gloo listens at the address that the machine's name resolves to, and it does not authenticate its peers.
    JAX calls the factory with its first computation, so `jax.distributed.initialize` may come later than this.
    """
    # JAX refuses a factory for a backend that exists: that one keeps its sockets
    with suppress(RuntimeError):
        register_cpu_client(_cpu_client)


def confine_nccl() -> None:
    """Make NCCL use the loopback interface if the coordinator does and the user has not chosen one.

    By default, NCCL takes the first interface that is not the loopback interface. It does not authenticate its peers.
    """
    if is_loopback(coordinator_host()):
        os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")


def _cpu_client() -> Any:
    confine_nccl()
    host = coordinator_host()
    # "mpi" is the alternative; MPI opens its own sockets
    uses_gloo = getattr(jax.config, "jax_cpu_collectives_implementation", None) == "gloo"
    return cpu_client(host if uses_gloo and is_loopback(host) else None)
