"""jpeg_compression_distortion: what is lost where images are kept as JPEGs."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import simplejpeg
from PIL import Image

from penstock.core.columns import Array, Column
from penstock.core.spec import Spec
from penstock.errors import DefinitionError
from penstock.graph.ir.argument_schema import Argument
from penstock.graph.ir.operator import BatchContext, HostBatchKernel, Operator
from penstock.graph.layouts import assumed_layout, image_layout
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.image.kernels.jpeg_round_trip import jpeg_round_trip

SMALL = 1 << 15
"""Up to how many pixels images are rounded as JPEGs are without becoming files: beyond, libjpeg-turbo costs less."""


@dataclass(frozen=True)
class JpegCompressionDistortion(Operator, HostBatchKernel):
    """What libjpeg-turbo decodes of what it has encoded, colours at half of the resolution."""

    pixel_aligned: ClassVar[bool] = True
    accepts_ragged: ClassVar[bool] = True
    schema: ClassVar[Mapping[str, Argument]] = {"quality": Argument(np.int32)}

    def infer(self, images: Spec, *, quality: Any) -> Spec:
        """The input's."""
        if images.dtype != np.uint8 or images.shape[-1] not in (3, None):
            raise DefinitionError(
                "fn.jpeg_compression_distortion takes RGB images", given=images, expected="uint8 with 3 channels"
            )
        return replace(images, layout=assumed_layout(images))

    def batch(self, context: BatchContext, images: Column, *, quality: Any) -> Any:
        """All images or frames of one size in one call."""
        wanted = np.clip(quality, 1, 100)
        if not isinstance(images, list):
            out = np.empty(images.shape, np.uint8) if context.out is None else context.out
            _distort(images, wanted, out)
            return out
        made = [np.empty(image.shape, np.uint8) for image in images]
        for row, (image, out) in enumerate(zip(images, made, strict=True)):
            _distort(image[None], wanted[row : row + 1], out[None])
        return made


def _distort(images: Array, quality: Array, out: Array) -> None:
    """Images, or sequences of frames, with a quality for each."""
    *counts, height, width, channels = images.shape
    if channels != 3:
        raise ValueError(f"the image has {channels} channels, not 3")
    frames = math.prod(counts), height, width, channels
    each = np.repeat(quality, math.prod(counts[1:]))
    given, made = np.ascontiguousarray(images).reshape(frames), out.reshape(frames)
    if 0 < height * width <= SMALL:
        jpeg_round_trip(given, each, made)
        return
    for frame, wanted, result in zip(given, each.tolist(), made, strict=True):
        file = io.BytesIO()
        Image.fromarray(frame).save(file, "JPEG", quality=wanted)
        result[...] = simplejpeg.decode_jpeg(file.getbuffer(), "RGB", False)


@operator("jpeg_compression_distortion")
def jpeg_compression_distortion(data: DataNode, *, quality: int | DataNode = 50) -> DataNode:
    """Make images look as if they had been kept as JPEGs: encode and decode them.

    The pixels are those of libjpeg-turbo, as in DALI on the CPU, with colours at half of the resolution. It runs on the
    host.

    Args:
        data: images or sequences, uint8, RGB; layout HWC or FHWC (HWC where none is named).
        quality: of the JPEG, from 1 to 100; what is beyond counts as the limit. A number, or a node with one per
            sample.

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
    return apply(JpegCompressionDistortion(), data, quality=quality)
