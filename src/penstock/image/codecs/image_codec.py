"""One interface to all libraries that decode images."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from penstock.core import Array
from penstock.core.dataclass import dataclass
from penstock.image.codecs import jpeg_header, libjpeg_turbo, nvimgcodec, pillow, turbojpeg
from penstock.image.codecs.exif_orientation import (
    UPRIGHT,
    apply_orientation,
    delivered_region,
    stored_region,
    swaps_axes,
)
from penstock.image.codecs.image_header import ALL_ROWS, HEIGHT, DirectDecoding, ImageHeader, ImageHeaders, Region
from penstock.types import RGB, DALIImageType, YCbCr

Backend = Literal["simplejpeg", "turbojpeg", "nvimgcodec"]

# nvImageCodec decodes a region if it is at most this fraction of the pixels that simplejpeg would decode, and at least
# this many pixels fewer. It needs 0.1 ms more per image and saves 0.02 ms per 10,000 pixels: most of the work is the
# entropy decoding, which covers all pixels before the last one of the region in both libraries.
_MAX_FRACTION, _MIN_PIXELS_SAVED = 0.5, 1 << 16


@dataclass(frozen=True)
class ImageCodec:
    """Decoder options, and decoding with them. Threads may share a codec.

    Args:
        output_type: Channels of the result.
        adjust_orientation: Apply the EXIF orientation.
        fast_idct: Use libjpeg's faster, less accurate inverse DCT.
        backend: Library that decodes JPEGs. "simplejpeg" skips the rows below a region, and so does "turbojpeg", which
            decodes many files in one call; "nvimgcodec" skips everything around it, and so does "turbojpeg" with
            libjpeg-turbo 3. The pixels are the same.

    Raises:
        MissingExtraError: The package of the backend is not installed.
        ResourceError: The system library of the backend is not installed.
    """

    output_type: DALIImageType = RGB
    adjust_orientation: bool = True
    fast_idct: bool = False
    backend: Backend = "simplejpeg"

    def __post_init__(self) -> None:
        if self.backend == "nvimgcodec":
            nvimgcodec.check_installed()
        elif self.backend == "turbojpeg":
            turbojpeg.check_installed()

    @property
    def decodes_batches(self) -> bool:
        """True if the usual files are decoded many in one call."""
        return self.backend == "turbojpeg" and self.output_type is not YCbCr

    def header(self, data: Array) -> ImageHeader:
        """Read the header of a file, without decoding pixels.

        Args:
            data: Bytes of the file, uint8 of shape (n,).

        Raises:
            ValueError: The bytes are not an image that can be decoded, or it has more than `MAX_PIXELS` pixels.
        """
        if not data.size:
            raise ValueError("the file is empty")
        header = jpeg_header.read_header(data, self.output_type, self.adjust_orientation)
        return header or pillow.read_header(data, self.output_type, self.adjust_orientation)

    def headers(self, files: Sequence[Array]) -> ImageHeaders:
        """Read the headers of several files; see `header`."""
        headers = jpeg_header.read_headers(files, self.output_type, self.adjust_orientation)
        others = np.flatnonzero(headers.numbers[:, HEIGHT] == 0)
        if len(others):
            headers.numbers[others] = ImageHeaders.of(self.header(files[row]) for row in others.tolist()).numbers
        return headers

    def region_to_decode(self, header: ImageHeader, region: Region, reduce: int = 1) -> Region:
        """Return the smallest region that contains `region` and is cheap to decode.

        Args:
            header: Header of the file.
            region: Rows and columns that are needed, not empty, in pixels of the delivered (and reduced) image.
            reduce: Same value as for `decode`.
        """
        found = self.regions_to_decode(ImageHeaders.of([header]), np.array([region]), np.array([reduce]))
        return Region._make(found[0].tolist())

    def regions_to_decode(
        self, headers: ImageHeaders, regions: NDArray[np.int64], reductions: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return `region_to_decode` of several files.

        Args:
            headers: Headers of the files.
            regions: Regions that are needed, (files, 4).
            reductions: Value of `reduce` for each file.
        """
        _, _, _, _, orientation, frame, below = headers.numbers.T
        result = -(-headers.whole // reductions[:, None])
        height, width = result[:, 1].copy(), result[:, 3]
        result[:, 1] = np.where(frame > 0, libjpeg_turbo.rows(regions[:, 1], height, width, reductions, below), height)
        if self.decodes_batches and turbojpeg.decodes_regions():
            narrow = turbojpeg.regions_to_decode(regions, result)
            worth = libjpeg_turbo.saves_pixels(narrow, result)
            usable = (frame > 0) & (orientation == UPRIGHT) & (reductions == 1) & (below < ALL_ROWS)
            result = np.where((usable & worth)[:, None], narrow, result)
        one_by_one = (frame > 0) & ((orientation != UPRIGHT) | (self.backend == "nvimgcodec"))
        rows = np.flatnonzero(one_by_one)
        for row, header in zip(rows.tolist(), headers.take(rows), strict=True):
            region = Region._make(regions[row].tolist())
            result[row] = self._region_of_stored(header, region, int(reductions[row]))
        return result

    def _region_of_stored(self, header: ImageHeader, region: Region, reduce: int) -> Region:
        """Return the region to decode of a JPEG that is turned, or decoded by nvImageCodec."""
        height, width = -(-header.height // reduce), -(-header.width // reduce)
        if region == (0, height, 0, width):
            return region
        stored = stored_region(region, height, width, header.orientation)
        tall, wide = (width, height) if swaps_axes(header.orientation) else (height, width)
        small = nvimgcodec.region_to_decode(stored, wide)
        if not self._decodes_regions(header, reduce) or not _is_small(small, wide):
            small = Region(0, int(libjpeg_turbo.rows(stored.bottom, tall, wide, reduce, header.below)), 0, wide)
        return delivered_region(small, height, width, header.orientation)

    def direct_decoding(
        self, files: Sequence[Array], headers: ImageHeaders, regions: NDArray[np.int64]
    ) -> DirectDecoding:
        """Prepare the decoding of images, or regions of them, into memory: for those that need nothing else.

        Args:
            files: Bytes of the files.
            headers: Headers of the files.
            regions: Region of each file to decode, one of `regions_to_decode`, (files, 4); zeros to leave the file out.

        Returns:
            A function for one thread. It takes, per file, memory for its pixels: uint8, C-contiguous, of their size;
            and the rows of the files to decode. It returns the rows that are left, which `decode` decodes or refuses.
        """
        if self.output_type is YCbCr:
            return lambda _memory, rows: rows
        prepare = turbojpeg.BatchDecoding if self.backend == "turbojpeg" else libjpeg_turbo.RowDecoding
        return prepare(files, headers, regions, self.output_type, self.fast_idct)

    def decode(
        self,
        data: Array,
        header: ImageHeader,
        memory: Array | None = None,
        region: Region | None = None,
        reduce: int = 1,
    ) -> Array:
        """Decode an image or a region of it.

        Args:
            data: Bytes of the file, uint8 of shape (n,).
            header: Header of the file.
            memory: Memory that the pixels may be written to: uint8, C-contiguous, large enough. The result may be in
                it or not.
            region: Result of `region_to_decode`; None for the whole image. The pixels for which it was made are
                bit-for-bit the same as in the whole image.
            reduce: 2, 4 or 8 to decode at 1/2, 1/4 or 1/8 of height and width, rounded up. Requires a reducible header.

        Returns:
            Pixels of layout HWC, with any strides.

        Raises:
            ValueError: The data are damaged.
        """
        orientation = header.orientation
        # The usual cases, for which little Python is needed: all pixels, or those above a row.
        if orientation == UPRIGHT:
            if region is None:
                return self._stored(data, header, memory, None, reduce)
            if not (region.top or region.left) and region.right * reduce >= header.width:
                return self._stored(data, header, memory, region.bottom, reduce)[: region.bottom]
        height, width = -(-header.height // reduce), -(-header.width // reduce)
        if region is None or region == (0, height, 0, width):
            return apply_orientation(self._stored(data, header, memory, None, reduce), orientation)
        stored = stored_region(region, height, width, orientation)
        top, bottom, left, right = stored
        if not top and right - left == (height if swaps_axes(orientation) else width):
            pixels = self._stored(data, header, memory, bottom, reduce)[:bottom]
        else:
            # nvImageCodec returns None for damaged data: the libraries below say what is wrong with them.
            pixels = None
            if self._decodes_regions(header, reduce):
                pixels = nvimgcodec.decode(data, header, self.output_type, self.fast_idct, stored, memory)
            if pixels is None:
                # A region for turbojpeg ends at a row from `libjpeg_turbo.rows`.
                last = bottom if self.backend == "turbojpeg" else None
                pixels = self._stored(data, header, None, last, reduce)[top:bottom, left:right]
        return apply_orientation(pixels, orientation)

    def _decodes_regions(self, header: ImageHeader, reduce: int) -> bool:
        """Return True if the backend decodes regions of such an image without what surrounds them."""
        # nvImageCodec smooths progressive files that lack scans as if a region were the whole image.
        return self.backend == "nvimgcodec" and header.frame > 0 and reduce == 1 and header.below < ALL_ROWS

    def _stored(self, data: Array, header: ImageHeader, memory: Array | None, bottom: int | None, reduce: int) -> Array:
        """Decode the stored pixels: all, or at least those above row `bottom`."""
        if not header.frame:
            if reduce > 1:
                raise ValueError(f"only JPEGs that libjpeg-turbo decodes can be reduced to 1/{reduce} of their size")
            return pillow.decode(data, header, self.output_type)
        try:
            return libjpeg_turbo.decode(data, header, self.output_type, self.fast_idct, memory, bottom, reduce)
        except ValueError:
            # simplejpeg turns every warning of libjpeg into an error, such as one surplus byte. Pillow decodes what is
            # readable and raises an error for what is not.
            pixels = pillow.decode(data, header, self.output_type)
        if reduce == 1 and not self.fast_idct:
            return pixels
        # Pillow accepted the data, so warnings can be ignored now. Its own pixels have the full size, and are those of
        # the accurate DCT.
        try:
            return libjpeg_turbo.decode(
                data, header, self.output_type, self.fast_idct, None, None, reduce, strict=False
            )
        except ValueError:  # simplejpeg knows the usual subsamplings only
            return pillow.reduced(pixels, reduce)


def _is_small(region: Region, width: int) -> bool:
    """Return True if a region is a small part of the stored pixels above its last row, which simplejpeg decodes."""
    area, decoded = (region.bottom - region.top) * (region.right - region.left), region.bottom * width
    return area < _MAX_FRACTION * decoded and decoded - area >= _MIN_PIXELS_SAVED
