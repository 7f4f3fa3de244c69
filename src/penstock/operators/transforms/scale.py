"""Operator that creates scalings."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.graph import DataNode, operator
from penstock.operators.argument_limits import Rank
from penstock.operators.number_arguments import Numbers, OptionalNumbers
from penstock.operators.transforms.affine_operator import (
    AffineOperator,
    OptionalTransform,
    center_offset,
    diagonal,
    extent,
    per_dimension,
    transform_node,
)


@dataclass(frozen=True)
class Scaling(AffineOperator):
    """Scaling of each coordinate about a center."""

    def linear_and_shift(self, xp: Any, ndim: int, arguments: Mapping[str, Any]) -> tuple[Any, Any]:
        """Return a diagonal matrix and the translation that keeps the center fixed."""
        linear = diagonal(xp, per_dimension(xp, arguments["scale"], ndim))
        return linear, center_offset(xp, linear, arguments.get("center"))


@operator("transforms.scale")
def scale(
    transform: OptionalTransform = None,
    *,
    scale: Numbers,
    center: OptionalNumbers = None,
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
    count = extent(scale)
    # One factor applies to any number of dimensions, so the center, ndim= or the input determines it.
    if count == 1:
        count = extent(center) or 1 if ndim is None and transform is None else ndim
    return transform_node(Scaling, transform, reverse_order, count, center, scale=scale)
