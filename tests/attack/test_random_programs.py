"""Random programs: the same batches on all topologies, bit for bit.

PENSTOCK_PROGRAMS sets the number of programs per seed, PENSTOCK_ATTACK_SEEDS=3-9 the seeds. More programs than in
continuous integration run in two processes, too.
"""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from attack_seeds import SEEDS
from random_programs import Program, digest

from penstock.errors import StateError

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


def epoch(iterator):
    """Return the batches of an epoch as NumPy arrays."""
    return [{name: np.asarray(array) for name, array in batch.items()} for batch in iterator]


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
        iterator = Program(int(number), sized=True).iterator(placement="host")
        assert digest(epoch(iterator)) == found, number


@pytest.mark.parametrize("seed", [1000 * first + number for first in SEEDS for number in range(PROGRAMS)])
def test_a_program_gives_the_same_batches_everywhere(seed, tmp_path):
    program = Program(seed, tmp_path if seed % 2 else None)
    results = {}
    for placement in ("host", *({9: ["device"], 4: ["auto"]}.get(seed % 40, []))):  # XLA compiles for seconds
        first = program.iterator(placement=placement)
        count = 2 * len(first) + 1 if program.size is not None or not program.unread else 5
        results[placement] = expected = take(first, count)
        again = program.iterator((8,), placement, num_threads=2, prefetch_queue_depth=3)
        check_same(expected, take(again, count), f"{placement}: 8 devices, 2 threads")
        again = program.iterator((2, 4), placement, num_threads=3, prefetch_queue_depth=2)
        check_same(expected, take(again, count), f"{placement}: mesh of 2 by 4, 3 threads")
        check_same(
            expected, take(program.iterator((1,), placement, exec_async=False), count), f"{placement}: no threads"
        )
        if seed % 5 == 2 and program.can_seek:  # worker processes take seconds to start, and get no streams
            again = program.iterator((8,), placement, num_processes=2, prefetch_queue_depth=2)
            check_same(expected, take(again, count), f"{placement}: 8 devices, 2 worker processes")
        check_resumed(program, placement, expected, seed % count, [(1,), (2, 4), (8,)][seed % 3], (8,))
        check_resumed(program, placement, expected, (seed // 7) % count, (8,), [(1,), (2, 4), (4, 2)][seed % 3])
        check_direct_access(program, placement, expected)
    for other in list(results)[1:]:
        for left, right in zip(results["host"], results[other], strict=True):
            assert left["label"].tobytes() == right["label"].tobytes(), "the placement does not change the order"
            assert {name: array.shape for name, array in left.items()} == {
                name: array.shape for name, array in right.items()
            }


def check_resumed(program, placement, expected, stop, before, after):
    """Save the state before a batch on one mesh, and go on on another one."""
    begun = program.iterator(before, placement, num_threads=2, prefetch_queue_depth=2)
    for _ in range(stop):
        if next(begun, None) is None:
            begun.reset()
            next(begun)
    state = json.loads(json.dumps(begun.get_state()))
    begun.close()
    resumed = program.iterator(after, placement)
    resumed.set_state(state)
    how = f"{placement}: resumed at batch {stop} of {before} on {after}"
    check_same(expected[stop:], take(resumed, len(expected) - stop), how)


def check_direct_access(program, placement, expected):
    """Ask for batches and samples out of their order."""
    iterator = program.iterator((2, 4), placement, num_threads=2)
    if not program.can_seek:
        with pytest.raises(StateError):
            iterator.batch_at(1, 0)
        iterator.close()
        return
    length = len(iterator)
    for step in random.Random(program.seed).sample(range(len(expected)), 3):
        batch = iterator.batch_at(*divmod(step, length))
        check_same([expected[step]], [{name: np.asarray(array) for name, array in batch.items()}], f"batch_at {step}")
    first = {name: np.concatenate([batch[name] for batch in expected[:length]]) for name in expected[0]}
    # In an epoch without its last rows, the only row of a sample may be that of a bad one which it replaces.
    told_apart = program.on_error != "replace" or len(first["label"]) >= program.count
    for index in range(0, program.count if told_apart else 0, 5):
        (rows,) = np.nonzero(first["label"][:, 0] == index)
        if not len(rows) or (program.on_error != "raise" and len(rows) > 1):
            continue  # the epoch leaves it out, or it replaces a bad sample
        sample = iterator.sample(index)
        for name, array in first.items():
            assert np.array_equal(array[rows[0]], sample[name]), f"{placement}: {name} of sample {index}"
    iterator.close()
