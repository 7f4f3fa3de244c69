"""jpeg_compression_distortion: what is lost where images are kept as JPEGs."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Unpack

import numpy as np
import simplejpeg
from PIL import Image

from penstock.data.source import Array
from penstock.data.spec import Spec
from penstock.errors import DefinitionError
from penstock.graph.apply import apply
from penstock.graph.operator import Common, Operator, SampleContext, SampleKernel
from penstock.graph.registry import operator
from penstock.graph.schema import Argument
from penstock.graph.trace import DataNode
from penstock.operators.axes import assumed, image_layout


@dataclass(frozen=True)
class JpegCompressionDistortion(Operator, SampleKernel):
    """Images encoded and decoded by libjpeg-turbo, colours at half of the resolution."""

    stays: ClassVar[bool] = True
    schema: ClassVar[Mapping[str, Argument]] = {"quality": Argument(np.int32)}

    def infer(self, images: Spec, *, quality: Any) -> Spec:
        """The input's."""
        if images.dtype != np.uint8 or images.shape[-1] not in (3, None):
            raise DefinitionError(
                "fn.jpeg_compression_distortion takes RGB images", given=images, expected="uint8 with 3 channels"
            )
        return replace(images, layout=assumed(images))

    def sample(self, context: SampleContext, image: Array, *, quality: Any) -> Array:
        """One image, or one frame after the other."""
        if image.shape[-1] != 3:
            raise ValueError(f"the image has {image.shape[-1]} channels, not 3")
        out = np.empty(image.shape, np.uint8) if context.out is None else context.out
        wanted = min(max(int(quality), 1), 100)
        for frame, made in zip(image.reshape(-1, *image.shape[-3:]), out.reshape(-1, *image.shape[-3:]), strict=True):
            file = io.BytesIO()
            Image.fromarray(np.ascontiguousarray(frame)).save(file, "JPEG", quality=wanted)
            made[...] = simplejpeg.decode_jpeg(file.getbuffer(), "RGB", False)
        return out


@operator("jpeg_compression_distortion")
def jpeg_compression_distortion(data: DataNode, *, quality: int | DataNode = 50, **common: Unpack[Common]) -> DataNode:
    """Make images look as if they had been kept as JPEGs: encode and decode them.

    libjpeg-turbo does so, as in DALI on the CPU, with colours at half of the resolution. It runs on the host.

    Args:
        data: images or sequences, uint8, RGB; layout HWC or FHWC (HWC where none is named).
        quality: of the JPEG, from 1 to 100; what is beyond counts as the limit. A number, or a node with one per
            sample.
        **common: what every operator takes.

    Returns:
        Same shape, dtype and layout.

    Raises:
        DefinitionError: another dtype than uint8, another number of channels, another layout.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     images = fn.readers.arrays(np.full((1, 8, 8, 3), [200, 100, 50], np.uint8), layout="HWC")
        ...     pipeline.set_outputs(fn.jpeg_compression_distortion(images, quality=5))
        >>> pipeline.run()[0].as_array()[0, 0, 0].tolist()
        [218, 97, 54]
    """
    layout = image_layout(data, "jpeg_compression_distortion")
    if layout not in ("HWC", "FHWC"):
        raise DefinitionError(
            "fn.jpeg_compression_distortion takes images or sequences", given=f"layout {layout!r}", expected="HWC, FHWC"
        )
    return apply(JpegCompressionDistortion(), data, common=common, quality=quality)
