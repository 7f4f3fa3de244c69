"""decoders.image_slice: decoding of a region of images."""

from collections.abc import Sequence
from typing import Any, Unpack

from typing_extensions import TypedDict

from penstock.graph import DataNode, apply, operator, select_arguments
from penstock.operators.cropping.slice import Bounds
from penstock.operators.cropping.slice import slice as cut_out
from penstock.operators.decoders.encoded_bytes import EncodedBytes
from penstock.operators.decoders.image import DecoderArguments, decoder
from penstock.operators.elementwise.bfloat16_results import rounds_to_bfloat16


class SliceBounds(TypedDict, total=False):
    """Bounds of the region, as for `fn.slice`.

    Args:
        start: Start of the region, in pixels.
        end: End of the region, in pixels; exclusive.
        shape: Size of the region, in pixels.
        rel_start: Start of the region, in fractions of the image.
        rel_end: End of the region, in fractions of the image.
        rel_shape: Size of the region, in fractions of the image.
        axes: Axes to which the bounds refer.
        axis_names: Axes to which the bounds refer, by their letters in the layout, if `axes` is not given; by default
            "WH".
        normalized_anchor: If True (default), floats in `anchor` are fractions of the image.
        normalized_shape: If True (default), floats in `shape_like` are fractions of the image.
    """

    start: Bounds
    end: Bounds
    shape: Bounds
    rel_start: Bounds
    rel_end: Bounds
    rel_shape: Bounds
    axes: int | Sequence[int]
    axis_names: str
    normalized_anchor: bool
    normalized_shape: bool


class ImageSliceArguments(SliceBounds, DecoderArguments, total=False):
    """Arguments of the region and of the decoder."""


@operator("decoders.image_slice")
@rounds_to_bfloat16
def image_slice(
    data: EncodedBytes,
    anchor: DataNode | Any = None,
    shape_like: DataNode | Any = None,
    **arguments: Unpack[ImageSliceArguments],
) -> DataNode:
    """Decode a region of images: `decoders.image` and `slice` in one operator.

    The EXIF orientation is applied before the slice.

    Args:
        data: Bytes of an image file, uint8 of shape (n,).
        anchor: Start of the region, (x, y), as for `slice`: floats are fractions of the image by default.
        shape_like: Size of the region, (width, height), in the same units.
        **arguments: See `ImageSliceArguments`.

    Returns:
        Pixels, (height, width, channels), layout HWC.

    Raises:
        DefinitionError: A bound is missing or given twice, or an option is not supported.
        SampleError: While running, an image cannot be decoded, or the region leaves it.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> with penstock.Pipeline(batch_size=1):
        ...     data = fn.readers.arrays(np.zeros((1, 400), np.uint8))
        ...     fn.decoders.image_slice(data, start=(4, 2), shape=(20, 10))
        DataNode(slice: uint8[10, 20, 3] HWC)
    """
    image = apply(decoder(arguments), data, common={})
    # `forward` passes name, device, preserve and the like of this call to `slice`, the node that the user sees.
    return cut_out.forward(image, anchor, shape_like, **select_arguments(SliceBounds, arguments))
