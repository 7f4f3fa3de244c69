"""Operator that resizes images."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Unpack

import numpy as np

from penstock.core import Array, Spec
from penstock.core.dataclass import dataclass
from penstock.graph import (
    SPATIAL,
    Argument,
    DataNode,
    DType,
    Input,
    Operator,
    SampleContext,
    SampleKernel,
    apply,
    assumed_layout,
    operator,
)
from penstock.image.describe.axis_mapping import max_filter_support
from penstock.image.describe.steps import CastStep, ImageInfo, ResampleStep, Step
from penstock.image.image_operator import ImageOperator
from penstock.numerics.casting import output_dtype
from penstock.operators.elementwise.bfloat16_results import rounds_to_bfloat16
from penstock.operators.resizing.filter_arguments import FilterArguments
from penstock.operators.resizing.target_size import SizeArguments, TargetSize, sizing
from penstock.types import DALIImageType

# Dtypes that DALI resamples.
RESAMPLED = ("uint8", "int16", "uint16", "float32")

# Images that can be resampled.
Resampled = Annotated[DataNode, Input(RESAMPLED, axes="HW", fix="fn.cast(data, dtype=types.FLOAT)")]


class ResizeArguments(SizeArguments, FilterArguments, total=False):
    """Arguments of the size, the ROI and the filters.

    Args:
        image_type: DALI's option; it has no effect.
    """

    image_type: DALIImageType


@dataclass(frozen=True)
class Resampling(ImageOperator):
    """Base of the resampling operators.

    Args:
        layout: Layout of the images.
        dtype: Dtype of the result.
    """

    layout: str
    dtype: np.dtype[Any]

    @property
    def traceable(self) -> bool:
        """False: sizes and ROIs that vary are computed on the host."""
        # They need float64, which JAX does not have by default.
        return False

    @property
    def assumed_layout(self) -> str:
        """Layout of the operator."""
        return self.layout


@dataclass(frozen=True)
class Resize(Resampling):
    """Resampling to a size.

    Args:
        sizing: Rule that maps the extents of an image to a ROI and a target size.
    """

    sizing: TargetSize
    # Stands for resize_shorter and resize_longer.
    schema: ClassVar[Mapping[str, Argument]] = {"resize_side": Argument()}

    def infer(self, images: Spec, **arguments: Any) -> Spec:
        """Return the spec with the target size, as far as it is known."""
        shape, bounds = self.sizing.shape(images, arguments), self.sizing.bounds(images, arguments)
        return Spec(self.dtype, shape, images.layout or self.layout, bounds=bounds)

    def describe(self, images: ImageInfo, bits: Any, **arguments: Any) -> Sequence[Step]:
        """Return the steps: resample, cast."""
        axes = [self.layout.index(axis) for axis in self.sizing.axes]
        parts = self.sizing.parts([images.sizes[axis] for axis in axes], arguments)
        support = max_filter_support(arguments["min_filter"], arguments["mag_filter"])
        return [
            ResampleStep(dict(zip(axes, parts, strict=True)), self.sizing.antialias, support),
            cast_step(self.dtype),
        ]


def cast_step(dtype: np.dtype[Any]) -> CastStep:
    """Return the cast after a resampling."""
    # DALI rounds halves up for bytes, and away from zero for other integers.
    return CastStep(dtype, halves_up=dtype == np.uint8)


@dataclass(frozen=True)
class SpatialShape(Operator, SampleKernel):
    """Spatial extents of an image, the second output of `save_attrs`."""

    layout: str

    def infer(self, images: Spec) -> Spec:
        """Return the spec of one number per spatial axis."""
        del images
        return Spec(np.dtype(np.int32), (sum(axis in SPATIAL for axis in self.layout),))

    def sample(self, context: SampleContext, image: Array) -> Array:
        """Return the spatial part of the shape."""
        del context
        return np.array([n for n, axis in zip(image.shape, self.layout, strict=True) if axis in SPATIAL], np.int32)


@operator("resize")
@rounds_to_bfloat16
def resize(
    data: Resampled,
    *,
    dtype: DType = None,
    save_attrs: bool = False,
    **arguments: Unpack[ResizeArguments],
) -> Any:
    """Resize images, volumes, or sequences of them.

    As in DALI, pixel centers are at half-integer coordinates, filters are normalized over their whole support, pixels
    beyond the edge repeat the edge pixel, and integer results are rounded to the nearest integer. Results match DALI,
    which tabulates its filters, within 1 for uint8 and within 2e-3 for float; INTERP_NN selects the same pixels. An
    empty ROI is an error; DALI returns an image.

    Args:
        data: Images, volumes or sequences, uint8, int16, uint16 or float32; the layout needs H and W and defaults to
            HWC.
        dtype: Dtype of the result, FLOAT or that of the input; by default that of the input. FLOAT is neither rounded
            nor scaled.
        save_attrs: True to also return the spatial extents of the input.
        **arguments: See `ResizeArguments`.

    Returns:
        Resized images in the layout of the input. With `save_attrs`, a list of the images and their original extents,
        int32 (2,) or (3,).

    Raises:
        DefinitionError: The size is given twice or not at all, or the dtype cannot be resampled.
        SampleError: At run time, the ROI is empty or the size is not possible.

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
    layout = assumed_layout(data.spec)
    sizes, varying = sizing(arguments, layout)
    images = apply(Resize(layout, output_dtype(data.spec.dtype, dtype), sizes), data, **varying)
    # name=, preserve= and device= of the call apply to the images, not to the node of the second output.
    return [images, apply(SpatialShape(layout), data, common={})] if save_attrs else images
