"""Tests of the examples that start input hosts: valid fields that match each other, and shell scripts that parse."""

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from penstock.engine.input_hosts.host_address import parse_addresses

EXAMPLES = Path(__file__).parents[2] / "examples"
MANIFEST = EXAMPLES / "input_hosts.yaml"


@pytest.fixture
def documents():
    return {document["kind"]: document for document in yaml.safe_load_all(MANIFEST.read_text())}


@pytest.mark.parametrize("version", ["1.29", "1.37"])
def test_published_schemas_accept_the_manifest(documents, version):
    validator = pytest.importorskip("kubernetes_validate", reason="it brings the schemas (dependency group test-all)")
    assert documents.keys() == {"Service", "StatefulSet"}
    for document in documents.values():
        validator.validate(document, version, strict=True)


def test_parts_of_the_manifest_match(documents):
    service, pods = documents["Service"], documents["StatefulSet"]
    pod = pods["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    (port,) = service["spec"]["ports"]
    assert pods["spec"]["serviceName"] == service["metadata"]["name"]
    assert service["spec"]["selector"] == pods["spec"]["selector"]["matchLabels"] == pod["metadata"]["labels"]
    assert port["port"] in [entry["containerPort"] for entry in container["ports"]]
    assert f"0.0.0.0:{port['port']}" in container["command"]
    (line,) = [line for line in MANIFEST.read_text().splitlines() if "PENSTOCK_INPUT_HOSTS=" in line]
    for number, address in enumerate(parse_addresses(line.partition("=")[2].split(","))):
        assert address.host == f"{pods['metadata']['name']}-{number}.{service['metadata']['name']}"
        assert address.port == port["port"]


def test_the_batch_script_parses():
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    script = EXAMPLES / "input_hosts.sbatch"
    subprocess.run(["bash", "-n", script], check=True)
    assert "#SBATCH hetjob" in script.read_text().splitlines()
