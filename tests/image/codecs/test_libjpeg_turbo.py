"""Headers of JPEGs: where EXIF data may stand, and what is left to Pillow."""

import io
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mutations import MUTATIONS, mutated
from PIL import Image

from penstock import types
from penstock.image.codecs import jpeg_header_loop as loop
from penstock.image.codecs.image_codec import ImageCodec
from penstock.image.codecs.image_header import ALL_ROWS, COLUMNS, MAX_PIXELS, ImageHeaders
from penstock.image.codecs.jpeg_header import read_header, read_headers
from penstock.native.argument_block import address
from penstock.native.array_fields import FIELDS, references
from penstock.operators.decoders.image import DecodeImage

FILE = io.BytesIO()
Image.fromarray(np.random.default_rng(1).integers(0, 256, (12, 20, 3), np.uint8)).save(FILE, "JPEG")
BYTES = FILE.getvalue()
FILE = io.BytesIO()
Image.fromarray(np.random.default_rng(2).integers(0, 256, (9, 5), np.uint8)).save(FILE, "JPEG")
GRAY = FILE.getvalue()
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


BARE = [bytes([0xFF, marker]) for marker in (0x00, 0x01, 0xD0, 0xD7, 0xD8, 0xD9)]


@pytest.mark.parametrize("place", [2, AFTER_JFIF, SCAN])
@pytest.mark.parametrize("marker", BARE, ids=bytes.hex)
def test_markers_without_a_length_leave_a_file_to_pillow(marker, place):
    # libjpeg passes over some of them. Other bytes must not count as the length: they could hide another frame header.
    files = [inserted(place, marker + segment(0xFE, BYTES[FRAME : FRAME + 19])[2:])] * 16
    assert [alone(data, types.RGB, True) for data in files] == together(files, types.RGB, True) == [None] * 16


@pytest.mark.parametrize("kind", [0xC3, 0xC5, 0xC6, 0xC7, 0xCB, 0xCD, 0xCF])
def test_lossless_and_hierarchical_frames_are_left_to_pillow(kind):
    # libjpeg-turbo writes lossless pixels in their full size, also where it is told to reduce them.
    data = np.frombuffer(BYTES[: FRAME + 1] + bytes([kind]) + BYTES[FRAME + 2 :], np.uint8)
    assert [alone(data, types.RGB, True)] * 16 == together([data] * 16, types.RGB, True) == [None] * 16


def test_a_file_with_two_frame_headers_is_left_to_pillow():
    files = [inserted(SCAN, BYTES[FRAME : FRAME + 19])] * 16
    assert [alone(data, types.RGB, True) for data in files] == together(files, types.RGB, True) == [None] * 16


def test_all_rows_of_several_scans_are_needed():
    progressive = io.BytesIO()
    Image.open(io.BytesIO(BYTES)).save(progressive, "JPEG", progressive=True)
    first_component = BYTES[: SCAN + 2] + b"\0\x08\1\1\0\0\x3f\0" + BYTES[SCAN + 14 :]
    for content in (progressive.getvalue(), first_component):
        data = np.frombuffer(content, np.uint8)
        assert alone(data, types.RGB, True).below == ALL_ROWS
        assert together([data] * 16, types.RGB, True)[0].below == ALL_ROWS


def test_a_file_that_is_larger_than_its_header_says_is_not_reduced_to_fit():
    file = io.BytesIO()
    Image.fromarray(np.zeros((12, 20), np.uint8)).save(file, "JPEG")
    data, codec = np.frombuffer(file.getvalue(), np.uint8), ImageCodec()
    half = codec.header(data)._replace(height=6, width=10)
    with pytest.raises(ValueError, match="damaged"):
        codec.decode(data, half, np.empty(60 * 3, np.uint8))
    headers = ImageHeaders.of([half])
    assert [*codec.direct_decoding([data], headers, headers.whole)([np.empty(60 * 3, np.uint8)], range(1))] == [0]


def alone(data, output_type, adjust):
    try:
        return read_header(data, output_type, adjust)
    except ValueError:
        return None


