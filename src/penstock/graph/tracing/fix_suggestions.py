"""What to do about a value that does not fit: operators say what they are good for, the engine repeats it."""

from __future__ import annotations

from enum import Enum

from penstock.graph.tracing.registry import lookup, registered


class ShapeProblem(Enum):
    """What can be wrong with a value, where another operator before it would help."""

    RAGGED_BYTES = "samples of one axis differ in length"
    RAGGED = "samples of several axes differ in shape"


_advice: dict[ShapeProblem, list[str]] = {}


def register_fix(trouble: ShapeProblem, how: str) -> None:
    """Say that an operator helps. Called where the operator is defined.

    Args:
        trouble: against what.
        how: what to write, such as "fn.resize(..., size=(height, width))".
    """
    _advice.setdefault(trouble, []).append(how)


def suggested_fix(trouble: ShapeProblem) -> str:
    """What helps, as a text for messages.

    >>> register_fix(ShapeProblem.RAGGED, "fn.shrink(...)")
    >>> "fn.shrink(...)" in suggested_fix(ShapeProblem.RAGGED)
    True
    """
    for name in registered():
        lookup(name)  # what helps is said where operators are defined, and those may not be loaded
    known = sorted(_advice.get(trouble, ["an operator that gives the samples one shape"]))
    return known[0] if len(known) == 1 else f"{', '.join(known[:-1])} or {known[-1]}"
