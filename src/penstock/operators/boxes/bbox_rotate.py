"""Operator that rotates boxes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np

from penstock.core import Array, Spec
from penstock.errors import DefinitionError, short_repr
from penstock.graph import Argument, DataNode, Operator, Range, SampleContext, SampleKernel, apply_many, operator
from penstock.operators.boxes.box_operator import Boxes, BoxLabels
from penstock.operators.warping.rotate import grown
from penstock.operators.warping.warp_options import rounded_size


@dataclass(frozen=True)
class BoxRotate(Operator, SampleKernel):
    """Rotation of boxes, with removal of boxes outside the canvas and of their labels.

    Args:
        layout: "xyXY" or "xyWH".
        relative: If True, coordinates are relative to image and canvas; otherwise pixels.
        canvas: Size of the canvas: "given", "kept" or "grown", as in `fn.rotate`.
        mode: Size of rotated boxes: "expand", "halfway" or "fixed".
        threshold: Minimum fraction of a rotated box on the canvas.
        axes: Indices of height and width in the shape of the image.
    """

    layout: str
    relative: bool
    canvas: str
    mode: str
    threshold: float
    axes: tuple[int, int]

    def infer(self, boxes: Spec, *labels: Spec, **_arguments: Any) -> tuple[Spec, ...]:
        """Return the specs of boxes and labels, of unknown number."""
        kept = [Spec(label.dtype, (None, *label.shape[1:]), label.layout) for label in labels]
        return (Spec(boxes.dtype, (None, 4), boxes.layout), *kept)

    def sample(
        self, context: SampleContext, boxes: Array, *labels: Array, angle: Any, input_shape: Any, size: Any = None
    ) -> Any:
        """Rotate the centers of boxes from the image to the canvas, in float64."""
        if any(len(label) != len(boxes) for label in labels):
            raise ValueError(f"there are {len(boxes)} boxes and {len(labels[0])} labels")
        if len(input_shape) <= max(self.axes):
            raise ValueError(f"input_shape has {len(input_shape)} numbers")
        height, width = (int(input_shape[axis]) for axis in self.axes)
        canvas = self._canvas(angle, height, width, size)
        low, high = boxes[:, :2].astype(np.float64), boxes[:, 2:].astype(np.float64)
        high = high if self.layout == "xyXY" else low + high
        scale = np.array([width, height] if self.relative else [1, 1], np.float64)
        low, high = low * scale, high * scale
        radians: Any = np.multiply(angle, np.float32(np.pi / 180)).astype(np.float64)
        cos, sin = np.cos(radians), np.sin(radians)
        middle = (low + high) / 2 - np.array([width, height]) / 2
        middle = middle @ np.array([[cos, -sin], [sin, cos]]) + canvas / 2
        # The box around a rotated box has |cos| and |sin| combinations of the half sizes.
        half, turned = (high - low) / 2, np.abs(np.array([[cos, sin], [sin, cos]]))
        grown_half = half @ turned
        # Near 90 degrees, "fixed" exchanges width and height.
        half = half[:, ::-1] if 45 < abs(angle) % 180 < 135 else half
        half = {"expand": grown_half, "fixed": half, "halfway": (half + grown_half) / 2}[self.mode]
        low, high = np.clip(middle - half, 0, canvas), np.clip(middle + half, 0, canvas)
        with np.errstate(divide="ignore", invalid="ignore"):
            part = (high - low).prod(axis=1) / (2 * half).prod(axis=1)
        keep = part >= self.threshold  # a box without an area gives NaN, which compares as False
        scale = canvas if self.relative else np.ones(2)
        low, high = low[keep] / scale, high[keep] / scale
        result = np.concatenate([low, high if self.layout == "xyXY" else high - low], axis=1)
        return (result.astype(np.float32), *(label[keep] for label in labels))

    def _canvas(self, angle: Any, height: int, width: int, size: Any) -> Array:
        """Return width and height of the canvas."""
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
    bboxes: Boxes,
    labels: BoxLabels = None,
    *,
    angle: Annotated[float | DataNode, Argument(np.float32)],
    input_shape: Annotated[Sequence[int] | DataNode, Argument(np.int64, (None,), low=1)],
    shape_layout: str = "HW",
    bbox_layout: Literal["xyXY", "xyWH"] = "xyXY",
    bbox_normalized: bool = True,
    keep_size: bool = False,
    size: Annotated[Sequence[float] | DataNode | None, Argument(np.float32, (2,), low=1)] = None,
    mode: Literal["expand", "halfway", "fixed"] = "expand",
    remove_threshold: Annotated[float, Range(0, 1)] = 0.1,
) -> DataNode | list[DataNode]:
    """Rotate boxes, as `fn.rotate` rotates their image.

    Args:
        bboxes: Boxes, float32 (n, 4).
        labels: Labels of the boxes, (n, ...), any dtype; removed together with their boxes.
        angle: Angle passed to `fn.rotate`, in degrees; a number, or a node with one per sample.
        input_shape: Shape of the image before the rotation; numbers, or a node with a shape per sample.
        shape_layout: Layout of `input_shape`, such as "HW", "WH" or "HWC".
        bbox_layout: "xyXY" for left, top, right, bottom; "xyWH" for left, top, width, height.
        bbox_normalized: If True (default), boxes are relative to the image, and results to the canvas; otherwise
            pixels.
        keep_size: Value passed to `fn.rotate`.
        size: Height and width of the canvas passed to `fn.rotate`, rounded as there (DALI truncates them); numbers, or
            a node with a size per sample.
        mode: Size of rotated boxes: "expand" encloses the rotated box; "fixed" keeps the size, with width and height
            exchanged beyond 45 degrees; "halfway" is the mean of both.
        remove_threshold: Remove boxes of which less than this fraction is on the canvas, from 0 to 1.

    Returns:
        Boxes in the same form, clipped to the canvas; and their labels, if you pass labels.

    Raises:
        DefinitionError: The boxes are not float32, you pass both `keep_size` and `size`, or a mode or layout does not
            exist.

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
    if not {"H", "W"} <= set(shape_layout):
        raise DefinitionError("shape_layout must contain H and W", given=short_repr(shape_layout), expected="'HW'")
    sized = isinstance(size, DataNode) or (size is not None and np.size(size) > 0)
    if sized and keep_size:
        raise DefinitionError("the size is given twice", given="size= and keep_size=True", fix="leave out one")
    canvas = "given" if sized else "kept" if keep_size else "grown"
    axes = shape_layout.index("H"), shape_layout.index("W")
    kernel = BoxRotate(bbox_layout, bbox_normalized, canvas, mode, remove_threshold, axes)
    inputs = (bboxes,) if labels is None else (bboxes, labels)
    outputs = apply_many(kernel, *inputs, angle=angle, input_shape=input_shape, size=rounded_size(size))
    return outputs if labels is not None else outputs[0]
