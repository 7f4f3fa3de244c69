"""decoders.image_crop: decode images and cut out a window."""

from __future__ import annotations

from typing import Unpack

from penstock.graph.arguments.argument_groups import select_arguments
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.operators.cropping.crop import Crop
from penstock.operators.cropping.crop_arguments import CropPositionArguments, make_window
from penstock.operators.decoders.image import DecoderArguments, DecoderOptions, decoder


class ImageCropArguments(CropPositionArguments, DecoderArguments, total=False):
    """The window and how to decode."""


@operator("decoders.image_crop")
def image_crop(data: DataNode, **arguments: Unpack[ImageCropArguments]) -> DataNode:
    """Decode images and cut out a window: `decoders.image` and `crop`, which run as one.

    Args:
        data: the bytes of an image file, uint8 of shape (?,).
        **arguments: See `ImageCropArguments`.

    Returns:
        Pixels, (height, width, channels), layout HWC. Images are turned as their EXIF data say before they are cut.

    Raises:
        DefinitionError: a size given twice, or an option that is not offered.
        SampleError: while running, an image that cannot be decoded, or is smaller than the window.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> with penstock.Pipeline(batch_size=1):
        ...     data = fn.readers.arrays(np.zeros((1, 400), np.uint8))
        ...     fn.decoders.image_crop(data, crop=(8, 6))
        DataNode(decoders.image_crop: uint8[8, 6, 3] HWC)
    """
    decode = decoder(select_arguments(DecoderOptions, arguments), "decoders.image_crop")
    cut, place = make_window(select_arguments(CropPositionArguments, arguments), "HWC", "decoders.image_crop")
    return apply(Crop(cut, decode.dtype), apply(decode, data, common={}), **place)
