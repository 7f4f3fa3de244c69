"""Join a job of several processes with `jax.distributed`, under any launcher."""

import ipaddress
import os
import socket
from collections.abc import Sequence
from functools import partial

from penstock.core import with_call_site
from penstock.core.slow_waits import PATIENCE_SECONDS, SlowWait
from penstock.engine.jobs.job_environment import BIND, COORDINATOR, LOOPBACK, JobEnvironment, detect_job
from penstock.errors import UsageError


@with_call_site
def initialize() -> JobEnvironment:
    """Join the job that started this process. Call it first in a program, before you use JAX.

    Under `penstock launch`, Open MPI's `mpirun` and SLURM's `srun` it calls `jax.distributed.initialize` with the
    addresses and numbers from the environment. Under MPICH and Intel MPI, set JAX_COORDINATOR_ADDRESS, too. Otherwise
    it does nothing, and the program runs as one process. Other launchers set JAX_COORDINATOR_ADDRESS,
    PENSTOCK_NUM_PROCESSES and PENSTOCK_PROCESS_ID, or your program calls `jax.distributed.initialize` itself.
    A second call only returns the job.

    MPI and SLURM start one process per GPU: the number of the process on its machine is that of its GPU. Set
    JAX_LOCAL_DEVICE_IDS for other GPUs, such as `0,1,2,3`.

    Process 0 listens at the coordinator's address only, which is on the loopback interface if all processes are on one
    machine. Set JAX_COORDINATOR_BIND_ADDRESS to listen elsewhere, such as `[::]:8476` for all interfaces.

    Returns:
        The job, as from `detect_job`.

    Raises:
        UsageError: only some of the variables that describe a job are set, they do not tell where process 0 is, it
            cannot listen at its address, or this process has joined another job before.

    Example:
        >>> from penstock.launch import initialize
        >>> initialize().started_by
        'nobody'
    """
    job = detect_job()
    if job.coordinator is not None:
        # Imported here, because the launcher itself does not need JAX.
        import jax  # noqa: PLC0415

        from penstock.engine.jobs import jax_runtime, members  # noqa: PLC0415

        if not jax.distributed.is_initialized():
            _join(job, job.coordinator)
        elif (joined := jax_runtime.process_number()) != (job.process_id, job.num_processes):
            raise UsageError(
                "this process has joined another job before",
                given=f"process {joined[0]} of {joined[1]}",
                expected=f"process {job.process_id} of {job.num_processes}, as started by {job.started_by}",
                fix="call either penstock.launch.initialize or jax.distributed.initialize",
            )
        members.join_job()
    return job


def _join(job: JobEnvironment, coordinator: str) -> None:
    import jax  # noqa: PLC0415

    bound = os.environ.get(BIND, coordinator)
    if job.process_id == 0:
        check_address(bound)
    # JAX would read the variable itself if it were given none.
    devices = None if "JAX_LOCAL_DEVICE_IDS" in os.environ else job.local_process_id
    with SlowWait(partial(_waiting_text, job)):
        jax.distributed.initialize(
            coordinator,
            job.num_processes,
            job.process_id,
            devices,
            coordinator_bind_address=bound,  # by default, JAX binds all interfaces
        )


def _waiting_text(job: JobEnvironment) -> str:
    who = f"process {job.process_id} of {job.num_processes}"
    return (
        f"{who} has waited {PATIENCE_SECONDS:g} s in initialize() for the others at {job.coordinator}: those without "
        "this line have failed before, do other work first, were not started, or cannot reach the address"
    )


def split_address(address: str) -> tuple[str, int]:
    """Return the host and the port of an address such as `10.0.0.1:8476` or `[::1]:8476`.

    Raises:
        UsageError: the address has no port.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise UsageError("the coordinator's address is not a host and a port", given=address, expected="HOST:PORT")
    return host.strip("[]"), int(port)


def check_address(address: str) -> None:
    """Check that process 0 can listen at an address, and that the other processes can reach it there.

    Raises:
        UsageError: the host is unknown or another machine, or other machines resolve its name to themselves.
    """
    host, port = split_address(address)
    fix = f"an IP address of this machine in {COORDINATOR}, or in {BIND}; {LOOPBACK} for a job on one machine"
    try:
        addresses = {str(info[4][0]) for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
    except OSError as error:
        raise UsageError(f"process 0 cannot resolve the coordinator's host: {error}", given=host, fix=fix) from None
    # Debian resolves a machine's own name to 127.0.1.1. Other machines would wait 300 seconds for process 0.
    if host not in {"localhost", *addresses} and all(ipaddress.ip_address(item).is_loopback for item in addresses):
        listed = ", ".join(sorted(addresses))
        raise UsageError(
            "the coordinator's host is a name for the loopback interface", given=f"{host} ({listed})", fix=fix
        )
    check_port(port, sorted(addresses), fix=f"another port; or {fix}")


def check_port(port: int, addresses: Sequence[str] = (LOOPBACK,), fix: str = "another port") -> None:
    """Check that process 0 can listen at a port. JAX would abort the process by a signal, without an exception.

    Args:
        port: The TCP port, 1 to 65535.
        addresses: The addresses to listen at. One that works is enough, as for gRPC.
        fix: The fix that the error names.

    Raises:
        UsageError: the port is out of range, in use, or at none of this machine's addresses.
    """
    if not 0 < port < 1 << 16:
        raise UsageError("the port is out of range", given=port, expected=f"1 to {(1 << 16) - 1}")
    reason = ""
    for address in addresses:
        try:
            with socket.create_server((address, port), family=socket.AF_INET6 if ":" in address else socket.AF_INET):
                return
        except OSError as error:
            reason = os.strerror(error.errno or 0)
    where = "" if list(addresses) == [LOOPBACK] else f" of {', '.join(addresses)}"
    raise UsageError(f"the processes cannot meet at port {port}{where}", given=reason, fix=fix)
