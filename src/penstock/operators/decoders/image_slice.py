"""decoders.image_slice: decode images and cut out a part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, TypedDict, Unpack

from penstock.graph.arguments.argument_groups import select_arguments
from penstock.graph.arguments.argument_marks import Doc
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.operators.cropping.slice import Bounds
from penstock.operators.cropping.slice import slice as cut_out
from penstock.operators.decoders.image import DecoderArguments, DecoderOptions, decoder


class SliceBounds(TypedDict, total=False):
    """Bounds of a part, as for `fn.slice`."""

    start: Annotated[Bounds, Doc("Start of the part, in pixels.")]
    end: Annotated[Bounds, Doc("End of the part, in pixels; exclusive.")]
    shape: Annotated[Bounds, Doc("Size of the part, in pixels.")]
    rel_start: Annotated[Bounds, Doc("Start of the part, in fractions of the image.")]
    rel_end: Annotated[Bounds, Doc("End of the part, in fractions of the image.")]
    rel_shape: Annotated[Bounds, Doc("Size of the part, in fractions of the image.")]
    axes: Annotated[int | Sequence[int], Doc("Axes to which the bounds refer.")]
    axis_names: Annotated[
        str,
        Doc('Axes to which the bounds refer, by their letters in the layout, if `axes` is not given; by default "WH".'),
    ]
    normalized_anchor: Annotated[bool, Doc("If True (default), floats in `anchor` are fractions of the image.")]
    normalized_shape: Annotated[bool, Doc("If True (default), floats in `shape_like` are fractions of the image.")]


class ImageSliceArguments(SliceBounds, DecoderArguments, total=False):
    """The part and how to decode."""


@operator("decoders.image_slice")
def image_slice(
    data: DataNode,
    anchor: DataNode | Any = None,
    shape_like: DataNode | Any = None,
    **arguments: Unpack[ImageSliceArguments],
) -> DataNode:
    """Decode images and cut out a part: `decoders.image` and `slice`.

    Args:
        data: the bytes of an image file, uint8 of shape (?,).
        anchor: where the part begins, (x, y), as for `slice`: floats count in parts of the image.
        shape_like: how large it is, (width, height), likewise.
        **arguments: See `ImageSliceArguments`.

    Returns:
        Pixels, (height, width, channels), layout HWC. Images are turned as their EXIF data say before they are cut.

    Raises:
        DefinitionError: a bound given twice or none, or an option that is not offered.
        SampleError: while running, an image that cannot be decoded, or a part that leaves it.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> with penstock.Pipeline(batch_size=1):
        ...     data = fn.readers.arrays(np.zeros((1, 400), np.uint8))
        ...     fn.decoders.image_slice(data, start=(4, 2), shape=(20, 10))
        DataNode(slice: uint8[10, 20, 3] HWC)
    """
    image = apply(decoder(select_arguments(DecoderOptions, arguments), "decoders.image_slice"), data, common={})
    return cut_out.forward(
        image,
        anchor,
        shape_like,
        **select_arguments(SliceBounds, arguments),
    )
