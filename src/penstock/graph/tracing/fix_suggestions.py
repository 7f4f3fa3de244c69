"""Suggested fixes for values of the wrong shape. Operators register them; errors of the engine quote them."""

from __future__ import annotations

from enum import Enum

from penstock.graph.tracing.registry import lookup, registered


class ShapeProblem(Enum):
    """Problems of a value that an additional operator solves."""

    RAGGED_BYTES = "samples of one axis differ in length"
    RAGGED = "samples of several axes differ in shape"


_advice: dict[ShapeProblem, list[str]] = {}


def register_fix(trouble: ShapeProblem, how: str) -> None:
    """Register an operator as a fix. Called in the module of the operator.

    Args:
        trouble: Problem that the operator solves.
        how: Call to suggest, such as "fn.resize(..., size=(height, width))".
    """
    _advice.setdefault(trouble, []).append(how)


def suggested_fix(trouble: ShapeProblem) -> str:
    """Return the suggestion for a message.

    >>> register_fix(ShapeProblem.RAGGED, "fn.shrink(...)")
    >>> "fn.shrink(...)" in suggested_fix(ShapeProblem.RAGGED)
    True
    """
    for name in registered():
        lookup(name)  # loads the module of the operator, which registers its fixes
    known = sorted(_advice.get(trouble, ["an operator that gives the samples one shape"]))
    return known[0] if len(known) == 1 else f"{', '.join(known[:-1])} or {known[-1]}"
