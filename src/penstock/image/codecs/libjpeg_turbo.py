"""JPEG decoding with libjpeg-turbo through simplejpeg, down to a given row.

libjpeg stops after the number of rows in the frame header. A copy of the file with a smaller number saves the work
below a region.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np
import simplejpeg
from numpy.typing import NDArray

from penstock.core import Array
from penstock.image.codecs.exif_orientation import UPRIGHT, swaps_axes
from penstock.image.codecs.image_header import ImageHeader, ImageHeaders
from penstock.image.codecs.output_channels import ycbcr
from penstock.image.kernels.scratch_memory import ScratchMemory
from penstock.types import BGR, DALIImageType, YCbCr

_END = b"\xff\xd9"

# Pixels that must be saved to be worth a copy of the file.
_WORTH = 1 << 12

_copies = ScratchMemory()


def decode(
    data: Array,
    header: ImageHeader,
    output_type: DALIImageType,
    fast_idct: bool,
    memory: Array | None,
    bottom: int | None = None,
    reduce: int = 1,
    strict: bool = True,
) -> Array:
    """Decode the stored pixels, with the channels of the output type.

    Args:
        data: Bytes of the file.
        header: Header of the file.
        output_type: Output type.
        fast_idct: Use libjpeg's faster, less accurate inverse DCT.
        memory: Memory that the pixels, or those above `bottom`, may be written to.
        bottom: Row of the reduced image at which decoding stops, from `rows`. The result may have more rows.
        reduce: 2, 4 or 8 for 1/2, 1/4 or 1/8 of the height and width, rounded up.
        strict: Treat warnings of libjpeg as errors.

    Raises:
        ValueError: The data are damaged; if strict, one surplus byte is enough.
    """
    space = _space(header.channels, output_type)
    height, width = header.height, header.width
    if swaps_axes(header.orientation):
        height, width = width, height
    if bottom is not None and bottom * reduce < height:
        if _is_complete(data):
            height, strict = bottom * reduce, False  # libjpeg warns of the rows that it does not read
            data = _with_height(data, header.frame, height)
        else:
            memory = None  # all rows are decoded, and the memory has room for those above `bottom` only
    least = 0, 0  # the stored size
    if reduce > 1:
        least = height, width = -(-height // reduce), -(-width // reduce)
    try:
        pixels = simplejpeg.decode_jpeg(
            data, space, fast_idct, min_height=least[0], min_width=least[1], buffer=memory, strict=strict
        )
    except KeyError as error:  # simplejpeg looks up the name of the subsampling in a table of the usual ones
        raise ValueError(f"unusual subsampling: {error}") from error
    if pixels.shape != (height, width, header.channels):
        raise ValueError(f"damaged: the header announces {(height, width)} pixels, but there are {pixels.shape[:2]}")
    return ycbcr(pixels) if output_type is YCbCr else pixels


class RowDecoding:
    """Decoding of upright images, or the rows at their top, into memory. For one thread.

    It takes as little Python per image as possible: for small images, `decode` takes noticeable time besides libjpeg.

    Args:
        files: Bytes of the files.
        headers: Headers of the files.
        regions: Region of each file to decode, int64 (files, 4), fields of `Region`: all pixels, or the rows at the top
            down to one from `rows`. Files with other regions are left.
        output_type: Output type, other than YCbCr.
        fast_idct: As for `decode`.
    """

    def __init__(
        self,
        files: Sequence[Array],
        headers: ImageHeaders,
        regions: NDArray[np.int64],
        output_type: DALIImageType,
        fast_idct: bool,
    ) -> None:
        self._files, self._fields, self._fast_idct = files, headers.fields, fast_idct
        self._spaces = {channels: _space(channels, output_type) for channels in (1, 3)}
        top, bottom, left, right = regions.T
        stored, width, _, _, orientation, frame, _ = headers.numbers.T
        usable = (frame > 0) & (orientation == UPRIGHT) & (top == 0) & (left == 0) & (right == width)
        self._heights: list[int] = np.where(usable, bottom, 0).tolist()
        self._whole: list[bool] = (bottom == stored).tolist()

    def __call__(self, memory: Mapping[int, Array] | Sequence[Array], rows: Iterable[int]) -> list[int]:
        """Decode some of the files.

        Args:
            memory: Per file, memory for its pixels.
            rows: Indices of the files to decode.

        Returns:
            Indices of the files that are left: those for which libjpeg reports an error or a warning, and all that need
            more than this.
        """
        files, heights, whole, spaces, rest = self._files, self._heights, self._whole, self._spaces, list[int]()
        _, widths, channels, _, _, frames, _ = self._fields
        for row in rows:
            data, height, strict = files[row], heights[row], whole[row]
            if not height or not (strict or _is_complete(data)):
                rest.append(row)
                continue
            if not strict:
                data = _with_height(data, frames[row], height)
            # In this loop and not in a function, whose call would take a tenth of the time that is not decoding.
            try:
                pixels = simplejpeg.decode_jpeg(
                    data, spaces[channels[row]], self._fast_idct, buffer=memory[row], strict=strict
                )
            except (ValueError, KeyError):
                rest.append(row)
                continue
            if pixels.shape != (height, widths[row], channels[row]):
                rest.append(row)
        return rest


def _space(channels: int, output_type: DALIImageType) -> str:
    """Return simplejpeg's name of the color space in which an image is decoded."""
    return "GRAY" if channels == 1 else "BGR" if output_type is BGR else "RGB"


def rows(bottom: Any, height: Any, width: Any, reduce: Any, below: Any) -> Any:
    """Return the number of rows that are decoded when those above `bottom` are needed, in the reduced image.

    Args:
        bottom: Row below the last one that is needed. This and the others are numbers, or arrays of one per image.
        height: Height of the reduced image.
        width: Width of the reduced image.
        reduce: 1, 2, 4 or 8.
        below: `below` of the header.
    """
    fewer, where = bottom + below, cast(Any, np.where)
    return where((height - fewer) * width * reduce * reduce >= _WORTH, fewer, height)


def saves_pixels(region: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return, per file, True if a region has so many pixels fewer than another one that it is worth choosing.

    Args:
        region: Regions, (files, 4), fields of `Region`.
        other: Regions that contain them.
    """
    small, large = ((area[:, 1::2] - area[:, ::2]).prod(axis=1) for area in (region, other))
    return large - small >= _WORTH


def _is_complete(data: Array) -> bool:
    """Return True if a file ends as a JPEG does. A truncated one would pass unnoticed where warnings are ignored."""
    return data[-2:].tobytes() == _END


def _with_height(data: Array, frame: int, height: int) -> Array:
    """Return a copy of a JPEG with another height in its frame header. The next call overwrites it."""
    copy = _copies.take(0, data.size)[: data.size]
    copy[:] = data
    copy[frame + 5], copy[frame + 6] = height >> 8, height & 0xFF
    return copy
