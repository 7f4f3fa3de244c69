"""Headers of images, and regions of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.core import Array


class Region(NamedTuple):
    """Rows `top` to `bottom` and columns `left` to `right` of an image; `bottom` and `right` are exclusive."""

    top: int
    bottom: int
    left: int
    right: int


class ImageHeader(NamedTuple):
    """Properties of the decoded image, and what the codec needs to decode it.

    Args:
        height: Rows after the orientation is applied.
        width: Columns after the orientation is applied.
        channels: Channels of the output type.
        dtype: uint8, or uint16 if the file has 16-bit gray pixels.
        orientation: EXIF orientation that is applied to the stored pixels.
        frame: Offset of the frame header of a JPEG; 0 if Pillow decodes the image.
        below: Stored rows that are decoded below the last one that is needed, because the smooth upsampling of chroma
            reads them. ALL_ROWS for a JPEG of several scans, such as a progressive one: libjpeg reads all scans before
            it writes the first row.
    """

    height: int
    width: int
    channels: int
    dtype: np.dtype[Any]
    orientation: int
    frame: int
    below: int = 0

    @property
    def reducible(self) -> bool:
        """True if the image can be decoded at 1/2, 1/4 or 1/8 of its size."""
        return self.frame > 0


# Decodes some of the files, the rows of a range, into the memory of each. Returns the rows that are left.
DirectDecoding = Callable[[Mapping[int, Array] | Sequence[Array], range], Sequence[int]]

# More rows than a JPEG can have.
ALL_ROWS = 1 << 16

# Columns of `ImageHeaders`.
HEIGHT, WIDTH, CHANNELS, BYTES, ORIENTATION, FRAME, BELOW = COLUMNS = range(7)

_DTYPES = {1: np.dtype(np.uint8), 2: np.dtype(np.uint16)}


class ImageHeaders:
    """Headers of several images, without a Python object for each. It is a sequence of `ImageHeader`.

    Args:
        numbers: int64 (images, 7): the fields of `ImageHeader`, with the bytes per value in place of the dtype. Zeros
            stand for a header that could not be read. They must not change after a header has been taken.

    Example:
        >>> import numpy as np
        >>> small = ImageHeader(height=2, width=3, channels=3, dtype=np.dtype(np.uint8), orientation=1, frame=0)
        >>> headers = ImageHeaders.of([small, small._replace(height=4)])
        >>> headers.shapes.tolist(), headers[1].height
        ([[2, 3, 3], [4, 3, 3]], 4)
    """

    def __init__(self, numbers: NDArray[np.int64]) -> None:
        self.numbers = numbers

    @staticmethod
    def of(headers: Iterable[ImageHeader]) -> ImageHeaders:
        """Return headers as one array."""
        rows = [(*header[:BYTES], header.dtype.itemsize, *header[BYTES + 1 :]) for header in headers]
        return ImageHeaders(np.array(rows, np.int64).reshape(-1, len(COLUMNS)))

    @property
    def shapes(self) -> NDArray[np.int64]:
        """Height, width and channels of each image."""
        return self.numbers[:, :BYTES]

    @property
    def whole(self) -> NDArray[np.int64]:
        """Regions of all pixels of each image, (images, 4)."""
        none = np.zeros(len(self.numbers), np.int64)
        return np.column_stack([none, self.numbers[:, HEIGHT], none, self.numbers[:, WIDTH]])

    def __len__(self) -> int:
        return len(self.numbers)

    @cached_property
    def fields(self) -> list[list[Any]]:
        """The fields of `ImageHeader`, a list of all images' values for each."""
        # By field: a list per image would be work for the garbage collector.
        fields: list[list[Any]] = self.numbers.T.tolist()
        fields[BYTES] = [_DTYPES[size] for size in fields[BYTES]]
        return fields

    def __getitem__(self, row: int) -> ImageHeader:
        height, width, channels, dtype, orientation, frame, below = self.fields
        return ImageHeader(height[row], width[row], channels[row], dtype[row], orientation[row], frame[row], below[row])

    def __iter__(self) -> Iterator[ImageHeader]:
        return map(self.__getitem__, range(len(self)))

    def take(self, rows: slice | NDArray[np.int64]) -> ImageHeaders:
        """Return some of the headers."""
        return ImageHeaders(self.numbers[rows])


def check_size(height: int, width: int) -> None:
    """Check the size of an image before memory is allocated for it.

    Raises:
        ValueError: It has more than `MAX_PIXELS` pixels.
    """
    if height * width > MAX_PIXELS:
        raise ValueError(f"the header announces {height} x {width} pixels, more than the {MAX_PIXELS} that are decoded")


# 134 million pixels. A damaged or malicious header could otherwise make a decoder allocate any amount of memory.
MAX_PIXELS = 1 << 27
