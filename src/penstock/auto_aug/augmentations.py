"""Augmentations of AutoAugment, RandAugment and TrivialAugment.

They take images, uint8, of layout HWC or FHWC. Their numbers are DALI's, which follow
`AutoAugment <https://arxiv.org/abs/1805.09501>`_ and `RandAugment <https://arxiv.org/abs/1909.13719>`_. The method
`augmentation` changes ranges of magnitudes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock import fn, types
from penstock.auto_aug.core.decorator import Augmentation, augmentation
from penstock.core.call_site import user_call_site
from penstock.errors import DefinitionError
from penstock.graph.tracing.trace import DataNode

_GREY = np.array([0.299, 0.587, 0.114], np.float32)
_SMOOTH = np.array([[1, 1, 1], [1, 5, 1], [1, 1, 1]], np.float32) / 13
_SAME = np.array([[0, 0, 0], [0, 1, 0], [0, 0, 0]], np.float32)


def _moved(x: float = 0.0, y: float = 0.0) -> Any:
    """Return the matrix of a translation to the right and down, from the result to the image."""
    return np.array([1, 0, -x, 0, 1, -y], np.float32)


def _moved_by(pixels: DataNode, one: Any) -> DataNode:
    """Return a translation by a number of pixels from the translation by one pixel."""
    matrix = types.Constant(_moved()) + pixels * types.Constant(one - _moved())
    return fn.cast(matrix, dtype=types.FLOAT)


def _warped(data: DataNode, matrix: Any, fill_value: float | None, interp_type: Any) -> DataNode:
    interpolation = types.INTERP_LINEAR if interp_type is None else interp_type
    return fn.warp_affine(data, matrix=matrix, fill_value=fill_value, interp_type=interpolation)


def _sheared(factor_x: float, factor_y: float) -> Any:
    """Return the matrix of a shear, from the result to the image."""
    return np.array([1, -factor_x, 0, -factor_y, 1, 0], np.float32)


def warp_x_param(magnitude: Any) -> list[Any]:
    """Return a magnitude along x, for `mag_to_param` of custom augmentations."""
    return [magnitude, 0]


def warp_y_param(magnitude: Any) -> list[Any]:
    """Return a magnitude along y, for `mag_to_param` of custom augmentations."""
    return [0, magnitude]


@augmentation(mag_range=(0, 0.3), randomly_negate=True, mag_to_param=lambda magnitude: _sheared(magnitude, 0))
def shear_x(data: Any, matrix: Any, fill_value: Any = 128, interp_type: Any = None) -> DataNode:
    """Rows moved sideways, in proportion to their number."""
    return _warped(data, matrix, fill_value, interp_type)


@augmentation(mag_range=(0, 0.3), randomly_negate=True, mag_to_param=lambda magnitude: _sheared(0, magnitude))
def shear_y(data: Any, matrix: Any, fill_value: Any = 128, interp_type: Any = None) -> DataNode:
    """Columns moved up or down, in proportion to their number."""
    return _warped(data, matrix, fill_value, interp_type)


@augmentation(mag_range=(0.0, 1.0), randomly_negate=True)
def translate_x(data: Any, part: Any, shape: Any, fill_value: Any = 128, interp_type: Any = None) -> DataNode:
    """Moved sideways by a part of the width."""
    return _warped(data, _moved_by(part * shape[1], _moved(x=1)), fill_value, interp_type)


@augmentation(mag_range=(0.0, 1.0), randomly_negate=True)
def translate_y(data: Any, part: Any, shape: Any, fill_value: Any = 128, interp_type: Any = None) -> DataNode:
    """Moved up or down by a part of the height."""
    return _warped(data, _moved_by(part * shape[0], _moved(y=1)), fill_value, interp_type)


@augmentation(
    mag_range=(0, 250), randomly_negate=True, mag_to_param=lambda pixels: _moved(x=pixels), name="translate_x"
)
def translate_x_no_shape(data: Any, matrix: Any, fill_value: Any = 128, interp_type: Any = None) -> DataNode:
    """Moved sideways by a number of pixels."""
    return _warped(data, matrix, fill_value, interp_type)


@augmentation(
    mag_range=(0, 250), randomly_negate=True, mag_to_param=lambda pixels: _moved(y=pixels), name="translate_y"
)
def translate_y_no_shape(data: Any, matrix: Any, fill_value: Any = 128, interp_type: Any = None) -> DataNode:
    """Moved up or down by a number of pixels."""
    return _warped(data, matrix, fill_value, interp_type)


@augmentation(mag_range=(0, 30), randomly_negate=True)
def rotate(
    data: Any, angle: Any, fill_value: Any = 128, interp_type: Any = None, rotate_keep_size: bool = True
) -> DataNode:
    """Turned, by degrees."""
    interpolation = types.INTERP_LINEAR if interp_type is None else interp_type
    return fn.rotate(data, angle=angle, fill_value=fill_value, interp_type=interpolation, keep_size=rotate_keep_size)


def shift_enhance_range(magnitude: Any) -> Any:
    """Factors around 1, of magnitudes around 0."""
    return 1 + magnitude


@augmentation(mag_range=(0, 0.9), randomly_negate=True, mag_to_param=shift_enhance_range)
def brightness(data: Any, factor: Any) -> DataNode:
    """All values times a factor."""
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
    """The filter that sharpens by magnitudes above 0, and smooths by those below."""
    return ((1 + magnitude) * _SAME - magnitude * _SMOOTH).astype(np.float32)


def sharpness_kernel_shifted(magnitude: Any) -> NDArray[np.float32]:
    """The filter for factors around 1."""
    return sharpness_kernel(magnitude - 1)


@augmentation(mag_range=(0, 0.9), randomly_negate=True, mag_to_param=sharpness_kernel)
def sharpness(data: Any, kernel: Any) -> DataNode:
    """Sharpened or smoothed, by Pillow's filter; the edge of an image is filtered, too."""
    return fn.filter(data, kernel)


