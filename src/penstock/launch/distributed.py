"""Joining a job of several processes, whoever started them. The engine is `jax.distributed`."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.core.call_site import with_call_site
from penstock.errors import UsageError
from penstock.graph.arguments.argument_checks import check_annotations

COORDINATOR = "JAX_COORDINATOR_ADDRESS"
"""Where process 0 is listening; JAX's own variable."""
BIND = "JAX_COORDINATOR_BIND_ADDRESS"
"""The address at which process 0 listens, where that is not the coordinator's own; JAX's own variable."""
NUM_PROCESSES = "PENSTOCK_NUM_PROCESSES"
PROCESS_ID = "PENSTOCK_PROCESS_ID"

LOOPBACK = "127.0.0.1"

_CLUSTERS = {
    "Open MPI": ("OMPI_MCA_orte_hnp_uri",),
    "SLURM": ("SLURM_JOB_ID", "SLURM_STEP_NODELIST", "SLURM_NTASKS", "SLURM_PROCID", "SLURM_LOCALID"),
}
"""Of what JAX reads by itself, the variables that tell that it is there."""
_LOCAL_SIZE = "OMPI_COMM_WORLD_LOCAL_SIZE"


@dataclass(frozen=True)
class JobEnvironment:
    """What the environment says of the job that this process belongs to.

    Args:
        started_by: "penstock launch", "Open MPI", "SLURM", or "nobody".
        coordinator: where process 0 is listening; None where JAX finds that out.
        num_processes: how many processes the job has; None likewise.
        process_id: which of them this is; None likewise.
    """

    started_by: str
    coordinator: str | None = None
    num_processes: int | None = None
    process_id: int | None = None


@check_annotations
def detect_job(environment: Mapping[str, str] | None = None) -> JobEnvironment:
    """Find out from the environment who started this process. Imports nothing, starts nothing.

    Args:
        environment: the variables; None takes the process's.

    Raises:
        UsageError: some of the variables that belong together are missing.

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
                "the environment names a part of a job only",
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
    """Join the job that this process was started for. Called first thing in a program, before JAX is used.

    Under `penstock launch`, `mpirun` of Open MPI, and `srun` of SLURM it calls `jax.distributed.initialize` with what
    the environment says. Where nobody started a job it does nothing, and the program runs as one process. Other
    launchers set JAX_COORDINATOR_ADDRESS, PENSTOCK_NUM_PROCESSES and PENSTOCK_PROCESS_ID, or the program calls
    `jax.distributed.initialize` itself.

    Process 0 listens at the coordinator's address only, which is on the loopback interface if all processes are on one
    machine. Set JAX_COORDINATOR_BIND_ADDRESS for another one, such as `[::]:8476` for all interfaces.

    Returns:
        What was found.

    Raises:
        UsageError: some of the variables that belong together are missing, or process 0 cannot listen at its address.

    Example:
        >>> from penstock.launch import initialize
        >>> initialize().started_by
        'nobody'
    """
    job = detect_job()
    if job.started_by != "nobody":
        import jax  # noqa: PLC0415  # the launcher itself has no use for it

        from penstock.engine.jobs import members  # noqa: PLC0415  # it imports jax
        from penstock.engine.jobs.loopback import detected  # noqa: PLC0415  # likewise

        coordinator, process = (job.coordinator, job.process_id) if job.coordinator else detected()
        if coordinator is None:
            raise UsageError(f"JAX finds no coordinator under {job.started_by}", fix=f"set {COORDINATOR}")
        if _on_one_machine(job.started_by):
            coordinator = f"{LOOPBACK}:{split_address(coordinator)[1]}"
        bound = os.environ.get(BIND, coordinator)
        if process == 0:
            check_address(bound)
        jax.distributed.initialize(coordinator, job.num_processes, job.process_id, coordinator_bind_address=bound)
        members.join_job()
    return job


def _on_one_machine(started_by: str) -> bool:
    """True if the cluster's launcher says that all processes of the job are on this machine."""
    if started_by == "SLURM":
        return os.environ.get("SLURM_STEP_NUM_NODES") == "1"
    processes = os.environ.get("OMPI_COMM_WORLD_SIZE")
    return started_by == "Open MPI" and processes is not None and processes == os.environ.get(_LOCAL_SIZE)


def split_address(address: str) -> tuple[str, int]:
    """The host and the port of an address such as `10.0.0.1:8476` or `[::1]:8476`.

    Raises:
        UsageError: it has no port.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise UsageError("the coordinator's address is not a host and a port", given=address, expected="HOST:PORT")
    return host.strip("[]"), int(port)


def check_address(address: str) -> None:
    """Check that process 0 can listen at an address, and that the other processes can mean the same one.

    Raises:
        UsageError: the host is unknown, another machine, or a name that other machines do not resolve to this one.
    """
    host, port = split_address(address)
    fix = f"an IP address of this machine in {COORDINATOR}, or in {BIND}; {LOOPBACK} for a job on one machine"
    try:
        addresses = {str(found[4][0]) for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
    except OSError as error:
        raise UsageError(f"process 0 cannot resolve the coordinator's host: {error}", given=host, fix=fix) from None
    # many systems resolve their own name to 127.0.1.1: other machines would wait for process 0 for 300 seconds
    if host not in {"localhost", *addresses} and all(ipaddress.ip_address(each).is_loopback for each in addresses):
        found = ", ".join(sorted(addresses))
        raise UsageError(
            "the coordinator's host is a name for the loopback interface", given=f"{host} ({found})", fix=fix
        )
    check_port(port, sorted(addresses), fix=f"another port; or {fix}")


def check_port(port: int, addresses: Sequence[str] = (LOOPBACK,), fix: str = "another port") -> None:
    """Check that process 0 can listen at a port: where it cannot, JAX ends it by a signal.

    Args:
        port: the port.
        addresses: where it listens; one of them is enough, as for gRPC.
        fix: what helps where it cannot.

    Raises:
        UsageError: it cannot.
    """
    if not 0 < port < 1 << 16:
        raise UsageError("there is no such port", given=port, expected=f"1 to {(1 << 16) - 1}")
    why = ""
    for address in addresses:
        try:
            with socket.create_server((address, port), family=socket.AF_INET6 if ":" in address else socket.AF_INET):
                return
        except OSError as error:
            why = os.strerror(error.errno or 0)
    where = "" if list(addresses) == [LOOPBACK] else f" of {', '.join(addresses)}"
    raise UsageError(f"the processes cannot meet at port {port}{where}", given=why, fix=fix)
