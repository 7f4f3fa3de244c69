"""follow.boxes: boxes go where an image's pixels went, and come out as dense arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from penstock.core.spec import Spec
from penstock.errors import DefinitionError
from penstock.graph.ir.operator import BatchContext, BatchKernel, Operator
from penstock.graph.tracing.apply import apply_many
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.numerics.ragged import entries, pad_to_longest
from penstock.operators.boxes.box_checks import check_boxes, check_counts
from penstock.operators.follow.mapping_nodes import pixel_mapping_node
from penstock.operators.follow.pixel_mapping import extents, mapped


@dataclass(frozen=True)
class FollowBoxes(Operator, BatchKernel):
    """Boxes mapped, clipped, sorted out and padded.

    Args:
        most: how many come out.
        ltrb: whether boxes are left, top, right, bottom; else left, top, width, height.
        ratio: whether coordinates are relative to the image.
        min_visible: the least part of a box that must still be seen.
        min_size: the least width and height of what is seen, in pixels.
    """

    most: int
    ltrb: bool
    ratio: bool
    min_visible: float
    min_size: float
    accepts_ragged: ClassVar[bool] = True

    def infer(self, boxes: Spec, _places: Spec, *others: Spec) -> tuple[Spec, ...]:
        """As many of each as may come out."""
        kept = [Spec(other.dtype, (self.most, *other.shape[1:])) for other in others]
        return Spec(boxes.dtype, (self.most, 4)), Spec(np.dtype(np.bool_), (self.most,)), *kept

    def batch(self, context: BatchContext, boxes: Any, places: Any, *others: Any) -> Any:
        """In float32; those that stay come first, in their order."""
        xp = context.xp
        counts = entries(boxes)
        for other in others:
            check_counts(counts, entries(other), "of what belongs to them")
        boxes, *others_ = (pad_to_longest(each) for each in (boxes, *others))
        count = int(boxes.shape[1])
        mapped_, valid = self._mapped(xp, boxes, places)
        valid = valid & (np.arange(count) < counts[:, None])
        spare = max(self.most - count, 0)
        values = [xp.pad(each, [(0, 0), (0, spare)] + [(0, 0)] * (each.ndim - 2)) for each in (mapped_, *others_)]
        valid = xp.pad(valid, [(0, 0), (0, spare)])
        order = xp.argsort(~valid, axis=1, stable=True)[:, : self.most]
        valid = xp.take_along_axis(valid, order, axis=1)
        kept: list[Any] = []
        for each in values:
            form = (*order.shape, *(1,) * (each.ndim - 2))
            picked = xp.take_along_axis(each, order.reshape(form), axis=1)
            kept.append(xp.where(valid.reshape(form), picked, xp.zeros((), each.dtype)))
        return kept[0], valid, *kept[1:]

    def _mapped(self, xp: Any, boxes: Any, places: Any) -> tuple[Any, Any]:
        """The boxes around what became of boxes, clipped, and which of them stay."""
        by_x, by_y = extents(places, first=True, ratio=self.ratio)
        left, top, right, bottom = (boxes[..., k] * by for k, by in enumerate((by_x, by_y, by_x, by_y)))
        if not self.ltrb:
            right, bottom = left + right, top + bottom
        corners = [mapped(xp, places, x, y) for x in (left, right) for y in (top, bottom)]
        xs, ys, there = (xp.stack(each, axis=-1) for each in zip(*corners, strict=True))
        whole = xs.min(axis=-1), ys.min(axis=-1), xs.max(axis=-1), ys.max(axis=-1)
        limits = [places[:, k, None] for k in range(11, 15)]  # top, left, bottom, right
        left, right = (xp.clip(each, limits[1], limits[3]) for each in (whole[0], whole[2]))
        top, bottom = (xp.clip(each, limits[0], limits[2]) for each in (whole[1], whole[3]))
        width, height = right - left, bottom - top
        area = (whole[2] - whole[0]) * (whole[3] - whole[1])
        valid = there.all(axis=-1) & (width > 0) & (height > 0)
        valid = valid & (width * height >= np.float32(self.min_visible) * area)
        valid = valid & (xp.minimum(width, height) >= np.float32(self.min_size))
        by_x, by_y = extents(places, first=False, ratio=self.ratio)
        far = (right, bottom) if self.ltrb else (width, height)
        return xp.stack([left / by_x, top / by_y, far[0] / by_x, far[1] / by_y], axis=-1), valid


@operator("follow.boxes")
def boxes(
    data: DataNode,
    images: DataNode,
    *others: DataNode,
    max_boxes: int | None = None,
    ltrb: bool = False,
    ratio: bool = False,
    min_visible: float = 0.0,
    min_size: float = 0.0,
    since: DataNode | None = None,
) -> list[DataNode]:
    """Let boxes go where the pixels of images went: cut, resized, mirrored, padded, turned, warped.

    The chain of operators that made the images is walked back to the decoder or reader. The boxes go the same way, by
    the very numbers: nothing is drawn a second time. A box that is turned or warped becomes the box around it. Boxes
    are clipped to what can be seen of their image, those of which nothing is left are dropped, and the others come out
    as dense arrays with a mask.

    Args:
        data: boxes, float32 (n, 4): left, top, width and height in pixels, as `readers.coco` gives them by default.
        images: the images as they have become. Give them as image operators leave them: before `fn.reshape`, or a
            function of your own.
        *others: what belongs to the boxes, such as labels: any dtype, (n, ...). It is dropped and padded with them.
        max_boxes: how many come out, the first of those that stay. By default as many as go in, where that is known.
        ltrb: whether boxes are left, top, right and bottom, going in and coming out; as for `readers.coco`.
        ratio: whether coordinates are parts of the image's width and height; likewise.
        min_visible: drop a box of which less than this part of the area is still in the image, from 0 to 1.
        min_size: drop a box whose visible part is narrower or lower than this, in pixels.
        since: the images to which the boxes belong, if not to what was decoded or read.

    Returns:
        The boxes, float32 (max_boxes, 4); which of them are boxes, bool (max_boxes,), the others being zeros; and the
        `others`, (max_boxes, ...).

    Raises:
        ArgumentTypeError: another dtype than float32.
        DefinitionError: no boxes, a number of boxes that is not known and not limited, or images that came about by
            something that may move pixels and does not say where.
        SampleError: while running, another number of boxes than of what belongs to them.

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
    check_boxes("follow.boxes", data.spec, lists=False)
    most = data.spec.shape[0] if max_boxes is None else max_boxes
    if most is None:
        raise DefinitionError(
            "fn.follow.boxes makes dense arrays, and samples differ in their number of boxes",
            given=data.spec,
            fix="max_boxes=100, or whatever is enough",
        )
    if most < 1:
        raise DefinitionError("fn.follow.boxes: max_boxes is at least 1", given=most)
    if not 0 <= min_visible <= 1 or not min_size >= 0:
        raise DefinitionError(
            "fn.follow.boxes: min_visible is a part, and min_size a number of pixels",
            given=f"min_visible={min_visible}, min_size={min_size}",
            expected="min_visible from 0 to 1, min_size at least 0",
        )
    for other in others:
        if not other.spec.shape or None in other.spec.shape[1:]:
            raise DefinitionError(
                "fn.follow.boxes: what belongs to boxes has an entry for each, all of one shape",
                given=other.spec,
                expected="(n, ...)",
            )
    kernel = FollowBoxes(most, ltrb, ratio, float(min_visible), float(min_size))
    return apply_many(kernel, data, pixel_mapping_node(images, since, "follow.boxes"), *others)
