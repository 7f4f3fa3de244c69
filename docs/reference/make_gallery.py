"""Draws the gallery: each image operator on one photograph, at three magnitudes.

python docs/make_gallery.py        writes docs/gallery.md and the pictures in docs/gallery/
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_images

from penstock import Pipeline, fn, types

HERE = Path(__file__).parent
HEIGHT, WIDTH = 120, 160

Make = Callable[[Any, Any], Any]


def mosaic(images: Any) -> Any:
    """What a sensor sees behind a Bayer filter that is blue in the first corner, HW."""
    seen = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    seen[::2, ::2, 2] = seen[::2, 1::2, 1] = seen[1::2, ::2, 1] = seen[1::2, 1::2, 0] = 1
    return fn.reshape(fn.reductions.max(images * types.Constant(seen), axes=[2]), layout="HW", shape=(HEIGHT, WIDTH))


def whirl(turns: float) -> tuple[Any, Any]:
    """Maps that turn an image, its middle most."""
    y, x = np.mgrid[:HEIGHT, :WIDTH] - np.array([HEIGHT, WIDTH]).reshape(2, 1, 1) / 2
    angle = turns * np.exp(-np.hypot(y, x) / 40)
    maps = x * np.cos(angle) - y * np.sin(angle) + WIDTH / 2, x * np.sin(angle) + y * np.cos(angle) + HEIGHT / 2
    return maps[0].astype(np.float32), maps[1].astype(np.float32)


OPERATORS: dict[str, tuple[str, Make, tuple[Any, ...]]] = {
    "brightness": ("brightness", lambda x, m: fn.brightness(x, brightness=m), (0.5, 1.4, 2.0)),
    "contrast": ("contrast", lambda x, m: fn.contrast(x, contrast=m), (0.4, 1.5, 2.5)),
    "brightness_contrast": (
        "brightness, contrast",
        lambda x, m: fn.brightness_contrast(x, brightness=m[0], contrast=m[1]),
        ((0.7, 1.5), (1.3, 0.6), (1.3, 1.5)),
    ),
    "hue": ("hue", lambda x, m: fn.hue(x, hue=m), (-60, 60, 180)),
    "saturation": ("saturation", lambda x, m: fn.saturation(x, saturation=m), (0.0, 0.5, 2.0)),
    "hsv": ("hue, saturation", lambda x, m: fn.hsv(x, hue=m[0], saturation=m[1]), ((30, 0.5), (30, 2), (90, 1))),
    "color_twist": (
        "hue, saturation, contrast",
        lambda x, m: fn.color_twist(x, hue=m[0], saturation=m[1], contrast=m[2]),
        ((20, 0.7, 1.2), (-40, 1.5, 0.8), (120, 1, 1.5)),
    ),
    "color_space_conversion": (
        "output_type",
        lambda x, m: fn.color_space_conversion(x, image_type=types.RGB, output_type=m),
        (types.BGR, types.YCbCr, types.GRAY),
    ),
    "equalize": ("brightness before", lambda x, m: fn.equalize(fn.brightness(x, brightness=m)), (0.3, 1.0, 1.5)),
    "lookup_table": (
        "levels",
        lambda x, m: fn.lookup_table(
            x, keys=list(range(256)), values=[v // (256 // m) * (255 // (m - 1)) for v in range(256)], dtype=types.UINT8
        ),
        (2, 4, 8),
    ),
    "clahe": (
        "clip_limit",
        lambda x, m: fn.clahe(x, tiles_x=4, tiles_y=3, clip_limit=m),
        (1.0, 2.0, 6.0),
    ),
    "debayer": (
        "blue_position, where (1, 1) is right,",
        lambda x, m: fn.debayer(mosaic(x), blue_position=m),
        ((0, 0), (0, 1), (1, 1)),
    ),
    "crop_mirror_normalize": (
        "crop, mirror",
        lambda x, m: fn.crop_mirror_normalize(
            x, crop=m[0], mirror=m[1], mean=64.0, std=0.5, dtype=types.UINT8, output_layout="HWC"
        ),
        (((120, 160), 0), ((120, 160), 1), ((80, 100), 1)),
    ),
    "normalize": (
        "scale",
        lambda x, m: fn.normalize(x, axes=(0, 1), scale=m, shift=128.0, dtype=types.UINT8),
        (20.0, 50.0, 120.0),
    ),
    "crop": ("crop", lambda x, m: fn.crop(x, crop=m), ((100, 140), (80, 100), (50, 50))),
    "flip": (
        "horizontal, vertical",
        lambda x, m: fn.flip(x, horizontal=m[0], vertical=m[1]),
        ((1, 0), (0, 1), (1, 1)),
    ),
    "pad": (
        "shape",
        lambda x, m: fn.pad(x, axis_names="HW", shape=m, fill_value=90),
        ((130, 170), (150, 190), (170, 240)),
    ),
    "paste": ("ratio", lambda x, m: fn.paste(x, ratio=m, fill_value=(60, 90, 60)), (1.2, 1.6, 2.5)),
    "multi_paste": (
        "pastes",
        lambda x, m: fn.multi_paste(
            *[fn.resize(x, size=(HEIGHT // m, WIDTH // m))] * m**2,
            out_anchors=[[HEIGHT // m * (k // m), WIDTH // m * (k % m)] for k in range(m**2)],
            output_size=(HEIGHT, WIDTH),
        ),
        (2, 3, 4),
    ),
    "slice": ("start", lambda x, m: fn.slice(x, m, 0.5, axis_names="H"), (0.0, 0.25, 0.5)),
    "resize": ("size", lambda x, m: fn.resize(x, size=m), ((60, 80), (30, 40), (120, 60))),
    "tensor_resize": (
        "roi_start",
        lambda x, m: fn.tensor_resize(
            x, sizes=(HEIGHT, WIDTH), axes=(0, 1), roi_start=m, roi_end=(0.9, 0.9), roi_relative=True
        ),
        ((0.0, 0.0), (0.3, 0.3), (0.6, 0.6)),
    ),
    "random_resized_crop": (
        "random_area",
        lambda x, m: fn.random_resized_crop(x, size=(HEIGHT, WIDTH), random_area=m),
        ((0.6, 0.8), (0.2, 0.3), (0.05, 0.08)),
    ),
    "resize_crop_mirror": (
        "resize_shorter",
        lambda x, m: fn.resize_crop_mirror(x, resize_shorter=m, crop=(HEIGHT, HEIGHT), mirror=1),
        (120, 180, 360),
    ),
    "fast_resize_crop_mirror": (
        "resize_shorter",
        lambda x, m: fn.fast_resize_crop_mirror(x, resize_shorter=m, crop=(40, 40), mirror=1),
        (40, 60, 120),
    ),
    "rotate": ("angle", lambda x, m: fn.rotate(x, angle=m, fill_value=0), (10, 30, 90)),
    "warp_affine": (
        "matrix",
        lambda x, m: fn.warp_affine(x, matrix=m, fill_value=0),
        ((1, 0.3, -18, 0, 1, 0), (1, 0, 0, 0.3, 1, -24), (0.6, 0.1, 20, -0.1, 0.6, 32)),
    ),
    "warp_perspective": (
        "third row of the matrix",
        lambda x, m: fn.warp_perspective(x, matrix=(1, 0, 0, 0, 1, 0, *m), fill_value=0),
        ((0.002, 0, 1), (0, 0.003, 1), (-0.002, 0.002, 1)),
    ),
    "remap": ("whirl", lambda x, m: fn.remap(x, *whirl(m)), (0.5, 1.0, 2.0)),
    "water": ("ampl", lambda x, m: fn.water(x, ampl_x=m, ampl_y=m, freq_x=0.08, freq_y=0.08), (2.0, 5.0, 10.0)),
    "sphere": ("size", lambda x, m: fn.sphere(fn.resize(x, size=m)), ((120, 160), (80, 160), (120, 90))),
    "jitter": ("nDegree", lambda x, m: fn.jitter(x, nDegree=m), (2, 6, 16)),
    "erase": (
        "shape",
        lambda x, m: fn.erase(x, anchor=[30, 40], shape=[m, m], axis_names="HW", fill_value=128),
        (20, 40, 80),
    ),
    "grid_mask": ("tile", lambda x, m: fn.grid_mask(x, tile=m, ratio=0.4, angle=0.3), (12, 24, 48)),
    "gaussian_blur": ("sigma", lambda x, m: fn.gaussian_blur(x, sigma=m), (0.7, 2.0, 5.0)),
    "median_blur": ("window_size", lambda x, m: fn.median_blur(x, window_size=m), (3, 7, 15)),
    "dilate": ("mask_size", lambda x, m: fn.dilate(x, mask_size=m), (3, 5, 9)),
    "erode": ("mask_size", lambda x, m: fn.erode(x, mask_size=m), (3, 5, 9)),
    "laplacian": ("scale", lambda x, m: fn.laplacian(x, scale=m, dtype=types.UINT8), (0.5, 1.0, 3.0)),
    "filter": (
        "sharpening",
        lambda x, m: fn.filter(x, np.float32([[0, -m, 0], [-m, 1 + 4 * m, -m], [0, -m, 0]])),
        (0.3, 1.0, 3.0),
    ),
    "noise.gaussian": ("stddev", lambda x, m: fn.noise.gaussian(x, stddev=m), (10.0, 30.0, 80.0)),
    "noise.salt_and_pepper": ("prob", lambda x, m: fn.noise.salt_and_pepper(x, prob=m), (0.02, 0.1, 0.4)),
    "noise.shot": ("factor", lambda x, m: fn.noise.shot(x, factor=m), (5.0, 20.0, 80.0)),
    "jpeg_compression_distortion": (
        "quality",
        lambda x, m: fn.jpeg_compression_distortion(x, quality=m),
        (40, 10, 2),
    ),
}


def photograph() -> np.ndarray:
    """The flower that scikit-learn brings along, uint8 HWC."""
    picture = Image.fromarray(load_sample_images().images[1]).resize((WIDTH, HEIGHT), Image.Resampling.LANCZOS)
    return np.asarray(picture)


def drawn(make: Make, magnitudes: tuple[Any, ...]) -> Image.Image:
    """The photograph, and what an operator makes of it, side by side in boxes of one size."""
    pipeline = Pipeline(batch_size=1, seed=1)
    with pipeline:
        given = fn.readers.arrays(photograph()[None], layout="HWC")
        pipeline.set_outputs(given, *(make(given, each) for each in magnitudes))
    strip = Image.new("RGB", (4 * WIDTH + 18, HEIGHT), "white")
    for number, output in enumerate(pipeline.run()):
        pixels = np.asarray(output[0])
        picture = Image.fromarray(pixels if pixels.shape[2] == 3 else np.repeat(pixels, 3, axis=2))
        picture.thumbnail((WIDTH, HEIGHT))
        left = number * (WIDTH + 6) + (WIDTH - picture.width) // 2
        strip.paste(picture, (left, (HEIGHT - picture.height) // 2))
    return strip


def page() -> str:
    """The page, which names the pictures."""
    lines = [
        "# Gallery",
        "",
        "Each image operator applied to a photograph: the original on the left, then the result at three magnitudes.",
        "`python docs/make_gallery.py` draws the images again.",
        "",
    ]
    for name, (argument, _, magnitudes) in OPERATORS.items():
        said = ", ".join(getattr(each, "name", str(each)) for each in magnitudes)
        lines += [f"**`fn.{name}`**: {argument} {said}", "", f"![{name}](gallery/{name}.jpg)", ""]
    return "\n".join(lines[:-1]) + "\n"


def main() -> None:
    """Write the page and its pictures."""
    folder = HERE / "gallery"
    folder.mkdir(exist_ok=True)
    for name, (_, make, magnitudes) in OPERATORS.items():
        drawn(make, magnitudes).save(folder / f"{name}.jpg", quality=80)
    (HERE / "gallery.md").write_text(page())


if __name__ == "__main__":
    main()
