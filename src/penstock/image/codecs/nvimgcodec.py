"""Parts of JPEGs by nvImageCodec, on the CPU: it computes no pixels outside of a region."""

from __future__ import annotations

import importlib.util
import math
import os
import threading
from functools import cache
from typing import Any

import numpy as np

from penstock.core import optional_import
from penstock.core.columns import Array
from penstock.errors import MissingExtraError
from penstock.image.codecs.image_header import ImageHeader, Region
from penstock.image.codecs.output_channels import ycbcr
from penstock.types import BGR, DALIImageType, YCbCr

_PACKAGE = "nvidia.nvimgcodec"
_NEEDED_FOR = 'a decoder with backend="nvimgcodec"'

_LEAST_COLUMNS = 16
"""Narrower regions are widened: nvImageCodec 0.9 gives one column of an image with 4:2:0 other colours."""

_PER_THREAD = threading.local()
"""Decoders. One serves one thread; several at once break it."""


def installed() -> bool:
    """Whether the package is there."""
    try:
        return importlib.util.find_spec(_PACKAGE) is not None
    except ModuleNotFoundError:  # not even the package around it
        return False


def check_installed() -> None:
    """Refuse the backend where its package is missing.

    Raises:
        MissingExtraError: it is.
    """
    if not installed():
        raise MissingExtraError(_PACKAGE, "nvimgcodec", _NEEDED_FOR)


def region_to_decode(region: Region, width: int) -> Region:
    """What is decoded where a region of a stored image of this width is needed."""
    top, bottom, left, right = region
    if right - left < _LEAST_COLUMNS:
        right = min(left + _LEAST_COLUMNS, width)
        left = max(right - _LEAST_COLUMNS, 0)
    return Region(top, bottom, left, right)


def decode(
    data: Array, header: ImageHeader, output_type: DALIImageType, fast_idct: bool, region: Region, memory: Array | None
) -> Array | None:
    """The stored pixels of a region; None if the data are damaged.

    Args:
        data: the bytes of a JPEG.
        header: its header.
        output_type: the output type.
        fast_idct: whether to use libjpeg's faster, less accurate transform.
        region: where the pixels are stored, as `part` gave it.
        memory: where the pixels may be written: uint8, C-contiguous, large enough.
    """
    library = _library()
    top, bottom, left, right = region
    shape = (bottom - top, right - left, header.channels)
    out = np.empty(shape, np.uint8) if memory is None else memory.reshape(-1)[: math.prod(shape)].reshape(shape)
    try:
        stream = library.CodeStream(data).get_sub_code_stream(region=library.Region(top, left, bottom, right))
        into = library.as_image(out)  # an image of nvImageCodec's own would have to be copied
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
    """The library, silent about damaged files: they are reported by other means."""
    os.environ.setdefault("PYNVIMGCODEC_VERBOSITY", "0")
    return optional_import.import_extra(_PACKAGE, "nvimgcodec", _NEEDED_FOR)


@cache
def _parameters(grey: bool) -> Any:
    library = _library()
    return library.DecodeParams(
        apply_exif_orientation=False, color_spec=library.ColorSpec.GRAY if grey else library.ColorSpec.SRGB
    )


def _decoder(fast_idct: bool) -> Any:
    """This thread's decoder, which computes on this thread, as simplejpeg does."""
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
