"""Join a job of several processes with `jax.distributed`, under any launcher."""

import ipaddress
import os
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from penstock.core import with_call_site
from penstock.core.slow_waits import PATIENCE_SECONDS, SlowWait
from penstock.errors import UsageError
from penstock.graph import check_annotations

# JAX reads these two itself; a program that calls `jax.distributed.initialize` under `penstock launch` gets them, too.
COORDINATOR = "JAX_COORDINATOR_ADDRESS"
BIND = "JAX_COORDINATOR_BIND_ADDRESS"

NUM_PROCESSES = "PENSTOCK_NUM_PROCESSES"
PROCESS_ID = "PENSTOCK_PROCESS_ID"

LOOPBACK = "127.0.0.1"

_OPEN_MPI_URI = "OMPI_MCA_orte_hnp_uri"

# Variables by which JAX recognizes each cluster, in its order: JAX reads the number of processes from the same one.
_CLUSTERS = {
    "Open MPI": (_OPEN_MPI_URI,),
    "SLURM": ("SLURM_JOB_ID", "SLURM_STEP_NODELIST", "SLURM_NTASKS", "SLURM_PROCID", "SLURM_LOCALID"),
}


@dataclass(frozen=True)
class JobEnvironment:
    """Description of the job that started this process, from its environment.

    Args:
        started_by: "penstock launch", "Open MPI", "SLURM", or "nobody".
        coordinator: The address of process 0, HOST:PORT. None under Open MPI and SLURM.
        num_processes: The number of processes. None under Open MPI and SLURM, where JAX reads it.
        process_id: The number of this process. None under Open MPI and SLURM, where JAX reads it.
    """

    started_by: str
    coordinator: str | None = None
    num_processes: int | None = None
    process_id: int | None = None


@check_annotations
def detect_job(environment: Mapping[str, str] | None = None) -> JobEnvironment:
    """Return the job that started this process. Neither imports JAX nor connects to anything.

    Args:
        environment: Environment variables; the process's own by default.

    Raises:
        UsageError: only some of the variables that describe a job are set.

    Example:
        >>> from penstock.launch import detect_job
        >>> detect_job({}).started_by
        'nobody'
        >>> detect_job({"OMPI_MCA_orte_hnp_uri": "..."}).started_by
        'Open MPI'
    """
    variables = os.environ if environment is None else environment
    if NUM_PROCESSES in variables or PROCESS_ID in variables:
        missing = [name for name in (COORDINATOR, NUM_PROCESSES, PROCESS_ID) if name not in variables]
        if missing:
            raise UsageError(
                "the environment describes a job incompletely",
                given=f"without {', '.join(missing)}",
                expected=f"{COORDINATOR}, {NUM_PROCESSES} and {PROCESS_ID}, or none of them",
            )
        count, number = int(variables[NUM_PROCESSES]), int(variables[PROCESS_ID])
        return JobEnvironment("penstock launch", variables[COORDINATOR], count, number)
    for name, needed in _CLUSTERS.items():
        if variables.keys() >= set(needed):
            return JobEnvironment(name)
    return JobEnvironment("nobody")


@with_call_site
def initialize() -> JobEnvironment:
    """Join the job that started this process. Call it first in a program, before you use JAX.

    Under `penstock launch`, Open MPI's `mpirun` and SLURM's `srun` it calls `jax.distributed.initialize` with the
    addresses and numbers from the environment. Otherwise it does nothing, and the program runs as one process. Other
    launchers set JAX_COORDINATOR_ADDRESS, PENSTOCK_NUM_PROCESSES and PENSTOCK_PROCESS_ID, or your program calls
    `jax.distributed.initialize` itself.

    Process 0 listens at the coordinator's address only, which is on the loopback interface if all processes are on one
    machine. Set JAX_COORDINATOR_BIND_ADDRESS to listen elsewhere, such as `[::]:8476` for all interfaces.

    Returns:
        The job, as from `detect_job`.

    Raises:
        UsageError: only some of the variables that describe a job are set, or process 0 cannot listen at its address.

    Example:
        >>> from penstock.launch import initialize
        >>> initialize().started_by
        'nobody'
    """
    job = detect_job()
    if job.started_by != "nobody":
        # Imported here, because the launcher itself does not need JAX.
        import jax  # noqa: PLC0415

        from penstock.engine.jobs import members  # noqa: PLC0415

        coordinator, process = job.coordinator, job.process_id
        if coordinator is None:
            coordinator, process = _cluster_coordinator(job.started_by)
        bound = os.environ.get(BIND, coordinator)
        if process == 0:
            check_address(bound)
        # By default, JAX binds all interfaces.
        with SlowWait(partial(_waiting_text, process, job.num_processes, coordinator)):
            jax.distributed.initialize(coordinator, job.num_processes, job.process_id, coordinator_bind_address=bound)
        members.join_job()
    return job


def _waiting_text(process: int | None, processes: int | None, coordinator: str) -> str:
    who = f"process {process}{f' of {processes}' if processes else ''}"
    return (
        f"{who} has waited {PATIENCE_SECONDS:g} s in initialize() for the others at {coordinator}: those without this "
        "line have failed before, do other work first, were not started, or cannot reach the address"
    )


def _cluster_coordinator(started_by: str) -> tuple[str, int]:
    """Return the coordinator's address and the number of this process, from the variables of Open MPI or SLURM.

    JAX would find an address by itself, but it does not return it, so process 0 could not bind that address only.

    Raises:
        UsageError: the variables name no host.
    """
    if started_by == "SLURM":
        # "node001", "node001,host2", "node[001-015],host2" or "node[001,007-015]"; JAX's process 0 is on the first node
        first = re.match(r"([^,\[]+)(?:\[(\w+))?", os.environ["SLURM_STEP_NODELIST"])
        job, process = int(os.environ["SLURM_JOB_ID"]), int(os.environ["SLURM_PROCID"])
        on_one_machine = os.environ.get("SLURM_STEP_NUM_NODES") == "1"
    else:
        # Such as "1531576320.0;tcp://10.96.0.1,10.148.0.1:34911" or "1531576320.0;tcp6://[fe80::1,fe80::2]:43370".
        uri = os.environ[_OPEN_MPI_URI]
        first = re.search(r"tcp(?:6://\[([^,\]]+)|://([^,:]+))", uri)
        # Open MPI numbers its jobs in steps of 4096.
        job, process = int(uri.partition(".")[0]) >> 12, int(os.environ["OMPI_COMM_WORLD_RANK"])
        size = os.environ.get("OMPI_COMM_WORLD_SIZE")
        on_one_machine = size is not None and size == os.environ.get("OMPI_COMM_WORLD_LOCAL_SIZE")
    if first is None:
        raise UsageError(
            f"the environment of {started_by} names no host for the coordinator",
            fix=f"set {COORDINATOR}, {NUM_PROCESSES} and {PROCESS_ID}",
        )
    # A port that all processes compute, and that another job on the machine is unlikely to use: one of the last 4096
    port = os.environ.get("JAX_COORDINATOR_PORT", (1 << 16) - 4096 + job % 4096)
    host = LOOPBACK if on_one_machine else "".join(part or "" for part in first.groups())
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}", process


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
