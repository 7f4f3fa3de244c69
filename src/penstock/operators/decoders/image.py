"""decoders.image: from the bytes of an image file to pixels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict, Unpack

import numpy as np

from penstock.core.columns import Array
from penstock.core.spec import Spec
from penstock.errors import DefinitionError, short_repr
from penstock.graph.arguments.argument_groups import select_arguments
from penstock.graph.arguments.argument_marks import Default, Doc, PerformanceHint
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.image.codecs.image_codec import Backend, ImageCodec
from penstock.image.codecs.image_header import ImageHeader, Region
from penstock.image.codecs.output_channels import CHANNELS
from penstock.image.image_operator import ImageDecoder
from penstock.numerics.casting import cast_saturating
from penstock.types import RGB, UINT8, DALIImageType, as_dtype


class DecoderHints(TypedDict, total=False):
    """Options of DALI's decoders for speed or memory; they have no effect."""

    affine: PerformanceHint[Annotated[bool, Doc("DALI's hint; it has no effect.")]]
    cache_batch_copy: PerformanceHint[Annotated[bool, Doc("DALI's hint; it has no effect.")]]
    cache_debug: PerformanceHint[Annotated[bool, Doc("DALI's hint; it has no effect.")]]
    cache_size: PerformanceHint[Annotated[int, Doc("DALI's hint; it has no effect.")]]
    cache_threshold: PerformanceHint[Annotated[int, Doc("DALI's hint; it has no effect.")]]
    cache_type: PerformanceHint[Annotated[str, Doc("DALI's hint; it has no effect.")]]
    device_memory_padding: PerformanceHint[Annotated[int, Doc("DALI's hint; it has no effect.")]]
    device_memory_padding_jpeg2k: PerformanceHint[Annotated[int, Doc("DALI's hint; it has no effect.")]]
    host_memory_padding: PerformanceHint[Annotated[int, Doc("DALI's hint; it has no effect.")]]
    host_memory_padding_jpeg2k: PerformanceHint[Annotated[int, Doc("DALI's hint; it has no effect.")]]
    hw_decoder_load: PerformanceHint[Annotated[float, Doc("DALI's hint; it has no effect.")]]
    hybrid_huffman_threshold: PerformanceHint[Annotated[int, Doc("DALI's hint; it has no effect.")]]
    memory_stats: PerformanceHint[Annotated[bool, Doc("DALI's hint; it has no effect.")]]
    preallocate_height_hint: PerformanceHint[Annotated[int, Doc("DALI's hint; it has no effect.")]]
    preallocate_width_hint: PerformanceHint[Annotated[int, Doc("DALI's hint; it has no effect.")]]
    split_stages: PerformanceHint[Annotated[bool, Doc("DALI's hint; it has no effect.")]]
    use_chunk_allocator: PerformanceHint[Annotated[bool, Doc("DALI's hint; it has no effect.")]]


DTYPES = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "float32")
"""What decoders give."""


_MOST_CHANNELS = 4
"""What ANY_DATA gives at most."""


def check_bytes(data: Spec, what: str) -> None:
    """Check that an input can hold the bytes of files.

    Raises:
        DefinitionError: it cannot; `what` begins the message.
    """
    if data.dtype != np.uint8 or len(data.shape) != 1:
        raise DefinitionError(
            f"{what} the bytes of a file",
            given=data,
            expected="uint8[?]",
            fix="give it the first output of a reader",
        )


@dataclass(frozen=True)
class DecodeImage(ImageDecoder):
    """Bytes to pixels."""

    decoding: ImageCodec
    dtype: np.dtype[Any]
    reduced: bool
    max_size: tuple[int, int] | None = None

    def infer(self, data: Spec) -> Spec:
        """An image of unknown size."""
        check_bytes(data, "fn.decoders.image decodes")
        channels = CHANNELS[self.decoding.output_type]
        bounds = () if self.max_size is None else (*self.max_size, channels or _MOST_CHANNELS)
        return Spec(self.dtype, (None, None, channels), "HWC", bounds=bounds)

    def read_header(self, data: Array) -> ImageHeader:
        """Height, width and channels."""
        header = self.decoding.header(data)
        height, width = self.max_size or (header.height, header.width)
        if header.height > height or header.width > width:
            raise ValueError(
                f"the image is {header.height} x {header.width}, larger than max_size={self.max_size}: "
                "raise max_size, or leave it away and resize on the host"
            )
        return header

    def region_to_decode(self, header: ImageHeader, region: Region, reduce: int) -> Region:
        """Return the region that the codec decodes to deliver `region`."""
        return self.decoding.region_to_decode(header, region, reduce)

    def decode_region(
        self, data: Array, header: ImageHeader, region: Region | None, memory: Array | None, reduce: int
    ) -> Array:
        """Decode a region and convert it to the dtype of the output."""
        pixels = self.decoding.decode(data, header, memory, region, reduce)
        if pixels.dtype == self.dtype:
            return pixels
        full = 1.0 if self.dtype.kind == "f" else float(np.iinfo(self.dtype).max)
        wide = np.float64 if self.dtype.itemsize == 4 and self.dtype.kind != "f" else np.float32
        return cast_saturating(np, pixels.astype(wide) * wide(full / np.iinfo(pixels.dtype).max), self.dtype)


