"""What Pillow may open, and what is made of it."""

import io
import struct
import subprocess
import zlib

import numpy as np
import pytest
from PIL import EpsImagePlugin, Image, PpmImagePlugin

from penstock import types
from penstock.image.codecs import tiff_messages
from penstock.image.codecs.image_codec import ImageCodec
from penstock.image.codecs.pillow import FORMATS

PIXELS = np.random.default_rng(1).integers(0, 256, (12, 20, 3), np.uint8)
EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n%%EOF\n"


def encode(kind, mode="RGB", **options):
    file = io.BytesIO()
    Image.fromarray(PIXELS).convert(mode).save(file, kind, **options)
    return np.frombuffer(file.getvalue(), np.uint8)


def decode(data, output_type=types.RGB):
    decoder = ImageCodec(output_type)
    return decoder.decode(data, decoder.header(data))


@pytest.mark.parametrize("before", [b"", b"\xc5\xd0\xd3\xc6" + (32).to_bytes(4, "little") + bytes(24)])
def test_no_program_is_started_for_postscript(monkeypatch, before):
    def refuse(*arguments, **options):
        raise AssertionError(f"a program is started: {arguments}")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", refuse)
    with pytest.raises(ValueError, match="not an image of a known format"):
        decode(np.frombuffer(before + EPS, np.uint8))


@pytest.mark.parametrize(("data", "named"), [(b"photos/1.JPG", True), (b"photos/1", False), (b"\0.png", False)])
def test_names_of_files_are_not_their_contents(data, named):
    message = r"the text 'photos/1.JPG': text is read as its bytes; pass pathlib.Path" if named else "known format"
    with pytest.raises(ValueError, match=message):
        decode(np.frombuffer(data, np.uint8))


@pytest.mark.parametrize("kind", ["GIF", "ICO", "TGA", "PCX"])
def test_no_format_is_read_that_is_not_promised(kind):
    with pytest.raises(ValueError, match=f"not an image of a known format .{', '.join(FORMATS)}"):
        decode(encode(kind))


@pytest.mark.parametrize("kind", FORMATS)
def test_all_formats_that_are_promised_are_read(kind):
    assert decode(encode(kind)).shape == (12, 20, 3)


@pytest.mark.parametrize(
    ("mode", "options", "channels"),
    [
        ("1", {}, 1),
        ("L", {}, 1),
        ("L", {"transparency": 3}, 1),
        ("LA", {}, 2),
        ("P", {}, 3),
        ("P", {"transparency": 3}, 3),
        ("P", {"transparency": bytes(range(256))}, 3),
        ("RGB", {}, 3),
        ("RGB", {"transparency": (1, 2, 3)}, 3),
        ("RGBA", {}, 4),
    ],
)
def test_any_data_has_the_channels_that_are_stored(mode, options, channels):
    data = encode("PNG", mode, **options)
    assert ImageCodec(types.ANY_DATA).header(data).channels == channels
    pixels = decode(data, types.ANY_DATA)
    assert pixels.shape == (12, 20, channels)
    if channels == 3:
        assert np.array_equal(pixels, decode(data))


def bmp(indices, levels, depth):
    """Return an uncompressed BMP whose palette has these gray levels."""
    height, width = indices.shape
    bits = np.unpackbits(indices[::-1, :, None], axis=2)[..., -depth:].reshape(height, -1)
    rows = np.packbits(np.pad(bits, ((0, 0), (0, -bits.shape[1] % 32))), axis=1)
    header = struct.pack("<IiiHHIIiiII", 40, width, height, 1, depth, 0, rows.size, 0, 0, len(levels), 0)
    content = header + b"".join(bytes([level] * 3 + [0]) for level in levels) + rows.tobytes()
    start = 54 + 4 * len(levels)
    return np.frombuffer(b"BM" + struct.pack("<IHHI", 14 + len(content), 0, 0, start) + content, np.uint8)


