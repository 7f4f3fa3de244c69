"""Checks of the inputs of `cat` and `stack`."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.core import Shape, Spec
from penstock.errors import DefinitionError


def check_alike(values: Sequence[Spec]) -> None:
    """Check that there is at least one input and that all have the same dtype and rank.

    Raises:
        DefinitionError: They differ, or there are none.
    """
    inputs = ", ".join(map(str, values))
    if not values:
        raise DefinitionError("there are no inputs", expected="one or more")
    if len({value.dtype for value in values}) > 1:
        raise DefinitionError("inputs must have one dtype", given=inputs, fix="fn.cast(x, dtype=...)")
    if len({len(value.shape) for value in values}) > 1:
        raise DefinitionError("inputs must have one rank", given=inputs, fix="fn.expand_dims(x, axes=...)")


def joined_extents(shapes: Sequence[Shape]) -> Shape:
    """Return the common shape. An extent is known if at least one shape contains it.

    Raises:
        DefinitionError: Two shapes differ.
    """
    result: list[int | None] = []
    for extents in zip(*shapes, strict=True):
        known = sorted({extent for extent in extents if extent is not None})
        if len(known) > 1:
            raise DefinitionError(
                "the extents of the inputs differ",
                given=f"extents {', '.join(map(str, known))}",
                fix="fn.pad(x, ...), fn.crop(x, ...) or fn.resize(x, ...) before",
            )
        result.append(known[0] if known else None)
    return tuple(result)
