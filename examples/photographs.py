"""The two photographs of scikit-learn, cut into a small set of JPEG files in two classes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_images


def write_photographs(folder: Path, per_class: int = 48) -> Path:
    """Write JPEGs with sides of 150 to 400 pixels into ``china/`` and ``flower/``, unless they exist."""
    rng = np.random.default_rng(0)
    for name, pixels in zip(("china", "flower"), load_sample_images().images, strict=True):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for number in range(per_class):
            height, width = rng.integers(150, 400, 2)
            top, left = rng.integers(0, pixels.shape[0] - height), rng.integers(0, pixels.shape[1] - width)
            path = folder / name / f"{number:03}.jpg"
            if not path.exists():
                Image.fromarray(pixels[top : top + height, left : left + width]).save(path, quality=90)
    return folder
