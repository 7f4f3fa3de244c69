"""DALI's `pipeline.experimental`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.pipeline import definition


def pipeline_def(
    fn: Callable[..., Any] | None = None,
    *,
    enable_conditionals: bool = True,
    debug: bool = False,
    **pipeline_arguments: Any,
) -> Any:
    """`penstock.pipeline_def`, with conditionals unless they are switched off.

    Args:
        fn: the definition.
        enable_conditionals: whether `if`, `and`, `or` and `not` work on nodes.
        debug: whether the definition runs for each batch, and operators compute as they are called.
        **pipeline_arguments: arguments of `Pipeline`.

    Returns:
        A function that makes a `Pipeline`.
    """
    return definition.pipeline_def(fn, enable_conditionals=enable_conditionals, debug=debug, **pipeline_arguments)
