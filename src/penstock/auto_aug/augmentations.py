"""Augmentations of AutoAugment, RandAugment and TrivialAugment.

Images are uint8 of layout HWC or FHWC. The magnitude ranges are DALI's, which follow
`AutoAugment <https://arxiv.org/abs/1805.09501>`_ and `RandAugment <https://arxiv.org/abs/1909.13719>`_. Use the method
`augmentation` to change the range of an augmentation.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock import fn, types
from penstock.auto_aug.core.decorator import Augmentation, augmentation
from penstock.core import user_call_site
from penstock.errors import DefinitionError
from penstock.graph import DataNode

__all__ = [
    "auto_contrast",
    "brightness",
    "color",
    "contrast",
    "equalize",
    "identity",
    "invert",
    "posterize",
    "rotate",
    "sharpness",
    "shear_x",
    "shear_y",
    "solarize",
    "solarize_add",
    "translate_x",
    "translate_x_no_shape",
    "translate_y",
    "translate_y_no_shape",
]

# Weights of R, G and B in the luma of ITU-R BT.601, which Pillow's conversion to gray uses.
_GREY = np.array([0.299, 0.587, 0.114], np.float32)
# Pillow's `ImageFilter.SMOOTH`, the degenerate image of its `ImageEnhance.Sharpness`.
_SMOOTH = np.array([[1, 1, 1], [1, 5, 1], [1, 1, 1]], np.float32) / 13
# The kernel that leaves an image unchanged.
_SAME = np.array([[0, 0, 0], [0, 1, 0], [0, 0, 0]], np.float32)


def _moved(x: float = 0.0, y: float = 0.0) -> Any:
    """Return the matrix of a translation to the right and down, which maps output pixels to input pixels."""
    return np.array([1, 0, -x, 0, 1, -y], np.float32)


def _moved_by(pixels: DataNode, one: Any) -> DataNode:
    """Return the translation by a number of pixels, a multiple of the translation by one pixel."""
    # `pixels` is a node with one value per sample, so the matrix must be arithmetic on nodes.
    matrix = types.Constant(_moved()) + pixels * types.Constant(one - _moved())
    return fn.cast(matrix, dtype=types.FLOAT)


def _warp(data: Any, matrix: Any, fill_value: Any = 128, interp_type: Any = None) -> DataNode:
    interpolation = types.INTERP_LINEAR if interp_type is None else interp_type
    return fn.warp_affine(data, matrix=matrix, fill_value=fill_value, interp_type=interpolation)


def _sheared(factor_x: float, factor_y: float) -> Any:
    """Return the matrix of a shear, which maps output pixels to input pixels."""
    return np.array([1, -factor_x, 0, -factor_y, 1, 0], np.float32)


def warp_x_param(magnitude: Any) -> list[Any]:
    """Return (magnitude, 0), for `mag_to_param` of custom augmentations along x."""
    return [magnitude, 0]


def warp_y_param(magnitude: Any) -> list[Any]:
    """Return (0, magnitude), for `mag_to_param` of custom augmentations along y."""
    return [0, magnitude]


shear_x = Augmentation(_warp, (0, 0.3), True, lambda factor: _sheared(factor, 0), name="shear_x")
shear_y = Augmentation(_warp, (0, 0.3), True, lambda factor: _sheared(0, factor), name="shear_y")


@augmentation(mag_range=(0.0, 1.0), randomly_negate=True)
def translate_x(data: Any, part: Any, shape: Any, fill_value: Any = 128, interp_type: Any = None) -> DataNode:
    """Translate the images along x by a fraction of their width."""
    # Shapes are (height, width).
    return _warp(data, _moved_by(part * shape[1], _moved(x=1)), fill_value, interp_type)


@augmentation(mag_range=(0.0, 1.0), randomly_negate=True)
def translate_y(data: Any, part: Any, shape: Any, fill_value: Any = 128, interp_type: Any = None) -> DataNode:
    """Translate the images along y by a fraction of their height."""
    return _warp(data, _moved_by(part * shape[0], _moved(y=1)), fill_value, interp_type)


# Translations by a number of pixels. They have the same names as those with a shape, so a policy can contain either.
translate_x_no_shape = Augmentation(_warp, (0, 250), True, lambda pixels: _moved(x=pixels), name="translate_x")
translate_y_no_shape = Augmentation(_warp, (0, 250), True, lambda pixels: _moved(y=pixels), name="translate_y")


@augmentation(mag_range=(0, 30), randomly_negate=True)
def rotate(
    data: Any, angle: Any, fill_value: Any = 128, interp_type: Any = None, rotate_keep_size: bool = True
) -> DataNode:
    """Rotate the images by an angle in degrees."""
    interpolation = types.INTERP_LINEAR if interp_type is None else interp_type
    return fn.rotate(data, angle=angle, fill_value=fill_value, interp_type=interpolation, keep_size=rotate_keep_size)


def shift_enhance_range(magnitude: Any) -> Any:
    """Return the enhancement factor 1 + magnitude, which is 1 (no change) for a magnitude of 0."""
    return 1 + magnitude


@augmentation(mag_range=(0, 0.9), randomly_negate=True, mag_to_param=shift_enhance_range)
def brightness(data: Any, factor: Any) -> DataNode:
    """Multiply all values by a factor."""
    return fn.brightness(data, brightness=factor)


@augmentation(mag_range=(0, 0.9), randomly_negate=True, mag_to_param=shift_enhance_range)
def contrast(data: Any, factor: Any) -> DataNode:
    """Scale the distance from the mean gray of the image by a factor, as Pillow does."""
    means = fn.reductions.mean(data, axis_names="HW", keep_dims=True)
    centre = fn.reductions.sum(means * types.Constant(_GREY), axis_names="C", keep_dims=True)
    return fn.cast_like(centre + (data - centre) * factor, data)


@augmentation(mag_range=(0, 0.9), randomly_negate=True, mag_to_param=shift_enhance_range)
def color(data: Any, factor: Any) -> DataNode:
    """Scale the saturation by a factor."""
    return fn.saturation(data, saturation=factor)


def sharpness_kernel(magnitude: Any) -> NDArray[np.float32]:
    """Return the kernel that sharpens for positive magnitudes and smooths for negative ones."""
    # Pillow extrapolates from the smoothed image to the original. Filters are linear, so their kernels can be blended.
    return ((1 + magnitude) * _SAME - magnitude * _SMOOTH).astype(np.float32)


def sharpness_kernel_shifted(magnitude: Any) -> NDArray[np.float32]:
    """Return the kernel for an enhancement factor: 1 leaves an image unchanged."""
    return sharpness_kernel(magnitude - 1)


@augmentation(mag_range=(0, 0.9), randomly_negate=True, mag_to_param=sharpness_kernel)
def sharpness(data: Any, kernel: Any) -> DataNode:
    """Sharpen or smooth the images with Pillow's kernel. Unlike in Pillow, the border is filtered as well."""
    return fn.filter(data, kernel)


