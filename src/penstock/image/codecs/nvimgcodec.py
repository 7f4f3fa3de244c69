"""JPEG regions with nvImageCodec on the CPU, which computes no pixels outside of a region."""

import importlib.util
import math
import os
import threading
from functools import cache
from typing import Any

import numpy as np

from penstock.core import Array, optional_import
from penstock.errors import MissingExtraError
from penstock.image.codecs.image_header import ImageHeader, Region
from penstock.image.codecs.output_channels import ycbcr
from penstock.types import BGR, DALIImageType, YCbCr

_PACKAGE = "nvidia.nvimgcodec"
_NEEDED_FOR = 'a decoder with backend="nvimgcodec"'

# Narrower regions are widened: nvImageCodec 0.9 decodes a single column of a 4:2:0 image to other colors than it has in
# the whole image.
_MIN_COLUMNS = 16

# One decoder per thread: concurrent calls of one decoder break it.
_PER_THREAD = threading.local()


def installed() -> bool:
    """Return True if the package is installed."""
    try:
        return importlib.util.find_spec(_PACKAGE) is not None
    except ModuleNotFoundError:  # raised if the parent package is missing
        return False


def check_installed() -> None:
    """Check that the package of the backend is installed.

    Raises:
        MissingExtraError: It is not.
    """
    if not installed():
        raise MissingExtraError(_PACKAGE, "nvimgcodec", _NEEDED_FOR)


def region_to_decode(region: Region, width: int) -> Region:
    """Return the region to decode for a region of a stored image of this width."""
    top, bottom, left, right = region
    if right - left < _MIN_COLUMNS:
        right = min(left + _MIN_COLUMNS, width)
        left = max(right - _MIN_COLUMNS, 0)
    return Region(top, bottom, left, right)


def decode(
    data: Array, header: ImageHeader, output_type: DALIImageType, fast_idct: bool, region: Region, memory: Array | None
) -> Array | None:
    """Decode a region of the stored pixels.

    Args:
        data: Bytes of a JPEG.
        header: Header of the file.
        output_type: Output type.
        fast_idct: Use libjpeg's faster, less accurate inverse DCT.
        region: Region of the stored image, from `region_to_decode`.
        memory: Memory that the pixels may be written to: uint8, C-contiguous, large enough.

    Returns:
        None if the data are damaged.
    """
    library = _library()
    top, bottom, left, right = region
    shape = (bottom - top, right - left, header.channels)
    out = np.empty(shape, np.uint8) if memory is None else memory.reshape(-1)[: math.prod(shape)].reshape(shape)
    try:
        stream = library.CodeStream(data).get_sub_code_stream(region=library.Region(top, left, bottom, right))
        into = library.as_image(out)  # memory that nvImageCodec allocates would have to be copied
        image = _decoder(fast_idct).decode(stream, params=_parameters(header.channels == 1), image=into)
    except (RuntimeError, ValueError):
        return None
    if image is None or image.shape != shape:
        return None
    if output_type is YCbCr:
        return ycbcr(out)
    return out[..., ::-1] if output_type is BGR else out


@cache
def _library() -> Any:
    """Import the library."""
    # It would print messages about damaged files, which become errors that name the sample.
    os.environ.setdefault("PYNVIMGCODEC_VERBOSITY", "0")
    return optional_import.import_extra(_PACKAGE, "nvimgcodec", _NEEDED_FOR)


@cache
def _parameters(gray: bool) -> Any:
    library = _library()
    return library.DecodeParams(
        apply_exif_orientation=False, color_spec=library.ColorSpec.GRAY if gray else library.ColorSpec.SRGB
    )


def _decoder(fast_idct: bool) -> Any:
    """Return the decoder of this thread. It decodes on the calling thread, as simplejpeg does."""
    name = "fast" if fast_idct else "exact"
    decoder = getattr(_PER_THREAD, name, None)
    if decoder is None:
        library = _library()
        decoder = library.Decoder(
            device_id=library.NVIMGCODEC_DEVICE_CPU_ONLY,
            max_num_cpu_threads=1,
            backends=[library.Backend(library.BackendKind.CPU_ONLY)],
            options=f":fancy_upsampling=1 :fast_idct={int(fast_idct)}",
        )
        setattr(_PER_THREAD, name, decoder)
    return decoder