@pytest.mark.parametrize(
    ("depth", "levels"),
    [(1, (0, 255)), (1, (255, 0)), (4, (0, 255)), (4, range(16)), (8, (0, 255)), (8, (255, 0)), (8, range(256))],
)
def test_bmps_with_gray_palettes_are_gray(levels, depth):
    indices = np.random.default_rng(2).integers(0, len(levels), (5, 11), np.uint8)
    data, expected = bmp(indices, levels, depth), np.array(levels, np.uint8)[indices][..., None]
    assert np.array_equal(decode(data), expected.repeat(3, axis=2))
    assert np.array_equal(decode(data, types.GRAY), expected)
    assert ImageCodec(types.ANY_DATA).header(data).channels == 1
    assert np.array_equal(decode(data, types.ANY_DATA), expected)


def tiff(width, height, tags, strips):
    """Return a little-endian TIFF without compression. Tags are tuples of values of two bytes."""
    starts = np.cumsum([8] + [len(strip) for strip in strips]).tolist()
    counts = [len(strip) for strip in strips]
    tags = tags | {256: (width,), 257: (height,), 259: (1,), 273: starts[:-1], 278: (height,), 279: counts}
    directory, place = struct.pack("<H", len(tags)), starts[-1] + 2 + 12 * len(tags) + 4
    values = b""
    for tag in sorted(tags):
        value = struct.pack(f"<{len(tags[tag])}H", *tags[tag])
        if len(value) > 4:
            value, values = struct.pack("<I", place + len(values)), values + value
        directory += struct.pack("<HHI", tag, 3, len(tags[tag])) + value.ljust(4, b"\0")
    content = b"II*\0" + struct.pack("<I", starts[-1]) + b"".join(strips) + directory + bytes(4) + values
    return np.frombuffer(content, np.uint8)


def test_tiffs_with_12_bits_have_the_full_range():
    # Values of 12 bits follow each other without gaps: 0x000, 0x123, 0xFFF, 0x800.
    data = tiff(4, 1, {258: (12,), 262: (1,), 277: (1,)}, [bytes([0x00, 0x01, 0x23, 0xFF, 0xF8, 0x00])])
    assert decode(data, types.GRAY).ravel().tolist() == [0, 0x1230, 0xFFF0, 0x8000]


def test_tiffs_with_a_plane_per_sample_have_the_same_pixels_as_others():
    values = np.random.default_rng(3).integers(0, 1 << 16, (6, 8, 3)).astype("<u2")
    tags = {258: (16, 16, 16), 262: (2,), 277: (3,)}
    data = tiff(8, 6, tags | {284: (2,)}, [values[..., plane].tobytes() for plane in range(3)])
    assert np.array_equal(decode(data), decode(tiff(8, 6, tags, [values.tobytes()])))


@pytest.mark.parametrize(
    ("bits", "more"),
    [(8, {}), (16, {}), (8, {338: (1,)}), (8, {338: (2,)}), (8, {338: (1, 0)}), (8, {338: (2, 0, 0)})],
)
def test_planes_of_a_tiff_with_alpha_are_those_that_are_stored(bits, more):
    samples = 3 + len(more.get(338, (0,)))
    values = np.random.default_rng(3).integers(0, 1 << bits, (6, 8, samples)).astype(f"<u{bits // 8}")
    tags = {258: (bits,) * samples, 262: (2,), 277: (samples,), 284: (2,)} | more
    data = tiff(8, 6, tags, [values[..., plane].tobytes() for plane in range(samples)])
    assert np.array_equal(decode(data, types.ANY_DATA), values[..., :4] >> (bits - 8))


@pytest.mark.parametrize(
    ("bits", "white_is_zero"), [(1, True), (1, False), (4, False), (8, True), (8, False), (16, False)]
)
def test_the_plane_of_a_gray_tiff_is_decoded_like_its_pixels(bits, white_is_zero):
    content = np.random.default_rng(3).integers(0, 256, 6 * bits, np.uint8).tobytes()
    tags = {258: (bits,), 262: (0 if white_is_zero else 1,), 277: (1,)}
    pixels = decode(tiff(8, 6, tags, [content]), types.GRAY)
    assert np.array_equal(decode(tiff(8, 6, tags | {284: (2,)}, [content]), types.GRAY), pixels)


