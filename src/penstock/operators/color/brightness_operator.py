"""Kernel of `fn.brightness`, `fn.contrast` and `fn.brightness_contrast`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from penstock.core import Spec
from penstock.graph import Argument, DataNode, apply, assumed_layout
from penstock.image.describe.steps import CastStep, ImageInfo, ScaleStep, Step
from penstock.image.image_operator import ImageOperator
from penstock.numerics.casting import wanted_dtype
from penstock.types import DALIDataType


def full_scale(dtype: np.dtype[Any]) -> float:
    """Return the value of full brightness: 1 for floats, the largest value of an integer dtype.

    >>> full_scale(np.dtype(np.uint8)), full_scale(np.dtype(np.float32))
    (255.0, 1.0)
    """
    return float(np.iinfo(dtype).max) if dtype.kind in "iu" else 1.0


def mid_scale(dtype: np.dtype[Any]) -> float:
    """Return the default center of contrast: 0.5 for floats, half of the range of an integer dtype.

    >>> mid_scale(np.dtype(np.uint8)), mid_scale(np.dtype(np.float32))
    (128.0, 0.5)
    """
    # DALI rounds the center of integers up: 128 for uint8, not 127.5.
    return (full_scale(dtype) + 1) / 2 if dtype.kind in "iu" else 0.5


@dataclass(frozen=True)
class BrightnessContrast(ImageOperator):
    """Linear change of brightness and contrast, computed in float32.

    Args:
        dtype: Dtype of the result; None for the dtype of the images.
        centered: If True, `contrast_center` is used; otherwise the middle of the images' range.
    """

    dtype: np.dtype[Any] | None
    centered: bool
    pixel_aligned: ClassVar[bool] = True
    schema: ClassVar[Mapping[str, Argument]] = {
        "brightness": Argument(np.float32),
        "brightness_shift": Argument(np.float32),
        "contrast": Argument(np.float32),
        "contrast_center": Argument(np.float32),
    }

    def infer(self, images: Spec, **_arguments: Any) -> Spec:
        """Return the spec of the images with the dtype of the result."""
        return replace(images, dtype=self.dtype or images.dtype, layout=assumed_layout(images))

    def describe(
        self,
        images: ImageInfo,
        bits: Any,
        *,
        brightness: Any,
        brightness_shift: Any,
        contrast: Any,
        contrast_center: Any,
    ) -> Sequence[Step]:
        """Return the steps of one factor and one offset."""
        dtype = self.dtype or images.dtype
        center = contrast_center if self.centered else np.float32(mid_scale(images.dtype))
        # The range of the shift belongs to the result's dtype, the center of the contrast to the input's, as in DALI.
        offset = brightness_shift * np.float32(full_scale(dtype)) + brightness * (center - contrast * center)
        # A scale step subtracts before it multiplies. Two steps apply the offset after the factor.
        none, one = np.zeros((1, 1), np.float32), np.ones((1, 1), np.float32)
        return [ScaleStep(none, (brightness * contrast)[:, None]), ScaleStep(-offset[:, None], one), CastStep(dtype)]


def change_levels(
    images: DataNode,
    dtype: DALIDataType | Any,
    *,
    brightness: float | DataNode = 1.0,
    brightness_shift: float | DataNode = 0.0,
    contrast: float | DataNode = 1.0,
    contrast_center: float | DataNode | None = None,
) -> DataNode:
    """Scale brightness and contrast, by default around the center of the range."""
    return apply(
        BrightnessContrast(wanted_dtype(dtype), centered=contrast_center is not None),
        images,
        brightness=brightness,
        brightness_shift=brightness_shift,
        contrast=contrast,
        contrast_center=0.0 if contrast_center is None else contrast_center,
    )
