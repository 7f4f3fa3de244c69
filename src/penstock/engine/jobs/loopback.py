"""Sockets of a job on one machine: collectives listen on the loopback interface only."""

from __future__ import annotations

import ipaddress
import os
from functools import partial
from importlib import import_module
from typing import Any, cast

import jax
from jax._src import xla_bridge
from jax._src.clusters import ClusterEnv
from jax._src.distributed import global_state
from jax.extend.backend import register_backend_factory


def detected() -> tuple[str | None, int | None]:
    """The coordinator's address and the number of this process, as JAX finds them under Open MPI and SLURM."""
    address, _, process, _ = ClusterEnv.auto_detect_unset_distributed_params(None, None, None, [], None, None)
    return address, process


def is_loopback(host: str) -> bool:
    """True for `localhost` and for literal loopback addresses; False for every other name."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def confine_collectives() -> None:
    """Keep the sockets of collectives on the loopback interface if the coordinator is there.

    Without this, Gloo listens at the address that the host's name resolves to, and NCCL at the first interface that is
    not the loopback interface. Neither authenticates its peers.
    """
    host = (global_state.coordinator_address or "").rpartition(":")[0].strip("[]")
    if is_loopback(host) and not xla_bridge.backends_are_initialized():
        os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")
        register_backend_factory("cpu", partial(_cpu_client, host), priority=0, fail_quietly=False)


def _cpu_client(host: str) -> Any:
    """JAX's CPU client, with Gloo at one host's address."""
    if getattr(jax.config, "jax_cpu_collectives_implementation", None) != "gloo":
        return xla_bridge.make_cpu_client()
    extension = cast(Any, import_module("jaxlib._jax"))  # it has no types
    return xla_bridge.make_cpu_client(extension.make_gloo_tcp_collectives(global_state.client, hostname=host))
