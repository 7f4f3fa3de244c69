"""Compiled loop that decodes many JPEGs in one call without the GIL, through the TurboJPEG API of a system library."""

import ctypes
import ctypes.util
import functools
import sys

from penstock.core import Array
from penstock.image.codecs.exif_orientation import UPRIGHT
from penstock.image.codecs.image_header import ALL_ROWS, BELOW, CHANNELS, FRAME, HEIGHT, ORIENTATION, WIDTH
from penstock.native.array_fields import copy_bytes, locate_bytes
from penstock.native.c_function import CFunction
from penstock.native.compiled import Compiled, precompile

# The library has the version of its interface in its name, which libjpeg-turbo 1.5 to 3 share.
_NAMES = {"win32": ("turbojpeg.dll",), "darwin": ("libturbojpeg.0.dylib", "libturbojpeg.dylib")}


@functools.cache
def library() -> ctypes.CDLL:
    """Load libturbojpeg.

    Raises:
        OSError: The system does not have it.
    """
    for name in _NAMES.get(sys.platform, ("libturbojpeg.so.0",)):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return ctypes.CDLL(ctypes.util.find_library("turbojpeg") or "libturbojpeg")


decompress_header = CFunction("tjDecompressHeader3", "i4", "i8 i8 i8 i8 i8 i8 i8", library)
decompress = CFunction("tjDecompress2", "i4", "i8 i8 i8 i8 i4 i4 i4 i4 i4", library)
error_code = CFunction("tjGetErrorCode", "i4", "i8", library)
create_decompressor = CFunction("tjInitDecompress", "i8", "", library)
destroy = CFunction("tjDestroy", "i4", "i8", library)

FUNCTIONS = (decompress_header, decompress, error_code, create_decompressor, destroy)

# Functions of libjpeg-turbo 3. The region, a structure of four 32-bit integers passed by value, takes two registers,
# except on Windows.
set_parameter = CFunction("tj3Set", "i4", "i8 i4 i4", library)
set_region = CFunction("tj3SetCroppingRegion", "i4", "i8 i8 i8", library)
decompress_region = CFunction("tj3Decompress8", "i4", "i8 i8 i8 i8 i4 i4", library)

REGION_FUNCTIONS = (set_parameter, set_region, decompress_region)

# Constants of turbojpeg.h: pixel formats, subsampling, flags, the code of a warning, and parameters of version 3.
RGB, BGR, _GRAY = 0, 1, 6
_440 = 4
FAST_DCT, _STOP_ON_WARNING = 2048, 8192
_WARNING = 0
_PARAMETER_STOP_ON_WARNING, _PARAMETER_FAST_DCT = 0, 10

# True for the variant of the loop that calls the functions of libjpeg-turbo 3.
REGIONS = False

# The last two bytes of a JPEG, as an integer.
_END = 0xD9FF

# int32 values that `decompress_header` writes: width, height, subsampling and color space.
FOUND = 4


@precompile(
    "i8[1] i8[2] i8[2] i8[1] i8 i8 u1[1] i8 i8[1] i8 i4[1] i8 b1[1] i8 i8",
    variants=[{"REGIONS": False}, {"REGIONS": True}],
)
@Compiled
def decode_files(
    files: Array,
    headers: Array,
    regions: Array,
    memory: Array,
    color: int,
    flags: int,
    shortened: Array,
    shortened_address: int,
    fields: Array,
    fields_address: int,
    found: Array,
    found_address: int,
    left: Array,
    first: int,
    last: int,
) -> None:
    """Decode upright JPEGs, the rows at their top, or with libjpeg-turbo 3 any region of them.

    Args:
        files: int64 (files,), from `references` of the files' bytes.
        headers: int64 (files, columns of `ImageHeaders`).
        regions: int64 (files, 4), region of each file to decode, in the order of `Region`; zeros to leave the file out.
        memory: int64 (files,), from `references` of memory for the pixels.
        color: Pixel format of images of three channels, RGB or BGR.
        flags: FAST_DCT or 0.
        shortened: Memory for a copy of a file of which fewer rows are decoded, unless the library decodes regions.
        shortened_address: Address of `shortened`.
        fields: int64 (FIELDS,), memory for fields of an array.
        fields_address: Address of `fields`.
        found: int32 (FOUND,), memory for fields of a header.
        found_address: Address of `found`.
        left: bool (files,). Receives False for files that are decoded, and True for all others: files for which
            libjpeg-turbo reports an error or an unexpected warning, and those that need more than this.
        first: First file to decode.
        last: File after the last one to decode.
    """
    for n in range(first, last):
        left[n] = True
        height, width, channels, frame = headers[n, HEIGHT], headers[n, WIDTH], headers[n, CHANNELS], headers[n, FRAME]
        rows, columns = regions[n, 1] - regions[n, 0], regions[n, 3] - regions[n, 2]
        # Progressive files are left, since versions of the library differ in how they smooth what lacks scans.
        if rows == 0 or frame == 0 or headers[n, ORIENTATION] != UPRIGHT or headers[n, BELOW] == ALL_ROWS:
            continue
        room = locate_bytes(memory[n], fields, fields_address)
        pixels = fields[0]
        size = locate_bytes(files[n], fields, fields_address)
        start = fields[0]
        if size < 2 or room < rows * columns * channels:
            continue
        partial, stop_early = rows < height or columns < width, False
        if partial:
            # As in `libjpeg_turbo`: libjpeg does not say that rows are missing that it does not read.
            copy_bytes(found_address, start + size - 2, 2)
            if found[0] & 0xFFFF != _END:
                continue
            if not REGIONS:
                if regions[n, 0] > 0 or columns < width or size > shortened.shape[0]:
                    continue
                copy_bytes(shortened_address, start, size)
                shortened[frame + 5], shortened[frame + 6] = rows >> 8, rows & 0xFF
                start, height, stop_early = shortened_address, rows, True
        pixel_format = _GRAY if channels == 1 else color
        # A new one for each file: it keeps the tables of the last file for one that has none.
        decompressor = create_decompressor()
        failed = decompress_header(
            decompressor, start, size, found_address, found_address + 4, found_address + 8, found_address + 12
        )
        # The library would scale an image of another size. And it has upsampled 4:4:0 smoothly since 2.1 only.
        usual = failed == 0 and found[0] == width and found[1] == height and found[2] != _440
        if usual and partial and not stop_early:
            if REGIONS:
                set_parameter(decompressor, _PARAMETER_STOP_ON_WARNING, 1)
                set_parameter(decompressor, _PARAMETER_FAST_DCT, 1 if flags & FAST_DCT else 0)
                # Refused if the first column is not the first one of a block.
                failed = set_region(decompressor, regions[n, 2] | (regions[n, 0] << 32), columns | (rows << 32))
                if failed == 0:
                    failed = decompress_region(decompressor, start, size, pixels, columns * channels, pixel_format)
                left[n] = failed != 0
        elif usual:
            strict = 0 if stop_early else _STOP_ON_WARNING
            failed = decompress(decompressor, start, size, pixels, width, 0, height, pixel_format, flags | strict)
            # libjpeg warns of the rows that it does not read.
            left[n] = failed != 0 and not (stop_early and error_code(decompressor) == _WARNING)
        destroy(decompressor)