@pytest.mark.parametrize(("photometric", "samples"), [(1, 2), (2, 4), (2, 5)])
@pytest.mark.parametrize("alpha", [1, 2])
def test_colors_with_associated_alpha_are_those_that_are_stored(photometric, samples, alpha):
    values = np.random.default_rng(3).integers(0, 256, (6, 8, samples), np.uint8)
    tags = {258: (8,) * samples, 262: (photometric,), 277: (samples,), 338: (alpha, 0)[: max(1, samples - 3)]}
    assert np.array_equal(decode(tiff(8, 6, tags, [values.tobytes()]), types.ANY_DATA), values[..., :4])


@pytest.mark.parametrize(
    ("tags", "message"),
    [
        ({258: (16, 16), 277: (2,), 338: (2,)}, "a TIFF that is .*samples=2, bits=16, unsigned"),
        ({258: (32, 32, 32), 262: (2,), 277: (3,), 339: (3, 3, 3)}, "a TIFF that is .*samples=3, bits=32, float"),
        ({258: (8,), 339: (2,)}, "images with signed 8-bit pixels cannot be decoded"),
        ({258: (16,), 339: (2,)}, "images with signed 16-bit pixels cannot be decoded"),
        ({258: (8, 8), 277: (2,), 284: (2,), 338: (2,)}, "alpha of a gray TIFF with a plane per sample"),
    ],
)
def test_the_kind_of_a_tiff_that_cannot_be_decoded_is_in_the_error(tags, message):
    data = tiff(4, 4, {262: (1,), 277: (1,)} | tags, [bytes(256)])
    with pytest.raises(ValueError, match=message):
        decode(data, types.ANY_DATA)


def test_the_bits_of_a_jpeg_that_cannot_be_decoded_are_in_the_error():
    data = encode("JPEG").copy()
    data[ImageCodec().header(data).frame + 4] = 12
    with pytest.raises(ValueError, match=r"a JPEG that is .*12 bits per sample"):
        decode(data)


XMP = (
    b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">'
    b'<rdf:Description tiff:Orientation="6" xmlns:tiff="http://ns.adobe.com/tiff/1.0/"/></rdf:RDF></x:xmpmeta>'
)


@pytest.mark.parametrize(
    ("kind", "options"), [("JPEG", {"xmp": XMP}), ("WEBP", {"xmp": XMP}), ("TIFF", {"tiffinfo": {700: XMP}})]
)
def test_only_exif_data_turn_an_image(kind, options):
    assert decode(encode(kind, **options)).shape == (12, 20, 3)


def test_a_png_is_turned_by_exif_data_after_its_pixels():
    exif = Image.Exif()
    exif[0x0112] = 6
    data = encode("PNG", exif=exif).tobytes()
    start = data.index(b"eXIf") - 4
    end = start + 12 + int.from_bytes(data[start : start + 4], "big")
    chunk, rest = data[start:end], data[:start] + data[end:]
    late = np.frombuffer(rest[:-12] + chunk + rest[-12:], np.uint8)
    assert late.tobytes().index(b"eXIf") > late.tobytes().index(b"IDAT")
    assert ImageCodec().header(late)[:2] == (20, 12)
    assert np.array_equal(decode(late), np.rot90(PIXELS, -1))


@pytest.mark.parametrize("largest", [1, 15, 100, 254, 256, 4095, 65534, 65535])
@pytest.mark.parametrize(("magic", "channels"), [(b"P5", 1), (b"P6", 3)])
def test_values_of_pnm_files_are_scaled_like_those_of_pillow(magic, channels, largest):
    # The last value is larger than the header allows.
    values = np.linspace(0, largest, 13 * 20 * channels).astype(np.uint16)
    values[-1] = min(largest + 1, 255 if largest < 256 else 65535)
    content = values.astype(np.uint8 if largest < 256 else ">u2").tobytes()
    file = magic + b" # text\n20 13\n%d\n" % largest + content
    expected = np.asarray(Image.open(io.BytesIO(file))).reshape(13, 20, channels)
    result = decode(np.frombuffer(file, np.uint8), types.ANY_DATA)
    assert np.array_equal(result, expected)
    assert result.dtype == (np.uint16 if channels == 1 and largest > 255 else np.uint8)
    with pytest.raises(ValueError, match="truncated"):
        decode(np.frombuffer(file[:-1], np.uint8), types.ANY_DATA)


