"""peek_image_shape: shapes of images from their headers."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from penstock.core import Array, Column, Spec
from penstock.errors import DefinitionError
from penstock.graph import BatchContext, DataNode, DType, HostBatchKernel, Operator, apply, operator
from penstock.image.codecs.image_codec import ImageCodec
from penstock.operators.decoders.encoded_bytes import EncodedBytes
from penstock.types import INT64, RGB, DALIImageType, as_dtype


@dataclass(frozen=True)
class PeekImageShape(Operator, HostBatchKernel):
    """Shapes of the images that a decoder would return.

    Args:
        decoding: Codec with the output type and the handling of the orientation.
        dtype: Element type of the shape.
    """

    accepts_ragged: ClassVar[bool] = True
    decoding: ImageCodec
    dtype: np.dtype[Any]

    def infer(self, data: Spec) -> Spec:
        """Return the spec of a shape: three numbers."""
        return Spec(self.dtype, (3,))

    def batch(self, context: BatchContext, files: Column) -> Array:
        """Read the shapes from the headers, without decoding pixels."""
        del context
        return self.decoding.headers(list(files)).shapes.astype(self.dtype)


@operator("peek_image_shape")
def peek_image_shape(
    data: EncodedBytes,
    *,
    dtype: DType = INT64,
    image_type: DALIImageType = RGB,
    adjust_orientation: bool = True,
) -> DataNode:
    """Read the shapes of images from their headers.

    Args:
        data: Bytes of an image file, uint8 of shape (n,).
        dtype: Element type of the shapes: an integer or float of 32 or 64 bits.
        image_type: Channels to count, as `output_type` of `fn.decoders.image`: `types.RGB`, `GRAY`, `ANY_DATA`, ...
        adjust_orientation: If True, the shape is that after the EXIF orientation is applied.

    Returns:
        (height, width, channels), shape (3,).

    Raises:
        DefinitionError: The input does not hold bytes, or `dtype` or `image_type` is not supported.
        SampleError: While running, bytes that are not an image.

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
    # Headers are read by the decoder's own code, so that both agree on channels and orientation.
    decoding = ImageCodec(DALIImageType(image_type), adjust_orientation)
    element = as_dtype(dtype)
    # Extents may exceed the largest number of the narrow types. DALI offers the same dtypes.
    if element.kind not in "iuf" or element.itemsize < 4:
        raise DefinitionError("dtype must be a number of 32 or 64 bits", given=element, fix="fn.cast(..., dtype=...)")
    return apply(PeekImageShape(decoding, element), data)
