"""Workloads of `operators.py`: each operator, and the equivalent with OpenCV, Pillow or NumPy."""

# ruff: noqa: ARG005  # all workloads have the same signature, and ignore what they do not need
from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Workload(NamedTuple):
    """Workload with one operator.

    Args:
        define: Receives images, `fn`, `types` and the size of an image, and returns images.
        library: Receives OpenCV, an image and its size, and returns an image; None if no library has the operator.
    """

    define: Callable[..., Any]
    library: Callable[..., Any] | None = None


def uniform(fn, low, high):
    """Draw one number per sample."""
    return fn.random.uniform(range=[low, high])


def linear(cv2, image, factor, shift):
    """Multiply, add and saturate."""
    return cv2.convertScaleAbs(image, alpha=factor, beta=shift)


def mixed(cv2, image, _size):
    """Mix the channels with a matrix, as a color twist does."""
    return cv2.transform(image, np.float32([[0.9, 0.05, 0.05], [0.1, 0.8, 0.1], [0, 0.1, 0.9]]))


def rotated(cv2, image, size, angle=17.0):
    """Rotate about the center."""
    matrix = cv2.getRotationMatrix2D((size / 2, size / 2), angle, 1.0)
    return cv2.warpAffine(image, matrix, (size, size), flags=cv2.INTER_LINEAR)


def compressed(_cv2, image, _size):
    """Encode and decode as JPEG."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(image).save(file, "JPEG", quality=50)
    return np.asarray(Image.open(file))


def equalized(_cv2, image, _size):
    """Equalize the histogram with Pillow."""
    from PIL import Image, ImageOps

    return np.asarray(ImageOps.equalize(Image.fromarray(image)))


def noisy(_cv2, image, _size):
    """Add Gaussian noise and saturate."""
    noise = np.random.default_rng().normal(0, 10, image.shape)
    return np.clip(image + noise, 0, 255).astype(np.uint8)


def erased(_cv2, image, size):
    """Erase a square."""
    out = image.copy()
    out[size // 4 : size // 2, size // 4 : size // 2] = 0
    return out


def normalized(_cv2, image, size):
    """Mirror and normalize to CHW."""
    return np.ascontiguousarray(((image[:, ::-1].astype(np.float32) - 128) / 64).transpose(2, 0, 1)[:, :size])


def tiled(_cv2, image, size):
    """Tile the top left quarter."""
    return np.tile(image[: size // 2, : size // 2], (2, 2, 1))


def standardized(_cv2, image, _size):
    """Scale each channel to mean 0 and standard deviation 1."""
    return ((image - image.mean(axis=(0, 1))) / image.std(axis=(0, 1))).astype(np.float32)


def clahe(cv2, image, _size):
    """Equalize the lightness per tile."""
    lab = cv2.cvtColor(image, cv2.COLOR_RGB2LAB)
    lab[..., 0] = cv2.createCLAHE(2.0, (4, 4)).apply(lab[..., 0])
    return cv2.cvtColor(lab, cv2.COLOR_LAB2RGB)


def perspective(cv2, image, size, flags):
    """Warp with a perspective matrix."""
    return cv2.warpPerspective(image, np.float32(TILTED).reshape(3, 3), (size, size), flags=flags | 16)


def maps(size):
    """Return coordinate maps of x and y for a smooth wave."""
    y, x = np.mgrid[:size, :size].astype(np.float32)
    return x + 2 * np.sin(y / 5), y + 2 * np.cos(x / 5)


def inverted(out, image):
    """Invert an image; compiled by Numba."""
    for y in range(image.shape[0]):
        for x in range(image.shape[1]):
            for channel in range(image.shape[2]):
                out[y, x, channel] = 255 - image[y, x, channel]


def inverted_all(outs, images):
    """Invert all images of a batch; compiled by Numba."""
    for out, image in zip(outs, images):  # noqa: B905  # Numba does not support `strict`
        for y in range(image.shape[0]):
            for x in range(image.shape[1]):
                for channel in range(image.shape[2]):
                    out[y, x, channel] = 255 - image[y, x, channel]


def same_shapes(outs, images):
    """Set the shapes of the outputs to those of the inputs; compiled by Numba."""
    for row in range(len(outs[0])):
        for axis in range(3):
            outs[0][row][axis] = images[0][row][axis]


def by_numba(images, fn, types, run_fn, **options):
    """Apply a user's function with `numba_function`."""
    if "nvidia" in fn.__name__:
        from nvidia.dali.plugin.numba.fn.experimental import numba_function
    else:
        numba_function = fn.numba_function
    kinds = {"in_types": [types.UINT8], "out_types": [types.UINT8], "ins_ndim": [3], "outs_ndim": [3]}
    return numba_function(images, run_fn=run_fn, **kinds, **options)


