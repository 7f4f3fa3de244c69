"""Tests of `penstock launch`: output, exit codes, failures, interruptions, cleanup."""

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import jax
import psutil
import pytest

from penstock.engine.jobs import jax_runtime
from penstock.errors import UsageError
from penstock.launch import initialize, launch
from penstock.launch.distributed import check_port
from penstock.launch.local_launcher import free_port


def write(folder, text):
    path = folder / "program.py"
    path.write_text(text)
    return path


def test_explicit_initialization_works_without_launch(tmp_path, execute, launched):
    script = write(
        tmp_path,
        "import os, jax\n"
        "number, count = (int(os.environ[f'PENSTOCK_{name}']) for name in ('PROCESS_ID', 'NUM_PROCESSES'))\n"
        "jax.distributed.initialize(num_processes=count, process_id=number)\n"
        "print(jax.process_index(), jax.device_count())\n",
    )
    done = execute(launched(2, 1, script))
    assert sorted(done.stdout.splitlines()) == ["[0] 0 2", "[1] 1 2"], done.stderr


FAILS = """
import os, signal, subprocess, sys, time
number = int(os.environ["PENSTOCK_PROCESS_ID"])
signal.signal(signal.SIGTERM, signal.SIG_IGN)  # as JAX does, in effect
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"], start_new_session=True)
print("pids", os.getpid(), child.pid)
if number == 1:
    {how}
time.sleep(1000)
"""


def pids(out):
    return [int(word) for line in out.splitlines() if "pids" in line for word in line.split()[2:]]


def gone(numbers):
    """Return True if processes have ended, including zombies."""
    for number in numbers:
        try:
            if psutil.Process(number).status() != psutil.STATUS_ZOMBIE:
                return False
        except psutil.NoSuchProcess:
            continue
    return True


@pytest.mark.parametrize(
    ("how", "code", "message"),
    [
        ("sys.exit(7)", 7, "process 1 (pid {}) ended with exit code 7; the launcher ended the other 2"),
        (
            "os.kill(os.getpid(), signal.SIGKILL)",
            137,
            "process 1 (pid {}) was ended by SIGKILL; the launcher ended the other 2",
        ),
    ],
)
def test_first_failure_ends_all_processes(tmp_path, how, code, message, execute, launched):
    done = execute(launched(3, 1, write(tmp_path, FAILS.replace("{how}", how))), timeout=60)
    assert done.returncode == code
    found = pids(done.stdout)
    failed = next(line.split()[2] for line in done.stdout.splitlines() if line.startswith("[1] pids"))
    assert message.format(failed) in done.stderr
    assert found
    assert gone(found)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_ending_launcher_ends_all_processes(tmp_path, number, launched, environment):
    command = [*map(str, launched(2, 1, write(tmp_path, FAILS.replace("{how}", "pass"))))]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
    lines = [process.stdout.readline() for _ in range(2)]  # both have begun
    own = [pid for line in lines for pid in pids(line)]
    process.send_signal(number)
    _, error = process.communicate(timeout=60)
    if number is signal.SIGKILL:  # then the keeper ends them
        assert process.returncode == -number
        wait_for(lambda: gone(own))
    else:
        assert process.returncode == 128 + number
        assert f"{number.name}: ending 2 processes" in error
        assert gone(own)


def wait_for(condition):
    for _ in range(600):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError("it did not happen within a minute")


def test_invalid_launches_are_refused(tmp_path, execute, launched):
    done = execute(launched(1, 1, tmp_path / "none.py"))
    assert (done.returncode, "the file does not exist" in done.stderr) == (2, True)
    with pytest.raises(UsageError, match="processes is out of range"):
        launch([sys.executable], processes=0)
    with pytest.raises(UsageError, match="the program does not exist"):
        launch([tmp_path / "none"], processes=1)
    with pytest.raises(UsageError, match="fewer GPUs than processes"):
        launch([sys.executable], processes=2, environment={"CUDA_VISIBLE_DEVICES": "0"})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-n", "0"], "processes is out of range"),
        (["--port", "99999"], "the port is out of range"),
        (["--port", "{used}"], "the processes cannot meet at port"),
    ],
)
def test_invalid_options_print_one_line(tmp_path, arguments, message, execute):
    with socket.create_server(("127.0.0.1", 0)) as used:
        words = [word.format(used=used.getsockname()[1]) for word in arguments]
        done = execute([sys.executable, "-m", "penstock.cli", "launch", *words, write(tmp_path, "pass")])
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_port_taken_in_the_meantime_fails_process_0(monkeypatch):
    with socket.create_server(("", 0)) as used:
        port = used.getsockname()[1]
        for name, value in (("JAX_COORDINATOR_ADDRESS", f"127.0.0.1:{port}"), *own(2, 0)):
            monkeypatch.setenv(name, value)
        with pytest.raises(UsageError, match=f"cannot meet at port {port}"):
            initialize()


