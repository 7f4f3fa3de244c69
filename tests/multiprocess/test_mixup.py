"""Tests of DALI's tutorial for JAX functions on several GPUs: two processes read different images and mix them.

With any launcher and number of devices, each row is the mean of an image of each list, truncated to bytes.
"""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from pipeline_runs import run

from penstock import fn

PROGRAM = Path(__file__).parent / "programs" / "mixup.py"


@pytest.fixture
def folder(tmp_path, jpeg):
    """Create two lists of four images of different sizes."""
    for shift, name in enumerate(("first", "second")):
        (tmp_path / name).mkdir()
        for number in range(4):
            rng = np.random.default_rng(10 * shift + number)
            coarse = rng.integers(0, 256, (6 + number, 7 + shift, 3), np.uint8)
            (tmp_path / name / f"{number}.jpg").write_bytes(jpeg(np.kron(coarse, np.ones((8, 8, 1), np.uint8))))
    return tmp_path


def resized(folder):
    def define():
        encoded, _ = fn.readers.file(files=sorted(folder.glob("*.jpg")))
        return fn.resize(fn.decoders.image(encoded), size=(32, 40))

    return run(define, batch_size=4)[0]


def check(folder, devices):
    first, second = (resized(folder / name).astype(np.float32) for name in ("first", "second"))
    mixed = (np.float32(0.5) * first + np.float32(0.5) * second).astype(np.uint8)
    assert mixed.std() > 10
    saved = sorted(folder.glob("*.npy"))
    assert len(saved) == 3 * devices
    for path in saved:
        assert np.array_equal(np.load(path), mixed), path.name


def test_launched(folder, job):
    job(2, 4, "mixup.py", folder)
    check(folder, 8)


def test_without_a_job(folder, alone):
    alone("mixup.py", folder)
    check(folder, 8)


def test_under_open_mpi(folder, mpi, execute):
    done = execute([*mpi("mpirun", 2), sys.executable, PROGRAM, folder], JAX_NUM_CPU_DEVICES="1")
    assert done.returncode == 0, done.stderr[-3000:]
    check(folder, 2)


def test_on_two_hosts(folder, hosts, environment):
    names, addresses = hosts
    processes = [
        subprocess.Popen(
            ["ip", "netns", "exec", name, sys.executable, PROGRAM, folder, f"{addresses[0]}:29431", "2", str(number)],
            env=environment(JAX_NUM_CPU_DEVICES="1"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number, name in enumerate(names)
    ]
    try:
        for process in processes:
            out, error = process.communicate(timeout=120)
            assert process.returncode == 0, error[-3000:]
            assert "of 2 with 1 devices is done" in out
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    check(folder, 2)
