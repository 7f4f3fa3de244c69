"""Tests that batches are bit-for-bit the same in one process and in four; in two, as test_bad_samples.py checks."""

import re

import numpy as np
import pytest


def batches(folder):
    """Assemble the batches from the rows that each process saved."""
    parts = {}
    for path in sorted(folder.glob("*.npy")):
        parts.setdefault(path.stem.rpartition("-")[0], []).append(np.load(path))
    return {name: np.concatenate(rows) for name, rows in parts.items()}


@pytest.fixture(scope="module")
def streams(job, alone, tmp_path_factory):
    """Run jobs and return, per number of processes, batches by name, printed states, and drawn seeds."""
    found = {}
    for processes in (1, 4):
        folder = tmp_path_factory.mktemp(f"streams{processes}")
        out = alone("streams.py", folder) if processes == 1 else job(processes, 1, "streams.py", folder)
        states = re.findall(r"^(?:\[\d\] )?STATES (.*)$", out, re.MULTILINE)
        seeds = re.findall(r"^(?:\[\d\] )?SEED (.*)$", out, re.MULTILINE)
        ends = re.findall(r"^(?:\[\d\] )?ENDS (.*)$", out, re.MULTILINE)
        assert len(states) == len(seeds) == processes
        found[processes] = batches(folder), states, seeds, ends
    return found


@pytest.mark.slow
def test_batches_do_not_depend_on_the_number_of_processes(streams):
    alone, several = streams[1][0], streams[4][0]
    assert alone.keys() == several.keys()
    assert len(alone) == 15 * 2 * 5 * 3  # definitions and layouts, epochs, batches, outputs with the mask
    for name, batch in alone.items():
        assert batch.dtype == several[name].dtype
        assert np.array_equal(batch, several[name]), name


@pytest.mark.slow
def test_definitions_return_expected_batches(streams):
    alone = streams[1][0]
    assert np.array_equal(alone["slices-straight-host-0-0-x"], alone["unsharded-straight-host-0-0-x"])
    shards = np.concatenate([alone[f"local-straight-host-0-{n}-x"] for n in range(5)]).reshape(5, 4, 2)
    for shard in range(4):  # 9 samples in the shortest part: five batches of two, the last one padded
        assert set((shards[:, shard].ravel() // 100).tolist()) == {shard}


@pytest.mark.slow
def test_a_source_ends_an_epoch_alike_in_all_processes(streams):
    assert [streams[processes][3] for processes in (1, 4)] == [["[2, 2]"], ["[2, 2]"] * 4]


@pytest.mark.slow
def test_states_lengths_and_drawn_seeds_are_equal_in_all_processes(streams):
    assert len({state for _, states, *_ in streams.values() for state in states}) == 1
    assert len(set(streams[4][2])) == 1
    assert streams[4][2][0] != streams[1][2][0], "each job draws its own"
