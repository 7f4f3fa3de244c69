"""DALI's `nvidia.dali.plugin.triton`: the definition stays one, and serving it is left to others."""

from collections.abc import Callable
from typing import Any

from penstock.core.call_site import user_call_site
from penstock.errors import ArgumentTypeError, short_repr


def autoserialize(dali_pipeline: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a definition for DALI's backend of the Triton server, which does nothing here.

    Args:
        dali_pipeline: a function decorated with `pipeline_def`.

    Returns:
        The function.

    Raises:
        ArgumentTypeError: it is no function decorated with `pipeline_def`.
    """
    if not hasattr(dali_pipeline, "definition"):
        raise ArgumentTypeError(
            "autoserialize marks a pipeline",
            given=short_repr(dali_pipeline),
            fix="decorate it with @pipeline_def first",
            where=user_call_site(),
        )
    return dali_pipeline
