"""Operator that creates affine transforms from one box of coordinates to another."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from penstock.errors import DefinitionError
from penstock.graph import DataNode, operator
from penstock.operators.number_arguments import Numbers
from penstock.operators.transforms.affine_operator import (
    AffineOperator,
    OptionalTransform,
    diagonal,
    extent,
    per_dimension,
    transform_node,
)

# Per-sample arguments: corners of the source box, then of the target box.
_NAMES = ("from_start", "from_end", "to_start", "to_end")


@dataclass(frozen=True)
class CropMap(AffineOperator):
    """Scaling and translation that map two corners to two others.

    Args:
        absolute: True to exchange a start and an end that are in descending order.
    """

    absolute: bool

    def linear_and_shift(self, xp: Any, ndim: int, arguments: Mapping[str, Any]) -> tuple[Any, Any]:
        """Return a diagonal matrix and its translation."""
        start, end, low, high = (per_dimension(xp, arguments[name], ndim) for name in _NAMES)
        if self.absolute:
            start, end = xp.minimum(start, end), xp.maximum(start, end)
            low, high = xp.minimum(low, high), xp.maximum(low, high)
        # If start and end are equal, the result is inf or nan, as in DALI.
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = (high - low) / (end - start)
        return diagonal(xp, factor), low - factor * start


@operator("transforms.crop")
def crop(
    transform: OptionalTransform = None,
    *,
    from_start: Numbers = 0.0,
    from_end: Numbers = 1.0,
    to_start: Numbers = 0.0,
    to_end: Numbers = 1.0,
    absolute: bool = False,
    reverse_order: bool = False,
) -> DataNode:
    """Create an affine transform that maps one box of coordinates to another, as coordinates follow a crop.

    Each corner has n numbers, or one for all axes; a node has either per sample.

    Args:
        transform: Transform to apply before the new one, float32 (n, n + 1).
        from_start: First corner of the source box, mapped to `to_start`.
        from_end: Opposite corner of the source box, mapped to `to_end`.
        to_start: First corner of the target box.
        to_end: Opposite corner of the target box.
        absolute: True to exchange a start and an end that are in descending order.
        reverse_order: True to apply `transform` after the new transform.

    Returns:
        A transform, float32 (n, n + 1), for `fn.warp_affine` or the MT argument of `fn.coord_transform`.

    Raises:
        DefinitionError: The arguments or `transform` differ in their number of dimensions.

    Example:
        >>> import penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     pipeline.set_outputs(fn.transforms.crop(from_start=[10, 20], from_end=[18, 28]))
        >>> pipeline.run()[0].as_array().tolist()
        [[[0.125, 0.0, -1.25], [0.0, 0.125, -2.5]]]
    """
    arguments: dict[str, Any] = dict(zip(_NAMES, (from_start, from_end, to_start, to_end), strict=True))
    counts = [extent(value) for value in arguments.values()]
    known = {count for count in counts if count not in (None, 1)}
    if len(known) > 1:
        raise DefinitionError(
            "from_start, from_end, to_start and to_end must have the same number of coordinates", given=str(counts)
        )
    # Single numbers apply to any number of dimensions; without other information there is one dimension.
    argument_ndim = known.pop() if known else None if None in counts or transform is not None else 1
    return transform_node(partial(CropMap, absolute=absolute), transform, reverse_order, argument_ndim, **arguments)
