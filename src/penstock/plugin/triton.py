"""DALI's `nvidia.dali.plugin.triton`, without a serving backend."""

from collections.abc import Callable
from typing import Any

from penstock.core import user_call_site
from penstock.errors import ArgumentTypeError, short_repr


def autoserialize(dali_pipeline: Callable[..., Any]) -> Callable[..., Any]:
    """Return a definition unchanged. DALI's function marks it for its Triton backend.

    Args:
        dali_pipeline: Function decorated with `pipeline_def`.

    Returns:
        The function.

    Raises:
        ArgumentTypeError: `dali_pipeline` is not decorated with `pipeline_def`.
    """
    if not hasattr(dali_pipeline, "definition"):
        raise ArgumentTypeError(
            "autoserialize marks a pipeline",
            given=short_repr(dali_pipeline),
            fix="decorate it with @pipeline_def first",
            where=user_call_site(),
        )
    return dali_pipeline
