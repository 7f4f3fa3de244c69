"""Operators that change the brightness and contrast of images."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from penstock.core import Spec
from penstock.graph import DataNode, DType, apply, assumed_layout, operator
from penstock.image.describe.steps import CastStep, ImageInfo, ScaleStep, Step
from penstock.image.image_operator import ImageOperator
from penstock.numerics.casting import wanted_dtype
from penstock.operators.elementwise.bfloat16_results import rounds_to_bfloat16
from penstock.operators.number_arguments import ONE, ZERO, Number, OptionalNumber


def full_scale(dtype: np.dtype[Any]) -> float:
    """Return the value of full brightness: 1 for floats, the largest value of an integer dtype.

    >>> full_scale(np.dtype(np.uint8)), full_scale(np.dtype(np.float32))
    (255.0, 1.0)
    """
    return float(np.iinfo(dtype).max) if dtype.kind in "iu" else 1.0


def mid_scale(dtype: np.dtype[Any]) -> float:
    """Return the default center of contrast: 0.5 for floats, half of the range of an integer dtype.

    >>> mid_scale(np.dtype(np.uint8)), mid_scale(np.dtype(np.float32))
    (128.0, 0.5)
    """
    # DALI rounds the center of integers up: 128 for uint8, not 127.5.
    return (full_scale(dtype) + 1) / 2 if dtype.kind in "iu" else 0.5


@dataclass(frozen=True)
class BrightnessContrast(ImageOperator):
    """Linear change of brightness and contrast, computed in float32.

    Args:
        dtype: Dtype of the result; None for the dtype of the images.
    """

    dtype: np.dtype[Any] | None
    pixel_aligned: ClassVar[bool] = True

    def infer(self, images: Spec, **_arguments: Any) -> Spec:
        """Return the spec of the images with the dtype of the result."""
        return replace(images, dtype=self.dtype or images.dtype, layout=assumed_layout(images))

    def describe(
        self,
        images: ImageInfo,
        bits: Any,
        *,
        brightness: Any = ONE,
        brightness_shift: Any = ZERO,
        contrast: Any = ONE,
        contrast_center: Any = None,
    ) -> Sequence[Step]:
        """Return the steps of one factor and one offset."""
        dtype = self.dtype or images.dtype
        center = np.float32(mid_scale(images.dtype)) if contrast_center is None else contrast_center
        # The range of the shift belongs to the result's dtype, the center of the contrast to the input's, as in DALI.
        offset = brightness_shift * np.float32(full_scale(dtype)) + brightness * (center - contrast * center)
        # A scale step subtracts before it multiplies. Two steps apply the offset after the factor.
        return [
            ScaleStep(ZERO[:, None], (brightness * contrast)[:, None]),
            ScaleStep(-offset[:, None], ONE[:, None]),
            CastStep(dtype),
        ]


@operator("brightness_contrast")
@rounds_to_bfloat16
def brightness_contrast(
    data: DataNode,
    *,
    brightness: Number = 1.0,
    brightness_shift: Number = 0.0,
    contrast: Number = 1.0,
    contrast_center: OptionalNumber = None,
    dtype: DType = None,
) -> DataNode:
    """Change the brightness and contrast of images.

    The result is ``brightness_shift * range + brightness * (center + contrast * (value - center))``, where range is
    the largest value of an integer dtype and 1 for floats.

    Args:
        data: Images, volumes or sequences, any dtype and layout (HWC if the input has none).
        brightness: Factor for all values; a number, or a node with one per sample.
        brightness_shift: Offset, as a fraction of the result's range; a number, or a node with one per sample.
        contrast: Factor for the distance from the center; a number, or a node with one per sample.
        contrast_center: Value that contrast does not change, in units of the input; by default the middle of the
            input's range (128 for uint8, 0.5 for floats); a number, or a node with one per sample.
        dtype: Dtype of the result; the input's dtype by default.

    Returns:
        Images with the shape and layout of the input. Integer results are rounded and clipped.

    Raises:
        ArgumentTypeError: If an argument is not a number.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     images = fn.readers.arrays(np.uint8([[[[200, 100, 50]]]]), layout="HWC")
        ...     pipeline.set_outputs(fn.brightness_contrast(images, brightness=0.5, contrast=2))
        >>> pipeline.run()[0].as_array().ravel().tolist()
        [136, 36, 0]
    """
    return apply(
        BrightnessContrast(wanted_dtype(dtype)),
        data,
        brightness=brightness,
        brightness_shift=brightness_shift,
        contrast=contrast,
        contrast_center=contrast_center,
    )


@operator("brightness")
@rounds_to_bfloat16
def brightness(
    data: DataNode,
    *,
    brightness: Number = 1.0,
    brightness_shift: Number = 0.0,
    dtype: DType = None,
) -> DataNode:
    """Change the brightness of images.

    The result is ``brightness_shift * range + brightness * value``, where range is the largest value of an integer
    dtype and 1 for floats.

    Args:
        data: Images, volumes or sequences, any dtype and layout (HWC if the input has none).
        brightness: Factor for all values; a number, or a node with one per sample.
        brightness_shift: Offset, as a fraction of the result's range; a number, or a node with one per sample.
        dtype: Dtype of the result; the input's dtype by default.

    Returns:
        Images with the shape and layout of the input. Integer results are rounded and clipped.

    Raises:
        ArgumentTypeError: If an argument is not a number.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     images = fn.readers.arrays(np.uint8([[[[200, 100, 50]]]]), layout="HWC")
        ...     pipeline.set_outputs(fn.brightness(images, brightness=1.5))
        >>> pipeline.run()[0].as_array().ravel().tolist()
        [255, 150, 75]
    """
    return apply(
        BrightnessContrast(wanted_dtype(dtype)), data, brightness=brightness, brightness_shift=brightness_shift
    )


@operator("contrast")
@rounds_to_bfloat16
def contrast(
    data: DataNode,
    *,
    contrast: Number = 1.0,
    contrast_center: OptionalNumber = None,
    dtype: DType = None,
) -> DataNode:
    """Change the contrast of images.

    The result is ``center + contrast * (value - center)``.

    Args:
        data: Images, volumes or sequences, any dtype and layout (HWC if the input has none).
        contrast: Factor for the distance from the center; a number, or a node with one per sample.
        contrast_center: Value that contrast does not change, in units of the input; by default the middle of the
            input's range (128 for uint8, 0.5 for floats); a number, or a node with one per sample.
        dtype: Dtype of the result; the input's dtype by default.

    Returns:
        Images with the shape and layout of the input. Integer results are rounded and clipped.

    Raises:
        ArgumentTypeError: If an argument is not a number.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     images = fn.readers.arrays(np.uint8([[[[200, 100, 50]]]]), layout="HWC")
        ...     pipeline.set_outputs(fn.contrast(images, contrast=0.5))
        >>> pipeline.run()[0].as_array().ravel().tolist()
        [164, 114, 89]
    """
    return apply(BrightnessContrast(wanted_dtype(dtype)), data, contrast=contrast, contrast_center=contrast_center)