SHIFTED = [0.9, 0.1, 3.0, -0.1, 1.1, -2.0]
TILTED = [0.9, 0.1, 1.0, -0.1, 1.1, -2.0, 0.0005, 0.001, 1.0]
KERNEL = np.float32([[0, -1, 0], [-1, 5, -1], [0, -1, 0]])

WORKLOADS: dict[str, Workload] = {
    "brightness": Workload(
        lambda x, fn, types, n: fn.brightness(x, brightness=uniform(fn, 0.5, 1.5)), lambda c, x, n: linear(c, x, 1.2, 0)
    ),
    "contrast": Workload(
        lambda x, fn, types, n: fn.contrast(x, contrast=uniform(fn, 0.5, 1.5)), lambda c, x, n: linear(c, x, 1.2, -25)
    ),
    "brightness_contrast": Workload(
        lambda x, fn, types, n: fn.brightness_contrast(x, brightness=uniform(fn, 0.5, 1.5), contrast=0.8),
        lambda c, x, n: linear(c, x, 1.2, -25),
    ),
    "hue": Workload(lambda x, fn, types, n: fn.hue(x, hue=uniform(fn, -30, 30)), mixed),
    "saturation": Workload(lambda x, fn, types, n: fn.saturation(x, saturation=uniform(fn, 0, 2)), mixed),
    "hsv": Workload(lambda x, fn, types, n: fn.hsv(x, hue=uniform(fn, -30, 30), value=1.1), mixed),
    "color_twist": Workload(
        lambda x, fn, types, n: fn.color_twist(
            x, hue=uniform(fn, -30, 30), saturation=0.8, brightness=1.1, contrast=1.1
        ),
        mixed,
    ),
    "color_space_conversion": Workload(
        lambda x, fn, types, n: fn.color_space_conversion(x, image_type=types.RGB, output_type=types.YCbCr),
        lambda c, x, n: c.cvtColor(x, c.COLOR_RGB2YCrCb),
    ),
    "lookup_table": Workload(
        lambda x, fn, types, n: fn.lookup_table(
            x, keys=list(range(256)), values=list(range(255, -1, -1)), dtype=types.UINT8
        ),
        lambda c, x, n: c.LUT(x, np.arange(255, -1, -1).astype(np.uint8)),
    ),
    "equalize": Workload(lambda x, fn, types, n: fn.equalize(x), equalized),
    "clahe": Workload(lambda x, fn, types, n: fn.clahe(x, tiles_x=4, tiles_y=4, clip_limit=2.0), clahe),
    "debayer": Workload(
        lambda x, fn, types, n: fn.debayer(x[:, :, 0], blue_position=[0, 0], algorithm="bilinear_ocv"),
        lambda c, x, n: c.cvtColor(np.ascontiguousarray(x[..., 0]), c.COLOR_BayerRG2RGB),
    ),
    "normalize": Workload(lambda x, fn, types, n: fn.normalize(x, axes=[0, 1]), standardized),
    "slice": Workload(
        lambda x, fn, types, n: fn.slice(x, uniform(fn, 0, 0.1), 0.875, axes=[1]),
        lambda c, x, n: x[:, n // 16 : n // 16 + n * 7 // 8].copy(),
    ),
    "crop": Workload(
        lambda x, fn, types, n: fn.crop(x, crop=(n * 7 // 8, n * 7 // 8), crop_pos_x=uniform(fn, 0, 1)),
        lambda c, x, n: x[: n * 7 // 8, : n * 7 // 8].copy(),
    ),
    "flip": Workload(
        lambda x, fn, types, n: fn.flip(x, horizontal=fn.random.coin_flip()), lambda c, x, n: c.flip(x, 1)
    ),
    "pad": Workload(
        lambda x, fn, types, n: fn.pad(x, axis_names="HW", shape=(n + 8, n + 8)),
        lambda c, x, n: c.copyMakeBorder(x, 0, 8, 0, 8, c.BORDER_CONSTANT),
    ),
    "paste": Workload(
        lambda x, fn, types, n: fn.paste(x, ratio=1.25, fill_value=0, paste_x=uniform(fn, 0, 1)),
        lambda c, x, n: c.copyMakeBorder(x, n // 8, n // 8, n // 8, n // 8, c.BORDER_CONSTANT),
    ),
    "resize": Workload(
        lambda x, fn, types, n: fn.resize(x, size=[n * 3 // 4, n * 3 // 4]),
        lambda c, x, n: c.resize(x, (n * 3 // 4, n * 3 // 4), interpolation=c.INTER_AREA),
    ),
    "resize, cubic": Workload(
        lambda x, fn, types, n: fn.resize(x, size=[n * 5 // 4, n * 5 // 4], interp_type=types.INTERP_CUBIC),
        lambda c, x, n: c.resize(x, (n * 5 // 4, n * 5 // 4), interpolation=c.INTER_CUBIC),
    ),
    "tensor_resize": Workload(
        lambda x, fn, types, n: fn.tensor_resize(x, sizes=[n * 3 // 4, n * 3 // 4], axes=[0, 1]),
        lambda c, x, n: c.resize(x, (n * 3 // 4, n * 3 // 4), interpolation=c.INTER_AREA),
    ),
    "resize_crop_mirror": Workload(
        lambda x, fn, types, n: fn.resize_crop_mirror(
            x, size=[n * 5 // 4, n * 5 // 4], crop=(n, n), mirror=fn.random.coin_flip()
        ),
        lambda c, x, n: c.flip(c.resize(x, (n * 5 // 4, n * 5 // 4))[:n, :n], 1),
    ),
    "multi_paste": Workload(
        lambda x, fn, types, n: fn.multi_paste(
            x,
            in_ids=np.arange(4, dtype=np.int32),
            shapes=np.full((4, 2), n // 2, np.int32),
            out_anchors=np.int32([[0, 0], [0, 1], [1, 0], [1, 1]]) * (n // 2),
            output_size=(n, n),
        ),
        tiled,
    ),
    "random_resized_crop": Workload(
        lambda x, fn, types, n: fn.random_resized_crop(x, size=(n, n)),
        lambda c, x, n: c.resize(x[n // 8 : n * 3 // 4, n // 8 : n * 3 // 4], (n, n)),
    ),
    "rotate": Workload(
        lambda x, fn, types, n: fn.rotate(x, angle=uniform(fn, -30, 30), keep_size=True, fill_value=0), rotated
    ),
    "warp_affine": Workload(
        lambda x, fn, types, n: fn.warp_affine(x, matrix=SHIFTED, fill_value=0),
        lambda c, x, n: c.warpAffine(x, np.float32(SHIFTED).reshape(2, 3), (n, n), flags=c.INTER_LINEAR),
    ),
    "warp_perspective": Workload(
        lambda x, fn, types, n: fn.experimental.warp_perspective(x, matrix=TILTED),
        lambda c, x, n: perspective(c, x, n, c.INTER_LINEAR),
    ),
    "warp_perspective, cubic": Workload(
        lambda x, fn, types, n: fn.experimental.warp_perspective(x, matrix=TILTED, interp_type=types.INTERP_CUBIC),
        lambda c, x, n: perspective(c, x, n, c.INTER_CUBIC),
    ),
    "remap": Workload(
        lambda x, fn, types, n: fn.experimental.remap(x, *maps(n)),
        lambda c, x, n: c.remap(x, *maps(n), c.INTER_LINEAR),
    ),
    "jitter": Workload(lambda x, fn, types, n: fn.jitter(x)),
    "water": Workload(lambda x, fn, types, n: fn.water(x)),
    "sphere": Workload(lambda x, fn, types, n: fn.sphere(x)),
    "erase": Workload(
        lambda x, fn, types, n: fn.erase(x, anchor=[n // 4, n // 4], shape=[n // 4, n // 4], axis_names="HW"), erased
    ),
    "grid_mask": Workload(lambda x, fn, types, n: fn.grid_mask(x, tile=n // 4, ratio=0.4), erased),
    "gaussian_blur": Workload(
        lambda x, fn, types, n: fn.gaussian_blur(x, sigma=uniform(fn, 0.5, 2)),
        lambda c, x, n: c.GaussianBlur(x, (0, 0), 1.25),
    ),
    "filter": Workload(
        lambda x, fn, types, n: fn.experimental.filter(x, KERNEL) if "nvidia" in fn.__name__ else fn.filter(x, KERNEL),
        lambda c, x, n: c.filter2D(x, -1, KERNEL),
    ),
    "laplacian": Workload(
        lambda x, fn, types, n: fn.laplacian(x, dtype=types.FLOAT), lambda c, x, n: c.Laplacian(x, c.CV_32F, ksize=3)
    ),
    "median_blur": Workload(
        lambda x, fn, types, n: fn.experimental.median_blur(x, window_size=[3, 3]), lambda c, x, n: c.medianBlur(x, 3)
    ),
    "dilate": Workload(
        lambda x, fn, types, n: fn.experimental.dilate(x, mask_size=[3, 3]),
        lambda c, x, n: c.dilate(x, np.ones((3, 3), np.uint8)),
    ),
    "erode": Workload(
        lambda x, fn, types, n: fn.experimental.erode(x, mask_size=[3, 3]),
        lambda c, x, n: c.erode(x, np.ones((3, 3), np.uint8)),
    ),
    "noise.gaussian": Workload(lambda x, fn, types, n: fn.noise.gaussian(x, stddev=10.0), noisy),
    "noise.salt_and_pepper": Workload(lambda x, fn, types, n: fn.noise.salt_and_pepper(x)),
    "noise.shot": Workload(lambda x, fn, types, n: fn.noise.shot(x)),
    "jpeg_compression_distortion": Workload(
        lambda x, fn, types, n: fn.jpeg_compression_distortion(x, quality=50), compressed
    ),
    "crop_mirror_normalize": Workload(
        lambda x, fn, types, n: fn.crop_mirror_normalize(x, mirror=fn.random.coin_flip(), mean=[128.0], std=[64.0]),
        normalized,
    ),
    "numba_function": Workload(lambda x, fn, types, n: by_numba(x, fn, types, inverted)),
    "numba_function, setup_fn": Workload(
        lambda x, fn, types, n: by_numba(x, fn, types, inverted, setup_fn=same_shapes)
    ),
    "numba_function, by batch": Workload(
        lambda x, fn, types, n: by_numba(x, fn, types, inverted_all, batch_processing=True)
    ),
    "python_function": Workload(lambda x, fn, types, n: fn.python_function(x, function=np.invert)),
    "python_function, by batch": Workload(
        lambda x, fn, types, n: fn.python_function(
            x, function=lambda xs: list(map(np.invert, xs)), batch_processing=True
        )
    ),
}
