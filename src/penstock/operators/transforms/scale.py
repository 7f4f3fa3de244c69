"""Operator that creates scalings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from penstock.graph import Argument, DataNode, apply, operator
from penstock.operators.argument_limits import Rank
from penstock.operators.transforms.affine_operator import (
    AffineOperator,
    center_offset,
    check_center,
    diagonal,
    dimensions,
    extent,
    per_dimension,
)


@dataclass(frozen=True)
class Scaling(AffineOperator):
    """Scaling of each coordinate about a center."""

    schema: ClassVar[Mapping[str, Argument]] = {
        "scale": Argument(np.float32, (None,)),
        "center": Argument(np.float32, (None,)),
    }

    def linear_and_shift(self, xp: Any, ndim: int, arguments: Mapping[str, Any]) -> tuple[Any, Any]:
        """Return a diagonal matrix and the translation that keeps the center fixed."""
        linear = diagonal(xp, per_dimension(xp, arguments["scale"], ndim))
        return linear, center_offset(xp, linear, arguments.get("center"))


@operator("transforms.scale")
def scale(
    transform: DataNode | None = None,
    *,
    scale: float | Sequence[float] | DataNode,
    center: Sequence[float] | DataNode | None = None,
    ndim: Rank | None = None,
    reverse_order: bool = False,
) -> DataNode:
    """Create an affine transform that scales coordinates.

    Args:
        transform: Transform to apply before the scaling, float32 (n, n + 1).
        scale: n factors, or one for all coordinates, or a node with either per sample.
        center: Fixed point of the scaling, n numbers, or a node with them per sample; by default the origin.
        ndim: Number of dimensions n if `scale` is one factor and there is no `transform`; by default that of `center`,
            or 1.
        reverse_order: True to apply `transform` after the scaling.

    Returns:
        A transform, float32 (n, n + 1), for `fn.warp_affine` or the MT argument of `fn.coord_transform`.

    Raises:
        DefinitionError: The arguments or `transform` differ in their number of dimensions.

    Example:
        >>> import penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     pipeline.set_outputs(fn.transforms.scale(scale=[2, 3], center=[5, 7]))
        >>> pipeline.run()[0].as_array().tolist()
        [[[2.0, 0.0, -5.0], [0.0, 3.0, -14.0]]]
    """
    kind, count = "transforms.scale", extent(scale)
    # One factor applies to any number of dimensions, so the center, ndim= or the input determines it.
    one = count == 1
    if one and ndim is None and transform is None:
        ndim = extent(center) or 1
    result_ndim = dimensions(kind, transform, ndim if one else count)
    check_center(kind, center, result_ndim)
    before = () if transform is None else (transform,)
    arguments: dict[str, Any] = {"scale": scale} if center is None else {"scale": scale, "center": center}
    return apply(Scaling(result_ndim, bool(reverse_order)), *before, **arguments)
