"""follow.points: points go where an image's pixels went."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np

from penstock.core import Array, Spec
from penstock.errors import ArgumentTypeError, DefinitionError
from penstock.graph import BatchContext, BatchKernel, DataNode, Operator, apply_many, operator
from penstock.numerics.ragged import concatenate, split
from penstock.operators.follow.mapping_nodes import pixel_mapping_node
from penstock.operators.follow.pixel_mapping import extents, mapped


@dataclass(frozen=True)
class FollowPoints(Operator, BatchKernel):
    """Points, mapped.

    Args:
        ratio: whether coordinates are relative to the image.
    """

    ratio: bool
    accepts_ragged: ClassVar[bool] = True

    def infer(self, points: Spec, _places: Spec) -> tuple[Spec, Spec]:
        """The points, and a truth value for each."""
        return points, Spec(np.dtype(np.bool_), points.shape[:-1])

    def batch(self, context: BatchContext, points: Any, places: Any) -> Any:
        """In float32."""
        xp = context.xp
        if isinstance(points, list):
            return self._ragged(context, cast(list[Array], points), places)
        if points.shape[-1] < 2:
            raise ValueError(f"a point has two numbers or more, and the samples have shape {points.shape[1:]}")
        flat = points.reshape(points.shape[0], math.prod(points.shape[1:-1]), points.shape[-1])
        by_x, by_y = extents(places, first=True, ratio=self.ratio)
        x, y, there = mapped(xp, places, flat[..., 0] * by_x, flat[..., 1] * by_y)
        top, left, bottom, right = (places[:, k, None] for k in range(11, 15))
        valid = there & (left <= x) & (x <= right) & (top <= y) & (y <= bottom)
        by_x, by_y = extents(places, first=False, ratio=self.ratio)
        columns = [x / by_x, y / by_y, *(flat[..., k] for k in range(2, flat.shape[-1]))]
        return xp.stack(columns, axis=-1).reshape(points.shape), valid.reshape(points.shape[:-1])

    def _ragged(self, context: BatchContext, points: list[Array], places: Any) -> Any:
        """All points as samples of one each."""
        flat = [each.reshape(math.prod(each.shape[:-1]), each.shape[-1]) for each in points]
        values, counts = concatenate([each[:, :2] for each in flat])
        mapped_, valid = self.batch(context, values[:, None], np.repeat(places, counts, axis=0))
        followed, seen = list[Array](), list[Array]()
        parts = split(mapped_[:, 0], counts), split(valid[:, 0], counts)
        for given, own, place, valid in zip(points, flat, *parts, strict=True):
            more = np.concatenate([place, own[:, 2:]], axis=1) if own.shape[1] > 2 else place
            followed.append(more.reshape(given.shape))
            seen.append(valid.reshape(given.shape[:-1]))
        return followed, seen


@operator("follow.points")
def points(
    data: DataNode,
    images: DataNode,
    *,
    ratio: bool = False,
    since: DataNode | None = None,
) -> list[DataNode]:
    """Let points go where the pixels of images went: cut, resized, mirrored, padded, turned, warped.

    The chain of operators that made the images is walked back to the decoder or reader. The points go the same way, by
    the very numbers: nothing is drawn a second time.

    Args:
        data: points, float32 (..., 2) or more: x, y, and whatever else there is of each, which stays as it is. The
            corner of the first pixel has the coordinates (0, 0), its centre (0.5, 0.5). Vertices of polygons are
            points, too.
        images: the images as they have become. Give them as image operators leave them: before `fn.reshape`, or a
            function of your own.
        ratio: whether coordinates are parts of the image's width and height, from 0 to 1.
        since: the images to which the points belong, if not to what was decoded or read.

    Returns:
        The points in the same form, also those that have left the image; and per point, bool (...), whether it still
        shows a pixel of the image that it belongs to.

    Raises:
        ArgumentTypeError: another dtype than float32.
        DefinitionError: no points, or images that came about by something that may move pixels and does not say where.

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
    spec = data.spec
    if spec.dtype != np.float32:
        raise ArgumentTypeError("fn.follow.points takes float32", given=spec, fix="fn.cast(x, dtype=types.FLOAT)")
    if not spec.shape or spec.shape[-1] in (0, 1):
        raise DefinitionError("a point has two numbers or more", given=spec, expected="float32[n, 2]")
    places_ = pixel_mapping_node(images, since, "follow.points")
    return apply_many(FollowPoints(ratio), data, places_)