def damaged(count, seed):
    """Files with bytes changed, most of them in the header."""
    rng = random.Random(seed)
    stripped = BYTES[:2] + segment(0xE1, exif(6)[4:]) + BYTES[FRAME:]
    originals = [BYTES, GRAY, inserted(2, exif(6)).tobytes(), inserted(SCAN, exif(8, "little")).tobytes(), stripped]
    files = [rng.choice(originals) for _ in range(count)]
    ends = [rng.choice((len(file), file.index(b"\xff\xda") + 4)) for file in files]
    return [
        np.frombuffer(mutated(file[:end], rng) + file[end:], np.uint8) for file, end in zip(files, ends, strict=True)
    ]


def together(files, output_type, adjust):
    rows = read_headers(files, output_type, adjust).numbers
    return [next(iter(ImageHeaders(row[None]))) if row.any() else None for row in rows]


@pytest.mark.parametrize("adjust", [True, False])
@pytest.mark.parametrize("output_type", [types.RGB, types.GRAY, types.ANY_DATA])
def test_headers_read_together_are_those_read_alone(output_type, adjust):
    files = damaged(MUTATIONS, 3)
    expected = [alone(data, output_type, adjust) for data in files]
    assert together(files, output_type, adjust) == expected
    assert len({header.orientation for header in expected if header}) == (3 if adjust else 1)
    assert MUTATIONS // 10 < sum(header is None for header in expected) < MUTATIONS


@given(st.lists(st.binary(max_size=60) | st.binary(max_size=40).map(lambda tail: BYTES[:SCAN] + tail), min_size=16))
def test_headers_of_any_bytes_are_those_read_alone(contents):
    files = [np.frombuffer(content, np.uint8) for content in contents]
    assert together(files, types.RGB, True) == [alone(data, types.RGB, True) for data in files]


@pytest.mark.parametrize("end", [0, 3, FRAME + 17, FRAME + 18, SCAN + 3, SCAN + 4])
def test_headers_of_files_that_end_early_are_those_read_alone(end):
    files = [np.frombuffer(BYTES[:end], np.uint8)] * 16
    assert together(files, types.RGB, True) == [alone(data, types.RGB, True) for data in files]


def test_the_uncompiled_loop_finds_the_same():
    files, window, fields = damaged(60, 5), np.empty(loop.WINDOW, np.uint8), np.empty(FIELDS, np.int64)
    operands = references(files), 0, fields, address(fields), window, address(window)
    headers, exif = np.zeros((2, 60, len(COLUMNS)), np.int64), np.zeros((2, 60, 2), np.int64)
    loop.scan_jpegs(*operands, headers[0], exif[0])
    loop.scan_jpegs.python_function(*operands, headers[1], exif[1])
    assert np.array_equal(*headers)
    assert np.array_equal(*exif)
    assert headers.any()
    assert exif.any()


def test_bytes_that_are_not_contiguous_are_left_to_the_parser_of_one_file():
    spread = np.repeat(np.frombuffer(BYTES, np.uint8), 2)[::2]
    assert together([spread] * 16, types.RGB, True) == [None] * 16


@pytest.mark.parametrize("count", [1, 40])
def test_the_first_file_that_is_no_image_is_an_error(count):
    files = [np.frombuffer(BYTES, np.uint8)] * (count - 1) + [np.zeros(9, np.uint8)]
    with pytest.raises(ValueError, match="known format"):
        ImageCodec().headers(files)
    decoder = DecodeImage(ImageCodec(), np.dtype(np.uint8), reduced=False, max_size=(12, 19))
    with pytest.raises(ValueError, match="the image is 12 x 20, larger than max_size"):
        decoder.read_headers([np.frombuffer(BYTES, np.uint8)] * count)


def test_too_many_pixels_are_refused_by_the_header():
    data = np.frombuffer(BYTES, np.uint8).copy()
    data[FRAME + 5 : FRAME + 9] = 255
    with pytest.raises(ValueError, match=f"65535 x 65535 pixels, more than the {MAX_PIXELS}"):
        ImageCodec().header(data)
