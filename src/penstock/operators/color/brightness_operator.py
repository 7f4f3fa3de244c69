"""Brightness and contrast, and the ranges of values that they refer to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from penstock.core.spec import Spec
from penstock.graph.ir.argument_schema import Argument
from penstock.graph.layouts import assumed_layout
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.trace import DataNode
from penstock.image.describe.steps import CastStep, ImageInfo, ScaleStep, Step
from penstock.image.image_operator import ImageOperator
from penstock.numerics.casting import wanted_dtype
from penstock.types import DALIDataType


def full_scale(dtype: np.dtype[Any]) -> float:
    """The greatest value: 1 for floats, the greatest that the type has for integers.

    >>> full_scale(np.dtype(np.uint8)), full_scale(np.dtype(np.float32))
    (255.0, 1.0)
    """
    return float(np.iinfo(dtype).max) if dtype.kind in "iu" else 1.0


def mid_scale(dtype: np.dtype[Any]) -> float:
    """The value that contrast leaves as it is: half of the range.

    >>> mid_scale(np.dtype(np.uint8)), mid_scale(np.dtype(np.float32))
    (128.0, 0.5)
    """
    return (full_scale(dtype) + 1) / 2 if dtype.kind in "iu" else 0.5


@dataclass(frozen=True)
class BrightnessContrast(ImageOperator):
    """``brightness_shift * range + brightness * (centre + contrast * (value - centre))``, in float32.

    Args:
        dtype: of the results; None for that of the images.
        centred: whether the centre is given; else it is the middle of the images' range.
    """

    dtype: np.dtype[Any] | None
    centred: bool
    pixel_aligned: ClassVar[bool] = True
    schema: ClassVar[Mapping[str, Argument]] = {
        "brightness": Argument(np.float32),
        "brightness_shift": Argument(np.float32),
        "contrast": Argument(np.float32),
        "contrast_center": Argument(np.float32),
    }

    def infer(self, images: Spec, **_arguments: Any) -> Spec:
        """The input's, in the dtype that is wanted."""
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
        """A factor and an offset."""
        made = self.dtype or images.dtype
        centre = contrast_center if self.centred else np.float32(mid_scale(images.dtype))
        offset = brightness_shift * np.float32(full_scale(made)) + brightness * (centre - contrast * centre)
        none, one = np.zeros((1, 1), np.float32), np.ones((1, 1), np.float32)
        return [ScaleStep(none, (brightness * contrast)[:, None]), ScaleStep(-offset[:, None], one), CastStep(made)]


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
        BrightnessContrast(wanted_dtype(dtype), centred=contrast_center is not None),
        images,
        brightness=brightness,
        brightness_shift=brightness_shift,
        contrast=contrast,
        contrast_center=0.0 if contrast_center is None else contrast_center,
    )
