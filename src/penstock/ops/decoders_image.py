"""decoders.image: from the bytes of an image file to pixels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

import numpy as np

from penstock.data.source import Array
from penstock.data.spec import Spec
from penstock.errors import DefinitionError
from penstock.graph.operator import Common, Operator, SampleContext, SampleKernel, pick
from penstock.graph.registry import operator
from penstock.graph.trace import DataNode, apply
from penstock.ops.image_codec import CHANNELS, decode
from penstock.types import RGB, UINT8, DALIImageType, as_dtype


class DecoderHints(TypedDict, total=False):
    """Options of DALI's decoders that can only change speed or memory; they do nothing here."""

    affine: bool
    cache_batch_copy: bool
    cache_debug: bool
    cache_size: int
    cache_threshold: int
    cache_type: str
    device_memory_padding: int
    device_memory_padding_jpeg2k: int
    host_memory_padding: int
    host_memory_padding_jpeg2k: int
    hw_decoder_load: float
    hybrid_huffman_threshold: int
    memory_stats: bool
    preallocate_height_hint: int
    preallocate_width_hint: int
    split_stages: bool
    use_chunk_allocator: bool


class DecoderArguments(DecoderHints, Common):
    """Hints, and what every operator takes."""


@dataclass(frozen=True)
class DecodeImage(Operator, SampleKernel):
    """Bytes to pixels."""

    output_type: DALIImageType
    adjust_orientation: bool
    fast: bool

    reads_content = True

    def infer(self, data: Spec) -> Spec:
        """An image of unknown size."""
        if data.dtype != np.uint8 or len(data.shape) != 1:
            raise DefinitionError(
                "fn.decoders.image decodes the bytes of a file",
                given=data,
                expected="uint8[?]",
                fix="give it the first output of a reader",
            )
        return Spec(np.dtype(np.uint8), (None, None, CHANNELS[self.output_type]), "HWC")

    def sample(self, context: SampleContext, data: Array) -> Array:
        """One image; decoded straight into the batch where it fits."""
        return decode(data, self.output_type, self.adjust_orientation, self.fast, context.out)


@operator("decoders.image")
def image(
    data: DataNode,
    *,
    output_type: DALIImageType = RGB,
    dtype: Any = UINT8,
    adjust_orientation: bool = True,
    use_fast_idct: bool = False,
    jpeg_fancy_upsampling: bool = False,
    **arguments: Unpack[DecoderArguments],
) -> DataNode:
    """Decode images: JPEG, PNG, BMP, TIFF, WebP and whatever else Pillow reads.

    JPEGs are decoded by libjpeg-turbo with its exact transform and smooth upsampling, whatever `jpeg_fancy_upsampling`
    says; GRAY is the luma channel that is stored. Other formats are decoded by Pillow; their GRAY is
    .299 R + .587 G + .114 B.

    Args:
        data: the bytes of an image file, uint8 of shape (?,).
        output_type: `types.RGB`, `BGR`, `GRAY`, or `ANY_DATA` for the channels of the file.
        dtype: UINT8.
        adjust_orientation: whether to turn the image as its EXIF data say.
        use_fast_idct: whether to trade a little accuracy of JPEGs for speed.
        jpeg_fancy_upsampling: concerns DALI's GPU decoder; a hint.
        **arguments: hints of DALI's, and what every operator takes. `device="mixed"` wishes for the accelerator.

    Returns:
        Pixels, uint8 of shape (height, width, channels), layout HWC. Samples may differ in size; where a consumer needs
        one size, that of sample 0 is expected of all.

    Raises:
        DefinitionError: the input holds no bytes, or an option is not offered.
        SampleError: while running, an image that cannot be decoded.

    Example:
        >>> import io, numpy as np, penstock
        >>> from PIL import Image
        >>> from penstock import fn
        >>> file = io.BytesIO()
        >>> Image.new("RGB", (4, 2), (255, 0, 0)).save(file, "PNG")
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     data = fn.readers.arrays(np.frombuffer(file.getvalue(), np.uint8)[None])
        ...     pipeline.set_outputs(fn.decoders.image(data))
        >>> pipeline.run()[0][0].shape
        (2, 4, 3)
    """
    del jpeg_fancy_upsampling
    if output_type not in CHANNELS:
        raise DefinitionError(
            "fn.decoders.image does not give this output_type",
            given=repr(output_type),
            expected=", ".join(f"types.{kind.name}" for kind in CHANNELS),
        )
    if as_dtype(dtype) != np.uint8:
        raise DefinitionError("fn.decoders.image gives UINT8", given=as_dtype(dtype), fix="fn.cast what it gives")
    kernel = DecodeImage(DALIImageType(output_type), bool(adjust_orientation), bool(use_fast_idct))
    return apply(kernel, data, common=pick(Common, arguments))
