"""The handwritten digits of scikit-learn as a data set that pipelines can read."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

from penstock.sources.formats.caffe.caffe2_source import write_caffe2


def write_digits(folder: Path) -> Path:
    """Write 1,797 real digits as two Caffe2 LMDBs of 28x28 JPEGs, unless they exist.

    Every sixth digit goes to ``testing``, 300 in all; the other 1,497 go to ``training``.
    """
    parts = {"training": lambda number: number % 6 != 0, "testing": lambda number: number % 6 == 0}
    digits = load_digits()
    for name, belongs in parts.items():
        if not (folder / name / "data.mdb").exists():
            numbers = [number for number in range(len(digits.images)) if belongs(number)]
            write_caffe2(folder / name, ((_jpeg(digits.images[n]), int(digits.target[n])) for n in numbers))
    return folder


def digit_arrays(split: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the digits of "train" or "test": images, uint8 (rows, 28, 28, 1), and classes, int32 (rows,)."""
    digits = load_digits()
    chosen = [number for number in range(len(digits.images)) if (number % 6 == 0) == (split == "test")]
    images = np.stack([np.asarray(_enlarged(digits.images[number])) for number in chosen])
    return images[..., None], digits.target[chosen].astype(np.int32)


def _enlarged(image: np.ndarray) -> Image.Image:
    pixels = Image.fromarray((image * (255 / 16)).astype(np.uint8))
    return pixels.resize((28, 28), Image.Resampling.BICUBIC)


def _jpeg(image: np.ndarray) -> bytes:
    file = io.BytesIO()
    _enlarged(image).save(file, "JPEG", quality=95)
    return file.getvalue()
