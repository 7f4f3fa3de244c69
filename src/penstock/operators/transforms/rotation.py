"""Operator that creates rotations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from penstock.errors import DefinitionError
from penstock.graph import Argument, DataNode, operator
from penstock.operators.number_arguments import Number, OptionalNumbers
from penstock.operators.transforms.affine_operator import (
    AffineOperator,
    OptionalTransform,
    center_offset,
    transform_node,
)


@dataclass(frozen=True)
class Rotation(AffineOperator):
    """Rotation by an angle in degrees about a center, or in 3D about an axis through a center."""

    def linear_and_shift(self, xp: Any, ndim: int, arguments: Mapping[str, Any]) -> tuple[Any, Any]:
        """Return the rotation matrix and the translation that keeps the center fixed."""
        axis = arguments.get("axis")
        radians = arguments["angle"] * np.float32(np.pi / 180)
        cosine, sine = xp.cos(radians), xp.sin(radians)
        if axis is None:
            entries = [cosine, -sine, sine, cosine]
        else:
            # Rodrigues' rotation formula for a unit vector.
            length = xp.sqrt((axis * axis).sum(axis=1))
            if xp is np and (length == 0).any():
                raise ValueError("the axis of a rotation must not have length 0")
            x, y, z = (axis[:, k] / length for k in range(3))
            rest = np.float32(1) - cosine
            entries = [cosine + x * x * rest, x * y * rest - z * sine, x * z * rest + y * sine]
            entries += [y * x * rest + z * sine, cosine + y * y * rest, y * z * rest - x * sine]
            entries += [z * x * rest - y * sine, z * y * rest + x * sine, cosine + z * z * rest]
        linear = xp.stack(entries, axis=1).reshape(-1, ndim, ndim)
        return linear, center_offset(xp, linear, arguments.get("center"))


@operator("transforms.rotation")
def rotation(
    transform: OptionalTransform = None,
    *,
    angle: Number,
    axis: Annotated[Sequence[float] | DataNode | None, Argument(np.float32, (3,))] = None,
    center: OptionalNumbers = None,
    reverse_order: bool = False,
) -> DataNode:
    """Create an affine transform that rotates points in 2D, or in 3D about an axis.

    Args:
        transform: Transform to apply before the rotation, float32 (n, n + 1).
        angle: Angle in degrees from x towards y, which is clockwise if y points down. A number, or a node with one per
            sample.
        axis: Axis of a 3D rotation, a vector (x, y, z) of any length but 0, or a node with one per sample. Without it
            the rotation is in 2D.
        center: Fixed point of the rotation, n numbers or one for all axes, or a node with either per sample; by default
            the origin.
        reverse_order: True to apply `transform` after the rotation.

    Returns:
        A transform, float32 (n, n + 1), for `fn.warp_affine` or the MT argument of `fn.coord_transform`.

    Raises:
        DefinitionError: The arguments or `transform` differ in their number of dimensions, or `axis` has length 0.

    Example:
        >>> import penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     pipeline.set_outputs(fn.transforms.rotation(angle=90, center=[1, 0]))
        >>> pipeline.run()[0].as_array().round(3).tolist()
        [[[-0.0, -1.0, 1.0], [1.0, -0.0, -1.0]]]
    """
    if axis is not None and not isinstance(axis, DataNode) and not np.any(axis):
        raise DefinitionError("axis must not have length 0", given=axis)
    ndim = 2 if axis is None else 3
    return transform_node(Rotation, transform, reverse_order, ndim, center, angle=angle, axis=axis)
