"""coord_flip: mirror points."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from penstock.core.spec import Spec
from penstock.errors import ArgumentTypeError, DefinitionError, short_repr
from penstock.graph.ir.argument_schema import Argument
from penstock.graph.ir.operator import BatchContext, BatchKernel, Operator
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode


@dataclass(frozen=True)
class CoordFlip(Operator, BatchKernel):
    """Points mirrored about a centre.

    Args:
        order: the letter of each coordinate, of x, y and z.
    """

    order: str
    schema: ClassVar[Mapping[str, Argument]] = {
        **{f"flip_{axis}": Argument(np.int32) for axis in "xyz"},
        **{f"center_{axis}": Argument(np.float32) for axis in "xyz"},
    }

    def infer(self, points: Spec, **_arguments: Any) -> Spec:
        """The input's."""
        return points

    def batch(self, context: BatchContext, points: Any, **arguments: Any) -> Any:
        """In float32: twice the centre, minus the coordinate."""
        if points.shape[-1] > len(self.order):
            raise ValueError(f"points of {points.shape[-1]} coordinates, and a layout of {len(self.order)} letters")
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
    """Mirror points about a centre.

    Args:
        data: points, float32 (n, 1), (n, 2) or (n, 3).
        flip_x: whether x is mirrored; a number, or a node with one per sample. So are the following ones.
        flip_y: whether y is.
        flip_z: whether z is.
        center_x: the x that stays where it is; 0.5 for points relative to an image.
        center_y: the y.
        center_z: the z.
        layout: the order of a point's coordinates, "xyz" by default.

    Returns:
        The points in the same form.

    Raises:
        ArgumentTypeError: another dtype than float32.
        DefinitionError: a sample is no list of points, or the layout does not name their coordinates.

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
            "fn.coord_flip: the layout names each coordinate", given=short_repr(layout), expected="letters of 'xyz'"
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
