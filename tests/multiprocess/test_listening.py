"""Tests that jobs listen only at the required addresses."""

import ipaddress
import json
import re
import socket
import subprocess
import sys

import pytest

from penstock.errors import UsageError
from penstock.launch import initialize
from penstock.launch.distributed import check_address, split_address

PROCESSES = 2


@pytest.fixture
def program(pytestconfig):
    """Return the path of the program that prints its addresses."""
    return pytestconfig.rootpath / "tests" / "multiprocess" / "programs" / "listening.py"


def listening(*outputs):
    """Return the addresses of each process; NCCL's interface is the same for all."""
    lines = [line.partition("[[")[2] for line in "".join(outputs).splitlines()]
    rows = [json.loads(f"[{line}") for line in lines if line]
    (interface,) = {interface for _, interface, _ in rows}
    return interface, {process: [plain(address) for address in addresses] for process, _, addresses in rows}


def plain(address):
    """Return an address without the IPv4-mapped prefix of IPv6 sockets."""
    parsed = ipaddress.ip_address(address)
    return str(getattr(parsed, "ipv4_mapped", None) or parsed)


def on(name, command):
    """Return a command that runs on a host of the fixture."""
    return ["ip", "netns", "exec", name, *map(str, command)]


def test_single_machine_job_listens_only_on_loopback(program, hosts, launched, execute):
    names, _ = hosts  # whose own names resolve to addresses of the network
    done = execute(on(names[0], launched(PROCESSES, 1, program)))
    assert done.returncode == 0, done.stderr
    interface, addresses = listening(done.stdout)
    assert addresses.keys() == {0, 1}
    assert all(addresses.values())
    assert {address for each in addresses.values() for address in each} == {"127.0.0.1"}
    assert interface == "lo"


def test_processes_have_expected_rank_and_devices_and_are_not_reachable(program, launched, execute):
    done = execute(launched(PROCESSES, 3, program, "--flag", "x"))
    assert done.returncode == 0, done.stderr
    lines = sorted(line for line in done.stdout.splitlines() if "penstock launch" in line)
    assert lines == [f"[{n}] penstock launch {n} 6 3 ['--flag', 'x']" for n in (0, 1)]
    assert done.stderr.count("] to stderr\n") == 2
    _, addresses = listening(done.stdout)
    assert {address for each in addresses.values() for address in each} == {"127.0.0.1"}


def test_program_with_own_jax_initialization_is_not_reachable(tmp_path, program, hosts, launched, execute):
    text = program.read_text()
    own = "jax.distributed.initialize(num_processes=2, process_id=int(os.environ['PENSTOCK_PROCESS_ID']))"
    script = tmp_path / "program.py"
    script.write_text(text.replace("penstock.launch.initialize()", own).replace("penstock.launch", "penstock.iterate"))
    done = execute(on(hosts[0][0], launched(PROCESSES, 1, script)))
    assert done.returncode == 0, done.stderr
    _, addresses = listening(done.stdout)
    assert {address for each in addresses.values() for address in each} == {"127.0.0.1"}


def started(name, program, environment, **variables):
    """Start a process of a job on a host of the fixture."""
    command = on(name, [sys.executable, program])
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, text=True, env=environment(**variables), **pipes)


def outputs(job):
    """Return the output of each process of a job."""
    texts = [process.communicate(timeout=120) for process in job]
    assert [process.returncode for process in job] == [0] * len(job), texts
    return [out for out, _ in texts]


@pytest.mark.parametrize("bind", [None, "127.0.0.1:29411"])
def test_explicit_address_is_bound_exactly(bind, program, hosts, environment):
    names, addresses = hosts
    count = 1 if bind else 2  # nobody else reaches the second
    variables = {"JAX_COORDINATOR_ADDRESS": f"{addresses[0]}:29411", "PENSTOCK_NUM_PROCESSES": str(count)}
    if bind:
        variables |= {"JAX_COORDINATOR_BIND_ADDRESS": bind, "JAX_COORDINATOR_ADDRESS": bind}
    job = [
        started(names[number], program, environment, PENSTOCK_PROCESS_ID=str(number), **variables)
        for number in range(count)
    ]
    interface, found = listening(*outputs(job))
    assert found[0].count((bind or addresses[0]).partition(":")[0]) == len(found[0])
    assert interface == ("lo" if bind else None)


@pytest.mark.parametrize("launcher", ["mpirun", "prterun", "mpiexec.hydra"])
def test_mpi_on_one_machine_listens_only_on_loopback(launcher, mpi, program, hosts, execute):
    # Hydra does not tell the processes where they meet.
    variables = {"JAX_COORDINATOR_ADDRESS": "127.0.0.1:29413"} if launcher == "mpiexec.hydra" else {}
    command = [*mpi(launcher, PROCESSES), sys.executable, program]
    done = execute(on(hosts[0][0], command), JAX_NUM_CPU_DEVICES="1", **variables)
    assert done.returncode == 0, done.stderr
    job = "MPICH" if variables else "Open MPI"
    # Not from the beginning of a line: Gloo's threads print to stdout, too, and not always whole lines at once.
    jobs = re.findall(r"(?:MPICH|Open MPI) \d \d \d(?= )", done.stdout)
    assert sorted(jobs) == [f"{job} {n} 2 1" for n in (0, 1)]
    _, found = listening(done.stdout)
    assert {address for each in found.values() for address in each} == {"127.0.0.1"}


def test_mpi_that_does_not_tell_where_processes_meet(mpi, program, execute):
    done = execute([*mpi("mpiexec.hydra", PROCESSES), sys.executable, program])
    assert done.returncode != 0
    assert "set JAX_COORDINATOR_ADDRESS=127.0.0.1:8476, for all of them" in done.stderr


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("192.0.2.77:29411", "cannot meet at port 29411 of 192.0.2.77"),
        ("no.such.host.invalid:29411", "cannot resolve the coordinator's host"),
        ("named:29411", "a name for the loopback interface"),
        ("10.0.0.1", "not a host and a port"),
    ],
)
def test_address_of_other_machine_is_refused(address, message, monkeypatch):
    if address.startswith("named"):
        entry = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.1.1", 29411))
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [entry])
    for name, value in (("ADDRESS", address), ("BIND_ADDRESS", address)):
        monkeypatch.setenv(f"JAX_COORDINATOR_{name}", value)
    monkeypatch.setenv("PENSTOCK_NUM_PROCESSES", "2")
    monkeypatch.setenv("PENSTOCK_PROCESS_ID", "0")
    with pytest.raises(UsageError, match=message):
        initialize()


def test_addresses_of_this_machine_are_accepted():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    for host in ("127.0.0.1", "localhost", "0.0.0.0"):
        check_address(f"{host}:{port}")
    assert split_address("[::1]:29400") == ("::1", 29400)