def poster_mask_uint8(magnitude: Any) -> NDArray[np.uint8]:
    """Return the mask of the upper bits: their number is the magnitude, at least one."""
    kept = int(np.clip(np.round(magnitude), 1, 8))
    return np.array(256 - (1 << (8 - kept)), np.uint8)


@augmentation(mag_range=(0, 4), mag_to_param=poster_mask_uint8)
def posterize(data: Any, mask: Any) -> DataNode:
    """Keep only the upper bits."""
    return data & mask


@augmentation(mag_range=(256, 0))
def solarize(data: Any, threshold: Any) -> DataNode:
    """Values from a threshold on inverted."""
    below = data < threshold
    return below * data + (below ^ True) * (types.Constant(255, dtype=types.UINT8) - data)


def solarize_add_shift(shift: Any) -> NDArray[np.uint8]:
    """The number that is added.

    Raises:
        DefinitionError: a sum would not be a byte.
    """
    if shift >= 128:
        raise DefinitionError("solarize_add adds less than 128", given=shift, where=user_call_site())
    return np.array(shift, np.uint8)


@augmentation(mag_range=(0, 110), mag_to_param=solarize_add_shift)
def solarize_add(data: Any, shift: Any) -> DataNode:
    """Add a number to the values of the lower half."""
    return fn.cast_like(data + (data < types.Constant(128, dtype=types.UINT8)) * shift, data)


@augmentation
def invert(data: Any, _: Any) -> DataNode:
    """255 minus the values."""
    return types.Constant(255, dtype=types.UINT8) - data


@augmentation
def equalize(data: Any, _: Any) -> DataNode:
    """Histogram equalisation."""
    return fn.equalize(data)


@augmentation
def auto_contrast(data: Any, _: Any) -> DataNode:
    """Each channel spread from 0 to 255; one that has one value stays."""
    low = fn.reductions.min(data, axis_names="HW", keep_dims=True)
    high = fn.reductions.max(data, axis_names="HW", keep_dims=True)
    spread = high > low
    width = (high - low) * spread + types.Constant(255, dtype=types.UINT8) * (spread ^ True)
    return fn.cast_like((data - low * spread) * (255 / width), data)


@augmentation
def identity(data: Any, _: Any) -> DataNode:
    """Return the images unchanged."""
    return data


def translations(
    use_shape: bool, most: float, most_of_shape: float, given: Any, given_of_shape: Any
) -> list[Augmentation]:
    """Return the translations along x and y.

    Args:
        use_shape: whether they are parts of an image's size, not pixels.
        most: the greatest number of pixels where none is given.
        most_of_shape: the greatest part of the size, likewise.
        given: the greatest number of pixels, or one for the height and one for the width; None for the default.
        given_of_shape: the greatest part, likewise.

    Raises:
        DefinitionError: the limit that does not apply is given.
    """
    wrong = given if use_shape else given_of_shape
    if wrong is not None:
        names = ("max_translate_abs", "max_translate_rel") if use_shape else ("max_translate_rel", "max_translate_abs")
        raise DefinitionError(
            f"{names[0]} applies {'without' if use_shape else 'with'} shape=",
            given=wrong,
            fix=f"{names[1]}=...",
            where=user_call_site(),
        )
    limit, default = (given_of_shape, most_of_shape) if use_shape else (given, most)
    limit = default if limit is None else limit
    height, width = limit if isinstance(limit, tuple | list) else (limit, limit)
    along = (translate_x, translate_y) if use_shape else (translate_x_no_shape, translate_y_no_shape)
    return [item.augmentation((0, extent), True) for item, extent in zip(along, (width, height), strict=True)]


def learned(moves: Sequence[Augmentation]) -> list[Augmentation]:
    """Return the augmentations with AutoAugment's ranges, in which the middle bins of some are the weakest.

    Args:
        moves: the translations.
    """
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
        moves: the translations.
        shear: the greatest factor of shears.
        angle: the greatest angle, in degrees.
        enhanced: by how much the factors of brightness, contrast, colour and sharpness differ from 1.
        bits: how many bits are left of a byte.
    """
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