def poster_mask_uint8(magnitude: Any) -> NDArray[np.uint8]:
    """Return the mask of the upper bits. The magnitude is the number of bits, at least 1."""
    # Without the minimum, bin 0 of AutoAugment's range (0, 4) would make every image black.
    kept = int(np.clip(np.round(magnitude), 1, 8))
    return np.array(256 - (1 << (8 - kept)), np.uint8)


@augmentation(mag_range=(0, 4), mag_to_param=poster_mask_uint8)
def posterize(data: Any, mask: Any) -> DataNode:
    """Keep only the upper bits of each value."""
    return data & mask


# The range is descending: a lower threshold inverts more pixels.
@augmentation(mag_range=(256, 0))
def solarize(data: Any, threshold: Any) -> DataNode:
    """Invert the values at or above a threshold."""
    # Multiplication by a mask, because an `if` chooses per sample, not per pixel.
    below = data < threshold
    return below * data + (below ^ True) * (types.Constant(255, dtype=types.UINT8) - data)


def solarize_add_shift(shift: Any) -> NDArray[np.uint8]:
    """Return the value to add, as uint8.

    Raises:
        DefinitionError: The value is 128 or more.
    """
    # It is added to values below 128, and the sums must fit into a byte.
    if shift >= 128:
        raise DefinitionError("solarize_add adds less than 128", given=shift, where=user_call_site())
    return np.array(shift, np.uint8)


@augmentation(mag_range=(0, 110), mag_to_param=solarize_add_shift)
def solarize_add(data: Any, shift: Any) -> DataNode:
    """Add a number to the values below 128."""
    return fn.cast_like(data + (data < types.Constant(128, dtype=types.UINT8)) * shift, data)


@augmentation
def invert(data: Any, _: Any) -> DataNode:
    """Invert the images: 255 minus each value."""
    return types.Constant(255, dtype=types.UINT8) - data


