"""Tests of jobs: exchanged rows, agreement on definitions, and the order of collectives."""

import re

import pytest


def test_differing_processes_are_refused_in_all(job):
    out = job(2, 1, "differing.py")
    for message in (
        "definition: the processes of this job define different pipelines | given:    definition ",
        "code: the processes of this job define different pipelines | given:    code ",
        "batch: the processes of this job define different pipelines | given:    batch_size 6 in process 1"
        " | expected: batch_size 4, as in process 0",
        "seed: the processes of this job define different pipelines | given:    seed 2 in process 1"
        " | expected: seed 1, as in process 0",
        "policy: the processes of this job define different pipelines | given:    last_batch_policy ",
        "length: the processes of this job read different data with readers.arrays",
        "content: the processes of this job read different data with readers.arrays",
        "files: the processes of this job read files of equal names and other content with readers.numpy",
        "whole length: the processes of this job read different data with readers.arrays",
        "whole content: the processes of this job read different data with readers.arrays",
        "shape: the processes of this job read ",
        "whole: normalize needs all samples of the batch on the host, but this process has only some of them",
    ):
        assert len(re.findall(rf"^\[\d\] {re.escape(message)}", out, re.MULTILINE)) == 2, f"{message}\n{out}"


@pytest.mark.parametrize(("processes", "devices", "steps"), [(4, 1, 100), (2, 4, 60)])
def test_shards_exchange_rows_and_collectives_keep_one_order(job, processes, devices, steps):
    out = job(processes, devices, "several.py", "shards.py", 7, "+", "stress.py", steps, timeout=200)
    assert out.count("all as it should be") == processes
    assert out.count(f"{steps} steps in") == processes
