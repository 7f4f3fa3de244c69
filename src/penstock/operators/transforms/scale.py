"""transforms.scale: the map that stretches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from penstock.graph.ir.argument_schema import Argument
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
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
    """Each coordinate times a factor, about a centre."""

    schema: ClassVar[Mapping[str, Argument]] = {
        "scale": Argument(np.float32, (None,)),
        "center": Argument(np.float32, (None,)),
    }

    def parts(self, xp: Any, ndim: int, given: Mapping[str, Any]) -> tuple[Any, Any]:
        """A diagonal matrix."""
        linear = diagonal(xp, per_dimension(xp, given["scale"], ndim))
        return linear, center_offset(xp, linear, given.get("center"))


@operator("transforms.scale")
def scale(
    transform: DataNode | None = None,
    *,
    scale: float | Sequence[float] | DataNode,
    center: Sequence[float] | DataNode | None = None,
    ndim: Rank | None = None,
    reverse_order: bool = False,
) -> DataNode:
    """Make the map that multiplies coordinates, alone or after another map.

    Args:
        transform: another map, float32 (n, n + 1).
        scale: n factors, or one for all coordinates; a node gives each sample its own.
        center: the point that stays where it is, n numbers; a node gives each sample its own. The origin by default.
        ndim: n, where one factor and no `transform` is given; 1 by default.
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
        ...     pipeline.set_outputs(fn.transforms.scale(scale=[2, 3], center=[5, 7]))
        >>> pipeline.run()[0].as_array().tolist()
        [[[2.0, 0.0, -5.0], [0.0, 3.0, -14.0]]]
    """
    kind, count = "transforms.scale", extent(scale)
    one = count == 1
    if one and ndim is None and transform is None:
        ndim = extent(center) or 1
    wanted = dimensions(kind, transform, ndim if one else count)
    if extent(center) != 1:
        check_center(kind, center, wanted)
    before = () if transform is None else (transform,)
    arguments: dict[str, Any] = {"scale": scale} if center is None else {"scale": scale, "center": center}
    return apply(Scaling(wanted, bool(reverse_order)), *before, **arguments)
