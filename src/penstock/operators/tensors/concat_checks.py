"""Checks of the inputs of `cat` and `stack`."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.core import Shape, Spec
from penstock.errors import DefinitionError
from penstock.graph import axis_numbers


def check_alike(kind: str, values: Sequence[Spec]) -> None:
    """Check that there is at least one input and that all have the same dtype and rank.

    Raises:
        DefinitionError: They differ, or there are none.
    """
    inputs = ", ".join(map(str, values)) or "no values"
    if not values:
        raise DefinitionError(f"fn.{kind} needs inputs", given=inputs, expected="one or more")
    if len({value.dtype for value in values}) > 1:
        raise DefinitionError(f"fn.{kind} needs inputs of one dtype", given=inputs, fix="fn.cast(x, dtype=...)")
    if len({len(value.shape) for value in values}) > 1:
        raise DefinitionError(f"fn.{kind} needs inputs of one rank", given=inputs, fix="fn.expand_dims(x, axes=...)")


def joined_extents(kind: str, shapes: Sequence[Shape]) -> Shape:
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


def one_axis(kind: str, axis: int, name: str | None, spec: Spec) -> int:
    """Return the number of an axis that is set by number or by name.

    Raises:
        DefinitionError: It does not exist, or both `axis` and `axis_name` are set.
    """
    if name is None:
        return axis_numbers([axis], None, spec)[0]
    # 0 is the default of `axis`, so an explicit 0 next to a name goes unnoticed, which is harmless.
    if axis != 0 or len(name) != 1:
        raise DefinitionError(
            "set either axis or axis_name, which is one letter", given=f"axis={axis}, axis_name={name!r}"
        )
    if name not in spec.layout:
        raise DefinitionError(
            f"the layout does not contain axis {name}",
            given=f"axis_name={name!r}, layout {spec.layout!r}",
            fix="axis=..., with a number",
        )
    return spec.layout.index(name)
