"""Decoding: one interface to all libraries that decode images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from penstock.core.columns import Array
from penstock.image.codecs import libjpeg_turbo, nvimgcodec, pillow
from penstock.image.codecs.exif_orientation import (
    apply_orientation,
    delivered_region,
    stored_region,
    swaps_axes,
)
from penstock.image.codecs.image_header import ImageHeader, Region
from penstock.types import RGB, DALIImageType

Backend = Literal["simplejpeg", "nvimgcodec"]

_LARGEST_PART, _LEAST_SAVED = 0.5, 1 << 16
"""The largest part of what simplejpeg would decode for which nvImageCodec costs less, and how many pixels fewer it must
be: nvImageCodec needs 0.1 ms more for an image, and saves 0.02 ms with 10,000 pixels. Most of a decoder's work goes
into reading the codes, and those of all pixels before the last one must be read."""


@dataclass(frozen=True)
class ImageCodec:
    """The options of a decoder, and decoding with them. Threads may share one.

    Args:
        output_type: which channels.
        adjust_orientation: whether to turn images as their EXIF data say.
        fast_idct: whether to use libjpeg's faster, less accurate transform.
        backend: what decodes regions of JPEGs. "simplejpeg" spares the rows below a region, "nvimgcodec" all that is
            around it; the pixels are the same.

    Raises:
        MissingExtraError: the package of the backend is not installed.
    """

    output_type: DALIImageType = RGB
    adjust_orientation: bool = True
    fast_idct: bool = False
    backend: Backend = "simplejpeg"

    def __post_init__(self) -> None:
        if self.backend == "nvimgcodec":
            nvimgcodec.check_installed()

    def header(self, data: Array) -> ImageHeader:
        """What the decoded image will be. No pixel is decoded for it.

        Args:
            data: the bytes of the file, uint8 of shape (n,).

        Raises:
            ValueError: the bytes are no image that can be decoded, or one of more than `MAX_PIXELS`.
        """
        if not data.size:
            raise ValueError("the file is empty")
        header = libjpeg_turbo.read_header(data, self.output_type, self.adjust_orientation)
        return header or pillow.read_header(data, self.output_type, self.adjust_orientation)

    def region_to_decode(self, header: ImageHeader, region: Region, reduce: int = 1) -> Region:
        """The part that is decoded where a region is needed: at least the region, and what costs nothing to leave out.

        Args:
            header: what `header` says of the file.
            region: rows and columns, not empty, counted in the delivered (and reduced) image.
            reduce: as for `decode`.
        """
        height, width = -(-header.height // reduce), -(-header.width // reduce)
        if not header.frame or region == (0, height, 0, width):
            return Region(0, height, 0, width)
        stored = stored_region(region, height, width, header.orientation)
        tall, wide = (width, height) if swaps_axes(header.orientation) else (height, width)
        small = nvimgcodec.region_to_decode(stored, wide)
        if not self._decodes_regions(header, reduce) or not _is_small(small, wide):
            small = Region(0, libjpeg_turbo.rows(stored.bottom, tall, wide, reduce, header.below), 0, wide)
        return delivered_region(small, height, width, header.orientation)

    def decode(
        self,
        data: Array,
        header: ImageHeader,
        memory: Array | None = None,
        region: Region | None = None,
        reduce: int = 1,
    ) -> Array:
        """The pixels of an image, or of a part of it.

        Args:
            data: the bytes of the file, uint8 of shape (n,).
            header: what `header` says of them.
            memory: where the pixels may be written: C-contiguous uint8, large enough for them. The result may lie
                there, or elsewhere.
            part: what `part` gave. Its pixels are the same, bit by bit, as those of the whole image. A part that it
                would not give is cut out of the whole image.
            reduce: 2, 4 or 8 for a half, a quarter or an eighth of height and width, rounded up; only where the header
                is reducible.

        Returns:
            Pixels of layout HWC, with any strides.

        Raises:
            ValueError: the data are damaged.
        """
        turn = header.orientation
        height, width = -(-header.height // reduce), -(-header.width // reduce)
        if region is None or region == (0, height, 0, width):
            return apply_orientation(self._stored(data, header, memory, None, reduce), turn)
        stored = stored_region(region, height, width, turn)
        top, bottom, left, right = stored
        if not top and right - left == (height if swaps_axes(turn) else width):
            pixels = self._stored(data, header, memory, bottom, reduce)[:bottom]
        else:
            pixels = None
            if self._decodes_regions(header, reduce):
                pixels = nvimgcodec.decode(data, header, self.output_type, self.fast_idct, stored, memory)
            if pixels is None:
                pixels = self._stored(data, header, None, None, reduce)[top:bottom, left:right]
        return apply_orientation(pixels, turn)

    def _decodes_regions(self, header: ImageHeader, reduce: int) -> bool:
        """Return True if the backend decodes regions of such an image without what surrounds them."""
        return self.backend == "nvimgcodec" and header.frame > 0 and reduce == 1

    def _stored(self, data: Array, header: ImageHeader, memory: Array | None, bottom: int | None, reduce: int) -> Array:
        """The pixels before they are turned, all or at least those above a row."""
        if not header.frame:
            if reduce > 1:
                raise ValueError(f"only plain JPEGs are decoded at 1/{reduce} of their size")
            return pillow.decode(data, header, self.output_type)
        try:
            return libjpeg_turbo.decode(data, header, self.output_type, self.fast_idct, memory, bottom, reduce)
        except ValueError:  # a mere warning, perhaps, of bytes too many: Pillow knows which are worse
            pixels = pillow.decode(data, header, self.output_type)
        if reduce == 1:
            return pixels
        return libjpeg_turbo.decode(data, header, self.output_type, self.fast_idct, memory, None, reduce, strict=False)


def _is_small(region: Region, width: int) -> bool:
    """Whether a region is a small part of the stored pixels above its last row, which simplejpeg would decode."""
    area, decoded = (region.bottom - region.top) * (region.right - region.left), region.bottom * width
    return area < _LARGEST_PART * decoded and decoded - area >= _LEAST_SAVED
