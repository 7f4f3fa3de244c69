"""Operator that moves boxes together with their images."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from penstock.core import Spec
from penstock.errors import DefinitionError
from penstock.graph import BatchContext, BatchKernel, DataNode, Operator, Range, apply_many, operator
from penstock.numerics.ragged import entries, pad_to_longest
from penstock.operators.boxes.box_operator import Boxes, check_counts
from penstock.operators.follow.mapping_nodes import pixel_mapping_node
from penstock.operators.follow.pixel_mapping import extents, mapped


@dataclass(frozen=True)
class FollowBoxes(Operator, BatchKernel):
    """Kernel that maps, clips, filters, and pads boxes.

    Args:
        most: Number of boxes per sample in the output.
        ltrb: True for left, top, right, bottom; False for left, top, width, height.
        ratio: True if coordinates are relative to the image size.
        min_visible: Minimum visible fraction of a box's area.
        min_size: Minimum width and height of the visible part, in pixels.
    """

    most: int
    ltrb: bool
    ratio: bool
    min_visible: float
    min_size: float
    accepts_ragged: ClassVar[bool] = True

    def infer(self, boxes: Spec, _places: Spec, *others: Spec) -> tuple[Spec, ...]:
        """Return dense specs with `most` entries: boxes, validity mask, and the other data."""
        kept = [Spec(other.dtype, (self.most, *other.shape[1:])) for other in others]
        return Spec(boxes.dtype, (self.most, 4)), Spec(np.dtype(np.bool_), (self.most,)), *kept

    def batch(self, context: BatchContext, boxes: Any, places: Any, *others: Any) -> Any:
        """Map the boxes in float32 and move the valid ones to the front, in their order."""
        xp = context.xp
        counts = entries(boxes)
        for other in others:
            check_counts(counts, entries(other), "entries of other data")
        boxes, *others_ = (pad_to_longest(array) for array in (boxes, *others))
        count = int(boxes.shape[1])
        mapped_, valid = self._mapped(xp, boxes, places)
        # Padded entries of ragged samples are not boxes.
        valid = valid & (np.arange(count) < counts[:, None])
        spare = max(self.most - count, 0)
        # Dense output needs `most` entries even if the longest sample has fewer.
        values = [xp.pad(array, [(0, 0), (0, spare)] + [(0, 0)] * (array.ndim - 2)) for array in (mapped_, *others_)]
        valid = xp.pad(valid, [(0, 0), (0, spare)])
        # The device program needs static shapes, so boxes are sorted instead of removed. A stable sort on the inverted
        # mask puts valid boxes first and keeps their order, which pairs them with `others`.
        order = xp.argsort(~valid, axis=1, stable=True)[:, : self.most]
        valid = xp.take_along_axis(valid, order, axis=1)
        kept: list[Any] = []
        for array in values:
            form = (*order.shape, *(1,) * (array.ndim - 2))
            picked = xp.take_along_axis(array, order.reshape(form), axis=1)
            # Zeros, not the dropped boxes: padding must not depend on data that was filtered out.
            kept.append(xp.where(valid.reshape(form), picked, xp.zeros((), array.dtype)))
        return kept[0], valid, *kept[1:]

    def _mapped(self, xp: Any, boxes: Any, places: Any) -> tuple[Any, Any]:
        """Return the clipped bounding boxes of the mapped boxes, and a mask of those to keep."""
        by_x, by_y = extents(places, first=True, ratio=self.ratio)
        left, top, right, bottom = (boxes[..., k] * by for k, by in enumerate((by_x, by_y, by_x, by_y)))
        if not self.ltrb:
            right, bottom = left + right, top + bottom
        # A rotation or warp turns a box into a quadrilateral; the result is the bounding box of its four corners.
        corners = [mapped(xp, places, x, y) for x in (left, right) for y in (top, bottom)]
        xs, ys, visible = (xp.stack(array, axis=-1) for array in zip(*corners, strict=True))
        whole = xs.min(axis=-1), ys.min(axis=-1), xs.max(axis=-1), ys.max(axis=-1)
        # Clip to the area that the original image covers, not to the canvas, which may include padding.
        limits = [places[:, k, None] for k in range(11, 15)]  # top, left, bottom, right
        left, right = (xp.clip(edge, limits[1], limits[3]) for edge in (whole[0], whole[2]))
        top, bottom = (xp.clip(edge, limits[0], limits[2]) for edge in (whole[1], whole[3]))
        width, height = right - left, bottom - top
        area = (whole[2] - whole[0]) * (whole[3] - whole[1])
        # A corner beyond the horizon of a perspective has no position, so its box has no bounds.
        valid = visible.all(axis=-1) & (width > 0) & (height > 0)
        # Compare products instead of dividing: a box of zero area would give NaN.
        valid = valid & (width * height >= np.float32(self.min_visible) * area)
        valid = valid & (xp.minimum(width, height) >= np.float32(self.min_size))
        by_x, by_y = extents(places, first=False, ratio=self.ratio)
        far = (right, bottom) if self.ltrb else (width, height)
        return xp.stack([left / by_x, top / by_y, far[0] / by_x, far[1] / by_y], axis=-1), valid


@operator("follow.boxes")
def boxes(
    data: Boxes,
    images: DataNode,
    *others: DataNode,
    max_boxes: Annotated[int | None, Range(1)] = None,
    ltrb: bool = False,
    ratio: bool = False,
    min_visible: Annotated[float, Range(0, 1)] = 0.0,
    min_size: Annotated[float, Range(0)] = 0.0,
    since: DataNode | None = None,
) -> list[DataNode]:
    """Apply the crops, resizes, flips, padding, rotations, and warps of images to their boxes.

    The operator traces the images back to their decoder or reader and repeats each geometric step on the boxes with the
    same arguments and random numbers. A rotated or warped box becomes its axis-aligned bounding box. Boxes are clipped
    to the visible part of their image, boxes without a visible part are dropped, and the rest are returned as dense
    arrays with a mask.

    Args:
        data: Boxes, float32 (n, 4): left, top, width, height in pixels, as `readers.coco` returns them by default.
        images: The transformed images. Pass the output of an image operator, not of `fn.reshape` or of a function
            of your own.
        *others: Data per box, such as labels: any dtype, (n, ...). Dropped and padded together with the boxes.
        max_boxes: Number of boxes in the output; extra boxes at the end are dropped. By default the number of input
            boxes, which must then be the same for all samples.
        ltrb: If True, input and output boxes are left, top, right, bottom; as for `readers.coco`.
        ratio: If True, input and output coordinates are fractions of the image's width and height.
        min_visible: Drop boxes with less than this fraction of their area in the image, 0 to 1.
        min_size: Drop boxes whose visible part is narrower or shorter than this, in pixels.
        since: The images that the boxes refer to; by default the images as decoded or read.

    Returns:
        The boxes, float32 (max_boxes, 4); a mask, bool (max_boxes,), False for padding, which is zero; and the
        `others`, (max_boxes, ...).

    Raises:
        DefinitionError: The data are not boxes, samples differ in their number of boxes and `max_boxes` is not set, or
            the images come from an operator that may move pixels in an unknown way.
        SampleError: At run time, a sample has a different number of boxes and of `others`.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     images = fn.readers.arrays(np.zeros((1, 60, 80, 3), np.uint8), layout="HWC")
        ...     boxes = fn.readers.arrays(np.float32([[[0, 0, 9, 9], [60, 20, 20, 40]]]))
        ...     labels = fn.readers.arrays(np.int32([[7, 8]]))
        ...     half = fn.resize(fn.crop(images, crop=(60, 60)), size=(30, 30))
        ...     pipeline.set_outputs(*fn.follow.boxes(boxes, half, labels, min_visible=0.1))
        >>> for output in pipeline.run():
        ...     print(output.as_array().tolist())
        [[[25.0, 10.0, 5.0, 20.0], [0.0, 0.0, 0.0, 0.0]]]
        [[True, False]]
        [[8, 0]]
    """
    most = data.spec.shape[0] if max_boxes is None else max_boxes
    if not most:
        raise DefinitionError(
            "the output needs a fixed number of boxes, at least 1",
            given=data.spec,
            fix="set max_boxes=100, for example",
        )
    for other in others:
        if not other.spec.shape or None in other.spec.shape[1:]:
            raise DefinitionError(
                "the other inputs need one entry per box, all of one shape", given=other.spec, expected="(n, ...)"
            )
    kernel = FollowBoxes(most, ltrb, ratio, min_visible, min_size)
    return apply_many(kernel, data, pixel_mapping_node(images, since), *others)
