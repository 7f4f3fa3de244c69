"""Pictures of the image operators: one photograph, and what each operator makes of it in three variations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_images

from penstock import Batch, fn, types
from penstock.graph import lookup

FOLDERS = ("color", "cropping", "filters", "noise", "resizing", "warping")  # families whose operators have pictures
HEIGHT, WIDTH = 120, 160


def vary(**arguments: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the arguments of each variation from the values of each argument."""
    return [dict(zip(arguments, values, strict=True)) for values in zip(*arguments.values(), strict=True)]


# Arguments of each variation, which are also its caption.
VARIATIONS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "brightness": vary(brightness=(0.5, 1.4, 2.0)),
    "contrast": vary(contrast=(0.4, 1.5, 2.5)),
    "brightness_contrast": vary(brightness=(0.7, 1.3, 1.3), contrast=(1.5, 0.6, 1.5)),
    "hue": vary(hue=(-60, 60, 180)),
    "saturation": vary(saturation=(0.0, 0.5, 2.0)),
    "hsv": vary(hue=(30, 30, 90), saturation=(0.5, 2, 1)),
    "color_twist": vary(hue=(20, -40, 120), saturation=(0.7, 1.5, 1), contrast=(1.2, 0.8, 1.5)),
    "color_space_conversion": vary(output_type=(types.BGR, types.YCbCr, types.GRAY)),
    "equalize": vary(brightness=(0.3, 1.0, 1.5)),
    "lookup_table": vary(levels=(2, 4, 8)),
    "clahe": vary(clip_limit=(1.0, 2.0, 6.0)),
    "debayer": vary(blue_position=((0, 0), (0, 1), (1, 1))),
    "crop_mirror_normalize": vary(crop=((120, 160), (120, 160), (80, 100)), mirror=(0, 1, 1)),
    "normalize": vary(scale=(20.0, 50.0, 120.0)),
    "crop": vary(crop=((100, 140), (80, 100), (50, 50))),
    "flip": vary(horizontal=(1, 0, 1), vertical=(0, 1, 1)),
    "pad": vary(shape=((130, 170), (150, 190), (170, 240))),
    "paste": vary(ratio=(1.2, 1.6, 2.5)),
    "multi_paste": vary(pastes=(4, 9, 16)),
    "slice": vary(anchor=(0.0, 0.25, 0.5)),
    "resize": vary(size=((60, 80), (30, 40), (120, 60))),
    "tensor_resize": vary(roi_start=((0.0, 0.0), (0.3, 0.3), (0.6, 0.6))),
    "random_resized_crop": vary(random_area=((0.6, 0.8), (0.2, 0.3), (0.05, 0.08))),
    "resize_crop_mirror": vary(resize_shorter=(120, 180, 360)),
    "fast_resize_crop_mirror": vary(resize_shorter=(40, 60, 120)),
    "rotate": vary(angle=(10, 30, 90)),
    "warp_affine": vary(matrix=((1, 0.3, -18, 0, 1, 0), (1, 0, 0, 0.3, 1, -24), (0.6, 0.1, 20, -0.1, 0.6, 32))),
    "warp_perspective": vary(
        matrix=(
            (1, 0, 0, 0, 1, 0, 0.002, 0, 1),
            (1, 0, 0, 0, 1, 0, 0, 0.003, 1),
            (1, 0, 0, 0, 1, 0, -0.002, 0.002, 1),
        )
    ),
    "remap": vary(whirl=(0.5, 1.0, 2.0)),
    "water": vary(ampl_x=(2.0, 5.0, 10.0), ampl_y=(2.0, 5.0, 10.0)),
    "sphere": vary(size=((120, 160), (80, 160), (120, 90))),
    "jitter": vary(nDegree=(2, 6, 16)),
    "erase": vary(shape=((20, 20), (40, 40), (80, 80))),
    "grid_mask": vary(tile=(12, 24, 48)),
    "gaussian_blur": vary(sigma=(0.7, 2.0, 5.0)),
    "median_blur": vary(window_size=(3, 7, 15)),
    "dilate": vary(mask_size=(3, 5, 9)),
    "erode": vary(mask_size=(3, 5, 9)),
    "laplacian": vary(scale=(0.5, 1.0, 3.0)),
    "filter": vary(sharpening=(0.3, 1.0, 3.0)),
    "noise.gaussian": vary(stddev=(10.0, 30.0, 80.0)),
    "noise.salt_and_pepper": vary(prob=(0.02, 0.1, 0.4)),
    "noise.shot": vary(factor=(5.0, 20.0, 80.0)),
    "jpeg_compression_distortion": vary(quality=(40, 10, 2)),
}

