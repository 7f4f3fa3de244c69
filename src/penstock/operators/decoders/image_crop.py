"""decoders.image_crop: decoding of a window of images."""

from typing import Unpack

from penstock.graph import DataNode, apply, operator, select_arguments
from penstock.operators.cropping.crop import Crop
from penstock.operators.cropping.crop_arguments import CropPositionArguments, make_window
from penstock.operators.decoders.encoded_bytes import EncodedBytes
from penstock.operators.decoders.image import DecoderArguments, decoder
from penstock.operators.elementwise.bfloat16_results import rounds_to_bfloat16


class ImageCropArguments(CropPositionArguments, DecoderArguments, total=False):
    """Arguments of the window and of the decoder."""


@operator("decoders.image_crop")
@rounds_to_bfloat16
def image_crop(data: EncodedBytes, **arguments: Unpack[ImageCropArguments]) -> DataNode:
    """Decode a window of images: `decoders.image` and `crop` in one operator.

    Only the rows down to the end of the window are decoded where the format allows that; the pixels are the same. The
    EXIF orientation is applied before the crop.

    Args:
        data: Bytes of an image file, uint8 of shape (n,).
        **arguments: See `ImageCropArguments`.

    Returns:
        Pixels, (height, width, channels), layout HWC.

    Raises:
        DefinitionError: A size is given twice, or an option is not supported.
        SampleError: While running, an image cannot be decoded, or is smaller than the window.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> with penstock.Pipeline(batch_size=1):
        ...     data = fn.readers.arrays(np.zeros((1, 400), np.uint8))
        ...     fn.decoders.image_crop(data, crop=(8, 6))
        DataNode(decoders.image_crop: uint8[8, 6, 3] HWC)
    """
    decode = decoder(arguments)
    cut, place = make_window(select_arguments(CropPositionArguments, arguments), "HWC")
    # Two nodes, of which the plan makes one step: the crop asks the decoder for its region only. `common={}` keeps the
    # user's name, preserve and the like for the second node.
    return apply(Crop(cut, decode.dtype), apply(decode, data, common={}), **place)
