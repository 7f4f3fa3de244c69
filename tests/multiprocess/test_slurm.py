"""Tests with SLURM: its daemons, two nodes on this machine, `srun`."""

import getpass
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"
EXAMPLES = Path(__file__).parents[2] / "examples"
NEEDED = ("munged", "slurmctld", "slurmd", "srun", "sinfo")

CONFIGURATION = """
ClusterName=penstock
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
# only the backfill scheduler starts heterogeneous jobs
SchedulerParameters=bf_interval=1
# JAX takes the name of the first node for its address: these are both
NodeName=127.0.0.1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=1 State=UNKNOWN
NodeName=127.0.0.2 NodeHostname={host} NodeAddr=127.0.0.2 Port={ports[2]} CPUs=1 State=UNKNOWN
PartitionName=all Nodes=127.0.0.[1-2] Default=YES MaxTime=INFINITE State=UP
"""


def daemon(*command, folder, **variables):
    """Start a daemon in the foreground."""
    path = os.environ["PATH"] + ":/usr/sbin:/sbin"
    with (folder / f"{command[0]}.log").open("ab") as log:
        return subprocess.Popen(command, env={**os.environ, "PATH": path, **variables}, stdout=log, stderr=log)


def wait_until(condition, daemons, folder):
    for _ in range(300):
        if condition():
            return
        if any(process.poll() is not None for process in daemons):
            break
        time.sleep(0.1)
    logs = "\n".join(path.read_text(errors="replace")[-1000:] for path in folder.glob("*.log"))
    pytest.skip(f"SLURM does not start here: {logs}")


@pytest.fixture(scope="module")
def srun(tmp_path_factory):
    """Return the command that runs a program as a job of two nodes."""
    missing = [name for name in NEEDED if shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/sbin") is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} (Debian: slurm-wlm munge) not installed")
    folder = tmp_path_factory.mktemp("slurm")
    folder.chmod(0o755)
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    for name in ("state", "spool-127.0.0.1", "spool-127.0.0.2"):
        (folder / name).mkdir()
    (folder / "munge.key").write_bytes(secrets.token_bytes(128))
    (folder / "munge.key").chmod(0o600)
    configuration = folder / "slurm.conf"
    host = socket.gethostname().partition(".")[0]
    configuration.write_text(CONFIGURATION.format(host=host, user=getpass.getuser(), folder=folder, ports=ports))
    files = {"key-file": "munge.key", "socket": "munge.socket", "pid-file": "munged.pid", "seed-file": "munged.seed"}
    options = [f"--{name}={folder / file}" for name, file in files.items()]
    variables = {"folder": folder, "SLURM_CONF": str(configuration)}
    daemons = [daemon("munged", "--foreground", "--force", *options, folder=folder)]
    try:
        wait_until((folder / "munge.socket").exists, daemons, folder)
        daemons.append(daemon("slurmctld", "-D", "-f", str(configuration), **variables))
        nodes = ("127.0.0.1", "127.0.0.2")
        daemons += [daemon("slurmd", "-D", "-f", str(configuration), "-N", node, **variables) for node in nodes]

        def idle():
            command = ["sinfo", "--noheader", "--format=%D %t"]
            own = {**os.environ, "SLURM_CONF": configuration}
            shown = subprocess.run(command, env=own, capture_output=True, check=False)
            return shown.stdout.strip() == b"2 idle"

        wait_until(idle, daemons, folder)
        variables = {"SLURM_CONF": str(configuration), "JAX_NUM_CPU_DEVICES": "1"}
        yield ["srun", "-N", "2", "-n", "2", "--label", sys.executable], variables
    finally:
        for process in reversed(daemons):
            process.send_signal(signal.SIGTERM)
        for process in daemons:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@pytest.mark.slow
def test_two_slurm_nodes_read_their_shards(srun, execute):
    command, variables = srun
    done = execute([*command, PROGRAMS / "shards.py", 7], **variables)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("all as it should be") == 2


@pytest.mark.slow
def test_exit_code_ends_slurm_job(srun, execute):
    command, variables = srun
    done = execute([*command, PROGRAMS / "failing.py", "exit"], timeout=60, **variables)
    assert done.returncode == 1, done.stderr[-3000:]
    assert "process 1 of 2 has ended after 7 batches" in done.stderr
    assert "task 0: Exited with exit code 1" in done.stderr


@pytest.mark.slow
def test_input_hosts_of_heterogeneous_job(srun, execute, tmp_path):
    pytest.importorskip("grpc")
    _, variables = srun
    script = (EXAMPLES / "input_hosts.sbatch").read_text()
    # The nodes of the test have one CPU.
    script = re.sub(r" --gpus-per-node=\d+", "", re.sub(r"(nodes|per-node|per-task)=\d+", r"\1=1", script))
    with socket.create_server(("127.0.0.1", 0)) as probe:
        script = script.replace("port=7000", f"port={probe.getsockname()[1]}")
    (tmp_path / "job.sbatch").write_text(script)
    shutil.copy(PROGRAMS / "hosted_training.py", tmp_path / "train.py")
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    output, errors = tmp_path / "output", tmp_path / "errors"
    options = ["--wait", f"--chdir={tmp_path}", f"--output={output}", f"--error={errors}"]
    done = execute(["sbatch", *options, tmp_path / "job.sbatch"], PATH=path, **variables)
    assert done.returncode == 0, done.stderr[-3000:] + errors.read_text()[-3000:]
    assert "training at grpc://127.0.0.2:" in output.read_text()
    assert "the same batches from 1 of 1 input hosts" in output.read_text()
