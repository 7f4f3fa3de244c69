"""Random programs: the same batches on all topologies, bit for bit.

PENSTOCK_PROGRAMS sets the number of programs per seed, PENSTOCK_ATTACK_SEEDS=3-9 the seeds. More programs than in
continuous integration run in two processes, too.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from attack_seeds import SEEDS
from random_programs import Program, digest

HERE = Path(__file__).parent
PROGRAMS = int(os.environ.get("PENSTOCK_PROGRAMS", "3"))


def take(iterator, count):
    """Return the next batches as NumPy arrays; at the end of an epoch, those of the next one follow."""
    batches = []
    while len(batches) < count:
        batch = next(iterator, None)
        if batch is None:
            iterator.reset()
            continue
        batches.append({name: np.asarray(array) for name, array in batch.items()})
    iterator.close()
    return batches


def check_same(expected, batches, how):
    for number, (left, right) in enumerate(zip(expected, batches, strict=True)):
        assert left.keys() == right.keys(), how
        for name, array in left.items():
            where = f"{how}: {name} of batch {number}"
            assert (array.dtype, array.shape) == (right[name].dtype, right[name].shape), where
            assert array.tobytes() == right[name].tobytes(), where


@pytest.mark.skipif(PROGRAMS <= 3, reason="for long runs")
@pytest.mark.parametrize("seed", SEEDS)
def test_programs_give_the_same_batches_in_two_processes(seed):
    first, last = 1000 * seed, 1000 * seed + PROGRAMS - 1
    paths = [str(HERE), str(HERE.parent / "operators"), os.environ.get("PYTHONPATH", "")]
    command = ["-m", "penstock.cli", "launch", "-n", "2", "-d", "2", HERE / "random_programs.py", first, last]
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True, text=True, check=False, timeout=20 * PROGRAMS,
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    printed = [line.split()[-2:] for line in done.stdout.splitlines() if "PROGRAM" in line]
    assert [int(number) for number, _ in printed] == list(range(first, last + 1))
    for number, found in printed:
        iterator = Program(int(number)).iterator(placement="host")
        assert digest(take(iterator, len(iterator))) == found, number


@pytest.mark.parametrize("seed", [1000 * first + number for first in SEEDS for number in range(PROGRAMS)])
def test_a_program_gives_the_same_batches_everywhere(seed):
    program = Program(seed)
    results = {}
    for placement in ("host", "device") if seed % 10 == 9 else ("host",):  # XLA compiles for seconds
        first = program.iterator(placement=placement)
        count = 2 * len(first) + 1
        results[placement] = expected = take(first, count)
        again = program.iterator(8, placement, num_threads=2, prefetch_queue_depth=3)
        check_same(expected, take(again, count), f"{placement}: 8 devices, 2 threads")
        check_same(expected, take(program.iterator(1, placement, exec_async=False), count), f"{placement}: no threads")
        stop = seed % count
        begun = program.iterator(1, placement, num_threads=2)
        for _ in range(stop):
            if next(begun, None) is None:
                begun.reset()
                next(begun)
        state = json.loads(json.dumps(begun.get_state()))
        begun.close()
        resumed = program.iterator(8, placement)
        resumed.set_state(state)
        check_same(expected[stop:], take(resumed, count - stop), f"{placement}: resumed at batch {stop}")
    if "device" in results:
        for left, right in zip(*results.values(), strict=True):
            assert left["label"].tobytes() == right["label"].tobytes(), "the placement does not change the order"
            assert {name: array.shape for name, array in left.items()} == {
                name: array.shape for name, array in right.items()
            }
