"""Headers of JPEGs: where EXIF data may stand, and what is left to Pillow."""

import io

import numpy as np
import pytest
from PIL import Image

from penstock import types
from penstock.image.codecs.image_codec import ImageCodec
from penstock.image.codecs.image_header import MAX_PIXELS
from penstock.image.codecs.jpeg_header import read_header
from penstock.operators.decoders.image import DecodeImage

FILE = io.BytesIO()
Image.fromarray(np.random.default_rng(1).integers(0, 256, (12, 20, 3), np.uint8)).save(FILE, "JPEG")
BYTES = FILE.getvalue()
FRAME, SCAN = BYTES.index(b"\xff\xc0"), BYTES.index(b"\xff\xda")
AFTER_JFIF = 20


def exif(orientation, order="big"):
    """A segment with nothing but an orientation."""
    numbers = [(42, 2), (8, 4), (1, 2), (0x0112, 2), (3, 2), (1, 4), (orientation, 2), (0, 2), (0, 4)]
    body = b"".join(value.to_bytes(size, order) for value, size in numbers)
    body = b"Exif\0\0" + {"big": b"MM", "little": b"II"}[order] + body
    return segment(0xE1, body)


def segment(marker, body):
    return bytes([0xFF, marker]) + (len(body) + 2).to_bytes(2, "big") + body


def inserted(place, what):
    return np.frombuffer(BYTES[:place] + what + BYTES[place:], np.uint8)


COMMENT = segment(0xFE, b"x" * 60_000)


@pytest.mark.parametrize("order", ["big", "little"])
@pytest.mark.parametrize(
    ("place", "before"),
    [
        (2, b""),
        (AFTER_JFIF, b""),
        (AFTER_JFIF, b"\xff\xff"),
        (AFTER_JFIF, segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0")),
        (AFTER_JFIF, 3 * COMMENT),
        (FRAME, b""),
        (SCAN, b""),
    ],
    ids=["first", "after JFIF", "after fill bytes", "after XMP", "far behind", "before the frame", "before the scan"],
)
def test_exif_data_are_found_before_the_scan(place, before, order):
    data = inserted(place, before + exif(6, order))
    header = ImageCodec().header(data)
    assert (header.height, header.width, header.orientation) == (20, 12, 6)
    assert ImageCodec(adjust_orientation=False).header(data)[:2] == (12, 20)
    upright = ImageCodec().decode(np.frombuffer(BYTES, np.uint8), ImageCodec().header(np.frombuffer(BYTES, np.uint8)))
    assert np.array_equal(ImageCodec().decode(data, header), np.rot90(upright, -1))


@pytest.mark.parametrize("stated", [0, 9, 65535])
def test_an_orientation_that_does_not_exist_turns_nothing(stated):
    assert ImageCodec().header(inserted(2, exif(stated)))[:2] == (12, 20)


@pytest.mark.parametrize("end", range(6, 40, 3))
def test_exif_data_that_end_too_early_turn_nothing(end):
    data = inserted(2, segment(0xE1, exif(6)[4:][:end]))
    assert ImageCodec().header(data)[:2] in {(12, 20), (20, 12)}


@pytest.mark.parametrize("end", [3, 10, FRAME + 4, FRAME + 12, SCAN])
def test_a_header_that_ends_too_early_is_refused(end):
    data = np.frombuffer(BYTES[:end], np.uint8)
    assert read_header(data, types.RGB, True) is None
    with pytest.raises(ValueError, match=r"known format|damaged|truncated"):
        ImageCodec().decode(data, ImageCodec().header(data))


def outcome(read):
    try:
        return read()
    except ValueError as error:
        return str(error)


def test_files_that_begin_alike_have_the_header_that_each_has_alone():
    decoder = DecodeImage(ImageCodec(types.ANY_DATA), np.dtype(np.uint8), reduced=False)
    first = inserted(2, exif(6))
    head = decoder.read_header(first).head
    assert head == len(first) - len(BYTES) + SCAN + 4
    others = [first, first[:head], first[: head - 1], first[:3], inserted(2, exif(3)), np.frombuffer(BYTES, np.uint8)]
    for place in range(len(first) - len(BYTES) + FRAME + 40):
        other = first.copy()
        other[place] ^= 1 << place % 8
        others.append(other)
    for other in others:
        expected = outcome(
            lambda other=other: [decoder.read_header(first), decoder.read_header(other), decoder.read_header(first)]
        )
        assert outcome(lambda other=other: decoder.headers([first, other, first])) == expected


def test_what_begins_alike_is_read_once(monkeypatch):
    decoder, read = DecodeImage(ImageCodec(), np.dtype(np.uint8), reduced=False), []
    header = DecodeImage.read_header
    monkeypatch.setattr(DecodeImage, "read_header", lambda self, data: read.append(1) or header(self, data))
    decoder.headers([np.frombuffer(BYTES, np.uint8)] * 5)
    assert len(read) == 1


def test_too_many_pixels_are_refused_by_the_header():
    data = np.frombuffer(BYTES, np.uint8).copy()
    data[FRAME + 5 : FRAME + 9] = 255
    with pytest.raises(ValueError, match=f"65535 x 65535 pixels, more than the {MAX_PIXELS}"):
        ImageCodec().header(data)
