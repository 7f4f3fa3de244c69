"""Operators that change the hue, saturation, brightness and contrast of RGB images."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import numpy as np

from penstock.core import Spec
from penstock.errors import DefinitionError
from penstock.graph import Argument, DataNode, DType, Input, apply, assumed_layout, operator
from penstock.image.describe.steps import CastStep, ColorMatrixStep, ImageInfo, ScaleStep, Step
from penstock.image.image_operator import ImageOperator
from penstock.numerics.casting import wanted_dtype
from penstock.operators.elementwise.bfloat16_results import rounds_to_bfloat16
from penstock.operators.number_arguments import ONE, ZERO, Number
from penstock.types import RGB, UINT8, DALIImageType

RgbImages = Annotated[DataNode, Input(axes="C", channels=(3,), needs="RGB images")]
Angle = Annotated[float | DataNode, Argument(np.float32, example=30.0)]

# Coefficients of DALI, with three digits. Their rounding shows in results: gray (124, 124, 125) instead of 124.
_TO_YIQ = np.array([[0.299, 0.587, 0.114], [0.596, -0.274, -0.321], [0.211, -0.523, 0.311]])
# _IN_RGB[k, m] is the RGB matrix of entry (k, m) of a YIQ matrix: a sum of nine terms replaces two matrix products.
_IN_RGB = np.einsum("ik,mj->kmij", np.linalg.inv(_TO_YIQ), _TO_YIQ).astype(np.float32)[:, :, None]


@dataclass(frozen=True)
class ColorTwist(ImageOperator):
    """Change of hue, saturation, value, brightness and contrast as one linear map of RGB.

    Args:
        layout: Layout of the images.
        dtype: Dtype of the result; None for the dtype of the images.
    """

    layout: str
    dtype: np.dtype[Any] | None
    pixel_aligned: ClassVar[bool] = True

    @property
    def assumed_layout(self) -> str:
        """Layout of images that have none."""
        return self.layout

    def infer(self, images: Spec, **_arguments: Any) -> Spec:
        """Return the spec of the images with the dtype of the result."""
        return replace(images, dtype=self.dtype or images.dtype, layout=self.layout)

    def describe(
        self,
        images: ImageInfo,
        bits: Any,
        *,
        hue: Any = ZERO,
        saturation: Any = ONE,
        value: Any = ONE,
        brightness: Any = ONE,
        contrast: Any = ONE,
    ) -> Sequence[Step]:
        """Return the steps of one color matrix and one offset."""
        xp, channels = images.xp, images.sizes[self.layout.index("C")]
        if xp is np and (channels != 3).any():
            raise ValueError(f"the image has {channels[channels != 3][0]} channels, not 3")
        hue, saturation, factor, contrast = xp.broadcast_arrays(hue, saturation, value * brightness, contrast)
        angle = hue * np.float32(np.pi / 180)
        # In YIQ, hue rotates the two chroma components and saturation scales them; luma (row 0) does not change.
        cos, sin = saturation * xp.cos(angle), saturation * xp.sin(angle)
        none, one = xp.zeros_like(angle), xp.ones_like(angle)
        rows = [(one, none, none), (none, cos, sin), (none, -sin, cos)]
        matrix = xp.stack([xp.stack(row, axis=-1) for row in rows], axis=-2)
        factors: Any = sum(matrix[:, k, m][:, None, None] * _IN_RGB[k, m] for k in range(3) for m in range(3))
        # DALI's centers of contrast: 128 for integers, not 127.5.
        center = np.float32(128 if images.dtype.kind in "iu" else 0.5)
        offset = brightness * (center - center * contrast)
        return [
            ColorMatrixStep(factors * (factor * contrast)[:, None, None]),
            ScaleStep(-offset[:, None], ONE[:, None]),
            CastStep(self.dtype or images.dtype),
        ]


def _twist(images: DataNode, dtype: Any, image_type: int = RGB, **changes: Any) -> DataNode:
    """Apply `ColorTwist` to images.

    Raises:
        DefinitionError: If the images are not RGB.
    """
    if int(image_type) != RGB:
        raise DefinitionError(
            "the images must be RGB",
            given=f"image_type={image_type!r}",
            expected="types.RGB",
            fix="convert first, with fn.color_space_conversion",
        )
    return apply(ColorTwist(assumed_layout(images.spec), wanted_dtype(dtype)), images, **changes)


@operator("color_twist")
@rounds_to_bfloat16
def color_twist(
    data: RgbImages,
    *,
    hue: Angle = 0.0,
    saturation: Number = 1.0,
    brightness: Number = 1.0,
    contrast: Number = 1.0,
    image_type: DALIImageType | int = RGB,
    dtype: DType = None,
) -> DataNode:
    """Change the hue, saturation, brightness and contrast of images.

    The change is linear, as in DALI: RGB is converted to YIQ (luma and two chroma components), the chroma is rotated
    and scaled, and the result is converted back. This is not the HSV of drawing programs. Brightness and
    contrast follow: ``brightness * (middle + contrast * (value - middle))``, where middle is 128 for integers and 0.5
    for floats.

    Args:
        data: RGB images, volumes or sequences, any dtype; layout with H, W and C (HWC if the input has none).
        hue: Rotation of the chroma in degrees; a number, or a node with one per sample.
        saturation: Factor for the chroma, 0 for gray; a number, or a node with one per sample.
        brightness: Factor for all values; a number, or a node with one per sample.
        contrast: Factor for the distance from the middle of the range; a number, or a node with one per sample.
        image_type: Color space of the images; only RGB is supported.
        dtype: Dtype of the result; the input's dtype by default.

    Returns:
        Images with the shape and layout of the input. Integer results are rounded and clipped.

    Raises:
        DefinitionError: If the images do not have three channels, or `image_type` is not RGB.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     images = fn.readers.arrays(np.uint8([[[[200, 100, 50]]]]), layout="HWC")
        ...     pipeline.set_outputs(fn.color_twist(images, brightness=0.5, contrast=2.0))
        >>> pipeline.run()[0].as_array().ravel().tolist()
        [136, 36, 0]
    """
    return _twist(data, dtype, image_type, hue=hue, saturation=saturation, brightness=brightness, contrast=contrast)


@operator("hsv")
@rounds_to_bfloat16
def hsv(
    data: RgbImages,
    *,
    hue: Angle = 0.0,
    saturation: Number = 1.0,
    value: Number = 1.0,
    dtype: DType = UINT8,
) -> DataNode:
    """Change the hue, saturation and value of images.

    The change is linear, as in DALI: RGB is converted to YIQ (luma and two chroma components), the chroma is rotated
    and scaled, and the result is converted back. This is not the HSV of drawing programs.

    Args:
        data: RGB images, volumes or sequences, any dtype; layout with H, W and C (HWC if the input has none).
        hue: Rotation of the chroma in degrees; a number, or a node with one per sample.
        saturation: Factor for the chroma, 0 for gray; a number, or a node with one per sample.
        value: Factor for all values; a number, or a node with one per sample.
        dtype: Dtype of the result; uint8 by default for all inputs, as in DALI.

    Returns:
        Images with the shape and layout of the input. Integer results are rounded and clipped.

    Raises:
        DefinitionError: If the images do not have three channels, or `image_type` is not RGB.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     images = fn.readers.arrays(np.uint8([[[[200, 100, 50]]]]), layout="HWC")
        ...     pipeline.set_outputs(fn.hsv(images, saturation=0.5))
        >>> pipeline.run()[0].as_array().ravel().tolist()
        [162, 112, 87]
    """
    return _twist(data, dtype, hue=hue, saturation=saturation, value=value)


@operator("hue")
@rounds_to_bfloat16
def hue(
    data: RgbImages,
    *,
    hue: Angle = 0.0,
    image_type: DALIImageType | int = RGB,
    dtype: DType = None,
) -> DataNode:
    """Change the hue of images.

    The change is linear, as in DALI: RGB is converted to YIQ (luma and two chroma components), the chroma is rotated
    and scaled, and the result is converted back. This is not the HSV of drawing programs.

    Args:
        data: RGB images, volumes or sequences, any dtype; layout with H, W and C (HWC if the input has none).
        hue: Rotation of the chroma in degrees; a number, or a node with one per sample.
        image_type: Color space of the images; only RGB is supported.
        dtype: Dtype of the result; the input's dtype by default.

    Returns:
        Images with the shape and layout of the input. Integer results are rounded and clipped.

    Raises:
        DefinitionError: If the images do not have three channels, or `image_type` is not RGB.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     images = fn.readers.arrays(np.uint8([[[[200, 100, 50]]]]), layout="HWC")
        ...     pipeline.set_outputs(fn.hue(images, hue=120))
        >>> pipeline.run()[0].as_array().ravel().tolist()
        [50, 177, 45]
    """
    return _twist(data, dtype, image_type, hue=hue)


@operator("saturation")
@rounds_to_bfloat16
def saturation(
    data: RgbImages,
    *,
    saturation: Number = 1.0,
    image_type: DALIImageType | int = RGB,
    dtype: DType = None,
) -> DataNode:
    """Change the saturation of images.

    The change is linear, as in DALI: RGB is converted to YIQ (luma and two chroma components), the chroma is rotated
    and scaled, and the result is converted back. This is not the HSV of drawing programs.

    Args:
        data: RGB images, volumes or sequences, any dtype; layout with H, W and C (HWC if the input has none).
        saturation: Factor for the chroma, 0 for gray; a number, or a node with one per sample.
        image_type: Color space of the images; only RGB is supported.
        dtype: Dtype of the result; the input's dtype by default.

    Returns:
        Images with the shape and layout of the input. Integer results are rounded and clipped.

    Raises:
        DefinitionError: If the images do not have three channels, or `image_type` is not RGB.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     images = fn.readers.arrays(np.uint8([[[[200, 100, 50]]]]), layout="HWC")
        ...     pipeline.set_outputs(fn.saturation(images, saturation=0))
        >>> pipeline.run()[0].as_array().ravel().tolist()
        [124, 124, 125]
    """
    return _twist(data, dtype, image_type, saturation=saturation)
