"""decoders.image: decoding of image files."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Unpack

import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypedDict

from penstock.core import Array, Spec
from penstock.core.dataclass import dataclass
from penstock.errors import DefinitionError
from penstock.graph import DataNode, Default, DType, PerformanceHint, Range, apply, operator, with_defaults
from penstock.image.codecs.image_codec import Backend, ImageCodec
from penstock.image.codecs.image_header import DirectDecoding, ImageHeader, ImageHeaders, Region
from penstock.image.codecs.output_channels import CHANNELS
from penstock.image.image_operator import ImageDecoder
from penstock.numerics.casting import cast_saturating
from penstock.operators.argument_limits import supported_dtype
from penstock.operators.decoders.encoded_bytes import EncodedBytes
from penstock.operators.elementwise.bfloat16_results import rounds_to_bfloat16
from penstock.types import RGB, UINT8, DALIImageType

# Element types that decoders offer.
DTYPES = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "float32")


@dataclass(frozen=True)
class DecodeImage(ImageDecoder):
    """Decoding of an image file to pixels.

    Args:
        decoding: Codec with the options that affect pixels.
        dtype: Element type of the pixels.
        reduced: True to let a resize that follows decode at 1/2, 1/4 or 1/8 of the size.
        max_size: Largest height and width; None for no limit.
    """

    decoding: ImageCodec
    dtype: np.dtype[Any]
    reduced: bool
    max_size: tuple[int, int] | None = None

    def infer(self, data: Spec) -> Spec:
        """Return the spec of an image of unknown size."""
        channels = CHANNELS[self.decoding.output_type]
        # With bounds, images of any size fit into one device array, so that consumers may run on the device. Without a
        # number of channels, they would fit, but consumers could not tell which of the channels exist.
        bounds = () if self.max_size is None or channels is None else (*self.max_size, channels)
        return Spec(self.dtype, (None, None, channels), "HWC", bounds=bounds)

    def read_headers(self, files: Sequence[Array]) -> ImageHeaders:
        """Read sizes and channels from headers, and check the sizes against `max_size`."""
        # Checked before anything is decoded: the header is enough.
        headers = self.decoding.headers(files)
        if self.max_size is not None:
            large = headers.shapes[(headers.shapes[:, :2] > self.max_size).any(axis=1), :2]
            if len(large):
                height, width = large[0]
                raise ValueError(
                    f"the image is {height} x {width}, larger than max_size={self.max_size}: "
                    "raise max_size, or leave it out and resize on the host"
                )
        return headers

    def regions_to_decode(
        self, headers: ImageHeaders, regions: NDArray[np.int64], reductions: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the regions that the codec decodes to deliver `regions`."""
        return self.decoding.regions_to_decode(headers, regions, reductions)

    @property
    def runs_python_per_sample(self) -> bool:
        """False if the codec decodes many files in one call."""
        return self.reduced or self.dtype != np.uint8 or not self.decoding.decodes_batches

    def direct_decoding(
        self, files: Sequence[Array], headers: ImageHeaders, regions: NDArray[np.int64]
    ) -> DirectDecoding:
        """Prepare the decoding of images of bytes."""
        if self.dtype != np.uint8:
            return super().direct_decoding(files, headers, regions)
        return self.decoding.direct_decoding(files, headers, regions)

    def decode_region(
        self, data: Array, header: ImageHeader, region: Region | None, memory: Array | None, reduce: int
    ) -> Array:
        """Decode a region and convert it to the dtype of the output."""
        pixels = self.decoding.decode(data, header, memory, region, reduce)
        if pixels.dtype == self.dtype:
            return pixels
        # DALI maps the full range of the stored type to that of the output: white is 1.0 or the largest integer.
        full = 1.0 if self.dtype.kind == "f" else float(np.iinfo(self.dtype).max)
        # float32 holds 24 bits, too few for the values of 32-bit integers.
        wide = np.float64 if self.dtype.itemsize == 4 and self.dtype.kind != "f" else np.float32
        return cast_saturating(np, pixels.astype(wide) * wide(full / np.iinfo(pixels.dtype).max), self.dtype)


