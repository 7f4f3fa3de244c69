"""Linear changes of colour in RGB: what color_twist, hsv, hue and saturation share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from penstock.core.spec import Spec
from penstock.errors import DefinitionError
from penstock.graph.ir.argument_schema import Argument
from penstock.graph.layouts import image_layout
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.trace import DataNode
from penstock.image.describe.steps import CastStep, ColorMatrixStep, ImageInfo, ScaleStep, Step
from penstock.image.image_operator import ImageOperator
from penstock.numerics.casting import wanted_dtype
from penstock.types import RGB, DALIDataType

_TO_YIQ = np.array([[0.299, 0.587, 0.114], [0.596, -0.274, -0.321], [0.211, -0.523, 0.311]])
_IN_RGB = np.einsum("ik,mj->kmij", np.linalg.inv(_TO_YIQ), _TO_YIQ).astype(np.float32)[:, :, None]
"""Per entry of a matrix in YIQ its part of the matrix in RGB."""


@dataclass(frozen=True)
class ColorMatrixOperator(ImageOperator):
    """Colours turned about the grey axis, and scaled along and across it; a linear map of RGB.

    Args:
        layout: of the images.
        dtype: of the results; None for that of the images.
        kind: of the operator, for messages.
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
        """That of the operator."""
        return self.layout

    def infer(self, images: Spec, **_arguments: Any) -> Spec:
        """The input's, in the dtype that is wanted."""
        channels = images.shape[self.layout.index("C")]
        if channels not in (3, None):
            raise DefinitionError(
                f"fn.{self.kind} changes colours", given=f"{channels} channels", expected="3: red, green and blue"
            )
        return replace(images, dtype=self.dtype or images.dtype, layout=self.layout)

    def describe(
        self, images: ImageInfo, bits: Any, *, hue: Any, saturation: Any, value: Any, brightness: Any, contrast: Any
    ) -> Sequence[Step]:
        """One matrix, and an offset where contrast changes."""
        xp, channels = images.xp, images.sizes[self.layout.index("C")]
        if xp is np and (channels != 3).any():
            raise ValueError(f"the image has {channels[channels != 3][0]} channels, not 3")
        hue, saturation, factor, contrast = xp.broadcast_arrays(hue, saturation, value * brightness, contrast)
        angle = hue * np.float32(np.pi / 180)
        turned = saturation * xp.cos(angle), saturation * xp.sin(angle)
        none, one = xp.zeros_like(angle), xp.ones_like(angle)
        rows = [(one, none, none), (none, turned[0], turned[1]), (none, -turned[1], turned[0])]
        matrix = xp.stack([xp.stack(row, axis=-1) for row in rows], axis=-2)
        factors: Any = sum(matrix[:, k, m][:, None, None] * _IN_RGB[k, m] for k in range(3) for m in range(3))
        centre = np.float32(128 if images.dtype.kind in "iu" else 0.5)
        offset = brightness * (centre - centre * contrast)
        return [
            ColorMatrixStep(factors * (factor * contrast)[:, None, None]),
            ScaleStep(-offset[:, None], np.ones((1, 1), np.float32)),
            CastStep(self.dtype or images.dtype),
        ]


_NEUTRAL = {"hue": 0.0, "saturation": 1.0, "value": 1.0, "brightness": 1.0, "contrast": 1.0}
"""The arguments that change nothing."""


def twist(
    images: DataNode,
    kind: str,
    dtype: DALIDataType | Any,
    image_type: int = int(RGB),
    **changes: Any,
) -> DataNode:
    """Images with other colours.

    Args:
        images: the images.
        kind: of the operator, for messages.
        dtype: of the result; None for the images'.
        image_type: must be RGB.
        **changes: those arguments of `ColorMatrixOperator` that the operator has; the others change nothing.

    Raises:
        DefinitionError: they are no images with channels, or not of RGB.
    """
    layout = image_layout(images, kind)
    if "C" not in layout:
        raise DefinitionError(f"fn.{kind} changes colours", given=f"layout {layout!r}", expected="a layout with C")
    if int(image_type) != int(RGB):
        raise DefinitionError(
            f"fn.{kind} changes RGB images",
            given=f"image_type={image_type!r}",
            expected="types.RGB",
            fix="convert first, with fn.color_space_conversion",
        )
    arguments: dict[str, Any] = {**_NEUTRAL, **changes}
    return apply(ColorMatrixOperator(layout, wanted_dtype(dtype), kind), images, **arguments)
