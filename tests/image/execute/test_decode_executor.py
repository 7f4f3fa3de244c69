"""What becomes of decoded images: several at once, and in the memory that a decoder was given or elsewhere."""

import io

import numpy as np
import pytest
from PIL import Image
from pipeline_runs import build_pipeline

from penstock import DataIterator, Pipeline, fn, types
from penstock.engine.host import chunk_scheduler
from penstock.errors import SampleError
from penstock.image.codecs import turbojpeg
from penstock.image.execute import decode_executor
from penstock.image.execute.decode_executor import DecodedPlaces
from penstock.image.image_operator import ImageDecoder
from penstock.native import compiled
from penstock.native.loop_chain import LoopChain
from penstock.operators.decoders.image import DecodeImage

SQUARES = np.arange(8 * 12 * 12 * 3).reshape(8, 12, 12, 3).astype(np.uint8)


def turned(orientation, kind="JPEG"):
    """A file whose EXIF data say how it is to be turned."""
    exif, file = Image.Exif(), io.BytesIO()
    exif[0x0112] = orientation
    Image.fromarray(SQUARES[orientation % 8]).save(file, kind, exif=exif)
    return np.frombuffer(file.getvalue(), np.uint8)


def files(kinds):
    found = [turned(number, kind) for number, kind in enumerate(kinds, start=1)]
    return np.stack([np.pad(file, (0, max(map(len, found)) - len(file))) for file in found])


def pipeline(build, kinds):
    return build_pipeline(lambda data: build(fn.decoders.image(data)), files(kinds), seed=0, num_threads=1)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("roi", [{}, {"roi_start": (0.1, 0.3), "roi_end": (0.8, 0.9), "roi_relative": True}])
def test_reduced_images_are_not_shifted(orientation, roi):
    rows, columns = np.mgrid[:119, :139]
    waves = (127 + 100 * np.sin(rows / 9) * np.sin(columns / 11)).astype(np.uint8)
    exif, file = Image.Exif(), io.BytesIO()
    exif[0x0112] = orientation
    Image.fromarray(waves[..., None].repeat(3, axis=2)).save(file, "JPEG", quality=95, exif=exif)

    def resized(*, reduced):
        def build(data):
            return fn.resize(fn.decoders.image(data, reduced=reduced), size=(14, 13), **roi)

        return build_pipeline(build, np.frombuffer(file.getvalue(), np.uint8)[None]).run()[0][0].astype(int)

    # A shift by a part of a pixel of the result would change the mean by 3 to 15.
    assert np.abs(resized(reduced=True) - resized(reduced=False)).mean() < 2.5


KINDS = ["JPEG"] * 8, ["JPEG", "PNG", "JPEG", "WEBP", "PNG", "PNG", "JPEG", "JPEG"]


@pytest.mark.parametrize("kinds", KINDS)
def test_turned_images_are_turned_in_a_batch_too(kinds):
    each = pipeline(lambda images: images, kinds).run()[0]
    batch = next(DataIterator(pipeline(lambda images: images, kinds), ["x"]))["x"]
    assert np.array_equal(batch, np.stack(list(each)))


@pytest.mark.parametrize("kinds", KINDS)
def test_small_images_are_executed_together_wherever_they_lie(kinds):
    each = pipeline(lambda images: images, kinds).run()[0]
    together = pipeline(lambda images: fn.flip(images), kinds).run()[0]
    for image, flipped in zip(each, together, strict=True):
        assert np.array_equal(flipped, image[:, ::-1])


def test_pixels_that_are_not_what_was_announced_are_refused(monkeypatch):
    decode_region = DecodeImage.decode_region

    def too_low(self, *arguments):
        return decode_region(self, *arguments)[:-1]

    monkeypatch.setattr(DecodeImage, "decode_region", too_low)
    monkeypatch.setattr(DecodeImage, "direct_decoding", ImageDecoder.direct_decoding)
    said = r"sample 0 (.|\n)*damaged: the pixels are 11 x 12 x 3, but the header announces 12 x 12 x 3"
    with pytest.raises(SampleError, match=said):
        pipeline(lambda images: fn.flip(images), KINDS[0]).run()


def photographs(kinds, sizes):
    """Return images of some sizes, as upright JPEGs, JPEGs that EXIF data turn, or PNGs."""
    for number, (kind, size) in enumerate(zip(kinds, sizes, strict=True)):
        exif, file = Image.Exif(), io.BytesIO()
        exif[0x0112] = 6 if kind == "turned" else 1
        pixels = np.random.default_rng(number).integers(0, 256, size[:: -1 if kind == "turned" else 1], np.uint8)
        Image.fromarray(pixels).save(file, "PNG" if kind == "PNG" else "JPEG", exif=exif)
        yield np.frombuffer(file.getvalue(), np.uint8)