# Further arguments, the same in all variations.
FIXED: Mapping[str, Mapping[str, Any]] = {
    "clahe": {"tiles_x": 4, "tiles_y": 3},
    "color_space_conversion": {"image_type": types.RGB},
    "crop_mirror_normalize": {"mean": 64.0, "std": 0.5, "dtype": types.UINT8, "output_layout": "HWC"},
    "erase": {"anchor": [30, 40], "axis_names": "HW", "fill_value": 128},
    "fast_resize_crop_mirror": {"crop": (40, 40), "mirror": 1},
    "grid_mask": {"ratio": 0.4, "angle": 0.3},
    "jitter": {"seed": 1},
    "laplacian": {"dtype": types.UINT8},
    "noise.gaussian": {"seed": 1},
    "noise.salt_and_pepper": {"seed": 1},
    "noise.shot": {"seed": 1},
    "normalize": {"axes": (0, 1), "shift": 128.0, "dtype": types.UINT8},
    "pad": {"axis_names": "HW", "fill_value": 90},
    "paste": {"fill_value": (60, 90, 60)},
    "random_resized_crop": {"size": (HEIGHT, WIDTH), "seed": 1},
    "resize_crop_mirror": {"crop": (HEIGHT, HEIGHT), "mirror": 1},
    "rotate": {"fill_value": 0},
    "tensor_resize": {"sizes": (HEIGHT, WIDTH), "axes": (0, 1), "roi_end": (0.9, 0.9), "roi_relative": True},
    "warp_affine": {"fill_value": 0},
    "warp_perspective": {"fill_value": 0},
    "water": {"freq_x": 0.08, "freq_y": 0.08},
}


def posterize(image: Any, levels: int) -> Any:
    """Reduce the number of levels with a lookup table."""
    table = [value // (256 // levels) * (255 // (levels - 1)) for value in range(256)]
    return fn.lookup_table(image, keys=list(range(256)), values=table, dtype=types.UINT8)


def debayer(image: Any, blue_position: tuple[int, int]) -> Any:
    """Demosaic what a sensor behind a Bayer filter sees; its blue pixels are in the first corner."""
    seen = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    seen[::2, ::2, 2] = seen[::2, 1::2, 1] = seen[1::2, ::2, 1] = seen[1::2, 1::2, 0] = 1
    return fn.debayer(Batch([(image[0] * seen).max(axis=2)], "HW"), blue_position=blue_position)


def tile(image: Any, pastes: int) -> Any:
    """Paste small copies side by side."""
    n = round(pastes**0.5)
    height, width = HEIGHT // n, WIDTH // n
    copies = [fn.resize(image, size=(height, width))] * pastes
    anchors = [[height * (k // n), width * (k % n)] for k in range(pastes)]
    return fn.multi_paste(*copies, out_anchors=anchors, output_size=(HEIGHT, WIDTH))


def whirl(image: Any, whirl: float) -> Any:
    """Turn the image, most in the middle."""
    y, x = np.mgrid[:HEIGHT, :WIDTH] - np.array([HEIGHT, WIDTH]).reshape(2, 1, 1) / 2
    angle = whirl * np.exp(-np.hypot(y, x) / 40)
    maps = x * np.cos(angle) - y * np.sin(angle) + WIDTH / 2, x * np.sin(angle) + y * np.cos(angle) + HEIGHT / 2
    return fn.remap(image, *(item.astype(np.float32) for item in maps))


def sharpen(image: Any, sharpening: float) -> Any:
    """Filter with a kernel that sharpens."""
    side = -sharpening
    return fn.filter(image, np.float32([[0, side, 0], [side, 1 - 4 * side, side], [0, side, 0]]))


# Operators that need more than keyword arguments.
MAKERS: Mapping[str, Callable[..., Any]] = {
    "debayer": debayer,
    "equalize": lambda image, brightness: fn.equalize(fn.brightness(image, brightness=brightness)),
    "filter": sharpen,
    "lookup_table": posterize,
    "multi_paste": tile,
    "remap": whirl,
    "slice": lambda image, anchor: fn.slice(image, anchor, 0.5, axis_names="H"),
    "sphere": lambda image, size: fn.sphere(fn.resize(image, size=size)),
}


@cache
def photograph() -> Image.Image:
    """Return the flower that comes with scikit-learn."""
    return Image.fromarray(load_sample_images().images[1]).resize((WIDTH, HEIGHT), Image.Resampling.LANCZOS)


def captions(name: str) -> list[str]:
    """Return the arguments of each variation as code."""
    return [", ".join(f"{key}={_text(value)}" for key, value in item.items()) for item in VARIATIONS[name]]


def _text(value: Any) -> str:
    return f"types.{value.name}" if isinstance(value, types.DALIImageType) else str(value)


def draw(name: str) -> list[Image.Image]:
    """Return the picture of each variation of an operator."""
    make = MAKERS.get(name) or lookup(name)
    image = Batch([np.asarray(photograph())], "HWC")
    return [_picture(make(image, **item, **FIXED.get(name, {}))[0]) for item in VARIATIONS[name]]


def _picture(array: np.ndarray) -> Image.Image:
    return Image.fromarray(array if array.shape[2] == 3 else np.repeat(array, 3, axis=2))


def write_pictures(folder: Path) -> None:
    """Write the photograph as ``photograph.jpg``, and the variations of each operator as ``NAME-1.jpg`` and so on."""
    folder.mkdir(parents=True, exist_ok=True)
    photograph().save(folder / "photograph.jpg", quality=88)
    for name in VARIATIONS:
        for number, picture in enumerate(draw(name), 1):
            picture.save(folder / f"{name}-{number}.jpg", quality=88)
