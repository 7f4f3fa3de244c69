"""Processes that share an ``fn.cache(path=...)`` and a code cache and are killed: the others read the right batches.

A seed decides which processes are killed, and after how many bytes in the caches. PENSTOCK_ATTACK_SEEDS=3-9 sets the
seeds, PENSTOCK_CACHE_KILLS the number of kills per seed.
"""

import contextlib
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from attack_seeds import SEEDS
from cached_worker import digests

from penstock.testing import write_photographs

KILLS = int(os.environ.get("PENSTOCK_CACHE_KILLS", "1"))
WORKER = Path(__file__).parent / "cached_worker.py"
EPOCHS = 2

# Bytes that the caches have at least when they are full.
LIMIT = 100_000


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return write_photographs(tmp_path_factory.mktemp("photos") / "photos", samples_per_class=8)


def start(photos, folder, epochs=EPOCHS):
    paths = [str(WORKER.parent), os.environ.get("PYTHONPATH", "")]
    return subprocess.Popen(
        [sys.executable, WORKER, photos, folder / "samples", str(epochs)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "NUMBA_CACHE_DIR": str(folder / "code")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def printed(process):
    """Return the lines of a process that ends by itself."""
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return output.splitlines()


def size(folder):
    """Bytes in the caches, which only grow; a file may be renamed meanwhile."""
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            total += path.stat().st_size
    return total


@pytest.mark.slow
@pytest.mark.timeout(0 if KILLS > 1 else 300)
@pytest.mark.parametrize("seed", SEEDS)
def test_killed_processes_leave_whole_caches(seed, photos, tmp_path):
    expected = list(digests(photos, tmp_path / "own", EPOCHS))
    rng, limit = random.Random(seed), LIMIT
    for number in range(KILLS):
        shared = tmp_path / str(number)
        victim, survivor = start(photos, shared, epochs=1000), start(photos, shared)
        # The progress of the caches, not the time, decides when the process dies.
        enough = rng.randrange(limit)
        while size(shared) < enough:
            with contextlib.suppress(subprocess.TimeoutExpired):
                survivor.wait(0.02)
                break
        victim.kill()
        victim.communicate()
        assert printed(survivor) == expected
        limit = size(shared)
        assert printed(start(photos, shared)) == expected
