"""crop: cut windows out of images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, ClassVar, Unpack

import numpy as np

from penstock.core.spec import Spec
from penstock.graph.arguments.argument_groups import select_arguments
from penstock.graph.ir.argument_schema import Argument
from penstock.graph.ir.operator import Operator
from penstock.graph.layouts import image_layout
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.image.describe.crop_window import WINDOW_SCHEMA, CropWindow
from penstock.image.describe.steps import CastStep, ImageInfo, Step
from penstock.image.image_operator import ImageOperator
from penstock.numerics.casting import result_dtype
from penstock.operators.cropping.crop_arguments import CropWindowArguments, make_window
from penstock.types import DALIDataType, DALIImageType


@dataclass(frozen=True)
class Crop(ImageOperator):
    """A window.

    Args:
        window: what is cut out.
        dtype: of the result.
    """

    window: CropWindow
    dtype: np.dtype[Any]
    schema: ClassVar[Mapping[str, Argument]] = WINDOW_SCHEMA

    @property
    def assumed_layout(self) -> str:
        """That of the window."""
        return self.window.layout

    def per_frame(
        self, kind: str, layouts: Sequence[str], framed: AbstractSet[str], varying: AbstractSet[str]
    ) -> Operator:
        """Each frame as an image, unless the window is also along the frames."""
        self.window.check_per_frame(kind)
        return super().per_frame(kind, layouts, framed, varying)

    def infer(self, images: Spec, **place: Any) -> Spec:
        """The window's shape."""
        layout, bounds = images.layout or self.window.layout, self.window.bounds(images, place)
        return Spec(self.dtype, self.window.shape(images, place), layout, bounds=bounds)

    def describe(self, images: ImageInfo, bits: Any, **place: Any) -> Sequence[Step]:
        """The window, what is beyond the image's edge, the dtype."""
        return [*self.window.steps(images, place), CastStep(self.dtype), *self.window.fill_step(self.dtype)]


@operator("crop")
def crop(
    data: DataNode,
    *,
    dtype: DALIDataType | Any = None,
    image_type: DALIImageType | None = None,
    output_dtype: DALIDataType | Any = None,
    **arguments: Unpack[CropWindowArguments],
) -> DataNode:
    """Cut windows out of images.

    Args:
        data: images, volumes or sequences of any dtype; layout with H and W (HWC where none is named).
        dtype: of the result, the input's by default; integers saturate.
        image_type: DALI's, without effect there and here.
        output_dtype: an older name of `dtype`.
        **arguments: See `CropWindowArguments`.

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
    cut, place = make_window(select_arguments(CropWindowArguments, arguments), layout, "crop", frames=True)
    result = result_dtype(data.spec.dtype, dtype, output_dtype)
    return apply(Crop(cut, result), data, **place)
