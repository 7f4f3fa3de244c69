"""Images that are made smaller and encoded anew on their way into shards."""

from __future__ import annotations

import io
from dataclasses import dataclass

from PIL import Image, ImageOps

from penstock.image.codecs.pillow import FORMATS

_QUALITY = 90


@dataclass(frozen=True)
class Reencoding:
    """What becomes of an image.

    Args:
        resize_shorter: the shorter side of larger images, in pixels; None leaves sizes as they are.
        quality: of JPEG, 1 to 100; None encodes only what is resized, with 90.
    """

    resize_shorter: int | None = None
    quality: int | None = None

    def __bool__(self) -> bool:
        return self.resize_shorter is not None or self.quality is not None

    def __call__(self, data: bytes) -> tuple[bytes, bool]:
        """An encoded image as a JPEG, upright, with its colour profile; smaller ones are not made larger.

        Resampling is Pillow's Lanczos filter, after shrinking by whole factors to at least three times the size.

        Returns:
            The bytes, and whether they are new: an image that is small enough, without `quality`, stays as it is.

        Raises:
            ValueError: it is no image, or is damaged.
        """
        try:
            with Image.open(io.BytesIO(data), formats=FORMATS) as opened:
                small = self.resize_shorter is None or min(opened.size) <= self.resize_shorter
                if small and self.quality is None:
                    opened.load()  # a damaged one is found here, not in training
                    return data, False
                profile = opened.info.get("icc_profile")
                image = ImageOps.exif_transpose(opened)
        except Exception as error:  # whatever a plug-in of Pillow stumbles on in a damaged file
            raise ValueError(f"no image that can be decoded: {error}") from error
        if image.mode not in ("L", "RGB"):
            image, profile = image.convert("RGB"), None
        if self.resize_shorter is not None and not small:
            scale = self.resize_shorter / min(image.size)
            size = (
                max(self.resize_shorter, round(image.width * scale)),
                max(self.resize_shorter, round(image.height * scale)),
            )
            image = image.resize(size, Image.Resampling.LANCZOS, reducing_gap=3.0)
        file = io.BytesIO()
        image.save(file, "JPEG", quality=self.quality or _QUALITY, icc_profile=profile)
        return file.getvalue(), True
