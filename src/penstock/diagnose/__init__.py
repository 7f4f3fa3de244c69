"""Diagnosis: checks that `penstock doctor` prints, benchmarks of pipelines, and traces."""

from penstock.diagnose.host_trace import trace as trace
