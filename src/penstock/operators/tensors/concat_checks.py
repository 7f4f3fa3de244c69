"""What `cat` and `stack` ask of the values that they join."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.core.spec import Shape, Spec
from penstock.errors import DefinitionError
from penstock.graph.layouts import axis_numbers


def check_alike(kind: str, values: Sequence[Spec]) -> None:
    """Check that there are values, of one dtype and rank.

    Raises:
        DefinitionError: they cannot be joined.
    """
    given = ", ".join(map(str, values)) or "no values"
    if not values:
        raise DefinitionError(f"fn.{kind} joins values", given=given, expected="one or more")
    if len({value.dtype for value in values}) > 1:
        raise DefinitionError(f"fn.{kind} joins values of one dtype", given=given, fix="fn.cast(x, dtype=...)")
    if len({len(value.shape) for value in values}) > 1:
        raise DefinitionError(f"fn.{kind} joins values of one rank", given=given, fix="fn.expand_dims(x, axes=...)")


def joined_extents(kind: str, shapes: Sequence[Shape]) -> Shape:
    """The shape that all have: an extent that one of them tells holds for all.

    Raises:
        DefinitionError: two differ.
    """
    found: list[int | None] = []
    for extents in zip(*shapes, strict=True):
        known = sorted({extent for extent in extents if extent is not None})
        if len(known) > 1:
            raise DefinitionError(
                f"fn.{kind} joins values that differ in no extent but that of the axis",
                given=f"extents {', '.join(map(str, known))}",
                fix="fn.pad(x, ...), fn.crop(x, ...) or fn.resize(x, ...) before",
            )
        found.append(known[0] if known else None)
    return tuple(found)


def one_axis(kind: str, axis: int, name: str | None, spec: Spec) -> int:
    """The number of the axis that a user named.

    Raises:
        DefinitionError: it does not exist, or both ways name one.
    """
    if name is None:
        return axis_numbers([axis], None, spec, kind)[0]
    if axis != 0 or len(name) != 1:
        raise DefinitionError(
            f"fn.{kind}: either axis or axis_name, one letter", given=f"axis={axis}, axis_name={name!r}"
        )
    if name not in spec.layout:
        raise DefinitionError(
            f"fn.{kind}: the layout has no axis {name}",
            given=f"axis_name={name!r}, layout {spec.layout!r}",
            fix="axis=..., by number",
        )
    return spec.layout.index(name)
