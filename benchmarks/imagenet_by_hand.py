"""Hand-written ImageNet pipeline: simplejpeg and a Numba loop."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numba
import numpy as np
import simplejpeg
from by_hand import batches, empty, indices
from data import Files
from measure import BATCH, Batches
from pipelines import IMAGENET_MEAN, IMAGENET_STD
from resampling import to_bytes, to_floats

from penstock.image.codecs.image_codec import ImageCodec
from penstock.image.codecs.image_header import Region

ATTEMPTS = 10


@numba.njit(nogil=True, cache=True)
def random_window(height, width, draws):
    """Return a random window (top, left, height, width): area 0.08 to 1 of the image, aspect ratio 3/4 to 4/3."""
    for attempt in range(ATTEMPTS):
        area = (0.08 + 0.92 * draws[2 * attempt]) * height * width
        ratio = math.exp((2 * draws[2 * attempt + 1] - 1) * math.log(4 / 3))
        rows, columns = round(math.sqrt(area / ratio)), round(math.sqrt(area * ratio))
        if 0 < rows <= height and 0 < columns <= width:
            break
    else:
        rows = columns = min(height, width)
    top, left = math.floor(draws[-2] * (height - rows + 1)), math.floor(draws[-1] * (width - columns + 1))
    return float(top), float(left), float(rows), float(columns)


def center_window(height: int, width: int, shorter: int, side: int) -> tuple[float, float, float, float]:
    """Return the window (top, left, height, width) of a center crop after the shorter side was resized."""
    scale = min(height, width) / shorter
    top, left = (
        extent / 2 + (math.floor((resized - side) / 2 + 0.5) - resized / 2) * scale
        for extent, resized in ((height, round(height / scale)), (width, round(width / scale)))
    )
    return top, left, side * scale, side * scale


class _Decoder(threading.local):
    """Decoder with one reusable buffer per thread."""

    def __init__(self) -> None:
        self._memory = np.empty(0, np.uint8)

    def __call__(self, data: bytes) -> np.ndarray:
        height, width, _, _ = simplejpeg.decode_jpeg_header(data)
        if self._memory.size < height * width * 3:
            self._memory = np.empty(height * width * 3, np.uint8)
        return simplejpeg.decode_jpeg(data, "RGB", buffer=self._memory)


class _RegionDecoder(_Decoder):
    """Decoder of the rows down to the end of a window, as libjpeg-turbo can skip those below."""

    codec = ImageCodec()

    def decode_rows(self, data: np.ndarray, draw: np.ndarray | None) -> None:
        header = self.codec.header(data)
        height, width = header.height, header.width
        sides = center_window(height, width, 256, 224) if draw is None else random_window(height, width, draw)
        top, left, rows, columns = map(int, sides)
        region = self.codec.region_to_decode(header, Region(top, top + rows, left, left + columns))
        if self._memory.size < height * width * 3:
            self._memory = np.empty(height * width * 3, np.uint8)
        self.codec.decode(data, header, self._memory, region)


def decoding_alone(files: Files, workload: str, threads: int) -> Batches:
    """Return numbers of images that were read and decoded, and nothing else.

    No loader that decodes with libjpeg-turbo and skips only the rows below the window needs less time.
    """
    draw, decode = np.random.default_rng(1), _RegionDecoder()

    def make(index, draws):
        for row, data in enumerate(read([files.paths[number] for number in index])):
            decode.decode_rows(np.frombuffer(data, np.uint8), None if draws is None else draws[row])
        return index

    def tasks():
        for index in indices(len(files.paths), BATCH, None if workload == "evaluate" else draw):
            yield partial(make, index, None if workload == "evaluate" else draw.random((BATCH, 2 * ATTEMPTS + 2)))

    return batches(tasks(), threads)


def read(paths: Iterable[str]) -> Iterator[bytes]:
    """Yield the contents of files."""
    for path in paths:
        with open(path, "rb") as file:  # noqa: PTH123  # faster than pathlib
            yield file.read()


def by_hand(
    files: Files,
    workload: str,
    threads: int,
    *,
    aligned: bool = False,
    sharding: Any = None,
    read: Callable[[list[str]], Iterable[bytes]] = read,
) -> Batches:
    """Return batches: complete images are decoded, and one compiled call resamples, mirrors and normalizes each.

    Args:
        files: Image files and labels.
        workload: One of `IMAGENET_WORKLOADS`.
        threads: Number of batches that are computed in parallel.
        aligned: True to allocate batches that JAX uses without a copy.
        sharding: Sharding of the batches; None for the default device.
        read: Function that returns the contents of files.
    """
    draw = np.random.default_rng(1)
    decode = _Decoder()
    offset, scale = np.array(IMAGENET_MEAN, np.float32), 1 / np.array(IMAGENET_STD, np.float32)
    labels = np.array(files.labels, np.int32)
    as_bytes = workload == "bytes"
    resample = to_bytes if as_bytes else to_floats
    shape, dtype = ((BATCH, 224, 224, 3), np.uint8) if as_bytes else ((BATCH, 3, 224, 224), np.float32)

    def make(index, draws, mirror):
        out = empty(shape, dtype, aligned=aligned)
        images = out if as_bytes else out.transpose(0, 2, 3, 1)
        for row, data in enumerate(read([files.paths[number] for number in index])):
            pixels = decode(data)
            if draws is None:
                window, mirrored = center_window(*pixels.shape[:2], 256, 224), False
            else:
                window, mirrored = random_window(*pixels.shape[:2], draws[row]), mirror[row]
            resample(pixels, window, mirrored, offset, scale, images[row])
        return out, labels[index]

    def tasks():
        for index in indices(len(files.paths), BATCH, None if workload == "evaluate" else draw):
            if workload == "evaluate":
                yield partial(make, index, None, None)
            else:
                yield partial(make, index, draw.random((BATCH, 2 * ATTEMPTS + 2)), draw.random(BATCH) < 0.5)

    return batches(tasks(), threads, sharding)
