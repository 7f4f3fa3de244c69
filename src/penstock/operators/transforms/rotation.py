"""transforms.rotation: the map that turns."""

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
from penstock.operators.transforms.affine_operator import AffineOperator, center_offset, check_center, dimensions


@dataclass(frozen=True)
class Rotation(AffineOperator):
    """A turn by an angle in degrees, about a centre; in space, about an axis through it."""

    schema: ClassVar[Mapping[str, Argument]] = {
        "angle": Argument(np.float32),
        "axis": Argument(np.float32, (3,)),
        "center": Argument(np.float32, (None,)),
    }

    def parts(self, xp: Any, ndim: int, given: Mapping[str, Any]) -> tuple[Any, Any]:
        """The matrix of the plane; in space Rodrigues' formula."""
        axis = given.get("axis")
        radians = given["angle"] * np.float32(np.pi / 180)
        cosine, sine = xp.cos(radians), xp.sin(radians)
        if axis is None:
            entries = [cosine, -sine, sine, cosine]
        else:
            length = xp.sqrt((axis * axis).sum(axis=1))
            if xp is np and (length == 0).any():
                raise ValueError("the axis of a rotation has no direction: its length is 0")
            x, y, z = (axis[:, k] / length for k in range(3))
            rest = np.float32(1) - cosine
            entries = [cosine + x * x * rest, x * y * rest - z * sine, x * z * rest + y * sine]
            entries += [y * x * rest + z * sine, cosine + y * y * rest, y * z * rest - x * sine]
            entries += [z * x * rest - y * sine, z * y * rest + x * sine, cosine + z * z * rest]
        linear = xp.stack(entries, axis=1).reshape(-1, ndim, ndim)
        return linear, center_offset(xp, linear, given.get("center"))


@operator("transforms.rotation")
def rotation(
    transform: DataNode | None = None,
    *,
    angle: float | DataNode,
    axis: Sequence[float] | DataNode | None = None,
    center: Sequence[float] | DataNode | None = None,
    reverse_order: bool = False,
) -> DataNode:
    """Make the map that turns, in the plane or in space, alone or after another map.

    Args:
        transform: another map, float32 (n, n + 1).
        angle: degrees, from x towards y: clockwise where y points down. A number, or a node with one per sample.
        axis: the axis about which points of three dimensions turn, of any length but 0; a node gives each sample its
            own. Without one, points have two dimensions.
        center: the point that stays where it is, n numbers or one for all; a node gives each sample its own. The origin
            by default.
        reverse_order: whether `transform` is applied after the map, not before it.

    Returns:
        A map, float32 (n, n + 1), as `fn.warp_affine` and the MT of `fn.coord_transform` take it.

    Raises:
        DefinitionError: arguments, or `transform`, disagree about the number of dimensions; an axis of length 0.

    Example:
        >>> import penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     pipeline.set_outputs(fn.transforms.rotation(angle=90, center=[1, 0]))
        >>> pipeline.run()[0].as_array().round(3).tolist()
        [[[-0.0, -1.0, 1.0], [1.0, -0.0, -1.0]]]
    """
    kind = "transforms.rotation"
    if axis is not None and not isinstance(axis, DataNode) and not np.any(axis):
        raise DefinitionError(f"fn.{kind}: axis has no direction", given=axis, expected="a length that is not 0")
    ndim = dimensions(kind, transform, 2 if axis is None else 3)
    check_center(kind, center, ndim)
    before = () if transform is None else (transform,)
    arguments: dict[str, Any] = {"angle": angle, "axis": axis, "center": center}
    given = {name: value for name, value in arguments.items() if value is not None}
    return apply(Rotation(ndim, bool(reverse_order)), *before, **given)
