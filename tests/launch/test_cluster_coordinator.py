"""Tests of the coordinator's address under Open MPI and SLURM."""

import pytest

from penstock.launch import distributed


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
def test_first_slurm_node_is_parsed(nodes, host, monkeypatch):
    for name, value in (("JOB_ID", "4099"), ("PROCID", "3"), ("STEP_NODELIST", nodes), ("STEP_NUM_NODES", "2")):
        monkeypatch.setenv(f"SLURM_{name}", value)
    assert distributed._cluster_coordinator("SLURM") == (f"{host}:61443", 3)


@pytest.mark.parametrize(
    ("addresses", "host"),
    [
        ("tcp://10.96.0.1,10.148.0.1:34911", "10.96.0.1"),
        ("tcp://10.96.0.1:34911", "10.96.0.1"),
        ("tcp6://[fe80::b9b,2620::2]:43370", "[fe80::b9b]"),
    ],
)
def test_open_mpi_host_is_parsed(addresses, host, monkeypatch):
    monkeypatch.setenv("OMPI_MCA_orte_hnp_uri", f"{5 << 12}.0;{addresses}")
    for name, value in (("RANK", "1"), ("SIZE", "4"), ("LOCAL_SIZE", "2")):
        monkeypatch.setenv(f"OMPI_COMM_WORLD_{name}", value)
    assert distributed._cluster_coordinator("Open MPI") == (f"{host}:61445", 1)


def test_one_machine_needs_no_host(monkeypatch):
    for name, value in (("JOB_ID", "1"), ("PROCID", "0"), ("STEP_NODELIST", "node001"), ("STEP_NUM_NODES", "1")):
        monkeypatch.setenv(f"SLURM_{name}", value)
    monkeypatch.setenv("JAX_COORDINATOR_PORT", "1234")
    assert distributed._cluster_coordinator("SLURM") == ("127.0.0.1:1234", 0)
