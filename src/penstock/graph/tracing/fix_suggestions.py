"""What to do about a value that does not fit: operators say what they are good for, the engine repeats it."""

from __future__ import annotations

from enum import Enum

from penstock.graph.tracing.registry import lookup, registered


class Trouble(Enum):
    """What can be wrong with a value, where another operator before it would help."""

    RAGGED_BYTES = "samples of one axis differ in length"
    RAGGED = "samples of several axes differ in shape"


_advice: dict[Trouble, list[str]] = {}


def helps(trouble: Trouble, how: str) -> None:
    """Say that an operator helps. Called where the operator is defined.

    Args:
        trouble: against what.
        how: what to write, such as "fn.resize(..., size=(height, width))".
    """
    _advice.setdefault(trouble, []).append(how)


def advice(trouble: Trouble) -> str:
    """What helps, as a text for messages.

    >>> helps(Trouble.RAGGED, "fn.shrink(...)")
    >>> "fn.shrink(...)" in advice(Trouble.RAGGED)
    True
    """
    for name in registered():
        lookup(name)  # what helps is said where operators are defined, and those may not be loaded
    known = sorted(_advice.get(trouble, ["an operator that gives the samples one shape"]))
    return known[0] if len(known) == 1 else f"{', '.join(known[:-1])} or {known[-1]}"
