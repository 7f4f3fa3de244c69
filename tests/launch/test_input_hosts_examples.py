"""Tests of the examples with input hosts: valid manifests and scripts whose commands and addresses match each other."""

import argparse
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from penstock.cli import serve_command
from penstock.engine.input_hosts.host_address import TOKEN, parse_addresses

ROOT = Path(__file__).parents[2]
MANIFEST = ROOT / "examples" / "input_hosts.yaml"
SCRIPT = ROOT / "examples" / "input_hosts.sbatch"
PAGE = ROOT / "docs" / "how-to" / "run" / "input-hosts.md"


@pytest.fixture
def documents():
    return {document["kind"]: document for document in yaml.safe_load_all(MANIFEST.read_text())}


@pytest.fixture
def parse():
    """Return a function that parses the arguments of `penstock serve`."""
    parser = argparse.ArgumentParser(exit_on_error=False)
    serve_command.add_to(parser.add_subparsers())

    def parsed(command):
        assert command[0] == "penstock"
        # The parser looks for the program.
        return parser.parse_args([part.replace("/app/", "").replace("train.py", __file__) for part in command[1:]])

    return parsed


@pytest.mark.parametrize("version", ["1.29", "1.37"])
def test_published_schemas_accept_manifest_and_reject_mistakes(documents, version):
    validator = pytest.importorskip("kubernetes_validate", reason="it brings the schemas (dependency group test-all)")
    assert documents.keys() == {"Service", "Deployment"}
    for document in documents.values():
        validator.validate(document, version, strict=True)
    workload = documents["Deployment"]
    for wrong in ({"replica": 4}, {"replicas": "four"}):
        with pytest.raises(validator.ValidationError):
            validator.validate(workload | {"spec": workload["spec"] | wrong}, version, strict=True)


def test_manifest_parts_are_consistent(documents, parse):
    service, workload = documents["Service"], documents["Deployment"]
    pod = workload["spec"]["template"]
    (container,), labels = pod["spec"]["containers"], pod["metadata"]["labels"]
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == workload["spec"]["selector"]["matchLabels"] == labels
    mounts = container["volumeMounts"]
    assert {mount["name"] for mount in mounts} == {volume["name"] for volume in pod["spec"]["volumes"]}
    serve = parse(container["command"])
    (address,), (port,) = parse_addresses([serve.listen]), service["spec"]["ports"]
    assert address.port == port["port"] == container["readinessProbe"]["tcpSocket"]["port"]
    assert container["ports"] == [{"containerPort": address.port}, {"containerPort": serve.metrics}]
    assert pod["metadata"]["annotations"]["prometheus.io/port"] == str(serve.metrics)
    assert {str(serve.tls_cert.parent), str(serve.tls_key.parent)} < {mount["mountPath"] for mount in mounts}
    assert container["env"][0]["name"] == TOKEN


def test_the_page_names_the_service_of_the_manifest(documents):
    service = documents["Service"]
    (block,) = [text for text in re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL) if "INPUT_HOSTS" in text]
    variables = {variable["name"]: variable.get("value") for variable in yaml.safe_load(block)["env"]}
    (address,) = parse_addresses([variables["PENSTOCK_INPUT_HOSTS"]])
    (port,) = service["spec"]["ports"]
    assert (address.host, address.port, address.tls) == (service["metadata"]["name"], port["port"], True)
    assert f'"subjectAltName=DNS:{address.host}"' in PAGE.read_text()
    assert TOKEN in variables
    assert "PENSTOCK_INPUT_HOSTS_CA" in variables


def test_script_is_valid_and_trains_with_its_hosts(parse, tmp_path):
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("needs bash")
    subprocess.run([bash, "-n", SCRIPT], check=True)
    # Commands of the cluster that print their arguments and what the job passes on.
    for name, body in {
        "scontrol": 'echo node-1; echo node-2; test "$*" = "show hostnames node-[1-2]"',
        "srun": 'echo "$@ : $PENSTOCK_INPUT_HOSTS ${#PENSTOCK_INPUT_HOSTS_TOKEN}"',
    }.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    path = f"{tmp_path}:/usr/local/bin:/usr/bin:/bin"
    if shutil.which("openssl", path=path) is None:
        pytest.skip("needs openssl")
    environment = {"PATH": path, "SLURM_JOB_NODELIST_HET_GROUP_1": "node-[1-2]"}
    done = subprocess.run([bash, SCRIPT], env=environment, capture_output=True, text=True, check=True)
    steps = {line.split()[0]: line for line in done.stdout.splitlines()}
    assert steps["--het-group=0"].endswith("python train.py : node-1:7000,node-2:7000 64")
    (command,) = re.findall(r"penstock serve .*?--insecure", steps["--het-group=1"])
    serve = parse(command.replace('"', "").split())
    assert (serve.listen, serve.insecure) == ("$SLURMD_NODENAME:$port", True)