@augmentation
def equalize(data: Any, _: Any) -> DataNode:
    """Equalize the histogram of each channel."""
    return fn.equalize(data)


@augmentation
def auto_contrast(data: Any, _: Any) -> DataNode:
    """Stretch each channel to the range 0 to 255. A channel with a single value is unchanged."""
    low = fn.reductions.min(data, axis_names="HW", keep_dims=True)
    high = fn.reductions.max(data, axis_names="HW", keep_dims=True)
    # For a channel with a single value, subtract 0 and multiply by 255 / 255, which avoids the division by zero.
    spread = high > low
    width = (high - low) * spread + types.Constant(255, dtype=types.UINT8) * (spread ^ True)
    return fn.cast_like((data - low * spread) * (255 / width), data)


@augmentation
def identity(data: Any, _: Any) -> DataNode:
    """Return the images unchanged."""
    return data


def translations(
    use_shape: bool, default_abs: float, default_rel: float, max_translate_abs: Any, max_translate_rel: Any
) -> list[Augmentation]:
    """Return the translations along x and y.

    Args:
        use_shape: True for translations in fractions of the size, False for pixels.
        default_abs: Default of `max_translate_abs`.
        default_rel: Default of `max_translate_rel`.
        max_translate_abs: Largest translation in pixels: a number, (height, width), or None for the default.
        max_translate_rel: Largest translation as a fraction of the size: a number, (height, width), or None.

    Raises:
        DefinitionError: The limit does not match `use_shape`.
    """
    wrong = max_translate_abs if use_shape else max_translate_rel
    if wrong is not None:
        names = ("max_translate_abs", "max_translate_rel") if use_shape else ("max_translate_rel", "max_translate_abs")
        raise DefinitionError(
            f"{names[0]} applies {'without' if use_shape else 'with'} shape=", given=wrong, fix=f"{names[1]}=..."
        )
    limit, default = (max_translate_rel, default_rel) if use_shape else (max_translate_abs, default_abs)
    limit = default if limit is None else limit
    # DALI's order is that of shapes; x moves along the width.
    height, width = limit if isinstance(limit, tuple | list) else (limit, limit)
    along = (translate_x, translate_y) if use_shape else (translate_x_no_shape, translate_y_no_shape)
    return [item.augmentation((0, extent), True) for item, extent in zip(along, (width, height), strict=True)]


def learned(moves: Sequence[Augmentation]) -> list[Augmentation]:
    """Return the augmentations with AutoAugment's ranges. For some of them, the middle bins are the weakest.

    Args:
        moves: Translations along x and y.
    """
    # The enhancement factors run from 0.1 to 1.9 without a random sign, so the middle bin is a factor of 1: no change.
    return [
        *moves,
        shear_x.augmentation((0, 0.3), True),
        shear_y.augmentation((0, 0.3), True),
        rotate.augmentation((0, 30), True),
        *(item.augmentation((0.1, 1.9), False, None) for item in (brightness, contrast, color)),
        sharpness.augmentation((0.1, 1.9), False, sharpness_kernel_shifted),
        posterize.augmentation((0, 4), False, poster_mask_uint8),
        solarize.augmentation((0, 256), False),
        equalize,
        auto_contrast,
    ]


def monotonic(
    moves: Sequence[Augmentation], shear: float, angle: float, enhanced: tuple[float, float], bits: tuple[int, int]
) -> list[Augmentation]:
    """Return the augmentations whose strength increases with the bin.

    Args:
        moves: Translations along x and y.
        shear: Largest shear factor.
        angle: Largest angle, in degrees.
        enhanced: Distance of the factors of brightness, contrast, color and sharpness from 1, in the first and the last
            bin.
        bits: Number of bits that `posterize` keeps, in the first and last bin.
    """
    # The enhancements get a random sign instead of a range around 1, so their strength increases with the bin, too.
    return [
        *moves,
        shear_x.augmentation((0, shear), True),
        shear_y.augmentation((0, shear), True),
        rotate.augmentation((0, angle), True),
        *(item.augmentation(enhanced, True, shift_enhance_range) for item in (brightness, contrast, color)),
        sharpness.augmentation(enhanced, True, sharpness_kernel),
        posterize.augmentation(bits, False, poster_mask_uint8),
        solarize.augmentation((256, 0)),
        equalize,
        auto_contrast,
        identity,
    ]
