"""transforms.crop: the map from one box of coordinates to another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from penstock.errors import DefinitionError
from penstock.graph.ir.argument_schema import Argument
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.operators.transforms.affine_operator import AffineOperator, diagonal, dimensions, extent, per_dimension

_NAMES = ("from_start", "from_end", "to_start", "to_end")


@dataclass(frozen=True)
class CropMap(AffineOperator):
    """A stretch and a shift by which two corners come to lie on two others.

    Args:
        absolute: whether starts and ends that are in the wrong order are exchanged.
    """

    absolute: bool
    schema: ClassVar[Mapping[str, Argument]] = {name: Argument(np.float32, (None,)) for name in _NAMES}

    def parts(self, xp: Any, ndim: int, given: Mapping[str, Any]) -> tuple[Any, Any]:
        """A diagonal matrix."""
        start, end, low, high = (per_dimension(xp, given[name], ndim) for name in _NAMES)
        if self.absolute:
            start, end = xp.minimum(start, end), xp.maximum(start, end)
            low, high = xp.minimum(low, high), xp.maximum(low, high)
        with np.errstate(divide="ignore", invalid="ignore"):  # where both are the same, as in DALI
            factor = (high - low) / (end - start)
        return diagonal(xp, factor), low - factor * start


@operator("transforms.crop")
def crop(
    transform: DataNode | None = None,
    *,
    from_start: float | Sequence[float] | DataNode = 0.0,
    from_end: float | Sequence[float] | DataNode = 1.0,
    to_start: float | Sequence[float] | DataNode = 0.0,
    to_end: float | Sequence[float] | DataNode = 1.0,
    absolute: bool = False,
    reverse_order: bool = False,
) -> DataNode:
    """Make the map by which coordinates follow a crop, alone or after another map.

    Args:
        transform: another map, float32 (n, n + 1).
        from_start: the corner that comes to lie at `to_start`: n numbers, or one for all axes; a node gives each sample
            its own. So do the following ones.
        from_end: the opposite corner, which comes to lie at `to_end`.
        to_start: where the first corner goes.
        to_end: where the other one goes.
        absolute: whether a start that is greater than its end is exchanged with it.
        reverse_order: whether `transform` is applied after the map, not before it.

    Returns:
        A map, float32 (n, n + 1), as `fn.warp_affine` and the MT of `fn.coord_transform` take it.

    Raises:
        DefinitionError: arguments, or `transform`, disagree about the number of dimensions.

    Example:
        >>> import penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     pipeline.set_outputs(fn.transforms.crop(from_start=[10, 20], from_end=[18, 28]))
        >>> pipeline.run()[0].as_array().tolist()
        [[[0.125, 0.0, -1.25], [0.0, 0.125, -2.5]]]
    """
    kind = "transforms.crop"
    arguments: dict[str, Any] = dict(zip(_NAMES, (from_start, from_end, to_start, to_end), strict=True))
    counts = [extent(value) for value in arguments.values()]
    known = {count for count in counts if count not in (None, 1)}
    if len(known) > 1:
        raise DefinitionError(f"fn.{kind}: corners have one number of coordinates", given=f"{counts} of them")
    told = known.pop() if known else None if None in counts or transform is not None else 1
    ndim = dimensions(kind, transform, told)
    before = () if transform is None else (transform,)
    return apply(CropMap(ndim, bool(reverse_order), bool(absolute)), *before, **arguments)
