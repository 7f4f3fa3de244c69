"""Input hosts of a job: two processes, and hosts across a network, return the batches of one process without hosts."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from input_hosts import hosts as input_hosts

pytest.importorskip("grpc")

PROGRAM = Path(__file__).parent / "programs" / "hosted.py"
SERVE = [sys.executable, "-m", "penstock.cli", "serve"]


def batches(folder):
    """Assemble the batches from the rows that each process saved."""
    parts = {}
    for path in sorted(folder.glob("*.npy")):
        parts.setdefault(path.stem.rpartition("-")[0], []).append(np.load(path))
    return {name: np.concatenate(rows) for name, rows in parts.items()}


def assert_same(left, right):
    assert left.keys() == right.keys()
    for name, batch in left.items():
        assert np.array_equal(batch, right[name]), name


@pytest.fixture
def program(tmp_path):
    """The program as hosts load it: it decorates its definitions in `main`, which they do not run."""
    path = tmp_path / "served.py"
    decorated = "from penstock import pipeline_def\n\nshards, whole = map(pipeline_def, (shards, whole))\n"
    path.write_text(f"{PROGRAM.read_text()}\n{decorated}")
    return path


@pytest.mark.slow
def test_two_processes_with_hosts_return_the_batches_of_one(job, alone, program, tmp_path):
    for name in ("alone", "job"):
        (tmp_path / name).mkdir()
    alone(PROGRAM.name, tmp_path / "alone")
    with input_hosts(2, program=program) as started:
        out = job(2, 2, PROGRAM.name, tmp_path / "job", *[host.address for host in started])
    assert_same(batches(tmp_path / "alone"), batches(tmp_path / "job"))
    rows = list(map(int, re.findall(r"ROWS (\d+)", out)))
    assert len(rows) == 4
    assert all(rows)


@pytest.mark.slow
def test_hosts_across_a_network(hosts, environment, program, tmp_path):
    (trainer, server), (_, address) = hosts
    for name in ("local", "remote"):
        (tmp_path / name).mkdir()
    devices = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}

    def inside(namespace, *command):
        return ["ip", "netns", "exec", namespace, *map(str, command)]

    process = subprocess.Popen(
        inside(server, *SERVE, program, "--listen", f"{address}:7000", "--insecure"),
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    try:
        assert address in process.stdout.readline()
        seconds = {}
        for name, addresses in (("local", []), ("remote", [f"grpc://{address}:7000"])):
            start = time.perf_counter()
            done = subprocess.run(
                inside(trainer, sys.executable, PROGRAM, tmp_path / name, *addresses),
                capture_output=True,
                text=True,
                check=False,
                env=environment(**devices, PYTHONPATH=os.environ.get("PYTHONPATH", "")),
            )
            seconds[name] = time.perf_counter() - start
            assert done.returncode == 0, done.stderr[-3000:]
        assert all(map(int, re.findall(r"ROWS (\d+)", done.stdout)))
        print({name: round(value, 1) for name, value in seconds.items()})
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    assert_same(batches(tmp_path / "local"), batches(tmp_path / "remote"))
