"""`fn.coord_flip`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from penstock.core import Spec
from penstock.errors import ArgumentTypeError, DefinitionError, short_repr
from penstock.graph import Argument, BatchContext, BatchKernel, DataNode, Operator, apply, operator


@dataclass(frozen=True)
class CoordFlip(Operator, BatchKernel):
    """Mirroring of points about a center.

    Args:
        order: Names of the coordinates: letters of "xyz".
    """

    order: str
    schema: ClassVar[Mapping[str, Argument]] = {
        **{f"flip_{axis}": Argument(np.int32) for axis in "xyz"},
        **{f"center_{axis}": Argument(np.float32) for axis in "xyz"},
    }

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
    data: DataNode,
    *,
    flip_x: int | DataNode = 1,
    flip_y: int | DataNode = 0,
    flip_z: int | DataNode = 0,
    center_x: float | DataNode = 0.5,
    center_y: float | DataNode = 0.5,
    center_z: float | DataNode = 0.5,
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
        ArgumentTypeError: If the dtype is not float32.
        DefinitionError: If samples are not lists of points, or `layout` does not match their coordinates.

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
    spec = data.spec
    if spec.dtype != np.float32:
        raise ArgumentTypeError("fn.coord_flip takes float32", given=spec, fix="fn.cast(x, dtype=types.FLOAT)")
    if len(spec.shape) != 2 or spec.shape[1] not in (None, 1, 2, 3):
        raise DefinitionError("fn.coord_flip takes lists of points", given=spec, expected="float32[n, 2]")
    order = layout or "xyz"
    if len(order) < (spec.shape[1] or 1) or len(set(order)) < len(order) or set(order) - set("xyz"):
        raise DefinitionError(
            "layout must name each coordinate once",
            given=short_repr(layout),
            expected="letters of 'xyz'",
        )
    arguments: dict[str, Any] = {
        "flip_x": flip_x,
        "flip_y": flip_y,
        "flip_z": flip_z,
        "center_x": center_x,
        "center_y": center_y,
        "center_z": center_z,
    }
    return apply(CoordFlip(order), data, **arguments)
