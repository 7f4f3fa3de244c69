"""DALI's `pipeline.experimental`."""

from penstock.pipeline.pipeline_decorator import pipeline_def as pipeline_def
