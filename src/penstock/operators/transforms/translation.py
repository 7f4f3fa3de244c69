"""Operator that creates translations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from penstock.graph import Argument, DataNode, apply, operator
from penstock.operators.transforms.affine_operator import AffineOperator, diagonal, dimensions, extent


@dataclass(frozen=True)
class Translation(AffineOperator):
    """Translation by an offset."""

    schema: ClassVar[Mapping[str, Argument]] = {"offset": Argument(np.float32, (None,))}

    def linear_and_shift(self, xp: Any, ndim: int, arguments: Mapping[str, Any]) -> tuple[Any, Any]:
        """Return the identity and the offset."""
        offset = arguments["offset"]
        # Unlike a scale, one number does not apply to all dimensions.
        if offset.shape[1] != ndim:
            raise ValueError(f"offset has {offset.shape[1]} numbers, but the transform has {ndim} dimensions")
        return diagonal(xp, xp.ones_like(offset)), offset


@operator("transforms.translation")
def translation(
    transform: DataNode | None = None,
    *,
    offset: float | Sequence[float] | DataNode,
    reverse_order: bool = False,
) -> DataNode:
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
    ndim = dimensions("transforms.translation", transform, extent(offset))
    before = () if transform is None else (transform,)
    return apply(Translation(ndim, bool(reverse_order)), *before, offset=offset)
