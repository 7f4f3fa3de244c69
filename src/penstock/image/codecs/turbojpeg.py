"""JPEG decoding through the TurboJPEG API of a system library, many files in one call without the GIL.

simplejpeg contains the same decoder, but takes one call of Python per file, which holds the GIL for as long as a JPEG
of 28 x 28 pixels takes to decode. No maintained package on PyPI has the library, so the system must have it.
"""

import functools
import sys
from array import array
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.core import Array
from penstock.errors import ResourceError
from penstock.image.codecs import turbojpeg_loop as loop
from penstock.image.codecs.image_header import ImageHeaders
from penstock.image.codecs.loop_decoding import LoopDecoding
from penstock.image.kernels.scratch_memory import ScratchMemory
from penstock.native.argument_block import address
from penstock.native.array_fields import FIELDS, copy_bytes, references
from penstock.native.compiled import BoundCode
from penstock.types import BGR, DALIImageType

# Columns of the widest block of pixels that libjpeg decodes at once, in all but unusual files. Regions begin at one.
_BLOCK = 16

# Memory of a file to leave: the loop leaves files whose pixels do not fit.
_NOTHING = np.empty(0, np.uint8)

_copies = ScratchMemory()


def installed() -> bool:
    """Return True if the system has the library."""
    # tjGetErrorCode, which tells warnings from errors, came with libjpeg-turbo 2.0.
    return copy_bytes.exists and all(function.exists for function in loop.FUNCTIONS)


def check_installed() -> None:
    """Check that the system has the library.

    Raises:
        ResourceError: It does not.
    """
    if not installed():
        raise ResourceError(
            'a decoder with backend="turbojpeg" needs the system library libturbojpeg, of libjpeg-turbo 2.0 or later',
            fix="install it (apt-get install libturbojpeg0 on Debian, apt-get install libturbojpeg on Ubuntu, "
            "dnf install turbojpeg, brew install jpeg-turbo, conda install libjpeg-turbo), or leave out backend=",
        )


@functools.cache
def decodes_regions() -> bool:
    """Return True if the library computes only the pixels of a region: libjpeg-turbo 3 does."""
    return sys.platform != "win32" and all(function.exists for function in loop.REGION_FUNCTIONS)


def regions_to_decode(regions: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the regions to decode so that the pixels of other regions are those of the whole image.

    Args:
        regions: The regions that are needed, (files, 4), fields of `Region`.
        rows: The rows that simplejpeg would decode, with all columns: regions, (files, 4). The result ends at the same
            row, so that damage is found in the same files, and that simplejpeg can decode what this library refuses.
    """
    (top, _, left, right), bottom, widths = regions.T, rows[:, 1], rows[:, 3]
    # The smooth upsampling of chroma reads the columns beside a pixel, and those at the edge of a region have none
    # beside them. Of less than a block, version 3.0 makes other colors than of the whole image.
    left = np.maximum(np.minimum(left - 1, widths - _BLOCK), 0) // _BLOCK * _BLOCK
    right = np.minimum(-(-(right + 1) // _BLOCK) * _BLOCK, widths)
    return np.column_stack([top, bottom, left, right])


class BatchDecoding(LoopDecoding):
    """Decoding of upright images, or regions of them, into memory. For one thread.

    Args:
        files: Bytes of the files.
        headers: Headers of the files.
        regions: Region of each file to decode, int64 (files, 4), fields of `Region`: all pixels, the rows at the top
            down to one from `libjpeg_turbo.rows`, or one of `regions_to_decode`; zeros to leave the file out.
        output_type: Output type, other than YCbCr.
        fast_idct: Use libjpeg's faster, less accurate inverse DCT.
    """

    def __init__(
        self,
        files: Sequence[Array],
        headers: ImageHeaders,
        regions: NDArray[np.int64],
        output_type: DALIImageType,
        fast_idct: bool,
    ) -> None:
        _register_functions()
        copies = not decodes_regions() and (regions != headers.whole).any()
        shortened = _copies.take(0, max(map(len, files)) if copies else 0)
        fields, found = np.empty(FIELDS, np.int64), np.empty(loop.FOUND, np.int32)
        # Python reads and writes single entries of these faster than those of NumPy's arrays.
        self._memory, self._left = array("q", bytes(8 * len(files))), bytearray(len(files))
        self._files = files  # keeps them alive: the loop has their addresses
        self._decode = loop.decode_files.variant(REGIONS=decodes_regions()).bind(
            references(files),
            headers.numbers,
            np.ascontiguousarray(regions),
            np.frombuffer(self._memory, np.int64),
            loop.BGR if output_type is BGR else loop.RGB,
            loop.FAST_DCT if fast_idct else 0,
            shortened,
            address(shortened),
            fields,
            address(fields),
            found,
            address(found),
            np.frombuffer(self._left, np.bool_),
        )

    def __call__(self, memory: Mapping[int, Array] | Sequence[Array], rows: range) -> Sequence[int]:
        """Decode some of the files. Those are left for which libjpeg-turbo reports an error or a warning."""
        # Called for one photograph after the other, so it has few calls of Python.
        for row in rows:
            self._memory[row] = id(memory[row])  # as from `references`
        self._decode(rows.start, rows.stop)
        return [row for row in rows if self._left[row]] if 1 in self._left[rows.start : rows.stop] else ()

    def loop(self, memory: Sequence[Array | None]) -> tuple[BoundCode, NDArray[np.bool_]] | None:
        """Return the loop and its marks."""
        if not isinstance(self._decode, BoundCode):
            return None
        self._memory[:] = array("q", [id(_NOTHING if pixels is None else pixels) for pixels in memory])
        return self._decode, np.frombuffer(self._left, np.bool_)


@functools.cache
def _register_functions() -> None:
    check_installed()  # worker processes and input hosts receive codecs that another process has checked
    for function in (*loop.FUNCTIONS, *(loop.REGION_FUNCTIONS if decodes_regions() else ())):
        function.register()
