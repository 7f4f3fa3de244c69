"""Small data sets for documentation, examples and tests: photographs, boxes, masks, videos and sounds.

A class is a shape in a color on a background that differs from sample to sample, so a small network learns the classes
in a few steps. Two calls with the same arguments write the same files.
"""

import json
import wave
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from penstock.core.optional_import import import_extra

SHAPES = ("circle", "square", "triangle")
COLORS = ((220, 60, 50), (50, 170, 80), (60, 90, 220))
SOUND_RATE = 16_000


def write_photographs(
    folder: str | Path,
    *,
    classes: Sequence[str] = SHAPES,
    samples_per_class: int = 16,
    sizes: tuple[int, int] = (96, 160),
) -> Path:
    """Write JPEG files into one folder per class, as in ImageNet: ``folder/circle/000.jpg``.

    Args:
        folder: The folder to write to. It is created.
        classes: Names of at most three classes: the subfolders. The first is a red circle, the second a green square,
            the third a blue triangle.
        samples_per_class: Number of files per class.
        sizes: Smallest and largest height and width in pixels, both included.

    Returns:
        The folder.

    Example:
        >>> from tempfile import mkdtemp
        >>> from penstock.testing import write_photographs
        >>> photos = write_photographs(mkdtemp(), samples_per_class=2)
        >>> sorted(str(path.relative_to(photos)) for path in photos.rglob("*.jpg"))[:3]
        ['circle/000.jpg', 'circle/001.jpg', 'square/000.jpg']
    """
    if len(classes) > len(SHAPES):
        raise ValueError(f"write_photographs: given {len(classes)} classes; expected at most {len(SHAPES)}")
    folder = Path(folder)
    for label, name in enumerate(classes):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for number in range(samples_per_class):
            rng = np.random.default_rng((label, number))
            height, width = rng.integers(sizes[0], sizes[1] + 1, 2)
            pixels = _background(rng, height, width)
            _draw_shape(rng, pixels, label)
            _save_jpeg(folder / name / f"{number:03}.jpg", pixels)
    return folder


def write_scenes(folder: str | Path, *, num_images: int = 24, sizes: tuple[int, int] = (128, 192)) -> Path:
    """Write images with one to four shapes each, COCO annotations and masks.

    Args:
        folder: The folder to write to. It is created.
        num_images: Number of images.
        sizes: Smallest and largest height and width in pixels, both included.

    Returns:
        The folder. It contains ``images/000.jpg``, ``annotations.json`` in the COCO format (boxes and areas; the
        categories 1 to 3 are circle, square and triangle), and ``masks/000.png``: uint8, one channel, 0 for the
        background and otherwise the category of each pixel.

    Example:
        >>> from tempfile import mkdtemp
        >>> from penstock.testing import write_scenes
        >>> scenes = write_scenes(mkdtemp(), num_images=2)
        >>> sorted(path.name for path in scenes.iterdir())
        ['annotations.json', 'images', 'masks']
    """
    folder = Path(folder)
    for name in ("images", "masks"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    images, annotations = list[dict[str, Any]](), list[dict[str, Any]]()
    for number in range(num_images):
        rng = np.random.default_rng(number)
        height, width = (int(extent) for extent in rng.integers(sizes[0], sizes[1] + 1, 2))
        pixels, mask = _background(rng, height, width), np.zeros((height, width), np.uint8)
        for label in rng.integers(0, len(SHAPES), rng.integers(1, 5)):
            inside = _draw_shape(rng, pixels, int(label), (0.15, 0.3))
            mask[inside] = label + 1
            rows, columns = np.nonzero(inside.any(1))[0], np.nonzero(inside.any(0))[0]
            corner = int(columns[0]), int(rows[0])
            extent = int(columns[-1]) + 1 - corner[0], int(rows[-1]) + 1 - corner[1]
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": number,
                    "category_id": int(label) + 1,
                    "bbox": [*corner, *extent],
                    "area": int(inside.sum()),
                    "iscrowd": 0,
                }
            )
        name = f"{number:03}"
        _save_jpeg(folder / "images" / f"{name}.jpg", pixels)
        Image.fromarray(mask).save(folder / "masks" / f"{name}.png")
        images.append({"id": number, "file_name": f"{name}.jpg", "width": width, "height": height})
    categories = [{"id": label + 1, "name": name} for label, name in enumerate(SHAPES)]
    described = {"images": images, "annotations": annotations, "categories": categories}
    (folder / "annotations.json").write_text(json.dumps(described))
    return folder