def own(processes, number):
    return ("PENSTOCK_NUM_PROCESSES", str(processes)), ("PENSTOCK_PROCESS_ID", str(number))


def test_unsupported_characters_are_forwarded(tmp_path, execute, launched):
    script = write(tmp_path, "import sys; sys.stdout.buffer.write('größe ✓\\n'.encode()); print('fine')")
    done = execute(launched(1, 1, script), PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert (done.returncode, done.stdout) == (0, "[0] größe ✓\n[0] fine\n")


@pytest.mark.parametrize(("how", "code"), [("pass", 1), ("raise SystemExit(3)", 3)])
def test_unwritable_output_fails_job(how, code, tmp_path, launched, environment):
    command = [*map(str, launched(1, 1, write(tmp_path, f"print('lost'); {how}")))]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env=environment(), check=False)
    assert done.returncode == code
    assert "could not be written: No space left on device" in done.stderr.splitlines()[-1]


def test_launcher_under_nohup_survives_terminal(tmp_path, launched, environment):
    script = write(tmp_path, "import signal; print('begun', flush=True); signal.sigwait([signal.SIGTERM])")
    ignoring = [
        sys.executable,
        "-c",
        "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])",
    ]
    process = subprocess.Popen(
        [*ignoring, *map(str, launched(1, 1, script))], stdout=subprocess.PIPE, text=True, env=environment()
    )
    assert "begun" in process.stdout.readline()
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM


def test_launcher_does_not_import_jax(execute):
    code = "import sys; from penstock.cli import main; print(main(['launch', 'none.py']), 'jax' in sys.modules)"
    assert execute([sys.executable, "-c", code]).stdout == "2 False\n"


def test_gpus_are_divided(tmp_path, execute, launched):
    script = write(tmp_path, "import os; print(os.environ['JAX_LOCAL_DEVICE_IDS'])")
    done = execute(launched(2, 1, script), JAX_PLATFORMS="", CUDA_VISIBLE_DEVICES="0,1,2,3")
    assert sorted(done.stdout.splitlines()) == ["[0] 0,1", "[1] 2,3"]


def test_list_of_gpus_ends_as_for_cuda():
    def run(listed):
        return launch(["true"], processes=2, environment={"CUDA_VISIBLE_DEVICES": listed})

    assert [run(listed) for listed in ("-1", "NoDevFiles")] == [0, 0]
    for listed in ("0,-1,1", "GPU-0f1e2d3c,none,1"):
        with pytest.raises(UsageError, match="1 GPUs for 2 processes"):
            run(listed)


def test_second_initialize_returns_same_job(monkeypatch):
    monkeypatch.setattr(jax.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(jax_runtime, "process_number", lambda: (0, 2))
    with socket.create_server(("127.0.0.1", 0)) as coordinator:
        address = f"127.0.0.1:{coordinator.getsockname()[1]}"
        for name, value in (("JAX_COORDINATOR_ADDRESS", address), *own(2, 0)):
            monkeypatch.setenv(name, value)
        assert initialize().process_id == 0
        monkeypatch.setenv("PENSTOCK_PROCESS_ID", "1")
        with pytest.raises(UsageError, match="has joined another job before"):
            initialize()


def test_initialize_without_job_runs_single_process():
    assert initialize().started_by == "nobody"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a port is free until process 0 listens")
def test_coordinator_port_is_reserved():
    with free_port() as port:
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
        check_port(port)
