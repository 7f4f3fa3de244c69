"""Hand-written augmentation of small images: Numba loops over complete batches.

NumPy draws the random numbers of a batch. Everything else, from gathering the images, is one call that releases the
GIL.
"""

from __future__ import annotations

from functools import partial

import numba
import numpy as np
from by_hand import batches, empty, indices
from data import Arrays
from measure import BATCH, Batches
from pipelines import CIFAR_MEAN, CIFAR_STD
from resampling import to_bytes

ATTEMPTS = 10


@numba.njit(nogil=True, cache=True)
def crop_and_normalize(images, index, top, left, mirror, mean, factor, out):
    """Crop windows, black outside of the image, mirror them and normalize them to NCHW.

    Each row is normalized over contiguous memory and then split into channels, which is faster than the obvious loop
    over channels, rows and columns.
    """
    height, width = images.shape[1:3]
    columns = out.shape[3]
    lines = images.reshape(images.shape[0], height, 3 * width)
    row = np.empty(3 * width, np.float32)
    row_mean, row_factor = np.empty_like(row), np.empty_like(row)
    for i in range(3 * width):
        row_mean[i], row_factor[i] = mean[i % 3], factor[i % 3]
    black = -mean * factor
    for n in range(index.shape[0]):
        image = lines[index[n]]
        first, last = max(0, -left[n]), min(columns, width - left[n])
        start, step = left[n], 1
        if mirror[n]:
            first, last = columns - last, columns - first
            start, step = left[n] + columns - 1, -1
        for y in range(out.shape[2]):
            red, green, blue = out[n, 0, y], out[n, 1, y], out[n, 2, y]
            inside = 0 <= y + top[n] < height
            before, behind = (first, last) if inside else (columns, columns)
            red[:before], green[:before], blue[:before] = black[0], black[1], black[2]
            red[behind:], green[behind:], blue[behind:] = black[0], black[1], black[2]
            if inside:
                pixels = image[y + top[n]]
                for i in range(3 * width):
                    row[i] = (np.float32(pixels[i]) - row_mean[i]) * row_factor[i]
                for x in range(first, last):
                    i = 3 * (start + step * x)
                    red[x], green[x], blue[x] = row[i], row[i + 1], row[i + 2]


@numba.njit(nogil=True, cache=True)
def resize_windows(images, index, windows, mean, factor, out):
    """Resample a window of each image."""
    for n in range(index.shape[0]):
        top, left, height, width = windows[n]
        to_bytes(images[index[n]], (top, left, height, width), False, mean, factor, out[n])


def random_windows(height: int, width: int, count: int, draw: np.random.Generator) -> np.ndarray:
    """Draw windows (top, left, height, width): area 0.08 to 1 of the image, aspect ratio 3/4 to 4/3."""
    area = draw.uniform(0.08, 1, (ATTEMPTS, count)) * height * width
    ratio = np.exp(draw.uniform(np.log(3 / 4), np.log(4 / 3), (ATTEMPTS, count)))
    rows, columns = np.rint(np.sqrt(area / ratio)), np.rint(np.sqrt(area * ratio))
    fits = (rows > 0) & (rows <= height) & (columns > 0) & (columns <= width)
    rows[-1], columns[-1], fits[-1] = min(height, width), min(height, width), True
    attempt = fits.argmax(axis=0), np.arange(count)
    rows, columns = rows[attempt], columns[attempt]
    top, left = (np.floor(draw.uniform(0, 1, count) * room) for room in (height - rows + 1, width - columns + 1))
    return np.stack([top, left, rows, columns], axis=1)


def by_hand(data: Arrays, workload: str, threads: int, *, aligned: bool = False) -> Batches:
    """Return batches of the loops above.

    Args:
        data: Images and labels.
        workload: One of `CIFAR_WORKLOADS`.
        threads: Number of batches that are computed in parallel.
        aligned: True to allocate batches that JAX uses without a copy.
    """
    draw = np.random.default_rng(1)
    order = indices(len(data.images), BATCH, draw)
    offset, scale = np.array(CIFAR_MEAN, np.float32), 1 / np.array(CIFAR_STD, np.float32)
    height, width = data.images.shape[1:3]

    def train(index, top, left, mirror):
        out = empty((BATCH, 3, 32, 32), np.float32, aligned=aligned)
        crop_and_normalize(data.images, index, top, left, mirror, offset, scale, out)
        return out, data.labels[index]

    def resize(index, windows, side):
        out = empty((BATCH, side, side, 3), np.uint8, aligned=aligned)
        resize_windows(data.images, index, windows, offset, scale, out)
        return out, data.labels[index]

    def tasks():
        for index in order:
            if workload == "resize":
                yield partial(resize, index, np.tile(np.float64([0, 0, height, width]), (BATCH, 1)), 64)
            elif workload == "random_resized_crop":
                yield partial(resize, index, random_windows(height, width, BATCH, draw), 32)
            else:
                low = 0 if workload == "pad" else -4
                top, left = draw.integers(low, low + 9, (2, BATCH))
                yield partial(train, index, top, left, draw.random(BATCH) < 0.5)

    return batches(tasks(), threads)