def write_videos(
    folder: str | Path, *, samples_per_class: int = 2, num_frames: int = 24, size: tuple[int, int] = (96, 128)
) -> Path:
    """Write MP4 files of moving shapes into one folder per class: ``folder/circle/000.mp4``.

    Args:
        folder: The folder to write to. It is created.
        samples_per_class: Number of files per class.
        num_frames: Frames per file, at 12 frames per second.
        size: Height and width in pixels, both even.

    Returns:
        The folder.

    Raises:
        ImportError: The extra ``video`` is not installed.
    """
    av: Any = import_extra("av", "video", "write_videos")
    folder = Path(folder)
    for label, name in enumerate(SHAPES):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for number in range(samples_per_class):
            rng = np.random.default_rng((label, number))
            background, shape_state = _background(rng, *size), rng.bit_generator.state
            with av.open(folder / name / f"{number:03}.mp4", "w") as container:
                stream = container.add_stream("mpeg4", rate=12)
                stream.height, stream.width, stream.pix_fmt = *size, "yuv420p"
                stream.bit_rate = 2_000_000  # by default, later frames lose the noise of the background
                for frame in range(num_frames):
                    rng.bit_generator.state = shape_state  # the same shape in each frame, some columns further
                    moved = background.copy()
                    _draw_shape(rng, moved, label)
                    pixels = np.roll(moved, 2 * frame, axis=1)
                    container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels)))
                container.mux(stream.encode())
    return folder


def write_sounds(folder: str | Path, *, samples_per_class: int = 4, seconds: float = 0.5) -> Path:
    """Write WAV files (one channel, 16 bits, 16 kHz) into one folder per class: ``folder/rising/000.wav``.

    Args:
        folder: The folder to write to. It is created.
        samples_per_class: Number of files per class. The classes are "falling", "rising" and "steady": how the pitch
            changes.
        seconds: Mean duration. Durations differ by up to a fifth.

    Returns:
        The folder.

    Example:
        >>> from tempfile import mkdtemp
        >>> from penstock.testing import write_sounds
        >>> sorted(path.name for path in write_sounds(mkdtemp(), samples_per_class=1).iterdir())
        ['falling', 'rising', 'steady']
    """
    folder = Path(folder)
    for label, name in enumerate(("falling", "rising", "steady")):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for number in range(samples_per_class):
            rng = np.random.default_rng((label, number))
            time = np.arange(int(SOUND_RATE * seconds * rng.uniform(0.8, 1.2))) / SOUND_RATE
            pitch = rng.uniform(400, 600) + (-300, 300, 0)[label] * time / time[-1]
            signal = 0.4 * np.sin(2 * np.pi * np.cumsum(pitch) / SOUND_RATE) + rng.normal(0, 0.02, time.size)
            with wave.open(str(folder / name / f"{number:03}.wav"), "wb") as file:
                file.setnchannels(1)
                file.setsampwidth(2)
                file.setframerate(SOUND_RATE)
                file.writeframes((signal * 32767).astype("<i2").tobytes())
    return folder


def _background(rng: np.random.Generator, height: int, width: int) -> np.ndarray[Any, Any]:
    """Colors that change slowly over the image, with noise: (height, width, 3), uint8."""
    y, x = np.linspace(0, 1, height)[:, None, None], np.linspace(0, 1, width)[None, :, None]
    corners = rng.uniform(90, 200, (2, 2, 3))
    colors = (corners[0, 0] * (1 - x) + corners[0, 1] * x) * (1 - y) + (corners[1, 0] * (1 - x) + corners[1, 1] * x) * y
    return np.clip(colors + rng.normal(0, 8, (height, width, 1)), 0, 255).astype(np.uint8)


def _draw_shape(
    rng: np.random.Generator, pixels: np.ndarray[Any, Any], label: int, radii: tuple[float, float] = (0.25, 0.35)
) -> np.ndarray[Any, Any]:
    """Draw a shape inside the image, its radius a share of the shorter side; return the mask of its pixels."""
    height, width = pixels.shape[:2]
    radius = rng.uniform(*radii) * min(height, width)
    y = np.arange(height)[:, None] - rng.uniform(radius, height - radius)
    x = np.arange(width) - rng.uniform(radius, width - radius)
    inside = (
        np.hypot(y, x) < radius,
        np.maximum(abs(y), abs(x)) < radius,
        (abs(y) < radius) & (abs(x) < (y + radius) / 2),
    )[label]
    pixels[inside] = np.clip(COLORS[label] + rng.normal(0, 12, 3), 0, 255)
    return inside


def _save_jpeg(path: Path, pixels: np.ndarray[Any, Any]) -> None:
    Image.fromarray(pixels).save(path, quality=92)
