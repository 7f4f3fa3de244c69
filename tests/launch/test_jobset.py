"""Tests of the JobSet example: valid fields that match each other and `penstock.launch`."""

import copy
import re
from pathlib import Path

import pytest
import yaml

from penstock.launch import detect_job
from penstock.launch.distributed import BIND, split_address

MANIFEST = Path(__file__).parents[2] / "examples" / "jobset.yaml"


def closed(required, **properties):
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


# The fields of jobset.x-k8s.io/v1alpha2 that the example may use. The template is a Job, which has its own schema.
SCHEMA = closed(
    ["apiVersion", "kind", "metadata", "spec"],
    apiVersion={"const": "jobset.x-k8s.io/v1alpha2"},
    kind={"const": "JobSet"},
    metadata={"type": "object", "required": ["name"]},
    spec=closed(
        ["replicatedJobs"],
        failurePolicy=closed(
            [],
            maxRestarts={"type": "integer", "minimum": 0},
            restartStrategy={"enum": ["Recreate", "BlockingRecreate", "InPlaceRestart"]},
        ),
        network=closed(
            [],
            enableDNSHostnames={"type": "boolean"},
            publishNotReadyAddresses={"type": "boolean"},
            subdomain={"type": "string"},
        ),
        replicatedJobs={
            "type": "array",
            "minItems": 1,
            "items": closed(
                ["name", "template"],
                name={"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"},
                replicas={"type": "integer", "minimum": 0},
                template=closed(["spec"], metadata={"type": "object"}, spec={"type": "object"}),
            ),
        },
        suspend={"type": "boolean"},
        ttlSecondsAfterFinished={"type": "integer", "minimum": 0},
    ),
)


@pytest.fixture
def jobset():
    return yaml.safe_load(MANIFEST.read_text())


@pytest.fixture
def job(jobset):
    (replicated,) = jobset["spec"]["replicatedJobs"]
    return replicated["template"]["spec"]


def test_schema_accepts_manifest_and_rejects_mistakes(jobset):
    jsonschema = pytest.importorskip("jsonschema", reason="kubernetes-validate brings it (dependency group test-all)")
    jsonschema.validate(jobset, SCHEMA)
    for wrong in ({"replicatedJob": []}, {"failurePolicy": {"maxRestarts": "many"}}, {"network": {"subDomain": "x"}}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(jobset | {"spec": jobset["spec"] | wrong}, SCHEMA)


@pytest.mark.parametrize("version", ["1.29", "1.37"])
def test_published_schema_of_jobs_accepts_template_and_rejects_mistakes(job, version):
    validator = pytest.importorskip("kubernetes_validate", reason="it brings the schemas (dependency group test-all)")
    document = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "penstock-workers-0"}, "spec": job}
    validator.validate(document, version, strict=True)
    wrong = copy.deepcopy(document)
    wrong["spec"]["template"]["spec"]["containers"][0]["environment"] = []
    with pytest.raises(validator.ValidationError):
        validator.validate(wrong, version, strict=True)


def test_manifest_variables_form_job(jobset, job):
    (replicated,), name = jobset["spec"]["replicatedJobs"], jobset["metadata"]["name"]
    assert (replicated["replicas"], job["completionMode"], job["backoffLimit"]) == (1, "Indexed", 0)
    pod = job["template"]["spec"]
    (container,) = pod["containers"]
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    fields = {"metadata.annotations['batch.kubernetes.io/job-completion-index']": "3", "status.podIP": "10.1.2.3"}
    variables = {}
    for variable in container["env"]:
        value = variable.get("value") or fields[variable["valueFrom"]["fieldRef"]["fieldPath"]]
        variables[variable["name"]] = re.sub(r"\$\((\w+)\)", lambda match: variables[match[1]], value)
    found = detect_job(variables)
    # The controller names pods JOBSET-REPLICATED_JOB-JOB-POD, and the service like the JobSet.
    host, port = f"{name}-{replicated['name']}-0-0.{name}", container["ports"][0]["containerPort"]
    assert found.coordinator == f"{host}:{port}"
    assert split_address(variables[BIND]) == ("10.1.2.3", port)
    assert (found.num_processes, found.process_id) == (job["completions"], 3)
    assert job["parallelism"] == found.num_processes
