"""peek_image_shape: the shape of images that are not decoded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.core.columns import Array
from penstock.core.spec import Spec
from penstock.errors import DefinitionError, short_repr
from penstock.graph.ir.operator import Operator, SampleContext, SampleKernel
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.image.codecs.image_codec import ImageCodec
from penstock.image.codecs.output_channels import CHANNELS
from penstock.operators.decoders.image import check_bytes
from penstock.types import INT64, RGB, DALIImageType, as_dtype


@dataclass(frozen=True)
class PeekImageShape(Operator, SampleKernel):
    """The shape that a decoder would give."""

    decoding: ImageCodec
    dtype: np.dtype[Any]

    def infer(self, data: Spec) -> Spec:
        """Three numbers."""
        check_bytes(data, "fn.peek_image_shape reads")
        return Spec(self.dtype, (3,))

    def sample(self, context: SampleContext, data: Array) -> Array:
        """From the header."""
        del context
        header = self.decoding.header(data)
        return np.array([header.height, header.width, header.channels], self.dtype)


@operator("peek_image_shape")
def peek_image_shape(
    data: DataNode,
    *,
    dtype: Any = INT64,
    image_type: DALIImageType = RGB,
    adjust_orientation: bool = True,
) -> DataNode:
    """Read the shape of images from their headers.

    Args:
        data: the bytes of an image file, uint8 of shape (?,).
        dtype: of the numbers: an integer type or FLOAT.
        image_type: the channels that a decoder would give: `types.RGB`, `GRAY`, `ANY_DATA`, ...
        adjust_orientation: whether a decoder would turn the image as its EXIF data say.

    Returns:
        (height, width, channels), shape (3,).

    Raises:
        DefinitionError: the input holds no bytes.
        SampleError: while running, bytes that are no image.

    Example:
        >>> import io, numpy as np, penstock
        >>> from PIL import Image
        >>> from penstock import fn
        >>> file = io.BytesIO()
        >>> Image.new("RGB", (4, 2)).save(file, "PNG")
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     data = fn.readers.arrays(np.frombuffer(file.getvalue(), np.uint8)[None])
        ...     pipeline.set_outputs(fn.peek_image_shape(data))
        >>> pipeline.run()[0][0].tolist()
        [2, 4, 3]
    """
    if image_type not in CHANNELS:
        raise DefinitionError("fn.peek_image_shape: no such image_type", given=short_repr(image_type))
    decoding = ImageCodec(DALIImageType(image_type), bool(adjust_orientation))
    return apply(PeekImageShape(decoding, as_dtype(dtype)), data)
