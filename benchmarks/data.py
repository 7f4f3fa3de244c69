"""Data sets of the benchmarks."""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from typing import NamedTuple

import numpy as np

IMAGE_SUFFIXES = (".jpg", ".jpeg")


class Arrays(NamedTuple):
    """Images and labels in memory: uint8 (N, height, width, channels) and int32 (N,)."""

    images: np.ndarray
    labels: np.ndarray


class Files(NamedTuple):
    """Image files and labels."""

    paths: list[str]
    labels: list[int]


def cifar10(folder: Path | None, count: int = 50_000) -> Arrays:
    """Read the training images of CIFAR-10 from their binary files; without a folder, return `count` random images."""
    if folder is None:
        draw = np.random.default_rng(0)
        return Arrays(draw.integers(0, 256, (count, 32, 32, 3), np.uint8), draw.integers(0, 10, count, np.int32))
    records = np.concatenate([np.fromfile(path, np.uint8) for path in sorted(folder.glob("data_batch_*.bin"))])
    records = records.reshape(-1, 1 + 3 * 32 * 32)
    images = np.ascontiguousarray(records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
    return Arrays(images, records[:, 0].astype(np.int32))


def mnist(folder: Path) -> Arrays:
    """Read the training images of MNIST from its IDX files, compressed or not."""

    def read(name: str, header: int) -> np.ndarray:
        path = folder / name
        compressed = path.with_name(f"{name}.gz")
        contents = path.read_bytes() if path.exists() else gzip.decompress(compressed.read_bytes())
        return np.frombuffer(contents, np.uint8, offset=header)

    images = read("train-images-idx3-ubyte", 16).reshape(-1, 28, 28, 1)
    return Arrays(images, read("train-labels-idx1-ubyte", 8).astype(np.int32))


def gray_jpeg(image: np.ndarray) -> bytes:
    """Return a gray image, (height, width, 1), as a JPEG file."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(image[..., 0]).save(file, "JPEG", quality=95)
    return file.getvalue()


def write_jpeg_records(data: Arrays, path: Path) -> None:
    """Write gray images as JPEGs to an LMDB of Caffe2 records."""
    from penstock.sources.formats.caffe.caffe2_source import write_caffe2

    write_caffe2(path, ((gray_jpeg(image), int(label)) for image, label in zip(*data, strict=True)))


def jpegs(folder: Path) -> Files:
    """Return the JPEGs of a folder, flat or with one folder per class."""
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in IMAGE_SUFFIXES)
    if not paths:
        raise SystemExit(f"{folder} does not contain {' or '.join(IMAGE_SUFFIXES)} files")
    classes = sorted({path.parent for path in paths})
    return Files([str(path) for path in paths], [classes.index(path.parent) for path in paths])
