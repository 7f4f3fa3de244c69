"""Jobs in the environment variables of launchers, as these set them for real."""

import os

import pytest

from penstock.errors import UsageError
from penstock.launch import JobEnvironment, detect_job

OURS = {"JAX_COORDINATOR_ADDRESS": "a:1", "PENSTOCK_NUM_PROCESSES": "4", "PENSTOCK_PROCESS_ID": "3"}


def open_mpi(process=1, processes=4, local=1, local_processes=2, **more):
    names = ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")
    values = (process, processes, local, local_processes)
    return {f"OMPI_COMM_WORLD_{name}": str(value) for name, value in zip(names, values, strict=True)} | more


def mpich(process=1, processes=4, local=1, local_processes=2, **more):
    names = ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS")
    return dict(zip(names, map(str, (process, processes, local, local_processes)), strict=True)) | more


def slurm(process=3, processes=4, local=1, machines=2, nodes="node[1-2]", job=4099, step=0, **more):
    names = ("PROCID", "STEP_NUM_TASKS", "LOCALID", "STEP_NUM_NODES", "STEP_NODELIST", "JOB_ID", "STEP_ID")
    values = (process, processes, local, machines, nodes, job, step)
    return {f"SLURM_{name}": str(value) for name, value in zip(names, values, strict=True)} | more


@pytest.mark.parametrize(
    ("nodes", "host"),
    [
        ("node001", "node001"),
        ("node001,host2", "node001"),
        ("node[001-015],host2", "node001"),
        ("gpu-[007,009-015]", "gpu-007"),
        ("10.0.0.[1-2]", "10.0.0.1"),
    ],
)
def test_first_slurm_node_is_parsed(nodes, host):
    assert detect_job(slurm(nodes=nodes)) == JobEnvironment("SLURM", f"{host}:61533", 4, 3, 1)


@pytest.mark.parametrize(
    ("addresses", "host"),
    [
        ("tcp://10.96.0.1,10.148.0.1:34911", "10.96.0.1"),
        ("tcp://10.96.0.1:34911", "10.96.0.1"),
        ("tcp6://[fe80::b9b,2620::2]:43370", "[fe80::b9b]"),
    ],
)
def test_host_of_open_mpi_4_is_parsed(addresses, host):
    variables = open_mpi(OMPI_MCA_orte_hnp_uri=f"{5 << 12}.0;{addresses}")
    assert detect_job(variables) == JobEnvironment("Open MPI", f"{host}:61445", 4, 1, 1)


@pytest.mark.parametrize(
    ("namespace", "address"),
    [
        ("prterun-node1-2597@1", "node1:64038"),
        ("prterun-gpu-node-7-2597@1", "gpu-node-7:64038"),
        ("prte-node1.site.org-2597@3", "node1.site.org:64040"),
    ],
)
def test_host_of_open_mpi_5_is_parsed(namespace, address):
    assert detect_job(open_mpi(PMIX_NAMESPACE=namespace)) == JobEnvironment("Open MPI", address, 4, 1, 1)


@pytest.mark.parametrize(
    "variables",
    [
        open_mpi(local_processes=4, PMIX_NAMESPACE="prterun-node1-2597@1"),
        open_mpi(local_processes=4, OMPI_MCA_orte_hnp_uri="20480.0;tcp://10.96.0.1:34911"),
        open_mpi(local_processes=4),
        mpich(local_processes=4),
        slurm(machines=1),
    ],
)
def test_one_machine_needs_no_host(variables):
    assert detect_job({**variables, "JAX_COORDINATOR_PORT": "1234"}).coordinator == "127.0.0.1:1234"


@pytest.mark.parametrize("variables", [open_mpi(), mpich(), slurm()])
def test_a_stated_address_holds(variables):
    job = detect_job({**variables, "JAX_COORDINATOR_ADDRESS": "here:1"})
    assert (job.coordinator, job.num_processes) == ("here:1", 4)


@pytest.mark.parametrize(
    ("variables", "fix"),
    [
        (open_mpi(), "JAX_COORDINATOR_ADDRESS=HOST:8476, where HOST is .* with mpirun's option -x"),
        (open_mpi(PMIX_NAMESPACE="slurm.pmix.7.0"), "JAX_COORDINATOR_ADDRESS=HOST:8476"),
        (mpich(), "JAX_COORDINATOR_ADDRESS=HOST:8476"),
        (mpich(JAX_COORDINATOR_PORT="9"), "JAX_COORDINATOR_ADDRESS=HOST:8476"),
        (mpich(local_processes=4), "JAX_COORDINATOR_ADDRESS=127.0.0.1:8476"),
    ],
)
def test_processes_that_cannot_meet_do_not_run_alone(variables, fix):
    with pytest.raises(UsageError, match=fix):
        detect_job(variables)


def test_a_single_process_meets_nobody():
    job = detect_job(mpich(0, 1, 0, 1))
    assert job == JobEnvironment("MPICH", f"127.0.0.1:{61440 + os.getpid() % 4096}", 1, 0, 0)


def test_launcher_is_detected():
    assert detect_job({}) == JobEnvironment("nobody")
    batch_script = {"SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_LOCALID": "0", "SLURM_JOB_ID": "7"}
    assert detect_job(batch_script) == JobEnvironment("nobody")
    # srun has started one daemon per machine, and these have started the processes.
    assert detect_job(slurm(processes=2) | mpich(JAX_COORDINATOR_ADDRESS="a:1")).started_by == "MPICH"
    assert detect_job(slurm(processes=2) | open_mpi(JAX_COORDINATOR_ADDRESS="a:1")).started_by == "Open MPI"
    assert detect_job(slurm() | {"PMI_RANK": "3", "PMI_SIZE": "4"}).started_by == "SLURM"  # srun --mpi=pmi2
    assert detect_job(open_mpi() | OURS) == JobEnvironment("penstock launch", "a:1", 4, 3)


def test_shell_of_salloc_is_alone():
    # As observed with LaunchParameters=use_interactive_step and `salloc -N 2 -n 4`.
    shell = slurm(0, 1, 0, 1, "node1", step=4294967290, SLURM_NTASKS="4", SLURM_NPROCS="4")
    assert detect_job(shell) == JobEnvironment("nobody")
    # Under `srun --preserve-env -n2`, the number of tasks of the allocation remains.
    assert detect_job(slurm(1, 2, 0, SLURM_NTASKS="4")).num_processes == 2


def test_slurm_steps_of_one_node_use_different_ports():
    jobs = [detect_job(slurm(job=job, step=step)) for job in range(4099, 4199) for step in range(31)]
    assert len({job.coordinator for job in jobs}) == len(jobs)


@pytest.mark.parametrize(
    "variables",
    [
        OURS | {"PENSTOCK_NUM_PROCESSES": "x"},
        OURS | {"PENSTOCK_NUM_PROCESSES": "0"},
        OURS | {"PENSTOCK_PROCESS_ID": "-1"},
        mpich(JAX_COORDINATOR_ADDRESS="a:1") | {"PMI_SIZE": ""},
    ],
)
def test_numbers_are_numbers(variables):
    with pytest.raises(
        UsageError, match=r"environment variable P\w+(.|\n)*given:(.|\n)*expected: an integer of at least"
    ):
        detect_job(variables)


def test_a_description_is_complete():
    with pytest.raises(UsageError, match="describes a job incompletely"):
        detect_job({"PENSTOCK_PROCESS_ID": "3"})
