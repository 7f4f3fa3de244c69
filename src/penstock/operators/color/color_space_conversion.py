"""`fn.color_space_conversion`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from penstock.core import Array, Spec
from penstock.errors import DefinitionError
from penstock.graph import DataNode, Input, apply, assumed_layout, operator
from penstock.image.describe.steps import CastStep, ColorMatrixStep, CustomStep, ImageInfo, ScaleStep, Step
from penstock.image.image_operator import ImageOperator
from penstock.image.passes.channel_mix_pass import ChannelMixPass
from penstock.types import ANY_DATA, BGR, GRAY, RGB, DALIImageType, YCbCr

_LUMA = np.array([0.299, 0.587, 0.114])
_SWAP = np.eye(3)[::-1]
# Offsets of Y, Cb and Cr in the limited ("studio") range.
_STUDIO = np.array([16.0, 128.0, 128.0])
# ITU-R BT.601 in the limited range, as in DALI: luma from 16 to 235, chroma from 16 to 240.
_TO_YCBCR = np.stack(
    [
        _LUMA * 219 / 255,
        (np.eye(3)[2] - _LUMA) * 112 / 255 / (1 - _LUMA[2]),
        (np.eye(3)[0] - _LUMA) * 112 / 255 / (1 - _LUMA[0]),
    ]
)

# Matrix and offset from RGB, and back. Every conversion goes through RGB: eight maps instead of sixteen.
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
    """Linear map of the channels of each pixel.

    Args:
        layout: Layout of the images, with C.
        source: `DALIImageType` of the input.
        target: `DALIImageType` of the result.
    """

    layout: str
    source: int
    target: int

    @property
    def assumed_layout(self) -> str:
        """Layout of images that have none."""
        return self.layout

    def infer(self, images: Spec) -> Spec:
        """Return the spec of the images with the channels of the result."""
        at = self.layout.index("C")
        matrix, _ = self._map()
        if images.shape[at] not in (matrix.shape[1], None):
            raise DefinitionError(
                "the number of channels does not match image_type",
                given=images,
                expected=f"{matrix.shape[1]} for image_type={DALIImageType(self.source).name}",
            )
        shape, bounds = list(images.shape), list(images.bounds)
        shape[at] = matrix.shape[0]
        if bounds:
            bounds[at] = matrix.shape[0]
        return replace(images, shape=tuple(shape), layout=self.layout, bounds=tuple(bounds))

    def describe(self, images: ImageInfo, bits: Any) -> Sequence[Step]:
        """Return the steps of the conversion.

        A 3 x 3 matrix fuses with the steps around it. Other shapes change the number of channels, which needs a pass.
        """
        matrix, shift = self._map()
        at = self.layout.index("C")
        channels = images.sizes[at]
        # Inside a device program channel counts are traced; there only `infer` can check them.
        if images.xp is np and (channels != matrix.shape[1]).any():
            wrong = channels[channels != matrix.shape[1]][0]
            raise ValueError(f"the image has {wrong} channels, not {matrix.shape[1]}")
        if matrix.shape != (3, 3):
            sizes = list(images.sizes)
            sizes[at] = np.full_like(channels, matrix.shape[0])
            factors = tuple((*map(float, row), float(added)) for row, added in zip(matrix, shift, strict=True))
            return [CustomStep(ChannelMixPass(self.layout, factors), sizes, (), images.dtype)]
        if self.source == self.target:
            return []
        steps: list[Step] = [ColorMatrixStep(matrix.astype(np.float32)[None])]
        if shift.any():
            steps.append(ScaleStep(-shift.astype(np.float32)[None], np.ones((1, 1), np.float32)))
        return [*steps, CastStep(images.dtype)]

    def _map(self) -> tuple[Array, Array]:
        """Return the matrix and the offset of the conversion."""
        if self.source == self.target:
            count = len(_FROM_RGB[self.source][1])
            return np.eye(count), np.zeros(count)
        (to_rgb, added), (from_rgb, base) = _TO_RGB[self.source], _FROM_RGB[self.target]
        return from_rgb @ to_rgb, from_rgb @ added + base


@operator("color_space_conversion")
def color_space_conversion(
    data: Annotated[DataNode, Input(("uint8",), axes="HWC")],
    *,
    image_type: DALIImageType,
    output_type: DALIImageType,
) -> DataNode:
    """Convert images between RGB, BGR, grayscale and YCbCr.

    YCbCr follows ITU-R BT.601 in the limited range (luma from 16 to 235), as in DALI. GRAY is 0.299 R + 0.587 G +
    0.114 B in the full range.

    Args:
        data: Images, volumes or sequences, uint8; layout with H, W and C (HWC if the input has none).
        image_type: Color space of the input: RGB, BGR, GRAY or YCbCr.
        output_type: Color space of the result; same choices.

    Returns:
        Images with one channel (GRAY) or three, uint8, in the layout of the input. Values are rounded and clipped.

    Raises:
        DefinitionError: If the dtype is not uint8, the number of channels does not match `image_type`, or a type is
            unknown.

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
    layout = assumed_layout(data.spec)
    if ANY_DATA in (image_type, output_type):
        raise DefinitionError(
            "image_type and output_type cannot be ANY_DATA", expected="types.RGB, types.BGR, types.GRAY or types.YCbCr"
        )
    return apply(ColorSpaceConversion(layout, int(image_type), int(output_type)), data)
