"""What images lose as JPEGs is, bit by bit, what libjpeg-turbo loses when it encodes and decodes them."""

import io

import numpy as np
import pytest
import simplejpeg
from PIL import Image
from pipeline_runs import run

from penstock import fn
from penstock.image.kernels.jpeg_round_trip import jpeg_round_trip
from penstock.operators.filters import jpeg_compression_distortion as distortion

RNG = np.random.default_rng(5)
SIZES = [
    (1, 1),
    (1, 2),
    (2, 1),
    (3, 5),
    (4, 4),
    (6, 5),
    (8, 8),
    (16, 16),
    (17, 15),
    (31, 47),
    (2, 200),
    (150, 3),
    (225, 337),
]


def kept(image, quality):
    """By way of a file."""
    file = io.BytesIO()
    Image.fromarray(image).save(file, "JPEG", quality=quality)
    return simplejpeg.decode_jpeg(file.getvalue(), "RGB")


def pictures(height, width):
    """Noise, black and white at random, stripes, and what changes slowly."""
    noise = RNG.integers(0, 256, (height, width, 3), np.uint8)
    stripes = np.zeros_like(noise)
    stripes[::2] = 255
    slow = np.clip(np.cumsum(noise % 7 - 3.0, axis=1) + noise[:, :1], 0, 255).astype(np.uint8)
    return np.stack([noise, (noise > 127) * np.uint8(255), stripes, slow])


@pytest.mark.parametrize("size", SIZES, ids=["x".join(map(str, size)) for size in SIZES])
def test_losses_are_those_of_files(size):
    images = pictures(*size)
    for quality in (1, 2, 10, 49, 50, 75, 95, 96, 100):
        out = np.zeros_like(images)
        jpeg_round_trip(images, np.full(len(images), quality, np.int32), out)
        assert np.array_equal(out, [kept(image, quality) for image in images])


def test_each_image_has_its_quality():
    images, quality = RNG.integers(0, 256, (100, 9, 10, 3), np.uint8), np.arange(1, 101, dtype=np.int32)
    out = np.zeros_like(images)
    jpeg_round_trip(images, quality, out)
    assert np.array_equal(out, [kept(image, number) for image, number in zip(images, quality.tolist(), strict=True)])


def test_large_images_become_files_and_are_the_same(monkeypatch):
    images = [RNG.integers(0, 256, (3, *size, 3), np.uint8) for size in [(20, 30), (7, 9)]]
    qualities = [np.int32(30), np.int32(80)]

    def distorted():
        frames, quality = fn.external_source(lambda: (images, qualities), num_outputs=2, layout=["FHWC", ""])
        return fn.jpeg_compression_distortion(frames, quality=quality)

    (rounded,) = run(distorted, batch_size=2)
    monkeypatch.setattr(distortion, "SMALL", 0)
    for image, quality, mine, theirs in zip(images, qualities, rounded, run(distorted, batch_size=2)[0], strict=True):
        assert np.array_equal(mine, theirs)
        assert np.array_equal(mine, [kept(frame, int(quality)) for frame in image])
