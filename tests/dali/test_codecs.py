"""What images of rare kinds become: channels, sizes and orientations, as DALI on the CPU has them."""

import io

import numpy as np
import pytest
from PIL import Image, PngImagePlugin

from penstock import Pipeline, fn, types
from penstock.errors import SampleError

RNG = np.random.default_rng(7)
PIXELS = RNG.integers(0, 256, (17, 23, 3), np.uint8)
TURNED = Image.Exif()
TURNED[0x0112] = 6
XMP = (
    b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">'
    b'<rdf:Description tiff:Orientation="6" xmlns:tiff="http://ns.adobe.com/tiff/1.0/"/></rdf:RDF></x:xmpmeta>'
)


def encode(kind, mode="RGB", **options):
    file = io.BytesIO()
    image = Image.fromarray(PIXELS).convert(mode)
    if mode in ("LA", "RGBA"):
        image.putalpha(Image.fromarray(PIXELS[::-1, :, 1].copy()))
    image.save(file, kind, **options)
    return np.frombuffer(file.getvalue(), np.uint8)


def with_exif(place):
    """A JPEG whose EXIF data begin at a place, or behind three long comments."""
    data, exif = encode("JPEG").tobytes(), TURNED.tobytes()
    exif = exif if exif.startswith(b"Exif") else b"Exif\0\0" + exif
    segment = b"\xff\xe1" + (len(exif) + 2).to_bytes(2, "big") + exif
    comments = 3 * (b"\xff\xfe" + (60_002).to_bytes(2, "big") + bytes(60_000)) if place == "far" else b""
    at = {"frame": data.index(b"\xff\xc0"), "scan": data.index(b"\xff\xda")}.get(place, 20)
    return np.frombuffer(data[:at] + comments + segment + data[at:], np.uint8)


def png_with_xmp():
    info = PngImagePlugin.PngInfo()
    info.add_itxt("XML:com.adobe.xmp", XMP.decode())
    return encode("PNG", pnginfo=info)


ALPHA = {
    "palette": encode("PNG", "P"),
    "palette, one index clear": encode("PNG", "P", transparency=3),
    "palette, alpha": encode("PNG", "P", transparency=bytes(range(256))),
    "grey, one value clear": encode("PNG", "L", transparency=9),
    "RGB, one colour clear": encode("PNG", transparency=(1, 2, 3)),
    "RGBA": encode("PNG", "RGBA"),
    "TIFF, RGBA": encode("TIFF", "RGBA"),
    "TIFF, CMYK": encode("TIFF", "CMYK"),
}
GREY_ALPHA = {"PNG": encode("PNG", "LA"), "TIFF": encode("TIFF", "LA")}
ORIENTATIONS = {
    "JPEG, XMP": encode("JPEG", xmp=XMP),
    "WebP, XMP": encode("WEBP", lossless=True, xmp=XMP),
    "PNG, XMP": png_with_xmp(),
    "WebP, EXIF": encode("WEBP", exif=TURNED),
} | {f"JPEG, EXIF {place}": with_exif(place) for place in ("first", "frame", "scan", "far")}


@pytest.mark.parametrize("kind", ["RGB", "GRAY", "ANY_DATA"])
@pytest.mark.parametrize("name", ALPHA | ORIENTATIONS)
def test_channels_and_orientations(agree, name, kind):
    data = [(ALPHA | ORIENTATIONS)[name]]
    agree(lambda d, x: d.fn.decoders.image(x, output_type=getattr(d.types, kind)), data, off=1)
    agree(lambda d, x: d.fn.peek_image_shape(x, image_type=getattr(d.types, kind)), data)


@pytest.mark.parametrize("name", GREY_ALPHA)
def test_grey_with_alpha_has_two_channels(agree, name):
    data = [GREY_ALPHA[name]]
    agree(lambda d, x: d.fn.peek_image_shape(x, image_type=d.types.ANY_DATA), data)
    agree(lambda d, x: d.fn.decoders.image(x, output_type=d.types.GRAY), data)
    if name == "TIFF":  # DALI 2.4 cannot decode such a PNG
        agree(lambda d, x: d.fn.decoders.image(x, output_type=d.types.ANY_DATA), data)


def test_cmyk_is_peeked_with_four_channels(agree):
    agree(lambda d, x: d.fn.peek_image_shape(x, image_type=d.types.ANY_DATA), [encode("JPEG", "CMYK")])


@pytest.mark.parametrize("kind", ["GIF", "ICO", "TGA"])
def test_formats_that_dali_refuses_are_refused(both, kind):
    with pytest.raises(RuntimeError):
        both(lambda d, x: d.fn.decoders.image(x), [encode(kind)])


def test_bytes_after_an_array(both):
    np.save(file := io.BytesIO(), np.float32([1, 2]))
    data = np.frombuffer(file.getvalue() + b"more", np.uint8)[None]
    with pytest.raises(RuntimeError, match="size"):
        both(lambda lib, x: lib.fn.decoders.numpy(x), data)
    with Pipeline(1) as pipeline:
        pipeline.set_outputs(fn.decoders.numpy(fn.readers.arrays(data), dtype=types.FLOAT, ndim=1))
    with pytest.raises(SampleError, match="4 bytes follow the array"):
        pipeline.run()