class DecoderArguments(TypedDict, total=False):
    """Arguments of image decoders.

    Args:
        output_type: Color space: `types.RGB`, `BGR`, `GRAY`, `YCbCr`, or `ANY_DATA` for the channels of the file.
        dtype: UINT8, INT8, UINT16, INT16, UINT32, INT32 (white is the largest number) or FLOAT (white is 1).
        adjust_orientation: If True, images are rotated and flipped by their EXIF orientation.
        use_fast_idct: If True, JPEGs decode faster and slightly less exactly.
        jpeg_fancy_upsampling: DALI's hint for its GPU decoder; it has no effect.
        backend: Library for JPEGs: "simplejpeg"; "turbojpeg" (a library of the system), which decodes many files in one
            call and is faster for small images, and with libjpeg-turbo 3 for crops; or "nvimgcodec" (an extra), which
            decodes only the region that is used. The pixels are the same.
        reduced: If True, JPEGs that are resized to less than half are decoded at 1/2, 1/4 or 1/8 of their size, but not
            smaller than the result. Much faster, with slightly different pixels.
        max_size: Height and width of the largest image; larger images are errors. With `max_size`, later operators can
            run on the device, which receives images padded to this size (not with ANY_DATA, whose channels may differ).
        affine: DALI's hint; it has no effect.
        cache_batch_copy: DALI's hint; it has no effect.
        cache_debug: DALI's hint; it has no effect.
        cache_size: DALI's hint; it has no effect. Call `fn.cache` on resized images, which take less memory.
        cache_threshold: DALI's hint; it has no effect.
        cache_type: DALI's hint; it has no effect.
        device_memory_padding: DALI's hint; it has no effect.
        device_memory_padding_jpeg2k: DALI's hint; it has no effect.
        host_memory_padding: DALI's hint; it has no effect.
        host_memory_padding_jpeg2k: DALI's hint; it has no effect.
        hw_decoder_load: DALI's hint; it has no effect.
        hybrid_huffman_threshold: DALI's hint; it has no effect.
        memory_stats: DALI's hint; it has no effect.
        preallocate_height_hint: DALI's hint; it has no effect.
        preallocate_width_hint: DALI's hint; it has no effect.
        split_stages: DALI's hint; it has no effect.
        use_chunk_allocator: DALI's hint; it has no effect.
    """

    output_type: Annotated[DALIImageType, Default(RGB)]
    dtype: Annotated[DType, Default(UINT8)]
    adjust_orientation: Annotated[bool, Default(True)]
    use_fast_idct: Annotated[bool, Default(False)]
    jpeg_fancy_upsampling: PerformanceHint[Annotated[bool, Default(False)]]
    backend: PerformanceHint[Annotated[Backend, Default("simplejpeg")]]
    reduced: Annotated[bool, Default(False)]
    max_size: PerformanceHint[Annotated[tuple[int, int] | None, Range(1)]]
    # Options of DALI's decoders for speed or memory.
    affine: PerformanceHint[bool]
    cache_batch_copy: PerformanceHint[bool]
    cache_debug: PerformanceHint[bool]
    cache_size: PerformanceHint[int]
    cache_threshold: PerformanceHint[int]
    cache_type: PerformanceHint[str]
    device_memory_padding: PerformanceHint[int]
    device_memory_padding_jpeg2k: PerformanceHint[int]
    host_memory_padding: PerformanceHint[int]
    host_memory_padding_jpeg2k: PerformanceHint[int]
    hw_decoder_load: PerformanceHint[float]
    hybrid_huffman_threshold: PerformanceHint[int]
    memory_stats: PerformanceHint[bool]
    preallocate_height_hint: PerformanceHint[int]
    preallocate_width_hint: PerformanceHint[int]
    split_stages: PerformanceHint[bool]
    use_chunk_allocator: PerformanceHint[bool]


def decoder(arguments: Mapping[str, Any]) -> DecodeImage:
    """Return the decoder for the arguments of an operator.

    Raises:
        DefinitionError: The dtype is not supported, or arguments exclude each other.
    """
    options = with_defaults(DecoderArguments, arguments)
    max_size = options["max_size"]
    # A reduced size depends on the resize that follows, which therefore has to run with the decoder, on the host.
    if max_size is not None and options["reduced"]:
        raise DefinitionError(
            "reduced and max_size cannot be combined: the first resizes on the host, the second lets "
            "images be resized on the device",
            fix="leave one of them out",
        )
    decoding = ImageCodec(
        DALIImageType(options["output_type"]),
        options["adjust_orientation"],
        options["use_fast_idct"],
        options["backend"],
    )
    dtype = supported_dtype(options["dtype"], DTYPES)
    return DecodeImage(decoding, dtype, options["reduced"], None if max_size is None else tuple(max_size))


@operator("decoders.image")
@rounds_to_bfloat16
def image(data: EncodedBytes, **arguments: Unpack[DecoderArguments]) -> DataNode:
    """Decode images: JPEG, PNG, BMP, TIFF, WebP, PNM and JPEG 2000.

    libjpeg-turbo decodes JPEGs with its accurate DCT and smooth upsampling; RGB is bit-for-bit what DALI's CPU decoder
    returns, and GRAY is the stored luma channel. Pillow decodes the other formats and CMYK JPEGs; their GRAY is
    .299 R + .587 G + .114 B.

    ANY_DATA returns the stored channels: one for gray, three for color and palettes, one more for alpha, and four for
    CMYK (RGB and an opaque alpha). The other output types drop alpha. Images of one channel with 16 bits keep them
    until they are converted to `dtype`; color images with 16 bits are read with 8. Images with floating-point,
    signed or 32-bit pixels are rejected, and color JPEG 2000 images with more than 8 bits.

    Args:
        data: Bytes of an image file, uint8 of shape (n,).
        **arguments: See `DecoderArguments`.

    Returns:
        Pixels, (height, width, channels), layout HWC. Samples may differ in size. If a consumer needs one size, all
        samples must have the size of sample 0.

    Raises:
        DefinitionError: The input does not hold bytes, or an option is not supported.
        SampleError: While running, an image cannot be decoded: it is truncated, damaged or not an image, or its header
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
    return apply(decoder(arguments), data)
