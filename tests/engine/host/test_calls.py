"""Tests of the number of Python calls per batch: not once per row, except for decoders."""

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import simplejpeg
from pipeline_runs import build_pipeline

import penstock
from penstock import fn
from penstock.engine.host import chunk_scheduler

PACKAGE = Path(penstock.__file__).parent
IMAGES = np.random.default_rng(0).integers(0, 256, (256, 16, 12, 3), np.uint8)
FEW, MANY = 64, 256


def normalised(images):
    return fn.crop_mirror_normalize(images, mean=99.0, std=5.0, mirror=fn.random.coin_flip())


DENSE = {
    "slice": lambda images: normalised(
        fn.slice(
            images,
            start=fn.random.uniform(range=[-4, 4], dtype=penstock.types.INT32, shape=2),
            shape=[8, 8],
            axes=[0, 1],
            out_of_bounds_policy="pad",
        )
    ),
    "random_resized_crop": lambda images: fn.random_resized_crop(images, size=8),
    "resize": lambda images: fn.resize(images, size=(20, 10)),
    "resize and normalise": lambda images: normalised(fn.resize(images, size=(20, 10))),
    "crop": lambda images: fn.crop(images, crop=(5, 6)),
    "pad": lambda images: fn.pad(images, axes=[0, 1], shape=[20, 20]),
    "transpose": lambda images: fn.transpose(images, perm=[2, 0, 1]),
}


def parts(images):
    """Return random windows of any size and position."""
    places = fn.random.uniform(range=[0, 4], dtype=penstock.types.INT32, shape=2)
    sizes = fn.random.uniform(range=[2, 8], dtype=penstock.types.INT32, shape=2)
    return fn.slice(images, start=places, shape=sizes, axes=[0, 1])


RAGGED = {
    "flip": lambda images: fn.flip(images, horizontal=fn.random.coin_flip()),
    "resize and normalise": lambda images: normalised(fn.resize(images, size=(20, 10))),
    "transpose": lambda images: fn.transpose(images, perm=[2, 0, 1]),
}
DECODED = {
    "alone": lambda files: fn.decoders.image(files),
    "into the batch": lambda files: fn.reshape(fn.decoders.image(files), shape=[16, 12, 3]),
    "training": lambda files: normalised(fn.resize(fn.decoders.image(files), size=(8, 8))),
}


@pytest.fixture(autouse=True)
def one_pace(monkeypatch):
    """Fix the number of chunks and batches, which otherwise depends on the speed of the machine."""
    monkeypatch.setattr(chunk_scheduler, "_LIGHT_BATCH_SECONDS", -1.0)
    monkeypatch.setattr("time.perf_counter", lambda: 0.0)


def calls(build, data, rows, layout=""):
    """Count the calls of each function during one batch, by file and name."""
    pipeline = build_pipeline(build, data, layout=layout, batch_size=rows, num_threads=1, exec_async=False)
    for _ in range(2):
        pipeline.run()
    found = Counter()

    def count(frame, event, _):
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE):
            found[path.relative_to(PACKAGE).as_posix(), frame.f_code.co_qualname] += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        pipeline.run()
    finally:
        sys.setprofile(before)
    pipeline.close()
    return found


def further(build, data, layout=""):
    """Return the additional calls that more rows cause."""
    few, many = calls(build, data, FEW, layout), calls(build, data, MANY, layout)
    assert few.total() > 20
    return many - few


def padded(files):
    """Return files as one array: equally long, with zeros at the ends."""
    longest = max(map(len, files))
    return np.stack([np.pad(file, (0, longest - len(file))) for file in files])


@pytest.mark.parametrize("name", DENSE)
def test_dense_images_need_no_python_per_row(name):
    assert further(DENSE[name], IMAGES, "HWC") == Counter()


@pytest.mark.parametrize("name", RAGGED)
def test_ragged_images_in_memory_need_no_python_per_row(name):
    def build(images):
        ragged = parts(images)
        return ragged, RAGGED[name](ragged)  # given out, so that what follows takes images from memory

    assert further(build, IMAGES, "HWC") == Counter()


@pytest.mark.parametrize("name", DECODED)
def test_encoded_images_need_no_python_per_row_but_the_call_of_simplejpeg(name, jpeg, monkeypatch):
    decoded, decode = [], simplejpeg.decode_jpeg

    def counted(data, *arguments, **options):
        decoded.append(data)
        return decode(data, *arguments, **options)

    monkeypatch.setattr(simplejpeg, "decode_jpeg", counted)
    files = [np.frombuffer(jpeg(image), np.uint8) for image in IMAGES]
    assert further(DECODED[name], padded(files)) == Counter()
    assert len(decoded) >= 3 * (FEW + MANY)  # three batches of each, and probes


def test_single_photograph_needs_few_calls(jpeg, monkeypatch):
    monkeypatch.setattr("penstock.image.execute.row_executor.CACHE", 1)
    files = [np.frombuffer(jpeg(image), np.uint8) for image in IMAGES]
    found = further(DECODED["training"], padded(files))
    others = Counter(
        {
            call: count
            for call, count in found.items()
            if not call[0].startswith(("operators/decoders/", "image/codecs/"))
        }
    )
    assert others.total() <= 6 * (MANY - FEW), others
