"""flip: mirror images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from penstock.data.source import Array
from penstock.data.spec import Spec
from penstock.errors import DefinitionError
from penstock.graph.operator import BatchContext, BatchKernel, Common, LazyKernel, Operator, SampleContext
from penstock.graph.registry import operator
from penstock.graph.trace import DataNode, apply
from penstock.operators.axes import image_layout
from penstock.operators.convert import along_rows, convert
from penstock.operators.image.lazy_image import LazyImage, lazy_image

_FLAGS = (("W", "horizontal"), ("H", "vertical"), ("D", "depthwise"))


@dataclass(frozen=True)
class Flip(Operator, LazyKernel, BatchKernel):
    """Mirroring along axes of a layout."""

    layout: str

    @property
    def takes(self) -> type | None:
        """Images of layout HWC."""
        return LazyImage if self.layout == "HWC" else None

    @property
    def gives(self) -> type | None:
        """The same, mirrored."""
        return self.takes

    def infer(self, images: Spec, *, depthwise: Any, **_flags: Any) -> Spec:
        """The input's."""
        if "D" not in self.layout and not (isinstance(depthwise, int) and depthwise == 0):
            raise DefinitionError("fn.flip: depthwise flips along D", given=f"layout {self.layout!r}", expected="DHWC")
        return images

    def defer(self, context: SampleContext, image: Array | LazyImage, **flags: Any) -> LazyImage:
        """The image with its axes turned."""
        del context
        return lazy_image(image).mirror(horizontal=bool(flags["horizontal"]), vertical=bool(flags["vertical"]))

    def sample(self, context: SampleContext, image: Array | LazyImage, **flags: Any) -> Array:
        """One image or volume."""
        if isinstance(image, LazyImage):
            return self.defer(context, image, **flags).finish(context.out)
        across = tuple(self.layout.index(axis) for axis, name in _FLAGS if axis in self.layout and flags[name])
        return np.flip(image, across)

    def batch(self, context: BatchContext, images: Any, **flags: Any) -> Any:
        """The batch, mirrored where the flags say so."""
        for axis, name in _FLAGS:
            images = mirrored(context.xp, images, flags[name], self.layout, axis)
        return images


def mirrored(xp: Any, images: Any, flag: Any, layout: str, axis: str) -> Any:
    """A batch mirrored along an axis: every row, none, or those whose flag is not 0."""
    if axis not in layout or (isinstance(flag, int) and not flag):
        return images
    flipped = xp.flip(images, axis=layout.index(axis) + 1)
    return (
        flipped
        if isinstance(flag, int)
        else xp.where(convert(xp, along_rows(xp, flag, images.ndim), np.dtype(bool)), flipped, images)
    )


@operator("flip")
def flip(
    data: DataNode,
    *,
    horizontal: int | DataNode = 1,
    vertical: int | DataNode = 0,
    depthwise: int | DataNode = 0,
    **common: Unpack[Common],
) -> DataNode:
    """Mirror images.

    Args:
        data: images or volumes, any dtype, layout with H and W (HWC where none is named).
        horizontal: whether to exchange left and right; 0 or 1, or a node with one such number per sample.
        vertical: whether to exchange top and bottom.
        depthwise: whether to exchange front and back; needs a layout with D.
        **common: what every operator takes.

    Returns:
        Same shape, dtype and layout.

    Raises:
        DefinitionError: the layout has no such axis.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     images = fn.readers.arrays(np.arange(3).reshape(1, 1, 3, 1), layout="HWC")
        ...     pipeline.set_outputs(fn.flip(images))
        >>> pipeline.run()[0].as_array().ravel().tolist()
        [2, 1, 0]
    """
    layout = image_layout(data, "flip")
    return apply(Flip(layout), data, common=common, horizontal=horizontal, vertical=vertical, depthwise=depthwise)
