"""Resizing and encoding of images for shards."""

import io
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageOps

from penstock.core import Array
from penstock.image.codecs.image_codec import ImageCodec
from penstock.image.codecs.pillow import check_jpeg2000, open_image
from penstock.image.codecs.undecodable_files import check_pixels
from penstock.operators.decoders.image import DecodeImage
from penstock.types import GRAY, RGB

# JPEG quality of resized images if the user chooses none.
_QUALITY = 90

# `fn.decoders.image` for gray images with 16 bits.
_EIGHT_BITS = DecodeImage(ImageCodec(GRAY), np.dtype(np.uint8), reduced=False)


@dataclass(frozen=True)
class Reencoding:
    """Resizing and JPEG encoding of an image.

    Args:
        resize_shorter: Shorter side of larger images, in pixels; None keeps all sizes.
        quality: JPEG quality, 1 to 100; None encodes only resized images, with 90.
    """

    resize_shorter: int | None = None
    quality: int | None = None

    def __bool__(self) -> bool:
        return self.resize_shorter is not None or self.quality is not None

    def __call__(self, data: bytes) -> tuple[bytes, bool]:
        """Return an image as an upright JPEG with its color profile. Small images are not enlarged.

        Resampling uses Pillow's Lanczos filter, after a reduction by integer factors to at least three times the size.

        Returns:
            The bytes, and True if they are new. An image that is small enough keeps its bytes if `quality` is None.

        Raises:
            ValueError: The data is not an image, is damaged, or has pixels that `fn.decoders.image` refuses.
        """
        file = np.frombuffer(data, np.uint8)
        opened = open_image(file)
        small = self.resize_shorter is None or min(opened.size) <= self.resize_shorter
        # Small images are decoded, too, to find damaged ones now and not in training.
        image, profile = _upright(opened, file), opened.info.get("icc_profile")
        if small and self.quality is None:
            return data, False
        # JPEG stores gray or RGB here; a profile of another mode would not fit the converted pixels.
        if image.mode not in ("L", "RGB"):
            image, profile = image.convert("RGB"), None
        if self.resize_shorter is not None and not small:
            scale = self.resize_shorter / min(image.size)
            width, height = (max(self.resize_shorter, round(side * scale)) for side in image.size)
            image = image.resize((width, height), Image.Resampling.LANCZOS, reducing_gap=3.0)
        file = io.BytesIO()
        image.save(file, "JPEG", quality=self.quality or _QUALITY, icc_profile=profile)
        return file.getvalue(), True


def _upright(opened: Image.Image, file: Array) -> Image.Image:
    """Return an open image decoded and upright, with 8 bits per channel.

    Args:
        opened: The image.
        file: The bytes that it is read from.

    Raises:
        ValueError: `fn.decoders.image` refuses such an image, too.
    """
    check_pixels(opened, RGB)
    if opened.format == "JPEG2000":
        check_jpeg2000(file.tobytes())
    # Pillow would clip values of 16 bits at 255 in place of scaling them.
    if opened.mode.startswith("I"):
        header = _EIGHT_BITS.decoding.header(file)
        return Image.fromarray(_EIGHT_BITS.decode_region(file, header, None, None, 1)[..., 0])
    try:
        return ImageOps.exif_transpose(opened)
    except Exception as error:  # Pillow's plug-ins raise many types for damaged files
        raise ValueError(f"damaged: {error}") from error
