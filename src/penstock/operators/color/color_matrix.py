"""Linear color changes of RGB images: kernel of `fn.color_twist`, `fn.hsv`, `fn.hue` and `fn.saturation`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from penstock.core import Spec
from penstock.errors import DefinitionError
from penstock.graph import Argument, DataNode, apply, assumed_layout
from penstock.image.describe.steps import CastStep, ColorMatrixStep, ImageInfo, ScaleStep, Step
from penstock.image.image_operator import ImageOperator
from penstock.numerics.casting import wanted_dtype
from penstock.types import RGB, DALIDataType

# Coefficients of DALI, with three digits. Their rounding shows in results: gray (124, 124, 125) instead of 124.
_TO_YIQ = np.array([[0.299, 0.587, 0.114], [0.596, -0.274, -0.321], [0.211, -0.523, 0.311]])
# _IN_RGB[k, m] is the RGB matrix of entry (k, m) of a YIQ matrix: a sum of nine terms replaces two matrix products.
_IN_RGB = np.einsum("ik,mj->kmij", np.linalg.inv(_TO_YIQ), _TO_YIQ).astype(np.float32)[:, :, None]


@dataclass(frozen=True)
class ColorMatrixOperator(ImageOperator):
    """Change of hue, saturation, value, brightness and contrast as one linear map of RGB.

    Args:
        layout: Layout of the images.
        dtype: Dtype of the result; None for the dtype of the images.
        kind: Name of the operator, for messages.
    """

    layout: str
    dtype: np.dtype[Any] | None
    kind: str
    pixel_aligned: ClassVar[bool] = True
    schema: ClassVar[Mapping[str, Argument]] = {
        "hue": Argument(np.float32, example=30.0),
        "saturation": Argument(np.float32),
        "value": Argument(np.float32),
        "brightness": Argument(np.float32),
        "contrast": Argument(np.float32),
    }

    @property
    def assumed_layout(self) -> str:
        """Layout of images that have none."""
        return self.layout

    def infer(self, images: Spec, **_arguments: Any) -> Spec:
        """Return the spec of the images with the dtype of the result."""
        channels = images.shape[self.layout.index("C")]
        if channels not in (3, None):
            raise DefinitionError(
                f"fn.{self.kind} changes colors", given=f"{channels} channels", expected="3: red, green and blue"
            )
        return replace(images, dtype=self.dtype or images.dtype, layout=self.layout)

    def describe(
        self, images: ImageInfo, bits: Any, *, hue: Any, saturation: Any, value: Any, brightness: Any, contrast: Any
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
            ScaleStep(-offset[:, None], np.ones((1, 1), np.float32)),
            CastStep(self.dtype or images.dtype),
        ]


# Values that change nothing, for the arguments that an operator does not have.
_NEUTRAL = {"hue": 0.0, "saturation": 1.0, "value": 1.0, "brightness": 1.0, "contrast": 1.0}


def twist(
    images: DataNode,
    kind: str,
    dtype: DALIDataType | Any,
    image_type: int = int(RGB),
    **changes: Any,
) -> DataNode:
    """Apply `ColorMatrixOperator` to images.

    Args:
        images: The images.
        kind: Name of the operator, for messages.
        dtype: Dtype of the result; None for the dtype of the images.
        image_type: Color space of the images; must be RGB.
        **changes: Arguments of `ColorMatrixOperator`; missing ones change nothing.

    Raises:
        DefinitionError: If the images have no channels or are not RGB.
    """
    layout = assumed_layout(images.spec)
    if "C" not in layout:
        raise DefinitionError(f"fn.{kind} changes colors", given=f"layout {layout!r}", expected="a layout with C")
    if int(image_type) != int(RGB):
        raise DefinitionError(
            f"fn.{kind} changes RGB images",
            given=f"image_type={image_type!r}",
            expected="types.RGB",
            fix="convert first, with fn.color_space_conversion",
        )
    arguments: dict[str, Any] = {**_NEUTRAL, **changes}
    return apply(ColorMatrixOperator(layout, wanted_dtype(dtype), kind), images, **arguments)
