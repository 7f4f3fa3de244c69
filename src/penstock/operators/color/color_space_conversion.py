"""color_space_conversion: from one way to write colours to another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from penstock.core.columns import Array
from penstock.core.spec import Spec
from penstock.errors import DefinitionError, short_repr
from penstock.graph.layouts import image_layout
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.image.describe.steps import CastStep, ColorMatrixStep, CustomStep, ImageInfo, ScaleStep, Step
from penstock.image.image_operator import ImageOperator
from penstock.image.passes.channel_mix_pass import ChannelMixPass
from penstock.types import BGR, GRAY, RGB, DALIImageType, YCbCr

_LUMA = np.array([0.299, 0.587, 0.114])
_SWAP = np.eye(3)[::-1]
_STUDIO = np.array([16.0, 128.0, 128.0])
_TO_YCBCR = np.stack(
    [
        _LUMA * 219 / 255,
        (np.eye(3)[2] - _LUMA) * 112 / 255 / (1 - _LUMA[2]),
        (np.eye(3)[0] - _LUMA) * 112 / 255 / (1 - _LUMA[0]),
    ]
)
"""ITU-R BT.601 in the range of studios: luma from 16 to 235, colours from 16 to 240."""

_FROM_RGB: dict[int, tuple[Array, Array]] = {
    int(RGB): (np.eye(3), np.zeros(3)),
    int(BGR): (_SWAP, np.zeros(3)),
    int(GRAY): (_LUMA[None], np.zeros(1)),
    int(YCbCr): (_TO_YCBCR, _STUDIO),
}
_TO_RGB: dict[int, tuple[Array, Array]] = {
    int(RGB): (np.eye(3), np.zeros(3)),
    int(BGR): (_SWAP, np.zeros(3)),
    int(GRAY): (np.ones((3, 1)), np.zeros(3)),
    int(YCbCr): (np.linalg.inv(_TO_YCBCR), -np.linalg.inv(_TO_YCBCR) @ _STUDIO),
}


@dataclass(frozen=True)
class ColorSpaceConversion(ImageOperator):
    """A linear map of the channels of each pixel.

    Args:
        layout: of the images, with C.
        given: the number of what they are, a `DALIImageType`.
        wanted: the number of what they become.
    """

    layout: str
    given: int
    wanted: int

    @property
    def assumed_layout(self) -> str:
        """That of the operator."""
        return self.layout

    def infer(self, images: Spec) -> Spec:
        """The input's, with the channels that are wanted."""
        if images.dtype != np.uint8:
            raise DefinitionError("fn.color_space_conversion takes bytes", given=images.dtype, expected="uint8")
        at = self.layout.index("C")
        matrix, _ = self._map()
        if images.shape[at] not in (matrix.shape[1], None):
            raise DefinitionError(
                "fn.color_space_conversion: images have the channels of their type",
                given=images,
                expected=f"{matrix.shape[1]} for image_type={DALIImageType(self.given).name}",
            )
        shape, bounds = list(images.shape), list(images.bounds)
        shape[at] = matrix.shape[0]
        if bounds:
            bounds[at] = matrix.shape[0]
        return replace(images, shape=tuple(shape), layout=self.layout, bounds=tuple(bounds))

    def describe(self, images: ImageInfo, bits: Any) -> Sequence[Step]:
        """Three channels of three by a matrix, which fuses; else by a transform."""
        matrix, shift = self._map()
        at = self.layout.index("C")
        channels = images.sizes[at]
        if images.xp is np and (channels != matrix.shape[1]).any():
            wrong = channels[channels != matrix.shape[1]][0]
            raise ValueError(f"the image has {wrong} channels, not {matrix.shape[1]}")
        if matrix.shape != (3, 3):
            sizes = list(images.sizes)
            sizes[at] = np.full_like(channels, matrix.shape[0])
            factors = tuple((*map(float, row), float(added)) for row, added in zip(matrix, shift, strict=True))
            return [CustomStep(ChannelMixPass(self.layout, factors), sizes, (), images.dtype)]
        if self.given == self.wanted:
            return []
        mixed: list[Step] = [ColorMatrixStep(matrix.astype(np.float32)[None])]
        if shift.any():
            mixed.append(ScaleStep(-shift.astype(np.float32)[None], np.ones((1, 1), np.float32)))
        return [*mixed, CastStep(images.dtype)]

    def _map(self) -> tuple[Array, Array]:
        """What channels are multiplied with, and what is added."""
        if self.given == self.wanted:
            count = len(_FROM_RGB[self.given][1])
            return np.eye(count), np.zeros(count)
        (to_rgb, added), (from_rgb, base) = _TO_RGB[self.given], _FROM_RGB[self.wanted]
        return from_rgb @ to_rgb, from_rgb @ added + base


@operator("color_space_conversion")
def color_space_conversion(
    data: DataNode,
    *,
    image_type: DALIImageType,
    output_type: DALIImageType,
) -> DataNode:
    """Convert images from one way to write colours to another.

    YCbCr is that of ITU-R BT.601 with luma from 16 to 235, as DALI has it. GRAY is the sum of 0.299 red, 0.587 green
    and 0.114 blue, over the whole range.

    Args:
        data: images, volumes or sequences, uint8; layout with H, W and C (HWC where none is named).
        image_type: what they are: RGB, BGR, GRAY or YCbCr.
        output_type: what they become, likewise. The same leaves them as they are.

    Returns:
        The images with one channel (GRAY) or three, uint8, in the input's layout. Values are rounded and clipped.

    Raises:
        DefinitionError: a dtype other than uint8, a number of channels other than that of `image_type`, an unknown
            type.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn, types
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     images = fn.readers.arrays(np.uint8([[[[200, 100, 50]]]]), layout="HWC")
        ...     pipeline.set_outputs(
        ...         fn.color_space_conversion(images, image_type=types.RGB, output_type=types.GRAY),
        ...         fn.color_space_conversion(images, image_type=types.RGB, output_type=types.YCbCr),
        ...     )
        >>> [output.as_array().ravel().tolist() for output in pipeline.run()]
        [[124], [123, 91, 175]]
    """
    layout = image_layout(data, "color_space_conversion")
    if "C" not in layout:
        raise DefinitionError("fn.color_space_conversion takes images with channels", given=f"layout {layout!r}")
    for name, kind in (("image_type", image_type), ("output_type", output_type)):
        if not isinstance(kind, int) or int(kind) not in _FROM_RGB:  # pyright: ignore[reportUnnecessaryIsInstance]  # users are not type-checked
            raise DefinitionError(
                f"fn.color_space_conversion: {name} is a kind of colours",
                given=short_repr(kind),
                expected="types.RGB, types.BGR, types.GRAY or types.YCbCr",
            )
    made = ColorSpaceConversion(layout, int(image_type), int(output_type))
    return apply(made, data)
