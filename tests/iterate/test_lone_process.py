"""Warning of a process that a launcher has started with others, and that JAX has not joined with them."""

import warnings

import numpy as np
import pytest

from penstock import data_iterator, fn
from penstock.errors import PenstockWarning

LAUNCHERS = {
    "penstock launch": {"JAX_COORDINATOR_ADDRESS": "a:1", "PENSTOCK_NUM_PROCESSES": "4", "PENSTOCK_PROCESS_ID": "3"},
    "Open MPI": dict.fromkeys(("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"), "3")
    | {"OMPI_COMM_WORLD_SIZE": "4"},
    "MPICH": {"PMI_RANK": "3", "PMI_SIZE": "4", "MPI_LOCALRANKID": "3"},
    "SLURM": {"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "4", "SLURM_LOCALID": "3"},
}


def take(monkeypatch, variables, **reader):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    @data_iterator
    def training():
        return {"numbers": fn.readers.arrays(np.arange(8), **reader)}

    with training(batch_size=2) as batches:
        next(batches)


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_process_that_reads_all_data_is_warned(launcher, monkeypatch):
    with pytest.warns(PenstockWarning, match=f"{launcher} has started 4 processes, and this one reads all") as warned:
        take(monkeypatch, LAUNCHERS[launcher])
    assert warned[0].filename == __file__
    assert "fix: penstock.launch.initialize() before JAX is used" in str(warned[0].message)


def test_others_are_not(monkeypatch):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        take(monkeypatch, LAUNCHERS["SLURM"], shard_id=3, num_shards=4)
        take(monkeypatch, LAUNCHERS["SLURM"] | {"SLURM_STEP_NUM_TASKS": "1"})
        # The shell of `salloc` and a batch script
        take(monkeypatch, LAUNCHERS["SLURM"] | {"SLURM_STEP_ID": "4294967290"})
        monkeypatch.delenv("SLURM_STEP_NUM_TASKS")
        take(monkeypatch, {"SLURM_STEP_ID": "0", "SLURM_NTASKS": "4"})
