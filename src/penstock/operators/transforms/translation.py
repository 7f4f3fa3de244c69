"""Operator that creates translations."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.graph import DataNode, operator
from penstock.operators.number_arguments import Numbers
from penstock.operators.transforms.affine_operator import (
    AffineOperator,
    OptionalTransform,
    diagonal,
    extent,
    transform_node,
)


@dataclass(frozen=True)
class Translation(AffineOperator):
    """Translation by an offset."""

    def linear_and_shift(self, xp: Any, ndim: int, arguments: Mapping[str, Any]) -> tuple[Any, Any]:
        """Return the identity and the offset."""
        offset = arguments["offset"]
        # Unlike a scale, one number does not apply to all dimensions.
        if offset.shape[1] != ndim:
            raise ValueError(f"offset has {offset.shape[1]} numbers, but the transform has {ndim} dimensions")
        return diagonal(xp, xp.ones_like(offset)), offset


@operator("transforms.translation")
def translation(transform: OptionalTransform = None, *, offset: Numbers, reverse_order: bool = False) -> DataNode:
    """Create an affine transform that translates points.

    Args:
        transform: Transform to apply before the translation, float32 (n, n + 1).
        offset: Translation, n numbers, or a node with them per sample.
        reverse_order: True to apply `transform` after the translation.

    Returns:
        A transform, float32 (n, n + 1), for `fn.warp_affine` or the MT argument of `fn.coord_transform`.

    Raises:
        DefinitionError: `transform` has a different number of dimensions.

    Example:
        >>> import penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     pipeline.set_outputs(fn.transforms.translation(offset=[3, 4]))
        >>> pipeline.run()[0].as_array().tolist()
        [[[1.0, 0.0, 3.0], [0.0, 1.0, 4.0]]]
    """
    return transform_node(Translation, transform, reverse_order, extent(offset), offset=offset)
