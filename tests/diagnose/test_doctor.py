"""Tests of `penstock doctor`: facts, problems with their fixes, and the verdict on a store that answers slowly."""

import http.server
import importlib.metadata
import json
import sys
import threading
import time

import pytest

from penstock.cli import main
from penstock.core.cpu_limits import CpuLimits
from penstock.diagnose import environment_checks as module
from penstock.diagnose.check import Check, as_json, as_table
from penstock.diagnose.environment_checks import cache_check, cpu_checks, environment_checks, extra_checks, job_checks
from penstock.diagnose.read_rates import ReadRates, read_checks
from penstock.sources.storage import store_client


@pytest.fixture
def slow_store():
    """Serve one object over HTTP, each response after 120 ms. The delay is the situation itself: nothing races it."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            time.sleep(0.12)
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.send_header("ETag", '"1"')
            self.end_headers()
            self.wfile.write(bytes(1000))

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/object"
    server.shutdown()
    thread.join()
    server.server_close()


def problems(checks):
    return {check.name: (check.problem, check.fix) for check in checks if check.problem}


def test_slow_store_is_named_with_its_remedy(slow_store):
    ((problem, fix),) = problems(read_checks(slow_store)).values()
    assert problem.startswith("the store answers slowly: ")
    assert "read_threads" in fix
    assert "PENSTOCK_CACHE_SIZE" in fix


@pytest.mark.parametrize(
    ("path", "wait", "expected"),
    [
        ("s3://bucket/key", 0.02, ""),
        ("s3://bucket/key", 0.2, "the store answers slowly: 200 ms per request"),
        ("/data", 0.0002, ""),
        ("/data", 0.02, "the file system answers slowly: 20 ms per request"),
    ],
)
def test_verdict_on_time_per_request(path, wait, expected):
    checks = list(ReadRates(path, wait, serial=1e6, concurrent=2e6).checks())
    assert checks[0].problem == expected
    assert [check.value for check in checks[1:]] == [1.0, 2.0]


def test_reads_of_files(tmp_path):
    (tmp_path / "class").mkdir()
    for number in range(3):
        (tmp_path / "class" / f"{number}.jpg").write_bytes(bytes(1000))
    for path in (tmp_path, tmp_path / "class" / "0.jpg"):
        assert [check.name for check in read_checks(str(path))] == [
            "ms per request",
            "MB/s, one request at a time",
            "MB/s, many requests at once",
        ]


def test_url_without_the_extra_is_a_line_of_the_report(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "obstore.store", None)  # importing it raises ImportError
    assert main(["doctor", "s3://bucket/train"]) == 1
    text = capsys.readouterr().out
    assert "reads of s3://bucket/train" in text
    assert text.endswith(
        "access: a path of an object store needs the package 'obstore'\n    fix: pip install \"penstock[stores]\"\n"
    )


def test_paths_that_cannot_be_read(tmp_path, monkeypatch):
    monkeypatch.setattr(store_client, "_RETRIES", {"max_retries": 0})
    assert "there is no such file" in problems(read_checks(str(tmp_path / "missing")))["access"][0]
    assert problems(read_checks(str(tmp_path)))["files"][0] == "there are no files to read"
    assert "cannot be read" in problems(read_checks("http://127.0.0.1:9?x"))["access"][0]


@pytest.mark.parametrize(
    ("limits", "fix"),
    [
        (CpuLimits(cores=8, affinity=1, quota=None), "taskset"),
        (CpuLimits(cores=8, affinity=8, quota=1.0), "docker run --cpus=8"),
        (CpuLimits(cores=8, affinity=2, quota=None), None),
        (CpuLimits(cores=1, affinity=1, quota=None), None),
    ],
)
def test_too_few_cpus_are_named_with_the_limit(limits, fix):
    result = problems(cpu_checks(limits))
    if fix is None:
        assert not result
    else:
        assert result["threads with num_threads=None"][0].startswith("the process may use 1 of 8 CPUs")
        assert fix in result["threads with num_threads=None"][1]


def test_missing_extra_shows_the_command(monkeypatch):
    def requires(package):
        return ["numpy>=2", 'obstore>=0.12; extra == "stores"', 'av>=14 ; extra == "video"']

    def version(package):
        if package == "av":
            raise importlib.metadata.PackageNotFoundError(package)
        return "1"

    monkeypatch.setattr(module.importlib.metadata, "requires", requires)
    monkeypatch.setattr(module.importlib.metadata, "version", version)
    assert [(check.name, check.value, check.fix) for check in extra_checks()] == [
        ("stores", "installed", ""),
        ("video", "missing: av", 'pip install "penstock[video]"'),
    ]


def test_cache_folders(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    assert cache_check("loops", folder, "fix").value == f"{folder}, not created yet"
    folder.mkdir(mode=0o700)
    (folder / "a.code").write_bytes(bytes(500_000))
    (folder / "other").write_bytes(bytes(500_000))
    assert cache_check("loops", folder, "fix", "*.code").value == f"{folder}, mode 700, 1 files, 0.5 MB"
    monkeypatch.setattr(module.os, "access", lambda path, mode: False)
    check = cache_check("loops", folder, "set it elsewhere")
    assert (check.problem, check.fix) == (f"{folder} cannot be written", "set it elsewhere")


def test_wrong_variables_are_problems(monkeypatch):
    monkeypatch.setenv("PENSTOCK_CACHE_SIZE", "abc")
    monkeypatch.setenv("PENSTOCK_NUM_PROCESSES", "x")
    monkeypatch.setenv("PENSTOCK_PROCESS_ID", "0")
    monkeypatch.setenv("JAX_COORDINATOR_ADDRESS", "a:1")
    problems = {check.name: check.problem for check in environment_checks()}
    assert problems["remote objects"] == "PENSTOCK_CACHE_SIZE is not a number of bytes"
    assert "PENSTOCK_NUM_PROCESSES" in problems["started by"]


def test_text_and_json_agree():
    checks = [Check("a", "first", 1), Check("a", "second", 2.0, fix="hint"), Check("b", "third", "x", "bad", "cure")]
    assert as_json(checks[:2])["ok"]
    assert not as_json(checks)["ok"]
    text = as_table(checks)
    assert "2.0    hint" in text
    assert text.endswith("1 problem\n  third: bad\n    fix: cure")


def test_command(tmp_path, capsys):
    (tmp_path / "file").write_bytes(bytes(100))
    code = main(["doctor", "--json", str(tmp_path)])
    report = json.loads(capsys.readouterr().out)
    assert code == (0 if report["ok"] else 1)
    sections = {check["section"] for check in report["checks"]}
    assert {"versions", "devices", "CPUs", "decoders", "extras", "caches", "limits", f"reads of {tmp_path}"} <= sections
    assert main(["doctor", str(tmp_path / "missing")]) == 1
    assert "there is no such file or folder" in capsys.readouterr().out


def test_job_of_a_launcher(monkeypatch):
    assert not list(job_checks())
    for name, value in {"PMI_RANK": "3", "PMI_SIZE": "16", "MPI_LOCALRANKID": "3", "MPI_LOCALNRANKS": "8"}.items():
        monkeypatch.setenv(name, value)
    (check,) = job_checks()
    assert (check.value, check.problem) == ("MPICH", "the environment of MPICH does not tell where the processes meet")
    assert check.fix.startswith("set JAX_COORDINATOR_ADDRESS=HOST:8476, where HOST is the machine of process 0")
    monkeypatch.setenv("JAX_COORDINATOR_ADDRESS", "node1:8476")
    (check,) = job_checks()
    assert (check.value, check.problem) == ("MPICH: process 3 of 16, coordinator node1:8476", "")
