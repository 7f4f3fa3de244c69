"""Operator that mirrors points."""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from penstock.core import Spec
from penstock.errors import DefinitionError, short_repr
from penstock.graph import Argument, BatchContext, BatchKernel, DataNode, Input, Operator, apply, operator

_Flag = Annotated[int | DataNode, Argument(np.int32)]
_Center = Annotated[float | DataNode, Argument(np.float32)]


@dataclass(frozen=True)
class CoordFlip(Operator, BatchKernel):
    """Mirroring of points about a center.

    Args:
        order: Names of the coordinates: letters of "xyz".
    """

    order: str

    def infer(self, points: Spec, **_arguments: Any) -> Spec:
        """Return the spec of the input."""
        return points

    def batch(self, context: BatchContext, points: Any, **arguments: Any) -> Any:
        """Mirror points, in float32: ``2 * center - coordinate``."""
        if points.shape[-1] > len(self.order):
            raise ValueError(
                f"points have {points.shape[-1]} coordinates, and the layout has {len(self.order)} letters"
            )
        columns: list[Any] = []
        for at, axis in enumerate(self.order[: points.shape[-1]]):
            flag, center = (arguments[f"{name}_{axis}"].reshape(-1, 1) for name in ("flip", "center"))
            mirrored = np.float32(2) * center - points[..., at]
            columns.append(context.xp.where(flag != 0, mirrored, points[..., at]))
        return context.xp.stack(columns, axis=-1)


@operator("coord_flip")
def coord_flip(
    data: Annotated[DataNode, Input(("float32",), ranks=(2,), needs="points")],
    *,
    flip_x: _Flag = 1,
    flip_y: _Flag = 0,
    flip_z: _Flag = 0,
    center_x: _Center = 0.5,
    center_y: _Center = 0.5,
    center_z: _Center = 0.5,
    layout: str = "",
) -> DataNode:
    """Mirror points about a center.

    Args:
        data: Points, float32 (n, 1), (n, 2) or (n, 3).
        flip_x: If nonzero, mirror x; a number, or a node with one per sample, as all arguments but `layout`.
        flip_y: If nonzero, mirror y.
        flip_z: If nonzero, mirror z.
        center_x: Center along x; the default fits points relative to an image.
        center_y: Center along y.
        center_z: Center along z.
        layout: Order of the coordinates; "xyz" by default.

    Returns:
        Points in the same form.

    Raises:
        DefinitionError: Samples are not lists of float32 points, or `layout` does not match their coordinates.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     points = fn.readers.arrays(np.float32([[[0.25, 0.5], [1, 0]]]))
        ...     pipeline.set_outputs(fn.coord_flip(points))
        >>> pipeline.run()[0].as_array().tolist()
        [[[0.75, 0.5], [0.0, 0.0]]]
    """
    order, count = layout or "xyz", data.spec.shape[1]
    fits = count is None or 1 <= count <= len(order)
    if not fits or len(set(order)) < len(order) or set(order) - set("xyz"):
        raise DefinitionError(
            "layout must name each coordinate once",
            given=f"{short_repr(layout)} for {data.spec}",
            expected="letters of 'xyz'",
        )
    flips: dict[str, Any] = {"flip_x": flip_x, "flip_y": flip_y, "flip_z": flip_z}
    centers: dict[str, Any] = {"center_x": center_x, "center_y": center_y, "center_z": center_z}
    return apply(CoordFlip(order), data, **flips, **centers)
