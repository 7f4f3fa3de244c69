"""Job that started this process, as the launcher describes it in environment variables."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.errors import UsageError
from penstock.graph import check_annotations

# JAX reads these two itself; a program that calls `jax.distributed.initialize` under `penstock launch` gets them, too.
COORDINATOR = "JAX_COORDINATOR_ADDRESS"
BIND = "JAX_COORDINATOR_BIND_ADDRESS"
PORT = "JAX_COORDINATOR_PORT"

NUM_PROCESSES = "PENSTOCK_NUM_PROCESSES"
PROCESS_ID = "PENSTOCK_PROCESS_ID"

LOOPBACK = "127.0.0.1"

# Variables with the number of each process, the number of processes, and the number among those of its machine. Open
# MPI and Hydra, the launcher of MPICH and Intel MPI, may use srun to start their own daemons, whose variables the
# processes inherit. So they are before SLURM.
_LAUNCHERS = {
    "Open MPI": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    "MPICH": ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
    # In the shell of `salloc` and under `srun --preserve-env`, SLURM_NTASKS is the number of tasks of the allocation. A
    # batch script has SLURM_NTASKS, but not the variables of a step, because it is not a task of srun.
    "SLURM": ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"),
}

# The step of the shell that `salloc` starts. A batch script that is submitted from this shell inherits its variables.
_SLURM_INTERACTIVE_STEP = "4294967290"


@dataclass(frozen=True)
class JobEnvironment:
    """Description of the job that started this process, from its environment.

    Args:
        started_by: "penstock launch", "Open MPI", "MPICH", "SLURM", or "nobody".
        coordinator: The address of process 0, HOST:PORT. None without a job.
        num_processes: The number of processes. None without a job.
        process_id: The number of this process, from 0. None without a job.
        local_process_id: The number of this process among those of its machine, from 0, which is the number of its GPU.
            None without a job and under `penstock launch`, which divides the GPUs itself.
    """

    started_by: str
    coordinator: str | None = None
    num_processes: int | None = None
    process_id: int | None = None
    local_process_id: int | None = None


@check_annotations
def detect_job(environment: Mapping[str, str] | None = None) -> JobEnvironment:
    """Return the job that started this process. Neither imports JAX nor connects to anything.

    Args:
        environment: Environment variables; the process's own by default.

    Raises:
        UsageError: only some of the variables that describe a job are set, one of them is not a number, or they do not
            tell where process 0 is.

    Example:
        >>> from penstock.launch import detect_job
        >>> detect_job({}).started_by
        'nobody'
        >>> variables = {"SLURM_PROCID": "3", "SLURM_LOCALID": "3", "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0"}
        >>> job = detect_job({**variables, "SLURM_STEP_NUM_TASKS": "16", "SLURM_STEP_NODELIST": "node[1-2]"})
        >>> job.started_by, job.coordinator, job.process_id
        ('SLURM', 'node1:61657', 3)
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
        count, number = _number(variables, NUM_PROCESSES, least=1), _number(variables, PROCESS_ID)
        return JobEnvironment("penstock launch", variables[COORDINATOR], count, number)
    if (launcher := _launcher(variables)) is None:
        return JobEnvironment("nobody")
    process, processes, local = (_number(variables, name) for name in _LAUNCHERS[launcher])
    coordinator = variables.get(COORDINATOR) or _coordinator(launcher, processes, variables)
    return JobEnvironment(launcher, coordinator, processes, process, local)


def _launcher(variables: Mapping[str, str]) -> str | None:
    """Return the cluster's launcher that started this process; None if none did."""
    interactive = variables.get("SLURM_STEP_ID") == _SLURM_INTERACTIVE_STEP
    for launcher, names in _LAUNCHERS.items():
        if variables.keys() >= set(names) and not (launcher == "SLURM" and interactive):
            return launcher
    return None


def starter() -> str:
    """Return who started this process, as in `JobEnvironment`."""
    return "penstock launch" if NUM_PROCESSES in os.environ else _launcher(os.environ) or "nobody"