@pytest.mark.parametrize(("magic", "largest"), [("P1", 1), ("P2", 255), ("P2", 1000), ("P3", 100)])
def test_the_numbers_of_plain_pnm_files_are_read_at_once(magic, largest, monkeypatch):
    values = np.arange(7 * 5 * (3 if magic == "P3" else 1)) % (largest + 1)
    text = " \r\n".join(map(str, values.tolist()))
    head = f"{magic} 7 5 " + ("" if magic == "P1" else f"{largest} ")
    data, damaged = ((head + content).encode() for content in (text, text[:-2]))
    expected = np.asarray(Image.open(io.BytesIO(data)).convert("L") if magic == "P1" else Image.open(io.BytesIO(data)))
    with pytest.raises(ValueError, match="not enough image data"):
        decode(np.frombuffer(damaged, np.uint8), types.ANY_DATA)
    with_comment = decode(np.frombuffer(data.replace(b"\r\n", b"# text\n", 1), np.uint8), types.ANY_DATA)
    monkeypatch.setattr(PpmImagePlugin.PpmPlainDecoder, "decode", None)
    result = decode(np.frombuffer(data, np.uint8), types.ANY_DATA)
    assert np.array_equal(result[..., 0] if magic != "P3" else result, expected)
    assert np.array_equal(result, with_comment)
    assert result.dtype == (np.uint16 if largest == 1000 else np.uint8)


def png_chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + zlib.crc32(kind + content).to_bytes(4, "big")


def test_a_png_of_gray_with_alpha_has_two_channels_with_16_bits_too():
    values = np.random.default_rng(5).integers(0, 1 << 16, (3, 4, 2)).astype(">u2")
    header = png_chunk(b"IHDR", struct.pack(">IIBBBBB", 4, 3, 16, 4, 0, 0, 0))
    rows = zlib.compress(b"".join(b"\0" + row.tobytes() for row in values))
    data = np.frombuffer(b"\x89PNG\r\n\x1a\n" + header + png_chunk(b"IDAT", rows) + png_chunk(b"IEND", b""), np.uint8)
    assert ImageCodec(types.ANY_DATA).header(data).channels == 2
    assert np.array_equal(decode(data, types.ANY_DATA), values >> 8)


LARGE = zlib.compress(bytes(1 << 21))


@pytest.mark.parametrize(
    "chunk",
    [
        png_chunk(b"zTXt", b"a\0\0" + LARGE),
        png_chunk(b"iTXt", b"XML:com.adobe.xmp\0\1\0\0\0" + LARGE),
        png_chunk(b"iCCP", b"a\0\0" + LARGE),
        png_chunk(b"tEXt", b"a\0b")[:-1] + b"?",
    ],
    ids=["text", "XMP", "profile", "checksum"],
)
def test_metadata_of_a_png_do_not_matter(chunk):
    exif = Image.Exif()
    exif[0x0112] = 6
    file = encode("PNG", exif=exif).tobytes()
    for place in (33, file.index(b"eXIf") - 4, len(file) - 12):
        data = np.frombuffer(file[:place] + chunk + file[place:], np.uint8)
        assert ImageCodec().header(data)[:2] == (20, 12)
        assert np.array_equal(decode(data), np.rot90(PIXELS, -1))


def test_chunks_that_hold_pixels_are_checked():
    file = encode("PNG").tobytes()
    for place in (20, file.index(b"IDAT") + 60):
        damaged = file[:place] + bytes([file[place] ^ 1]) + file[place + 1 :]
        data = np.frombuffer(damaged[:33] + png_chunk(b"tEXt", b"a\0b") + damaged[33:], np.uint8)
        with pytest.raises(ValueError, match=r"damaged|not an image"):
            decode(data)


def test_messages_of_libtiff_are_in_the_error_and_not_printed(capfd):
    if not tiff_messages._install():
        pytest.skip("Pillow's libtiff cannot be reached on this system")
    data = encode("TIFF", compression="tiff_lzw").copy()
    data[200:500] ^= 0x55
    with pytest.raises(ValueError, match=r"damaged: .* \(libtiff: Using code not yet in table"):
        decode(data)
    assert capfd.readouterr().err == ""
    with pytest.raises(OSError, match="decoder error"):  # Pillow without Penstock: as before
        Image.open(io.BytesIO(data.tobytes())).load()
    assert "Using code not yet in table" in capfd.readouterr().err
