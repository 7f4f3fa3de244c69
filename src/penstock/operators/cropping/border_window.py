"""Windows whose pixels outside of the image are taken from inside, by a border mode."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from penstock.core import Array, Spec
from penstock.graph import DataNode, Operator, SampleContext, SampleKernel
from penstock.image.describe.steps import CropStep, ImageInfo
from penstock.image.image_operator import ImageOperator
from penstock.image.kernels.border_modes import Border
from penstock.operators.elementwise.cast import cast

BorderPolicy = Literal["clamp", "edge", "reflect", "reflect_1001", "reflect_101", "wrap"]

# What `crop` and `slice` accept: DALI's older releases called "pad" "constant".
WindowPolicy = Literal[
    "error", "pad", "constant", "trim_to_shape", "clamp", "edge", "reflect", "reflect_1001", "reflect_101", "wrap"
]

BORDERS: Mapping[str, Border] = {
    "clamp": Border.REPLICATE,
    "edge": Border.REPLICATE,
    "reflect": Border.REFLECT,
    "reflect_1001": Border.REFLECT,
    "reflect_101": Border.REFLECT_101,
    "wrap": Border.WRAP,
}


@dataclass(frozen=True)
class BorderWindow(Operator, SampleKernel):
    """Window that continues the image beyond its edges.

    Args:
        window: Operator that describes the window by crop steps, with the policy "pad".
        border: Border mode.
    """

    window: ImageOperator
    border: Border

    def infer(self, images: Spec, **arguments: Any) -> Spec:
        """Return the spec of the window in the dtype of the images."""
        result = self.window.infer(images, **arguments)
        assert isinstance(result, Spec)  # a window has one output
        return replace(result, dtype=images.dtype)

    def sample(self, context: SampleContext, image: Array, **arguments: Any) -> Array:
        """Cut one window."""
        info = ImageInfo(np, 1, [np.array([extent]) for extent in image.shape], image.dtype)
        rows = {name: np.asarray(value)[None] for name, value in arguments.items()}
        for step in self.window.describe(info, None, **rows):
            if isinstance(step, CropStep):
                size, first, length = image.shape[step.axis], int(step.first[0]), int(step.length[0])
                if length and not size:
                    raise ValueError(f"the image is empty along axis {step.axis}, so it has no border to continue")
                places = np.arange(first, first + length)
                if first < 0 or first + length > size:
                    places = _inside(places, size, self.border)
                image = image.take(places, step.axis)
        return image


def _inside(places: Array, size: int, border: Border) -> Array:
    """Return the index of the pixel inside that each possibly outside index refers to."""
    if border == Border.WRAP:
        return places % size
    if border == Border.REFLECT:
        places = places % (2 * size)
        return np.minimum(places, 2 * size - 1 - places)
    if border == Border.REFLECT_101:
        places = places % max(2 * size - 2, 1)
        return np.minimum(places, max(2 * size - 2, 1) - places) if size > 1 else places * 0
    return np.clip(places, 0, size - 1)


def convert(windows: DataNode, dtype: np.dtype[Any]) -> DataNode:
    """Return windows in another dtype."""
    return cast(windows, dtype=dtype) if windows.spec.dtype != dtype else windows
