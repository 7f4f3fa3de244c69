"""crop: cut windows out of images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from penstock.data.source import Array
from penstock.data.spec import Spec
from penstock.graph.operator import BatchContext, BatchKernel, Common, LazyKernel, Operator, SampleContext, pick
from penstock.graph.registry import operator
from penstock.graph.trace import DataNode, apply
from penstock.operators.axes import image_layout
from penstock.operators.convert import convert, result_dtype
from penstock.operators.image.lazy_image import LazyImage, lazy_image
from penstock.operators.image.window import Window, WindowArguments, filled, window
from penstock.types import DALIDataType, DALIImageType


class CropArguments(WindowArguments, Common):
    """The window, and what every operator takes."""


@dataclass(frozen=True)
class Crop(Operator, LazyKernel, BatchKernel):
    """A window.

    Args:
        window: what is cut out.
        dtype: of the result.
    """

    window: Window
    dtype: np.dtype[Any]

    @property
    def takes(self) -> type | None:
        """Images of layout HWC, of which a part is picked."""
        return LazyImage if self.window.layout == "HWC" and self.window.policy != "pad" else None

    @property
    def gives(self) -> type | None:
        """The same, where nothing is converted."""
        return self.takes

    def infer(self, images: Spec, **place: Any) -> Spec:
        """The window's shape."""
        return Spec(self.dtype, self.window.shape(images, place), images.layout or self.window.layout)

    def defer(self, context: SampleContext, image: Array | LazyImage, **place: Any) -> LazyImage:
        """The part of the image."""
        del context
        lazy = lazy_image(image)
        if lazy.dtype != self.dtype:
            lazy = lazy_image(convert(np, lazy.finish(), self.dtype))
        return self.window.cut_lazy(lazy, place)

    def sample(self, context: SampleContext, image: Array | LazyImage, **place: Any) -> Array:
        """One image."""
        if isinstance(image, LazyImage):
            return self.defer(context, image, **place).finish(context.out)
        cut, outside = self.window.cut(image, place)
        cut = cut if outside is None else filled(np, cut[None], outside[None], self.window)[0]
        return convert(np, cut, self.dtype)

    def batch(self, context: BatchContext, images: Any, **place: Any) -> Any:
        """A dense batch."""
        cut, outside = self.window.cut_batch(context.xp, images, place)
        cut = cut if outside is None else filled(context.xp, cut, outside, self.window)
        return convert(context.xp, cut, self.dtype)


@operator("crop")
def crop(
    data: DataNode,
    *,
    dtype: DALIDataType | Any = None,
    image_type: DALIImageType | None = None,
    output_dtype: DALIDataType | Any = None,
    **arguments: Unpack[CropArguments],
) -> DataNode:
    """Cut windows out of images.

    Args:
        data: images, volumes or sequences of any dtype; layout with H and W (HWC where none is named).
        dtype: of the result, the input's by default; integers saturate.
        image_type: DALI's, without effect there and here.
        output_dtype: an older name of `dtype`.
        **arguments: the window, `crop` or `crop_h`, `crop_w`, `crop_d`, at `crop_pos_x`, `crop_pos_y`, `crop_pos_z`,
            with `rounding`, `out_of_bounds_policy` and `fill_values` (see `penstock.operators.image.window`); and what
            every operator takes. Sizes and places may be nodes, with a value per sample.

    Returns:
        The windows, in the input's layout.

    Raises:
        DefinitionError: a size given twice, or larger than the image, where that is known.
        SampleError: while running, an image smaller than the window, unless the policy allows it.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     images = fn.readers.arrays(np.arange(12).reshape(1, 3, 4, 1), layout="HWC")
        ...     pipeline.set_outputs(fn.crop(images, crop=(1, 2)))
        >>> pipeline.run()[0].as_array().ravel().tolist()
        [5, 6]
    """
    del image_type
    layout = image_layout(data, "crop", rank_4="DHWC")
    cut, place = window(pick(WindowArguments, arguments), layout, "crop")
    result = result_dtype(data.spec.dtype, dtype, output_dtype)
    return apply(Crop(cut, result), data, common=pick(Common, arguments), **place)
