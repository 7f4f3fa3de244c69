"""Tests with Ray Train: its workers form a job of JAX, and iterators find it."""

import sys
from pathlib import Path

import numpy as np
import pytest

from penstock import data_iterator, fn

PROGRAM = Path(__file__).parent / "programs" / "ray_trainer.py"


@pytest.mark.slow
def test_workers_of_ray_train_share_batches(execute, tmp_path):
    pytest.importorskip("ray.train", reason="Ray is not installed (dependency group test-all)")
    done = execute([sys.executable, PROGRAM, tmp_path], timeout=200)
    assert done.returncode == 0, done.stderr[-3000:]

    @data_iterator
    def numbers():
        return {"x": fn.readers.arrays(np.arange(12), random_shuffle=True)}

    sums = [int(batch["x"].sum()) for batch in numbers(batch_size=4, seed=1)]
    assert [(tmp_path / f"{number}").read_text() for number in range(2)] == [
        f"{number} of 2: {sums}" for number in range(2)
    ]