class DecoderOptions(TypedDict, total=False):
    """Options of image decoders."""

    output_type: Annotated[
        DALIImageType,
        Default(RGB),
        Doc("Color space: `types.RGB`, `BGR`, `GRAY`, `YCbCr`, or `ANY_DATA` for the channels of the file."),
    ]
    dtype: Annotated[
        Any,
        Default(UINT8),
        Doc("UINT8, INT8, UINT16, INT16, UINT32, INT32 (white is the largest number) or FLOAT (white is 1)."),
    ]
    adjust_orientation: Annotated[bool, Default(True), Doc("If True, images are turned as their EXIF data says.")]
    use_fast_idct: Annotated[bool, Default(False), Doc("If True, JPEGs decode faster and slightly less exactly.")]
    jpeg_fancy_upsampling: PerformanceHint[
        Annotated[
            bool,
            Default(False),
            Doc("DALI's hint for its GPU decoder; it has no effect."),
        ]
    ]
    backend: PerformanceHint[
        Annotated[
            Backend,
            Default("simplejpeg"),
            Doc(
                'Library for JPEGs: "simplejpeg", or "nvimgcodec" (an extra), which decodes only what is cut out of an '
                "image. The pixels are the same."
            ),
        ]
    ]
    reduced: Annotated[
        bool,
        Default(False),
        Doc(
            "If True, JPEGs that are resized to less than half are decoded at 1/2, 1/4 or 1/8 of their size, at least "
            "that of the result. Much faster, with slightly different pixels."
        ),
    ]
    max_size: PerformanceHint[
        Annotated[
            Sequence[int] | None,
            Default(None),
            Doc(
                "Height and width of the largest image; a larger one is an error. With it, later operators can run on "
                "the device, to which images are then sent in arrays of this size."
            ),
        ]
    ]


def decoder(options: DecoderOptions, kind: str) -> DecodeImage:
    """The decoder that a user's options describe.

    Raises:
        DefinitionError: an output type, dtype or backend that is not offered.
        MissingExtraError: the package of the backend is not installed.
    """
    output_type, dtype = options.get("output_type", RGB), as_dtype(options.get("dtype", UINT8))
    if output_type not in CHANNELS:
        raise DefinitionError(
            f"fn.{kind} does not give this output_type",
            given=short_repr(output_type),
            expected=", ".join(f"types.{known.name}" for known in CHANNELS),
        )
    if dtype.name not in DTYPES:
        raise DefinitionError(
            f"fn.{kind} does not give this dtype",
            given=dtype,
            expected=", ".join(DTYPES),
            fix="fn.cast what it gives",
        )
    backend = options.get("backend", "simplejpeg")
    adjust, fast = options.get("adjust_orientation", True), options.get("use_fast_idct", False)
    decoding = ImageCodec(DALIImageType(output_type), bool(adjust), bool(fast), backend)
    reduced, limits = bool(options.get("reduced", False)), options.get("max_size")
    if limits is None:
        return DecodeImage(decoding, dtype, reduced)
    if len(limits) != 2 or min(limits) < 1:
        raise DefinitionError(
            f"fn.{kind}: max_size is the height and width of the largest image",
            given=short_repr(limits),
            fix="(1080, 1920)",
        )
    if reduced:
        raise DefinitionError(
            f"fn.{kind}: reduced images are resized on the host, images with a max_size perhaps on the device",
            given="reduced=True and max_size",
            expected="one of them",
        )
    return DecodeImage(decoding, dtype, reduced, (int(limits[0]), int(limits[1])))


class DecoderArguments(DecoderOptions, DecoderHints, total=False):
    """Options and hints of image decoders."""


@operator("decoders.image")
def image(data: DataNode, **arguments: Unpack[DecoderArguments]) -> DataNode:
    """Decode images: JPEG, PNG, BMP, TIFF, WebP, PNM and JPEG 2000.

    JPEGs are decoded by libjpeg-turbo with its exact transform and smooth upsampling, bit by bit what DALI's CPU
    decoder gives; GRAY is the luma channel that is stored. Other formats, and CMYK, are decoded by Pillow; their GRAY
    is .299 R + .587 G + .114 B. ANY_DATA gives as many channels as are stored: one for grey, three for colours and
    palettes, one more with alpha, and four for CMYK, as RGB and an opaque alpha; otherwise alpha is dropped. Files with
    16 bits per pixel and one channel keep them until `dtype`; those with colours are read with 8 bits. Pixels that are
    floats are refused.

    Args:
        data: the bytes of an image file, uint8 of shape (?,).
        **arguments: See `DecoderArguments`.

    Returns:
        Pixels, (height, width, channels), layout HWC. Samples may differ in size; where a consumer needs one size, that
        of sample 0 is expected of all.

    Raises:
        DefinitionError: the input holds no bytes, or an option is not offered.
        SampleError: while running, an image that cannot be decoded: truncated, damaged, no image, or one whose header
            announces more than 2**27 pixels.

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
    kernel = decoder(select_arguments(DecoderOptions, arguments), "decoders.image")
    return apply(kernel, data)
