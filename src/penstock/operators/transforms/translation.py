"""transforms.translation: the map that moves points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from penstock.graph.ir.argument_schema import Argument
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.operators.transforms.affine_operator import AffineOperator, diagonal, dimensions, extent


@dataclass(frozen=True)
class Translation(AffineOperator):
    """x + offset."""

    schema: ClassVar[Mapping[str, Argument]] = {"offset": Argument(np.float32, (None,))}

    def parts(self, xp: Any, ndim: int, given: Mapping[str, Any]) -> tuple[Any, Any]:
        """The identity, and the offset."""
        offset = given["offset"]
        if offset.shape[1] != ndim:
            raise ValueError(f"the offset has {offset.shape[1]} numbers, and the map {ndim} dimensions")
        return diagonal(xp, xp.ones_like(offset)), offset


@operator("transforms.translation")
def translation(
    transform: DataNode | None = None,
    *,
    offset: float | Sequence[float] | DataNode,
    reverse_order: bool = False,
) -> DataNode:
    """Make the map that moves points, alone or after another map.

    Args:
        transform: another map, float32 (n, n + 1).
        offset: n numbers, by which points move; a node gives each sample its own.
        reverse_order: whether `transform` is applied after the map, not before it.

    Returns:
        A map, float32 (n, n + 1), as `fn.warp_affine` and the MT of `fn.coord_transform` take it.

    Raises:
        DefinitionError: `transform` has another number of dimensions.

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
