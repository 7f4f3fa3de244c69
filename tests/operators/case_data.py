"""Arrays, files and signals that the cases of several families share."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from penstock import fn

av = pytest.importorskip("av", reason="PyAV is not installed (dependency group test)")
lz4_block = pytest.importorskip("lz4.block", reason="lz4 is not installed (dependency group test)")
soundfile = pytest.importorskip("soundfile", reason="soundfile is not installed (dependency group test)")

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (4, 6, 5, 3), np.uint8)
VOLUMES = RNG.integers(0, 256, (4, 3, 6, 5, 3), np.uint8)
FLOATS = RNG.normal(size=(4, 7)).astype(np.float32)
INTEGERS = RNG.integers(-100, 100, (4, 7), np.int32)
NONZERO = np.where(INTEGERS == 0, 1, INTEGERS).astype(np.int32)
SMALL = RNG.integers(0, 7, (4, 7), np.uint8)
TRUTHS = RNG.random((4, 7)) > 0.5
LABELS = np.array([[2], [0], [9], [-1]], np.int32)
FLAGS = np.array([1, 0, 0, 1], np.int32)
PLACES = np.array([0.0, 0.3, 0.77, 1.0], np.float32)
HWC = ("HWC",)


def encoded(number, kind, size=(5, 4)):
    pixels = np.random.default_rng(number).integers(0, 256, (size[1] + number, size[0], 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).convert("L" if number % 2 else "RGB").save(file, kind)
    return np.frombuffer(file.getvalue(), np.uint8)


FILES = [encoded(0, "JPEG"), encoded(1, "PNG"), encoded(2, "BMP"), encoded(3, "WEBP")]
RAGGED = [IMAGES[0], IMAGES[1, :4], IMAGES[2, :, :3], IMAGES[3]]
SMOOTH = np.linspace(0, 255, 4 * 6 * 5 * 3).reshape(4, 6, 5, 3).astype(np.float32)
FROM = np.array([[0, 1], [1, 0], [2, 2], [1, 1]], np.int32)


def photograph(number, mode="RGB", kind="JPEG", **options):
    """An encoded image of 50 to 90 pixels a side, with something to see in it."""
    rng = np.random.default_rng(number)
    small = Image.fromarray(rng.integers(0, 256, (5, 7, 3), np.uint8))
    file = io.BytesIO()
    small.resize((60 + 9 * number, 50 + 4 * number), Image.Resampling.BICUBIC).convert(mode).save(file, kind, **options)
    return np.frombuffer(file.getvalue(), np.uint8)


def orientation(number):
    exif = Image.Exif()
    exif[0x0112] = number
    return exif


PHOTOGRAPHS = [photograph(0), photograph(1, progressive=True), photograph(2, "L"), photograph(3, exif=orientation(6))]
SEQUENCES = VOLUMES[:, :, :2]


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return np.frombuffer(file.getvalue(), np.uint8)


PATH = np.frombuffer(str(Path(__file__)).encode(), np.uint8)


def sound(number):
    file = io.BytesIO()
    noise = np.random.default_rng(number).normal(size=(60 + 9 * number, 2)) / 9
    soundfile.write(file, noise, 8000 + 500 * number, format="WAV")
    return np.frombuffer(file.getvalue(), np.uint8)


SOUNDS = [sound(number) for number in range(4)]


def movie(number):
    file = io.BytesIO()
    with av.open(file, "w", "avi") as container:
        stream = container.add_stream("mjpeg", rate=25, width=32, height=16 + 16 * number, pix_fmt="yuvj420p")
        for shade in range(3 + number):
            image = np.full((16 + 16 * number, 32, 3), 30 * shade, np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image)))
        container.mux(stream.encode())
    return np.frombuffer(file.getvalue(), np.uint8)


MOVIES = [movie(number) for number in range(4)]
SIGNALS = RNG.normal(size=(4, 90)).astype(np.float32)
SHORTER = [SIGNALS[0], SIGNALS[1, :40], SIGNALS[2], SIGNALS[3, :71]]
SPECTRA = np.abs(RNG.normal(size=(4, 9, 5))).astype(np.float32)


def cmn(**arguments):
    """Return a function that normalizes images."""
    return lambda images: fn.crop_mirror_normalize(images, **arguments)
