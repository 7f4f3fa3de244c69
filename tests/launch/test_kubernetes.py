"""Tests of the Kubernetes example: valid fields that match each other and `penstock.launch`."""

import re
from pathlib import Path

import pytest
import yaml

from penstock.launch import detect_job
from penstock.launch.distributed import BIND, split_address

MANIFEST = Path(__file__).parents[2] / "examples" / "kubernetes.yaml"


@pytest.fixture
def documents():
    return {document["kind"]: document for document in yaml.safe_load_all(MANIFEST.read_text())}


@pytest.mark.parametrize("version", ["1.29", "1.37"])
def test_published_schemas_accept_manifest_and_reject_mistakes(documents, version):
    validator = pytest.importorskip("kubernetes_validate", reason="it brings the schemas (dependency group test-all)")
    assert documents.keys() == {"Service", "Job"}
    for document in documents.values():
        validator.validate(document, version, strict=True)
    for wrong in ({"paralelism": 4}, {"parallelism": "four"}):
        with pytest.raises(validator.ValidationError):
            validator.validate(documents["Job"] | {"spec": documents["Job"]["spec"] | wrong}, version, strict=True)


def test_manifest_parts_are_consistent(documents):
    service, job = documents["Service"], documents["Job"]
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    (port,) = service["spec"]["ports"]
    assert service["spec"]["selector"] == {"job-name": job["metadata"]["name"]}
    assert pod["subdomain"] == service["metadata"]["name"]
    assert job["spec"]["completionMode"] == "Indexed"
    assert pod["restartPolicy"] in ("Never", "OnFailure")
    assert container["ports"] == [{"containerPort": port["port"]}]
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}


def test_manifest_variables_form_job(documents):
    service, job = documents["Service"], documents["Job"]
    (container,) = job["spec"]["template"]["spec"]["containers"]
    fields = {"metadata.annotations['batch.kubernetes.io/job-completion-index']": "3", "status.podIP": "10.1.2.3"}
    variables = {}
    for variable in container["env"]:
        value = variable.get("value") or fields[variable["valueFrom"]["fieldRef"]["fieldPath"]]
        variables[variable["name"]] = re.sub(r"\$\((\w+)\)", lambda name: variables[name[1]], value)
    found = detect_job(variables)
    host = f"{job['metadata']['name']}-0.{service['metadata']['name']}"
    assert found.coordinator == f"{host}:{service['spec']['ports'][0]['port']}"
    assert split_address(variables[BIND]) == ("10.1.2.3", service["spec"]["ports"][0]["port"])
    assert (found.num_processes, found.process_id) == (job["spec"]["completions"], 3)
    assert job["spec"]["parallelism"] == found.num_processes
