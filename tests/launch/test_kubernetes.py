"""The example for Kubernetes: its fields exist, and fit together and with `penstock.launch`."""

from pathlib import Path

import pytest
import yaml

from penstock.launch import detect

MANIFEST = Path(__file__).parents[2] / "examples" / "kubernetes.yaml"

NAME = {"name": str}
VALUE = {"name": str, "value": str}
FIELD = {"name": str, "valueFrom": {"fieldRef": {"fieldPath": str}}}
VOLUME = {
    "name": str,
    "persistentVolumeClaim": {"claimName": str},
    "emptyDir": {"medium": str, "sizeLimit": str},
}
CONTAINER = {
    "name": str,
    "image": str,
    "command": [str],
    "env": [VALUE | FIELD],
    "ports": [{"containerPort": int}],
    "resources": {"limits": {"nvidia.com/gpu": int}},
    "volumeMounts": [{"name": str, "mountPath": str}],
}
POD = {
    "subdomain": str,
    "restartPolicy": str,
    "terminationGracePeriodSeconds": int,
    "containers": [CONTAINER],
    "volumes": [VOLUME],
}
SCHEMAS = {
    ("v1", "Service"): {
        "clusterIP": str,
        "publishNotReadyAddresses": bool,
        "selector": {"job-name": str},
        "ports": [{"name": str, "port": int}],
    },
    ("batch/v1", "Job"): {
        "completionMode": str,
        "completions": int,
        "parallelism": int,
        "backoffLimit": int,
        "template": {"spec": POD},
    },
}
"""The fields of the API that the example uses, with their types."""


def check(given, schema, path):
    if isinstance(schema, dict):
        assert isinstance(given, dict), path
        for name, value in given.items():
            assert name in schema, f"{path} has no field {name}"
            check(value, schema[name], f"{path}.{name}")
    elif isinstance(schema, list):
        assert isinstance(given, list), path
        for number, value in enumerate(given):
            check(value, schema[0], f"{path}[{number}]")
    else:
        assert type(given) is schema, f"{path} is {given!r}"


@pytest.fixture
def documents():
    return {document["kind"]: document for document in yaml.safe_load_all(MANIFEST.read_text())}


def test_every_field_exists_and_has_its_type(documents):
    assert documents.keys() == {"Service", "Job"}
    for kind, document in documents.items():
        schema = SCHEMAS[document["apiVersion"], kind]
        check(document, {"apiVersion": str, "kind": str, "metadata": NAME, "spec": schema}, kind)


def test_the_parts_fit(documents):
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


def test_the_variables_make_a_job(documents):
    service, job = documents["Service"], documents["Job"]
    (container,) = job["spec"]["template"]["spec"]["containers"]
    index = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
    variables = {}
    for variable in container["env"]:
        field = variable.get("valueFrom", {"fieldRef": {"fieldPath": index}})["fieldRef"]["fieldPath"]
        assert field == index
        variables[variable["name"]] = variable.get("value", "3")
    found = detect(variables)
    host = f"{job['metadata']['name']}-0.{service['metadata']['name']}"
    assert found.coordinator == f"{host}:{service['spec']['ports'][0]['port']}"
    assert (found.num_processes, found.process_id) == (job["spec"]["completions"], 3)
    assert job["spec"]["parallelism"] == found.num_processes