def started_processes() -> tuple[str, int]:
    """Return who started this process and the number of processes. It may not have joined them.

    Raises:
        UsageError: the number is not a number.
    """
    name = starter()
    if name == "nobody":
        return name, 1
    variable = NUM_PROCESSES if name not in _LAUNCHERS else _LAUNCHERS[name][1]
    return name, _number(os.environ, variable, least=1)


def _number(variables: Mapping[str, str], name: str, least: int = 0) -> int:
    text = variables[name].strip()
    # Of all that `int` accepts: launchers write digits.
    if not (text.isascii() and text.isdecimal() and int(text) >= least):
        raise UsageError(
            f"the environment variable {name}, which describes a job of several processes, is not a number",
            given=repr(variables[name]),
            expected=f"an integer of at least {least}",
            fix=f"unset {name} if there is no such job",
        )
    return int(text)


def _coordinator(launcher: str, processes: int, variables: Mapping[str, str]) -> str:
    """Return an address of process 0 that all processes compute from the variables of a launcher.

    JAX finds one for Open MPI before version 5 and for SLURM, but it does not return it, so process 0 could not bind
    that address only.

    Raises:
        UsageError: the variables do not tell it.
    """
    match launcher:
        case "Open MPI":
            host, job = _open_mpi_host(variables)
            on_one_machine = variables.get("OMPI_COMM_WORLD_LOCAL_SIZE") == str(processes)
        case "MPICH":
            host, job = None, (os.getpid() if processes == 1 else None)
            on_one_machine = variables.get("MPI_LOCALNRANKS") == str(processes)
        case _:
            # "node001", "node001,host2", "node[001-015],host2" or "node[001,007-015]"; process 0 is on the first node
            first = re.match(r"([^,\[]+)(?:\[(\w+))?", variables["SLURM_STEP_NODELIST"])
            host = first and "".join(part or "" for part in first.groups())
            # Steps of one job, and jobs with successive numbers, get different ports: 31 and 4096 are coprime.
            job = int(variables["SLURM_JOB_ID"]) * 31 + int(variables["SLURM_STEP_ID"])
            on_one_machine = variables.get("SLURM_STEP_NUM_NODES") == "1"
    host = LOOPBACK if on_one_machine else host
    # A port that another job on the machine is unlikely to use: one of the last 4096.
    port = variables.get(PORT) or (None if job is None else (1 << 16) - 4096 + job % 4096)
    if host is None or port is None:
        where = f"{LOOPBACK}:8476" if on_one_machine else "HOST:8476, where HOST is the machine of process 0"
        option = " with mpirun's option -x" if launcher == "Open MPI" else ""
        raise UsageError(
            f"the environment of {launcher} does not tell where the processes meet",
            given=f"{processes} processes",
            fix=f"set {COORDINATOR}={where}, for all of them{option}",
        )
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _open_mpi_host(variables: Mapping[str, str]) -> tuple[str | None, int | None]:
    """Return the machine of `mpirun`, which runs process 0 by default, and the number of the job."""
    if uri := variables.get("OMPI_MCA_orte_hnp_uri"):
        # Before version 5, such as "1531576320.0;tcp://10.96.0.1,10.148.0.1:34911" or
        # "1531576320.0;tcp6://[fe80::1,fe80::2]:43370". It numbers its jobs in steps of 4096.
        found = re.search(r"tcp(?:6://\[([^,\]]+)|://([^,:]+))", uri)
        return found and (found[1] or found[2]), int(uri.partition(".")[0]) >> 12
    # From version 5 on, such as "prterun-node1-2597@1", with the process number of `mpirun`, or "prte-node1-2597@3", of
    # the third job that a daemon has started.
    found = re.match(r"prte(?:run)?-(.+)-(\d+)@(\d+)", variables.get("PMIX_NAMESPACE", ""))
    return (found[1], int(found[2]) + int(found[3])) if found else (None, None)
