"""Joining a job of several processes, whoever started them. The engine is `jax.distributed`."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.errors import UsageError
from penstock.graph.accepts import checked
from penstock.where import located

COORDINATOR = "JAX_COORDINATOR_ADDRESS"
"""Where process 0 is listening; JAX's own variable."""
NUM_PROCESSES = "PENSTOCK_NUM_PROCESSES"
PROCESS_ID = "PENSTOCK_PROCESS_ID"

_CLUSTERS = {
    "Open MPI": ("OMPI_MCA_orte_hnp_uri",),
    "SLURM": ("SLURM_JOB_ID", "SLURM_STEP_NODELIST", "SLURM_NTASKS", "SLURM_PROCID", "SLURM_LOCALID"),
}
"""Of what JAX reads by itself, the variables that tell that it is there."""


@dataclass(frozen=True)
class Job:
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


@checked
def detect(environment: Mapping[str, str] | None = None) -> Job:
    """Find out from the environment who started this process. Imports nothing, starts nothing.

    Args:
        environment: the variables; None takes the process's.

    Raises:
        UsageError: some of the variables that belong together are missing.

    Example:
        >>> from penstock.launch import detect
        >>> detect({}).started_by
        'nobody'
        >>> detect({"OMPI_MCA_orte_hnp_uri": "..."}).started_by
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
        return Job("penstock launch", variables[COORDINATOR], count, number)
    for name, needed in _CLUSTERS.items():
        if variables.keys() >= set(needed):
            return Job(name)
    return Job("nobody")


@located
def initialize() -> Job:
    """Join the job that this process was started for. Called first thing in a program, before JAX is used.

    Under `penstock launch`, `mpirun` of Open MPI, and `srun` of SLURM it calls `jax.distributed.initialize` with what
    the environment says. Where nobody started a job it does nothing, and the program runs as one process. Other
    launchers set JAX_COORDINATOR_ADDRESS, PENSTOCK_NUM_PROCESSES and PENSTOCK_PROCESS_ID, or the program calls
    `jax.distributed.initialize` itself.

    Returns:
        What was found.

    Raises:
        UsageError: some of the variables that belong together are missing, or process 0 cannot listen at its port.

    Example:
        >>> from penstock.launch import initialize
        >>> initialize().started_by
        'nobody'
    """
    job = detect()
    if job.started_by != "nobody":
        import jax  # noqa: PLC0415  # the launcher itself has no use for it

        from penstock.transfer import peers  # noqa: PLC0415  # it imports jax

        if job.coordinator is not None and job.process_id == 0:
            check_port(int(job.coordinator.rpartition(":")[2]))
        jax.distributed.initialize(job.coordinator, job.num_processes, job.process_id)
        peers.join()
    return job


def check_port(port: int) -> None:
    """Check that process 0 can listen at a port: where it cannot, JAX ends it by a signal.

    Raises:
        UsageError: it cannot.
    """
    if not 0 < port < 1 << 16:
        raise UsageError("there is no such port", given=port, expected=f"1 to {(1 << 16) - 1}")
    try:
        with socket.create_server(("", port)):
            pass
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise UsageError(f"the processes cannot meet at port {port}", given=why, fix="another port") from None
