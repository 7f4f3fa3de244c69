"""Operator that moves points together with their images."""

import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, cast

import numpy as np

from penstock.core import Array, Spec
from penstock.errors import DefinitionError
from penstock.graph import BatchContext, BatchKernel, DataNode, Input, Operator, apply_many, operator
from penstock.numerics.ragged import concatenate, split
from penstock.operators.follow.mapping_nodes import pixel_mapping_node
from penstock.operators.follow.pixel_mapping import extents, mapped


@dataclass(frozen=True)
class FollowPoints(Operator, BatchKernel):
    """Kernel that maps points and tests whether they are still in the image.

    Args:
        ratio: True if coordinates are relative to the image.
    """

    ratio: bool
    accepts_ragged: ClassVar[bool] = True

    def infer(self, points: Spec, _places: Spec) -> tuple[Spec, Spec]:
        """Return the spec of the points, and of a boolean for each."""
        return points, Spec(np.dtype(np.bool_), points.shape[:-1])

    def batch(self, context: BatchContext, points: Any, places: Any) -> Any:
        """Map points in float32."""
        xp = context.xp
        if isinstance(points, list):
            return self._ragged(context, cast(list[Array], points), places)
        if points.shape[-1] < 2:
            raise ValueError(f"a point needs at least two numbers, and the samples have shape {points.shape[1:]}")
        flat = points.reshape(points.shape[0], math.prod(points.shape[1:-1]), points.shape[-1])
        by_x, by_y = extents(places, first=True, ratio=self.ratio)
        x, y, visible = mapped(xp, places, flat[..., 0] * by_x, flat[..., 1] * by_y)
        top, left, bottom, right = (places[:, k, None] for k in range(11, 15))
        valid = visible & (left <= x) & (x <= right) & (top <= y) & (y <= bottom)
        by_x, by_y = extents(places, first=False, ratio=self.ratio)
        columns = [x / by_x, y / by_y, *(flat[..., k] for k in range(2, flat.shape[-1]))]
        return xp.stack(columns, axis=-1).reshape(points.shape), valid.reshape(points.shape[:-1])

    def _ragged(self, context: BatchContext, points: list[Array], places: Any) -> Any:
        """Map all points as one dense batch, in which each point is a sample."""
        flat = [sample.reshape(math.prod(sample.shape[:-1]), sample.shape[-1]) for sample in points]
        # Samples may differ in the numbers after x and y, so these are added afterwards.
        values, counts = concatenate([sample[:, :2] for sample in flat])
        results, valid = self.batch(context, values[:, None], np.repeat(places, counts, axis=0))
        moved = [
            np.concatenate([result, sample[:, 2:]], axis=1).reshape(original.shape)
            for result, sample, original in zip(split(results[:, 0], counts), flat, points, strict=True)
        ]
        masks = zip(split(valid[:, 0], counts), points, strict=True)
        return moved, [mask.reshape(original.shape[:-1]) for mask, original in masks]


@operator("follow.points")
def points(
    data: Annotated[DataNode, Input(("float32",), ranks=range(1, 65), needs="points")],
    images: DataNode,
    *,
    ratio: bool = False,
    since: DataNode | None = None,
) -> list[DataNode]:
    """Apply the crops, resizes, flips, padding, rotations, and warps of images to their points.

    The operator traces the images back to their decoder or reader and repeats each geometric step on the points with
    the same arguments and random numbers.

    Args:
        data: Points, float32 (..., 2) or more: x, y, and other numbers, which do not change. The corner of the first
            pixel has the coordinates (0, 0), its center (0.5, 0.5). Vertices of polygons are points, too.
        images: The transformed images. Pass the output of an image operator, not of `fn.reshape` or of a function
            of your own.
        ratio: If True, input and output coordinates are fractions of the image's width and height.
        since: The images that the points refer to; by default the images as decoded or read.

    Returns:
        The points in the same form, including those outside the image; and a mask, bool (...), True for points that
        are on a visible pixel of their original image.

    Raises:
        DefinitionError: The data are not float32 points, or the images come from an operator that may move pixels in an
            unknown way.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     images = fn.readers.arrays(np.zeros((1, 60, 80, 3), np.uint8), layout="HWC")
        ...     points = fn.readers.arrays(np.float32([[[10, 20], [70, 50]]]))
        ...     smaller = fn.flip(fn.resize(fn.crop(images, crop=(60, 60)), size=(30, 30)))
        ...     pipeline.set_outputs(*fn.follow.points(points, smaller))
        >>> for output in pipeline.run():
        ...     print(output.as_array().tolist())
        [[[30.0, 10.0], [0.0, 25.0]]]
        [[True, True]]
    """
    if data.spec.shape[-1] in (0, 1):
        raise DefinitionError("a point needs at least two numbers", given=data.spec, expected="float32[n, 2]")
    return apply_many(FollowPoints(ratio), data, pixel_mapping_node(images, since))
