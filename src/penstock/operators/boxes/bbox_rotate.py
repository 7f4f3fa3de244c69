"""bbox_rotate: turn boxes with their image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from penstock.core.columns import Array
from penstock.core.spec import Spec
from penstock.errors import DefinitionError, short_repr
from penstock.graph.ir.argument_schema import Argument
from penstock.graph.ir.operator import Operator, SampleContext, SampleKernel
from penstock.graph.tracing.apply import apply_many
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.operators.boxes.box_checks import check_boxes
from penstock.operators.warping.rotate import grown
from penstock.operators.warping.warp_options import given_size


@dataclass(frozen=True)
class BoxRotate(Operator, SampleKernel):
    """Boxes, turned, and those of their labels that stay.

    Args:
        layout: what a box's numbers are.
        relative: whether these are parts of the image.
        canvas: "given", "kept" or "grown", as for images.
        mode: how large a turned box is.
        threshold: the part of a turned box that has to lie on the canvas for the box to stay.
        axes: the places of height and width in the shape of the image.
    """

    layout: str
    relative: bool
    canvas: str
    mode: str
    threshold: float
    axes: tuple[int, int]
    schema: ClassVar[Mapping[str, Argument]] = {
        "angle": Argument(np.float32),
        "input_shape": Argument(np.int64, (None,), low=1),
        "size": Argument(np.float32, (2,), low=1),
    }

    def infer(self, boxes: Spec, *labels: Spec, **_arguments: Any) -> tuple[Spec, ...]:
        """As many as stay."""
        check_boxes("bbox_rotate", boxes, lists=False)
        kept = [Spec(each.dtype, (None, *each.shape[1:]), each.layout) for each in labels]
        return (Spec(boxes.dtype, (None, 4), boxes.layout), *kept)

    def sample(
        self, context: SampleContext, boxes: Array, *labels: Array, angle: Any, input_shape: Any, size: Any
    ) -> Any:
        """Corners are turned about the centres of image and canvas, in float64."""
        if any(len(each) != len(boxes) for each in labels):
            raise ValueError(f"there are {len(boxes)} boxes and {len(labels[0])} labels")
        if len(input_shape) <= max(self.axes):
            raise ValueError(f"input_shape has {len(input_shape)} numbers")
        height, width = (int(input_shape[axis]) for axis in self.axes)
        made = self._canvas(angle, height, width, size)
        low, high = boxes[:, :2].astype(np.float64), boxes[:, 2:].astype(np.float64)
        high = high if self.layout == "xyXY" else low + high
        scale = np.array([width, height] if self.relative else [1, 1], np.float64)
        low, high = low * scale, high * scale
        turn: Any = np.multiply(angle, np.float32(np.pi / 180)).astype(np.float64)
        cos, sin = np.cos(turn), np.sin(turn)
        middle = (low + high) / 2 - np.array([width, height]) / 2
        middle = middle @ np.array([[cos, -sin], [sin, cos]]) + made / 2
        half, turned = (high - low) / 2, np.abs(np.array([[cos, sin], [sin, cos]]))
        grown_half = half @ turned
        half = half[:, ::-1] if 45 < abs(angle) % 180 < 135 else half
        half = {"expand": grown_half, "fixed": half, "halfway": (half + grown_half) / 2}[self.mode]
        low, high = np.clip(middle - half, 0, made), np.clip(middle + half, 0, made)
        with np.errstate(divide="ignore", invalid="ignore"):
            part = (high - low).prod(axis=1) / (2 * half).prod(axis=1)
        keep = part >= self.threshold  # a box without an area is no number, and goes
        scale = made if self.relative else np.ones(2)
        low, high = low[keep] / scale, high[keep] / scale
        result = np.concatenate([low, high if self.layout == "xyXY" else high - low], axis=1)
        return (result.astype(np.float32), *(each[keep] for each in labels))

    def _canvas(self, angle: Any, height: int, width: int, size: Any) -> Array:
        """Width and height of the canvas."""
        match self.canvas:
            case "given":
                return np.trunc(size[::-1]).astype(np.float64)
            case "kept":
                return np.array([width, height], np.float64)
            case _:
                down, across = grown(np.array([angle], np.float32), np.array([height]), np.array([width]))
                return np.array([across[0], down[0]], np.float64)


@operator("bbox_rotate")
def bbox_rotate(
    bboxes: DataNode,
    labels: DataNode | None = None,
    *,
    angle: float | DataNode,
    input_shape: Sequence[int] | DataNode,
    shape_layout: str = "HW",
    bbox_layout: Literal["xyXY", "xyWH"] = "xyXY",
    bbox_normalized: bool = True,
    keep_size: bool = False,
    size: Sequence[float] | DataNode | None = None,
    mode: Literal["expand", "halfway", "fixed"] = "expand",
    remove_threshold: float = 0.1,
) -> DataNode | list[DataNode]:
    """Turn boxes as `rotate` turns their image.

    Args:
        bboxes: boxes, float32 (n, 4).
        labels: what belongs to boxes, (n, ...) of any dtype, from which the same are taken.
        angle: that of the rotation, in degrees; a number, or a node with one per sample.
        input_shape: the shape of the image before it was turned; numbers, or a node with some per sample.
        shape_layout: which of them is which, "HW" or "WH", perhaps with C.
        bbox_layout: what a box's numbers are: two corners, "xyXY", or a corner and the size, "xyWH".
        bbox_normalized: whether they are parts of the image, and then of the canvas; else pixels.
        keep_size: whether the image kept its size, as for `rotate`.
        size: the canvas's height and width, if these were given to `rotate`, and rounded as there; DALI cuts fractions
            off. Likewise.
        mode: how large a turned box is: "expand", so large that all of the box is inside; "fixed", as large as it was,
            with width and height exchanged beyond 45 degrees; "halfway" between the two.
        remove_threshold: the part of a turned box that has to lie on the canvas for the box to stay, from 0 to 1.

    Returns:
        The boxes, in the same form, cut off at the edges of the canvas; those of the labels, if labels are given.

    Raises:
        ArgumentTypeError: boxes of another dtype.
        DefinitionError: both `keep_size` and `size`, a mode or layout that does not exist.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     boxes = fn.readers.arrays(np.float32([[[0, 0, 0.5, 0.25]]]))
        ...     pipeline.set_outputs(fn.bbox_rotate(boxes, angle=90, input_shape=[40, 60]))
        >>> pipeline.run()[0].as_array().round(3).tolist()
        [[[0.0, 0.5, 0.25, 1.0]]]
    """
    kind = "fn.bbox_rotate"
    if not {"H", "W"} <= set(shape_layout):
        raise DefinitionError(f"{kind}: shape_layout names H and W", given=short_repr(shape_layout), expected="'HW'")
    if not 0 <= remove_threshold <= 1:
        raise DefinitionError(
            f"{kind}: remove_threshold is a share of a box", given=remove_threshold, expected="0 to 1"
        )
    sized = isinstance(size, DataNode) or (size is not None and np.size(size) > 0)
    if sized and keep_size:
        raise DefinitionError(f"{kind}: the size is given twice", given="size= and keep_size=True", fix="leave out one")
    made = BoxRotate(
        bbox_layout,
        bool(bbox_normalized),
        "given" if sized else "kept" if keep_size else "grown",
        mode,
        float(remove_threshold),
        (shape_layout.index("H"), shape_layout.index("W")),
    )
    inputs = (bboxes,) if labels is None else (bboxes, labels)
    given: dict[str, Any] = {"angle": angle, "input_shape": input_shape, "size": given_size(size, 2)}
    outputs = apply_many(made, *inputs, **given)
    return outputs if labels is not None else outputs[0]
