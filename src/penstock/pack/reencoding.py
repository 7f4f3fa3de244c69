"""Resizing and encoding of images for shards."""

import io
from dataclasses import dataclass

from PIL import Image, ImageOps

from penstock.image.codecs.pillow import FORMATS

# JPEG quality of resized images if the user chooses none.
_QUALITY = 90


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
            ValueError: The data is not an image, or is damaged.
        """
        try:
            with Image.open(io.BytesIO(data), formats=FORMATS) as opened:
                small = self.resize_shorter is None or min(opened.size) <= self.resize_shorter
                if small and self.quality is None:
                    opened.load()  # decode it, to find damaged images now and not in training
                    return data, False
                profile = opened.info.get("icc_profile")
                image = ImageOps.exif_transpose(opened)
        except Exception as error:  # Pillow's plug-ins raise many types for damaged files
            raise ValueError(f"not a decodable image: {error}") from error
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
