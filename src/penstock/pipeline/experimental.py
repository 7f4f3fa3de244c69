"""DALI's `pipeline.experimental`."""

from penstock.pipeline.definition import pipeline_def as pipeline_def
