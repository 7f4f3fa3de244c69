"""Private names of JAX that have no public counterpart. No other module of penstock imports them.

* The coordination client: `jax.distributed` starts and stops the service, but offers no access to its key-value store.
  `multihost_utils` exchanges data by collectives only, which hang if one process fails.
* The CPU client and Gloo's factory: no option and no environment variable of JAX 0.10 sets the address of Gloo's
  sockets. The registry of backends accepts the client built here. It is public as
  `jax.extend.backend.register_backend_factory`, but to import `jax.extend` loads Pallas, which takes 25 ms.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any, cast

try:
    from jax._src import distributed, xla_bridge

    _global_state: Any = distributed.global_state
    _make_cpu_client: Any = xla_bridge.make_cpu_client
    _register_backend_factory: Any = xla_bridge.register_backend_factory
    # jaxlib's extension modules have no type stubs
    _make_gloo: Any = cast(Any, import_module("jaxlib._jax")).make_gloo_tcp_collectives
except (ImportError, AttributeError) as error:
    raise ImportError(
        f"this release of JAX has moved a name that penstock needs for jobs of several processes: {error}; "
        "install jax 0.10, or a newer penstock"
    ) from error


def coordination_client() -> Any:
    """Return JAX's client of the coordination service; None if `jax.distributed` is not initialized."""
    return _global_state.client


def coordinator_host() -> str:
    """Return the host of the coordinator's address, without brackets; "" if there is none."""
    return (_global_state.coordinator_address or "").rpartition(":")[0].strip("[]")


def process_number() -> tuple[int, int]:
    """Return the number of this process and the number of processes.

    `jax.process_index()` would initialize the backends, after which Gloo can no longer be confined.
    """
    return _global_state.process_id, _global_state.num_processes


def register_cpu_client(factory: Callable[[], Any]) -> None:
    """Make JAX build its CPU client by a factory.

    Raises:
        RuntimeError: The backend exists already.
    """
    _register_backend_factory("cpu", factory, priority=0, fail_quietly=False)


def cpu_client(gloo_host: str | None) -> Any:
    """Build JAX's CPU client.

    Args:
        gloo_host: The host whose address Gloo listens at; None for JAX's default, the address of the machine's name.
    """
    if gloo_host is None:
        return _make_cpu_client()
    return _make_cpu_client(_make_gloo(_global_state.client, hostname=gloo_host))
