"""decoders.image_slice: decode images and cut out a part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict, Unpack

from penstock.graph.arguments.argument_groups import select_arguments
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.operators.cropping.slice import Bounds
from penstock.operators.cropping.slice import slice as cut_out
from penstock.operators.decoders.image import DecoderArguments, DecoderOptions, decoder


class SliceBounds(TypedDict, total=False):
    """Where the part begins and ends, as for `fn.slice`.

    start, rel_start: where it begins, in pixels or in parts of the extent. end, rel_end: where it ends, likewise.
    shape, rel_shape: how large it is, likewise. axes: the numbers of the axes to which these refer. axis_names: their
    letters, where `axes` is not given. normalized_anchor, normalized_shape: whether floats given by position count in
    parts of the extent.
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
        **arguments: other ways to say so, `start`, `end`, `shape`, `rel_start`, `rel_end`, `rel_shape`, `axes`,
            `axis_names` ("WH"), `normalized_anchor`, `normalized_shape`, as for `slice`; the options of
            `decoders.image`.

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
