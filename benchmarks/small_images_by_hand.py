"""Augmentation of small images by hand: loops over whole batches in numba, as a good engineer writes them.

Random numbers are drawn with NumPy, a few per image and batch; everything else, from the gathering of the images on, is
one call that holds no lock.
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
def cut_and_normalise(images, index, top, left, mirror, mean, factor, out):
    """Windows at any place, black outside of the image, mirrored and normalised to NCHW.

    A row is normalised where it lies in one piece, and then parted into its channels: that is faster than the obvious
    loop over channels, rows and columns.
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
    """A window of each image, resampled."""
    for n in range(index.shape[0]):
        top, left, height, width = windows[n]
        to_bytes(images[index[n]], (top, left, height, width), False, mean, factor, out[n])


def random_windows(height: int, width: int, count: int, draw: np.random.Generator) -> np.ndarray:
    """(top, left, height, width) of windows whose area is 0.08 to 1 of the image's and whose aspect is 3/4 to 4/3."""
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
    """Batches made by the loops above.

    Args:
        data: the images.
        workload: one of `CIFAR_WORKLOADS`.
        threads: how many batches are made at the same time.
        aligned: whether batches lie where JAX takes them without a copy.
    """
    draw = np.random.default_rng(1)
    order = indices(len(data.images), BATCH, draw)
    offset, scale = np.array(CIFAR_MEAN, np.float32), 1 / np.array(CIFAR_STD, np.float32)
    height, width = data.images.shape[1:3]

    def train(index, top, left, mirror):
        out = empty((BATCH, 3, 32, 32), np.float32, aligned=aligned)
        cut_and_normalise(data.images, index, top, left, mirror, offset, scale, out)
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
