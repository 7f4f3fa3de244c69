"""The one interface: headers tell what decoding gives, and regions and reductions equal what is cut from the whole."""

import io
import itertools
import re

import numpy as np
import pytest
import simplejpeg
from damaged_images import damaged
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from penstock import types
from penstock.image.codecs import image_codec, libjpeg_turbo, nvimgcodec, turbojpeg
from penstock.image.codecs.image_codec import ImageCodec
from penstock.image.codecs.image_header import ImageHeaders, Region

RNG = np.random.default_rng(3)
OUTPUT_TYPES = [types.RGB, types.BGR, types.GRAY, types.YCbCr, types.ANY_DATA]
WITHOUT_EXTRA = pytest.mark.skipif(not nvimgcodec.installed(), reason="the extra nvimgcodec is not installed")
WITHOUT_LIBRARY = pytest.mark.skipif(not turbojpeg.installed(), reason="libturbojpeg is not installed")
BACKENDS = ["simplejpeg", pytest.param("nvimgcodec", marks=WITHOUT_EXTRA)]
DIRECT_BACKENDS = ["simplejpeg", pytest.param("turbojpeg", marks=WITHOUT_LIBRARY)]


def picture(height, width):
    """Edges and colours everywhere."""
    coarse = RNG.integers(0, 256, (height // 4 + 2, width // 4 + 2, 3), np.uint8)
    return np.asarray(Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC))


def encode(pixels, kind, mode=None, **options):
    file, image = io.BytesIO(), Image.fromarray(pixels)
    (image.convert(mode) if mode else image).save(file, kind, **options)
    return np.frombuffer(file.getvalue(), np.uint8)


def exif(orientation):
    data = Image.Exif()
    data[0x0112] = orientation
    return data


PIXELS = picture(93, 131)
JPEGS = {
    subsampling: np.frombuffer(simplejpeg.encode_jpeg(PIXELS.copy(), 85, "RGB", subsampling), np.uint8)
    for subsampling in ("444", "422", "420", "440", "411")
}
JPEGS["grey"] = encode(PIXELS, "JPEG", "L")
JPEGS["RGB"] = encode(PIXELS, "JPEG", keep_rgb=True)
for name, options in {
    "progressive": {"progressive": True},
    "restarts": {"restart_marker_rows": 1},
    "both": {"progressive": True, "restart_marker_blocks": 5},
}.items():
    JPEGS[name] = encode(PIXELS, "JPEG", subsampling=0, **options)
    JPEGS[f"{name}, 4:2:0"] = encode(PIXELS, "JPEG", **options)
JPEGS |= {f"orientation {number}": encode(PIXELS, "JPEG", exif=exif(number)) for number in range(1, 9)}
JPEGS |= {
    "small": encode(picture(7, 5), "JPEG"),
    "wide": encode(picture(18, 400), "JPEG"),
    "tall": encode(picture(400, 18), "JPEG"),
}
ALPHA = np.dstack([PIXELS, PIXELS[..., :1]])
OTHERS = {
    "PNG": encode(PIXELS, "PNG"),
    "PNG, turned": encode(PIXELS, "PNG", exif=exif(6)),
    "PNG, alpha": encode(ALPHA, "PNG"),
    "PNG, grey and alpha": encode(ALPHA, "PNG", "LA"),
    "PNG, palette": encode(PIXELS, "PNG", "P"),
    "PNG, 16 bits": encode(RNG.integers(0, 65536, (20, 30), np.uint16), "PNG"),
    "BMP": encode(PIXELS, "BMP"),
    "TIFF": encode(PIXELS, "TIFF"),
    "TIFF, turned": encode(PIXELS, "TIFF", exif=exif(8)),
    "WebP": encode(PIXELS, "WEBP", lossless=True),
    "WebP, turned": encode(PIXELS, "WEBP", exif=exif(5)),
    "PPM": encode(PIXELS, "PPM"),
    "PGM": encode(PIXELS, "PPM", "L"),
    "JPEG 2000": encode(PIXELS, "JPEG2000"),
    "CMYK": encode(PIXELS, "JPEG", "CMYK"),
}


@pytest.fixture(autouse=True)
def regions_pay(monkeypatch):
    """Also in pictures as small as these."""
    monkeypatch.setattr(image_codec, "_MIN_PIXELS_SAVED", 0)


def whole(data, decoder=None, reduce=1):
    decoder = decoder or ImageCodec()
    return decoder.decode(data, decoder.header(data), reduce=reduce)


def part(data, decoder, region, reduce=1, memory=None):
    """What lies in a region of the pixels that are decoded for it."""
    header = decoder.header(data)
    top, bottom, left, right = made = decoder.region_to_decode(header, region, reduce)
    pixels = decoder.decode(data, header, memory, made, reduce)
    assert pixels.shape == (bottom - top, right - left, header.channels)
    cut = pixels[region.top - top : region.bottom - top, region.left - left : region.right - left]
    assert cut.shape[:2] == (region.bottom - region.top, region.right - region.left)
    return cut


@st.composite
def regions(draw, height, width):
    top, left = draw(st.integers(0, height - 1)), draw(st.integers(0, width - 1))
    return Region(top, draw(st.integers(top + 1, height)), left, draw(st.integers(left + 1, width)))


@pytest.mark.parametrize("name", JPEGS | OTHERS)
def test_headers_tell_what_decoding_gives(name):
    data = (JPEGS | OTHERS)[name]
    for output_type, adjust in itertools.product(OUTPUT_TYPES, [True, False]):
        decoder = ImageCodec(output_type, adjust)
        header = decoder.header(data)
        pixels = whole(data, decoder)
        assert pixels.shape == (header.height, header.width, header.channels)
        assert pixels.dtype == header.dtype
        assert header.reducible == (name in JPEGS)


@pytest.mark.parametrize("name", [name for name in JPEGS if "orientation" not in name])
def test_jpegs_are_what_simplejpeg_decodes(name):
    data = JPEGS[name]
    assert np.array_equal(whole(data), simplejpeg.decode_jpeg(data, "RGB"))
    assert np.array_equal(whole(data, ImageCodec(types.BGR)), simplejpeg.decode_jpeg(data, "BGR"))
    assert np.array_equal(whole(data, ImageCodec(types.GRAY)), simplejpeg.decode_jpeg(data, "GRAY"))
    assert np.array_equal(whole(data, ImageCodec(fast_idct=True)), simplejpeg.decode_jpeg(data, "RGB", fastdct=True))


@pytest.mark.parametrize("backend", [*BACKENDS, *DIRECT_BACKENDS[1:]])
@pytest.mark.parametrize("name", JPEGS | OTHERS)
@settings(max_examples=8, deadline=None)
@given(
    choice=st.data(),
    output_type=st.sampled_from(OUTPUT_TYPES),
    adjust=st.booleans(),
    fast=st.booleans(),
    use_memory=st.booleans(),
)
def test_regions_equal_the_whole_to_the_bit(name, backend, choice, output_type, adjust, fast, use_memory):
    data, decoder = (JPEGS | OTHERS)[name], ImageCodec(output_type, adjust, fast, backend)
    header = decoder.header(data)
    region = choice.draw(regions(header.height, header.width))
    memory = np.full(header.height * header.width * header.channels, 7, np.uint8) if use_memory else None
    expected = whole(data, decoder)[region.top : region.bottom, region.left : region.right]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(libjpeg_turbo, "_WORTH", 1)
        patch.setattr(image_codec, "_MAX_FRACTION", 1)
        assert np.array_equal(part(data, decoder, region, memory=memory), expected)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["420", "422", "444", "progressive, 4:2:0", "orientation 6"])
