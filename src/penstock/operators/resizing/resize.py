"""resize: images to another size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Unpack

import numpy as np

from penstock.core.columns import Array
from penstock.core.spec import Spec
from penstock.errors import DefinitionError
from penstock.graph.arguments.argument_groups import select_arguments
from penstock.graph.arguments.argument_marks import Doc
from penstock.graph.ir.argument_schema import Argument
from penstock.graph.ir.operator import Operator, SampleContext, SampleKernel
from penstock.graph.layouts import SPATIAL, image_layout
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.image.describe.axis_mapping import max_filter_support
from penstock.image.describe.steps import CastStep, ImageInfo, ResampleStep, Step
from penstock.image.image_operator import ImageOperator
from penstock.numerics.casting import output_dtype
from penstock.operators.resizing.filter_arguments import FilterArguments
from penstock.operators.resizing.target_size import SIZING_SCHEMA, SizeArguments, TargetSize, sizing
from penstock.types import DALIDataType, DALIImageType

DTYPES = ("uint8", "int16", "uint16", "float32")
"""What can be resampled."""


class ResizeArguments(SizeArguments, FilterArguments, total=False):
    """Size, ROI and filters."""

    image_type: Annotated[DALIImageType, Doc("DALI's option; it has no effect.")]


@dataclass(frozen=True)
class Resampling(ImageOperator):
    """What operators that resample share.

    Args:
        layout: of the images.
        dtype: of the result.
    """

    layout: str
    dtype: np.dtype[Any]

    @property
    def traceable(self) -> bool:
        """Only where its numbers are constants: they need 64 bits."""
        return False

    @property
    def assumed_layout(self) -> str:
        """That of the operator."""
        return self.layout


@dataclass(frozen=True)
class Resize(Resampling):
    """Resampling to a size.

    Args:
        sizing: from sizes to what is resampled.
    """

    sizing: TargetSize
    schema: ClassVar[Mapping[str, Argument]] = SIZING_SCHEMA

    def infer(self, images: Spec, **arguments: Any) -> Spec:
        """The new size."""
        shape, bounds = self.sizing.shape(images, arguments), self.sizing.bounds(images, arguments)
        return Spec(self.dtype, shape, images.layout or self.layout, bounds=bounds)

    def describe(self, images: ImageInfo, bits: Any, **arguments: Any) -> Sequence[Step]:
        """As the sizing says."""
        places = [self.layout.index(axis) for axis in self.sizing.axes]
        parts = self.sizing.parts([images.sizes[at] for at in places], arguments)
        furthest = max_filter_support(arguments["min_filter"], arguments["mag_filter"])
        return [
            ResampleStep(dict(zip(places, parts, strict=True)), self.sizing.antialias, furthest),
            cast_steps(self.dtype),
        ]


def cast_steps(dtype: np.dtype[Any]) -> CastStep:
    """What follows a resampling: the dtype of the images."""
    return CastStep(dtype, halves_up=dtype == np.uint8)


@dataclass(frozen=True)
class SpatialShape(Operator, SampleKernel):
    """The spatial extents of an image: what `save_attrs` adds."""

    layout: str

    def infer(self, images: Spec) -> Spec:
        """One number per axis."""
        del images
        return Spec(np.dtype(np.int32), (sum(axis in SPATIAL for axis in self.layout),))

    def sample(self, context: SampleContext, image: Array) -> Array:
        """Read off the shape."""
        del context
        return np.array([image.shape[at] for at, axis in enumerate(self.layout) if axis in SPATIAL], np.int32)


def resampled_dtype(images: DataNode, dtype: Any, kind: str) -> np.dtype[Any]:
    """The dtype of resampled images: their own, or FLOAT.

    Raises:
        DefinitionError: the images' dtype cannot be resampled, or another one was asked for.
    """
    own = images.spec.dtype
    if own.name not in DTYPES:
        raise DefinitionError(
            f"fn.{kind} does not resample this dtype",
            given=own,
            expected=", ".join(DTYPES),
            fix="fn.cast(images, dtype=types.FLOAT)",
        )
    return output_dtype(own, dtype, kind)


@operator("resize")
def resize(
    data: DataNode,
    *,
    dtype: DALIDataType | Any = None,
    save_attrs: bool = False,
    **arguments: Unpack[ResizeArguments],
) -> Any:
    """Resize images, volumes, or sequences of them.

    Pixel centres lie at halves; filters are normalised over their whole support, and the pixel at the edge stands for
    those beyond it; results are rounded to the nearest integer. As in DALI, whose uint8 results are met within 1, and
    whose float results within 2e-3: it looks its filters up in tables. INTERP_NN takes DALI's pixels, and
    INTERP_GAUSSIAN its weights. An empty part is an error, in DALI an image.

    Args:
        data: uint8, int16, uint16 or float32; layout with H and W, perhaps D (HWC where none is named).
        dtype: of the result: FLOAT or the input's, which it is by default. FLOAT is not rounded, not scaled.
        save_attrs: whether to give the extents of the input, too.
        **arguments: See `ResizeArguments`.

    Returns:
        Images of the new size in the input's layout. With `save_attrs` a second output, int32 (2,) or (3,).

    Raises:
        DefinitionError: no size, or in two ways; a dtype that cannot be resampled.
        SampleError: while running, an empty part.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     images = fn.readers.arrays(np.zeros((1, 60, 80, 3), np.uint8), layout="HWC")
        ...     pipeline.set_outputs(fn.resize(images, resize_shorter=30))
        >>> pipeline.run()[0].as_array().shape
        (1, 30, 40, 3)
    """
    layout = image_layout(data, "resize")
    filters = select_arguments(FilterArguments, arguments)
    sizes, varying = sizing(select_arguments(SizeArguments, arguments), filters, layout, "resize")
    kernel = Resize(layout, resampled_dtype(data, dtype, "resize"), sizes)
    images = apply(kernel, data, **varying)
    return [images, apply(SpatialShape(layout), data, common={})] if save_attrs else images