@pytest.mark.parametrize("crop", [(12, 20), (5, 4)], ids=["whole", "part"])
def test_batches_of_equal_sizes_share_places_and_have_their_own_pixels(monkeypatch, crop):
    small, large = [(12, 20)] * 4, [(12, 20), (40, 30), (12, 20), (33, 20)]
    batches = [
        ("JPEG JPEG JPEG JPEG", small),
        ("JPEG PNG turned JPEG", small),
        ("JPEG JPEG PNG turned", large),
        ("turned PNG PNG JPEG", small),
        ("JPEG JPEG JPEG JPEG", small),
    ]
    data = [file for kinds, sizes in batches for file in photographs(kinds.split(), sizes)]
    made = []
    monkeypatch.setattr(chunk_scheduler, "_LIGHT_BATCH_SECONDS", -1.0)  # always on one thread, which keeps the places
    monkeypatch.setattr(
        decode_executor, "DecodedPlaces", lambda *operands: made.append(DecodedPlaces(*operands)) or made[-1]
    )

    def build(data):
        return fn.crop_mirror_normalize(fn.decoders.image(data, output_type=types.GRAY), crop=crop)

    longest = max(map(len, data))
    rows = np.stack([np.pad(file, (0, longest - len(file))) for file in data])
    pipe = build_pipeline(build, rows, batch_size=4, num_threads=1, prefetch_queue_depth=0)
    together = [np.stack(list(pipe.run()[0])) for _ in batches]
    assert len(made) == 3
    one = build_pipeline(build, rows, batch_size=1, num_threads=1, prefetch_queue_depth=0)
    assert np.array_equal(np.concatenate(together), np.stack([one.run()[0][0] for _ in data]))


@pytest.mark.parametrize("crop", [None, (900, 30), (9, 1050)], ids=["whole", "tall", "wide"])
def test_large_images_between_small_ones_have_their_own_pixels(monkeypatch, crop):
    sizes = [(40, 30), (1100, 1050), (1050, 1100), (12, 20), (33, 20), (1200, 1100), (30, 41), (1060, 1070)]
    data = list(photographs(["JPEG", "JPEG", "turned", "PNG", "JPEG", "PNG", "turned", "JPEG"], sizes))
    longest = max(map(len, data))
    rows = np.stack([np.pad(file, (0, longest - len(file))) for file in data])

    def build(data):
        images = fn.decoders.image(data, output_type=types.GRAY)
        images = images if crop is None else fn.crop(images, crop=crop, crop_pos_x=0.7, out_of_bounds_policy="pad")
        return fn.resize(images, size=(50, 60))

    def run():
        return np.stack(list(build_pipeline(build, rows, batch_size=8, num_threads=1).run()[0]))

    results = run()
    monkeypatch.setattr(decode_executor, "KEPT", 1 << 30)  # as if all were small
    assert np.array_equal(results, run())
    assert len({image.tobytes() for image in results}) == 8


def mixed_files():
    """Return files that a loop decodes, between files that it leaves."""
    kinds = ["JPEG", "JPEG", "progressive", "JPEG", "PNG", "large", "JPEG", "turned", "JPEG", "large", "JPEG", "JPEG"]
    for number, kind in enumerate(kinds):
        exif, file = Image.Exif(), io.BytesIO()
        exif[0x0112] = 6 if kind == "turned" else 1
        coarse = np.random.default_rng(number).integers(0, 256, (9, 11 + number % 3, 3), np.uint8)
        image = Image.fromarray(coarse).resize((850, 650) if kind == "large" else (320 + number, 310))
        options = {"exif": exif, "progressive": kind == "progressive"}
        image.save(file, "PNG" if kind == "PNG" else "JPEG", **(options if kind != "PNG" else {}))
        yield np.frombuffer(file.getvalue(), np.uint8)


BUILDS = {
    "one pass": lambda images: fn.resize(images, size=(64, 60)),
    "two passes": lambda images: fn.resize(fn.resize(images, size=(64, 60)), size=(50, 70)),
    "no values": lambda images: fn.crop(images, crop=(50, 40)),
    "float": lambda images: fn.crop_mirror_normalize(images, crop=(200, 180), std=[255.0], dtype=types.FLOAT),
}


@pytest.mark.skipif(not turbojpeg.installed(), reason="libturbojpeg is not installed")
@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("damaged", [False, True])
def test_files_that_a_chain_of_loops_decodes_equal_those_that_python_decodes(monkeypatch, build, damaged):
    data = list(mixed_files())
    if damaged:
        data[6] = data[6][: len(data[6]) // 2]
    results, runs, run = {}, [], LoopChain.run

    def recorded(self, group):
        runs.append((group, run(self, group)))
        return runs[-1][1]

    monkeypatch.setattr(LoopChain, "run", recorded)
    for chained in (True, False):
        monkeypatch.setattr(LoopChain, "pays_off", lambda _rows, chained=chained: chained)
        pipe = Pipeline(batch_size=len(data), num_threads=1, seed=1)
        with pipe:
            images = fn.decoders.image(fn.external_source(lambda: data), backend="turbojpeg")
            pipe.set_outputs(BUILDS[build](images))
        try:
            results[chained] = [np.asarray(image) for image in pipe.run()[0]]
        except SampleError as error:
            results[chained] = str(error)
    if compiled._AS_PYTHON or build == "no values":  # copies of pixels are no loops that are bound
        assert not runs
    else:
        assert len(runs) > 1  # it continues after files that it leaves, such as the progressive one
        assert all(first < end for first, end in runs[:1] + ([] if damaged else runs[-1:]))
    assert isinstance(results[True], str) == damaged
    np.testing.assert_equal(results[True], results[False])