def test_narrow_regions_equal_the_whole(name, backend):
    """Where smooth upsampling sees an edge that the whole image does not have."""
    data, decoder = JPEGS[name], ImageCodec(backend=backend)
    expected = whole(data, decoder)
    height, width = expected.shape[:2]
    for size in (1, 2, 3):
        for start in [*range(18), height - size]:
            across = Region(start, start + size, 0, width)
            assert np.array_equal(part(data, decoder, across), expected[start : start + size])
        for start in [*range(18), width - size]:
            along = Region(0, height, start, start + size)
            assert np.array_equal(part(data, decoder, along), expected[:, start : start + size])


@pytest.mark.parametrize("backend", BACKENDS)
@given(st.data())
def test_regions_of_many_files_are_those_of_each(backend, data):
    decoder = ImageCodec(backend=backend)
    headers = [decoder.header(content) for content in (JPEGS | OTHERS).values()]
    reductions = [data.draw(st.sampled_from([1, 2, 4, 8])) if header.reducible else 1 for header in headers]
    pairs = list(zip(headers, reductions, strict=True))
    wanted = [data.draw(regions(-(-header.height // reduce), -(-header.width // reduce))) for header, reduce in pairs]
    expected = [decoder.region_to_decode(header, r, reduce) for (header, reduce), r in zip(pairs, wanted, strict=True)]
    found = decoder.regions_to_decode(ImageHeaders.of(headers), np.array(wanted), np.array(reductions))
    assert [Region(*region) for region in found.tolist()] == expected


@pytest.mark.parametrize("fast_idct", [False, True])
@pytest.mark.parametrize("output_type", OUTPUT_TYPES)
@pytest.mark.parametrize("backend", DIRECT_BACKENDS)
def test_whole_images_are_decoded_into_memory_as_one_by_one(backend, output_type, fast_idct):
    decoder = ImageCodec(output_type, backend=backend, fast_idct=fast_idct)
    contents = JPEGS | OTHERS
    files = [*contents.values(), *[JPEGS[name][:-40] for name in ("420", "grey")]]
    headers = decoder.headers(files)
    memory = [np.empty(size, np.uint8) for size in headers.shapes.prod(axis=1).tolist()]
    rest = decoder.direct_decoding(files, headers, headers.whole)(memory, range(len(files)))
    whole = [number for number in range(len(files)) if number not in rest]
    for number in whole:
        np.testing.assert_array_equal(memory[number], decoder.decode(files[number], headers[number]).ravel())
    # The others are turned, of other formats, or cut short. 4:4:0 and progressive files depend on the version of the
    # system's library.
    left = 7 + 5 * (backend == "turbojpeg")
    assert len(whole) == (0 if output_type is types.YCbCr else len(JPEGS) - left)
    assert max(whole, default=0) < len(JPEGS)


@pytest.mark.parametrize("bottom", [1, 16, 33])
@pytest.mark.parametrize("backend", DIRECT_BACKENDS)
def test_rows_at_the_top_are_decoded_into_memory_as_one_by_one(backend, bottom):
    decoder = ImageCodec(backend=backend)
    files = [*JPEGS.values(), JPEGS["420"][:-40], JPEGS["progressive"][:-40], JPEGS["420"]]
    headers = decoder.headers(files)
    regions = [decoder.region_to_decode(header, Region(0, bottom, 0, header.width)) for header in headers]
    regions[-1] = Region(0, 0, 0, 0)
    memory = [np.empty(r.bottom * header.width * 3, np.uint8) for r, header in zip(regions, headers, strict=True)]
    rest = decoder.direct_decoding(files, headers, np.array(regions))(memory, range(1, len(files)))
    tops = [number for number in range(1, len(files)) if number not in rest]
    for number in tops:
        expected = decoder.decode(files[number], headers[number], None, regions[number])[:bottom]
        np.testing.assert_array_equal(memory[number][: expected.size], expected.ravel())
    assert len([number for number in tops if regions[number].bottom < headers[number].height]) > 5
    assert {len(files) - 3, len(files) - 2, len(files) - 1} <= {*rest}, "cut short, or left out"


@pytest.mark.parametrize("fast_idct", [False, True])
@pytest.mark.parametrize("output_type", OUTPUT_TYPES)
@pytest.mark.parametrize("backend", DIRECT_BACKENDS)
@settings(max_examples=30, deadline=None)
@given(choice=st.data())
def test_regions_are_decoded_into_memory_as_parts_of_the_whole(backend, output_type, fast_idct, choice):
    codec = ImageCodec(output_type, backend=backend, fast_idct=fast_idct)
    files = [*JPEGS.values()]
    headers = codec.headers(files)
    wanted = [choice.draw(regions(header.height, header.width)) for header in headers]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(libjpeg_turbo, "_WORTH", 1)
        made = codec.regions_to_decode(headers, np.array(wanted), np.ones(len(files), np.int64))
    shapes = [(bottom - top, right - left, -1) for top, bottom, left, right in made.tolist()]
    memory = [np.full(h * w * header.channels, 7, np.uint8) for (h, w, _), header in zip(shapes, headers, strict=True)]
    rest = codec.direct_decoding(files, headers, made)(memory, range(len(files)))
    for number in set(range(len(files))) - {*rest}:
        (top, _, left, _), region = made[number].tolist(), wanted[number]
        pixels = memory[number].reshape(shapes[number])
        found = pixels[region.top - top : region.bottom - top, region.left - left : region.right - left]
        expected = codec.decode(files[number], headers[number])[region.top : region.bottom, region.left : region.right]
        np.testing.assert_array_equal(found, expected)
    assert len(rest) == len(files) if output_type is types.YCbCr else len(rest) < len(files) - 5


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_region_saves_work(backend):
    """Otherwise the tests above would compare the whole with the whole."""
    decoder, region = ImageCodec(backend=backend), Region(8, 30, 40, 100)
    part = decoder.region_to_decode(decoder.header(JPEGS["420"]), region)
    assert part == (Region(0, 32, 0, 131) if backend == "simplejpeg" else region)


@pytest.mark.parametrize(
    ("name", "below"), {"444": 0, "422": 0, "411": 0, "grey": 0, "progressive": 63, "420": 2, "440": 2}.items()
)
def test_rows_below_are_decoded_only_where_colours_have_fewer(name, below):
    decoder = ImageCodec()
    assert decoder.region_to_decode(decoder.header(JPEGS[name]), Region(8, 30, 40, 100)).bottom == 30 + below


@pytest.mark.parametrize("name", JPEGS)
def test_reduced_sizes_are_those_of_libjpeg(name):
    data, stored_as, decoder = JPEGS[name], ImageCodec(adjust_orientation=False), ImageCodec()
    stored, header = stored_as.header(data), decoder.header(data)
    for reduce in (2, 4, 8):
        height, width = (-(-size // reduce) for size in stored[:2])
        expected = simplejpeg.decode_jpeg(data, "RGB", min_height=height, min_width=width)
        assert expected.shape == (height, width, 3)
        assert np.array_equal(whole(data, stored_as, reduce), expected)
        assert whole(data, decoder, reduce).shape == (-(-header.height // reduce), -(-header.width // reduce), 3)


@pytest.mark.parametrize("name", ["444", "420", "grey", "progressive, 4:2:0", "orientation 3", "orientation 8"])
@settings(max_examples=15, deadline=None)
@given(choice=st.data(), reduce=st.sampled_from([2, 4, 8]))
def test_regions_of_reduced_images(name, choice, reduce):
    data, decoder = JPEGS[name], ImageCodec()
    expected = whole(data, decoder, reduce)
    region = choice.draw(regions(*expected.shape[:2]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(libjpeg_turbo, "_WORTH", 1)
        found = part(data, decoder, region, reduce)
    assert np.array_equal(found, expected[region.top : region.bottom, region.left : region.right])


@pytest.mark.parametrize("reduce", [2, 4, 8])
def test_a_region_of_a_strip_is_reduced_like_the_strip(monkeypatch, reduce):
    """simplejpeg is told a size, not a reduction, and a few rows and columns could have a size by several."""
    monkeypatch.setattr(libjpeg_turbo, "_WORTH", 1)
    data, decoder = encode(picture(400, 4), "JPEG"), ImageCodec()
    expected = whole(data, decoder, reduce)
    assert np.array_equal(part(data, decoder, Region(0, 1, 0, 1), reduce), expected[:1, :1])


def test_a_reduced_image_looks_like_the_image():
    pixels, reduced = whole(JPEGS["444"]), whole(JPEGS["444"], reduce=2)
    means = pixels[:92, :130].reshape(46, 2, 65, 2, 3).mean((1, 3))
    assert np.abs(means - reduced[:46, :65]).mean() < 3


@pytest.mark.parametrize("backend", [*BACKENDS, *DIRECT_BACKENDS[1:]])
@pytest.mark.parametrize("name", ["progressive", "progressive, 4:2:0", "grey"])
def test_windows_of_progressive_jpegs_that_lack_scans_are_cut_from_the_whole(monkeypatch, name, backend):
    """libjpeg smooths them, with pixels below the window."""
    monkeypatch.setattr(libjpeg_turbo, "_WORTH", 1)
    data = JPEGS[name] if name != "grey" else encode(PIXELS, "JPEG", "L", progressive=True)
    places = [match.start() for match in re.finditer(b"\xff\xda", data.tobytes())]
    assert len(places) > 5
    decoder, region = ImageCodec(backend=backend), Region(0, 40, 0, 131)
    for end in [*places[1:], len(data) - 2]:
        file = np.append(data[:end], np.frombuffer(b"\xff\xd9", np.uint8))
        assert np.array_equal(part(file, decoder, region), whole(file)[:40])
        memory, headers = np.empty(PIXELS.size, np.uint8), decoder.headers([file])
        left = decoder.direct_decoding([file], headers, headers.whole)([memory], range(1))
        assert [*left] == [0] if backend == "turbojpeg" else np.array_equal(memory, whole(file).ravel())


def test_a_damaged_scan_behind_the_first_fails_a_window_too():
    """libjpeg would write no pixels, but only warn of the rows that it does not read."""
    file = JPEGS["progressive"].copy()
    places = [match.start() for match in re.finditer(b"\xff\xda", file.tobytes())]
    file[places[5] + 5] = 9  # the number of a component
    decoder = ImageCodec()
    with pytest.raises(ValueError, match="damaged"):
        whole(file, decoder)
    with pytest.raises(ValueError, match="damaged"):
        part(file, decoder, Region(0, 10, 0, 131), memory=np.empty(PIXELS.size, np.uint8))


def test_files_with_a_warning_are_decoded_with_the_fast_dct_too():
    intact, decoder = JPEGS["444"], ImageCodec(fast_idct=True)
    surplus = np.insert(intact, len(intact) - 2, [0, 0, 0])
    with pytest.raises(ValueError, match="extraneous bytes"):
        simplejpeg.decode_jpeg(surplus)
    assert np.array_equal(whole(surplus, decoder), whole(intact, decoder))
    assert not np.array_equal(whole(surplus, decoder), whole(surplus))


@pytest.mark.parametrize("output_type", OUTPUT_TYPES)
@pytest.mark.parametrize("reduce", [2, 4, 8])
def test_jpegs_of_unusual_subsampling_are_reduced(reduce, output_type):
    # Blocks of 4 x 2, whose chroma is subsampled by 4 x 2, which simplejpeg does not know.
    data = JPEGS["411"].copy()
    decoder = ImageCodec(output_type)
    frame = decoder.header(data).frame
    data[frame + 11] = 0x42
    header = decoder.header(data)
    pixels = decoder.decode(data, header)
    found = decoder.decode(data, header, reduce=reduce)
    assert found.shape == (-(-93 // reduce), -(-131 // reduce), pixels.shape[2])
    means = pixels[: 92 // reduce * reduce, : 130 // reduce * reduce].astype(int)
    means = means.reshape(92 // reduce, reduce, 130 // reduce, reduce, -1).mean((1, 3))
    assert np.abs(means - found[: 92 // reduce, : 130 // reduce]).max() < 1


@pytest.mark.parametrize("name", OTHERS)
def test_other_formats_are_not_reducible(name):
    with pytest.raises(ValueError, match="1/2 of their size"):
        whole(OTHERS[name], reduce=2)


@pytest.mark.parametrize("mode", ["RGB", "LA"])
def test_color_jpeg_2000_with_more_than_8_bits_is_refused(mode):
    data = bytearray(encode(ALPHA if mode == "LA" else PIXELS, "JPEG2000", mode))
    depths = data.index(b"\xff\x4f\xff\x51") + 42
    assert data[depths] == 7  # number of bits minus one
    data[depths : depths + 3 * len(mode) : 3] = bytes([11]) * len(mode)
    data = np.frombuffer(bytes(data), np.uint8)
    assert ImageCodec().header(data).height == len(PIXELS)
    with pytest.raises(ValueError, match="12 bits per channel"):
        whole(data)


@pytest.mark.parametrize("shape", [(93, 131, 3), (93 * 131 * 3 + 5,)])
def test_pixels_are_put_into_the_memory_given(shape):
    memory = np.zeros(shape, np.uint8)
    decoder = ImageCodec()
    header = decoder.header(JPEGS["420"])
    pixels = decoder.decode(JPEGS["420"], header, memory)
    assert np.shares_memory(pixels, memory)
    assert np.array_equal(pixels.ravel(), memory.ravel()[: pixels.size])
    turned = decoder.decode(JPEGS["orientation 6"], decoder.header(JPEGS["orientation 6"]), memory)
    assert np.shares_memory(turned, memory)


@pytest.mark.parametrize("backend", BACKENDS)
def test_read_only_bytes_are_left_alone(backend):
    data = JPEGS["420"].copy()
    data.setflags(write=False)
    part(data, ImageCodec(backend=backend), Region(3, 20, 5, 60))
    assert np.array_equal(data, JPEGS["420"])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("reduce", [1, 2])
def test_a_harmless_flaw_is_overlooked_and_a_serious_one_is_not(backend, reduce):
    decoder, region = ImageCodec(backend=backend), Region(0, 40, 0, 60)
    good = JPEGS["444"]
    scan = good.tobytes().index(b"\xff\xda")
    flawed = np.concatenate([good[:-2], np.full(50, 9, np.uint8), good[-2:]])  # bytes too many
    expected = whole(good, decoder, reduce)
    assert np.array_equal(whole(flawed, decoder, reduce), expected)
    assert np.array_equal(part(flawed, decoder, region, reduce), expected[:40, :60])
    for bad in (good[: len(good) // 8], good[:scan]):
        with pytest.raises(ValueError, match=r"."):
            whole(bad, decoder, reduce)
        with pytest.raises(ValueError, match=r"."):
            part(bad, decoder, region, reduce)


@pytest.mark.filterwarnings("ignore")  # Pillow's, about damaged files
@pytest.mark.parametrize("backend", BACKENDS)
def test_damaged_files_raise_nothing_but_value_errors(backend):
    """And a region of one that can be decoded is the same as in the whole."""
    rng = np.random.default_rng(8)
    files = [*JPEGS.values(), *OTHERS.values()]
    equal = refused = 0
    for number in range(500):
        data = damaged(files[number % len(files)], rng)
        decoder = ImageCodec(backend=backend)
        try:
            header = decoder.header(data)
            pixels = whole(data, decoder)
        except ValueError as error:
            refused += bool(str(error))
            continue
        if header.height * header.width > 1 << 20:
            continue
        region = Region(0, max(header.height // 3, 1), header.width // 2, header.width)
        assert np.array_equal(part(data, decoder, region), pixels[: region.bottom, region.left :])
        equal += 1
    assert min(equal, refused) > 100
