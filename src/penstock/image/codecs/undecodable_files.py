"""Errors about files of known formats that cannot be decoded."""

import io
from typing import TYPE_CHECKING, Any, cast

from penstock.core import Array
from penstock.image.codecs import jpeg_header
from penstock.types import ANY_DATA, RGB, DALIImageType

if TYPE_CHECKING:
    from PIL import Image

# The first bytes of files, per format.
_SIGNATURES = {
    b"\xff\xd8\xff": "JPEG",
    b"\x89PNG\r\n\x1a\n": "PNG",
    b"BM": "BMP",
    b"II*\0": "TIFF",
    b"MM\0*": "TIFF",
    b"II+\0": "TIFF",
    b"MM\0+": "TIFF",
    b"\0\0\0\x0cjP  ": "JPEG 2000 file",
    b"\xff\x4f\xff\x51": "JPEG 2000 codestream",
}

# Bytes and endings of the names of image files, which users pass in place of the contents.
_MAX_NAME = 4096
_SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".webp", ".ppm", ".pgm", ".pbm", ".jp2")

# Tags of TIFFs.
_BITS, _COMPRESSION, _PHOTOMETRIC, _SAMPLES, _PLANAR, _FORMAT = 258, 259, 262, 277, 284, 339

# Sample formats of TIFFs.
_UNSIGNED, _SIGNED = 1, 2
_FORMATS = {_UNSIGNED: "unsigned", _SIGNED: "signed", 3: "float", 5: "complex", 6: "complex float"}


def check_pixels(image: "Image.Image", output_type: DALIImageType) -> None:
    """Reject an open image whose pixels Pillow would decode to other values.

    Raises:
        ValueError: Its white level is unknown, or it has an alpha channel that Pillow loses.
    """
    tags: Any = cast(Any, image).tag_v2 if image.format == "TIFF" else {}
    signed = _SIGNED in tags.get(_FORMAT, ())
    # The mode of PGMs with 16 bits is I, too.
    if image.mode == "F" or (image.mode == "I" and tags) or signed:
        bits = f"{'signed ' if signed else ''}{tags.get(_BITS, (8,))[0]}-bit"
        kind = "float" if image.mode == "F" else bits
        raise ValueError(f"images with {kind} pixels cannot be decoded: their white level is unknown")
    if output_type is ANY_DATA and image.mode == "LA" and tags.get(_PLANAR) == 2:
        raise ValueError(
            "the alpha of a gray TIFF with a plane per sample cannot be decoded: use types.GRAY or types.RGB"
        )


def describe(data: Array) -> str | None:
    """Describe a file that Pillow does not open; None if its format is unknown."""
    if text := _file_name(data):
        return f"the bytes are the text {text!r}: text is read as its bytes; pass pathlib.Path for the file's contents"
    start = data[:8].tobytes()
    name = next((name for signature, name in _SIGNATURES.items() if start.startswith(signature)), None)
    details = _tiff_details(data) if name == "TIFF" else _jpeg_details(data) if name == "JPEG" else ""
    advice = "If other programs read it, convert it to PNG"
    return name and f"a {name} that is damaged or of a kind that cannot be decoded{details}. {advice}"


def _file_name(data: Array) -> str:
    """Return the name of an image file if the bytes are one; otherwise ""."""
    name = data.tobytes().decode("utf-8", "replace") if data.size <= _MAX_NAME else ""
    return name if name.isprintable() and name.lower().endswith(_SUFFIXES) else ""


def _jpeg_details(data: Array) -> str:
    header = jpeg_header.read_header(data, RGB, adjust=False)
    # The precision comes before the size.
    return f" ({data[header.frame + 4]} bits per sample)" if header else ""


def _tiff_details(data: Array) -> str:
    from PIL import TiffImagePlugin  # noqa: PLC0415  # Pillow is imported late

    file = io.BytesIO(data.tobytes())
    try:
        # The header of BigTIFFs has twice the length.
        tags: Any = TiffImagePlugin.ImageFileDirectory_v2(file.read(16 if b"+" in data[:4].tobytes() else 8))
        file.seek(tags.next)
        tags.load(file)
        if not tags:
            return ""
        bits = tags.get(_BITS, (1,))
        form = tags.get(_FORMAT, (_UNSIGNED,))[0]
        return (
            f" (samples={tags.get(_SAMPLES, len(bits))}, bits={bits[0]}, {_FORMATS.get(form, 'unknown values')}, "
            f"compression={tags.get(_COMPRESSION, 1)}, photometric={tags.get(_PHOTOMETRIC)}, "
            f"planar={tags.get(_PLANAR, 1)}, {'big' if data[0] == ord('M') else 'little'}-endian)"
        )
    except Exception:  # noqa: BLE001  # tags that cannot be read are not described
        return ""
