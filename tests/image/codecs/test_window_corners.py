"""Windows at every corner and edge, decoded together with what follows, equal windows that are cut from the pixels.

The package of the other backend cannot be imported here, as after a plain installation.
"""

import io
import itertools
from itertools import repeat

import numpy as np
import pytest
import simplejpeg
from PIL import Image
from pipeline_runs import run

from penstock import fn, types
from penstock.image.codecs import libjpeg_turbo, nvimgcodec
from penstock.image.codecs.image_codec import ImageCodec
from penstock.image.codecs.image_header import Region

HEIGHT, WIDTH = 61, 83
PIXELS = np.random.default_rng(5).integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8)
FORMATS = ["444", "422", "420", "440", "411", "gray", "progressive", "turned", "upside down", "PNG", "PNG, turned"]
WINDOWS = list(itertools.product([(0, 60), (0, 61), (0, 20), (1, 60), (41, 20)], [(0, 82), (0, 83), (0, 30), (53, 30)]))
"""Per axis where a window begins and how long it is: at either end, from end to end, one pixel short of that."""


@pytest.fixture(autouse=True)
def plain_installation(monkeypatch):
    """nvImageCodec cannot be imported, and rows below a window are left out of pictures as small as these, too."""

    def missing():
        raise ModuleNotFoundError("No module named 'nvidia'")

    monkeypatch.setattr(nvimgcodec, "_library", missing)
    monkeypatch.setattr(libjpeg_turbo, "_WORTH", 1)


def encoded(kind):
    if kind.isdigit():
        return np.frombuffer(simplejpeg.encode_jpeg(PIXELS, 90, "RGB", kind), np.uint8)
    exif, file, image = Image.Exif(), io.BytesIO(), Image.fromarray(PIXELS)
    if "turned" in kind or kind == "upside down":
        exif[0x0112] = 6 if "turned" in kind else 3
    image = image.convert("L") if kind == "gray" else image
    image.save(file, "PNG" if "PNG" in kind else "JPEG", progressive=kind == "progressive", exif=exif)
    return np.frombuffer(file.getvalue(), np.uint8)


def evaluate(build, *columns):
    """Return the output for samples whose extents the definition does not know."""

    def define():
        return build(*[fn.external_source(repeat(column), batch=True) for column in columns])

    return run(define, batch_size=len(columns[0]), seed=3)[0]


def windows(whole):
    """Top, left, height and width of windows in a picture."""
    height, width = whole.shape[:2]
    scaled = [
        (top * height // HEIGHT, left * width // WIDTH, tall * height // HEIGHT, wide * width // WIDTH)
        for (top, tall), (left, wide) in WINDOWS
    ]
    return np.array(scaled)


def cropped(images, size, position, crop):
    return crop(images, crop_h=size[0], crop_w=size[1], crop_pos_y=position[0], crop_pos_x=position[1])


def sliced(images, start, shape, cut):
    return cut(images, start=start, shape=shape, axes=(0, 1))


CUTS = {
    "image_crop": lambda data, size, position: cropped(data, size, position, fn.decoders.image_crop),
    "crop": lambda data, size, position: cropped(fn.decoders.image(data), size, position, fn.crop),
    "image_slice": lambda data, start, shape: sliced(data, start, shape, fn.decoders.image_slice),
    "slice": lambda data, start, shape: sliced(fn.decoders.image(data), start, shape, fn.slice),
}


def arguments(operator, found, whole):
    """A column for each argument of a cut."""
    starts, sizes = found[:, :2], found[:, 2:]
    if "slice" in operator:
        return starts, sizes
    return sizes.astype(np.float32), (starts / np.maximum(whole.shape[:2] - sizes, 1)).astype(np.float32)


def of_pixels(follow, images):
    """What follows a cut, after pixels that are cut already."""
    return evaluate(lambda pixels: follow(fn.reinterpret(pixels, layout="HWC")), images)


def shrink(images):
    return fn.resize(images, size=(24, 24))


def normalize(images):
    return fn.crop_mirror_normalize(shrink(images), mirror=1, mean=[100.0], std=[50.0])


def crop_normalize(images):
    return fn.crop_mirror_normalize(images, crop=(16, 16), crop_pos_x=0.0, crop_pos_y=0.0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("operator", CUTS)
def test_windows_at_every_corner_and_edge(operator, kind):
    data = encoded(kind)
    (whole,) = evaluate(fn.decoders.image, [data])
    found = windows(whole)
    columns = [data] * len(found), *arguments(operator, found, whole)
    expected = [
        np.ascontiguousarray(whole[top : top + tall, left : left + wide]) for top, left, tall, wide in found.tolist()
    ]
    assert all(map(np.array_equal, evaluate(CUTS[operator], *columns), expected))
    for follow in (shrink, normalize, crop_normalize):
        rows = evaluate(lambda *nodes, follow=follow: follow(CUTS[operator](*nodes)), *columns)
        assert np.array_equal(rows, of_pixels(follow, expected))


@pytest.mark.parametrize("kind", FORMATS)
def test_random_windows_at_corners(kind):
    """In a picture this small, some of many random windows begin at its corner."""
    picture = Image.open(io.BytesIO(encoded(kind).tobytes()))
    file, exif = io.BytesIO(), picture.getexif()
    picture.crop((0, 0, 9, 7)).save(file, "PNG" if "PNG" in kind else "JPEG", exif=exif)
    files = [np.frombuffer(file.getvalue(), np.uint8)] * 200

    def window(data):
        return fn.decoders.image_random_crop(data, random_area=[0.05, 0.9], seed=8)

    pixels = evaluate(window, files)
    assert len({image.shape for image in pixels}) > 10
    for follow in (shrink, normalize):
        rows = evaluate(lambda data, follow=follow: follow(window(data)), files)
        assert np.array_equal(rows, of_pixels(follow, pixels))


def test_reduced_images_have_corners_too():
    def corner(data, *, reduced):
        images = fn.decoders.image(data, reduced=reduced)
        return shrink(fn.crop(images, crop=(60, 82), crop_pos_x=0.0, crop_pos_y=0.0))

    smooth = np.asarray(Image.fromarray(PIXELS[:6, :8]).resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC))
    data = np.frombuffer(simplejpeg.encode_jpeg(np.ascontiguousarray(smooth), 95, "RGB", "420"), np.uint8)
    (fast,), (exact,) = (
        evaluate(lambda node, reduced=reduced: corner(node, reduced=reduced), [data]) for reduced in (1, 0)
    )
    assert np.abs(fast.astype(int) - exact).mean() < 4


@pytest.mark.parametrize("output_type", [types.RGB, types.GRAY, types.YCbCr])
@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("reduce", [1, 2])
def test_the_codec_decodes_any_part_by_itself(kind, output_type, reduce):
    """Also one that it would have widened: no other library is asked."""
    data, decoder = encoded(kind), ImageCodec(output_type)
    header = decoder.header(data)
    if reduce > 1 and not header.reducible:
        pytest.skip("only plain JPEGs are decoded at a part of their size")
    whole = decoder.decode(data, header, reduce=reduce)
    height, width = whole.shape[:2]
    for top, left in itertools.product([0, 1, height - 5], [0, 1, width - 7]):
        part = Region(top, top + 5, left, left + 7)
        found = decoder.decode(data, header, np.empty(5 * 7 * 3, np.uint8), part, reduce)
        assert np.array_equal(found, whole[part.top : part.bottom, part.left : part.right])
