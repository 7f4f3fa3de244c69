"""Base of the operators `dilate` and `erode`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from penstock.core import Spec
from penstock.errors import DefinitionError
from penstock.graph import Argument, DataNode, apply, assumed_layout
from penstock.image.describe.custom_pass import custom_steps
from penstock.image.describe.pixel_pass import fits_float32
from penstock.image.describe.steps import ImageInfo, Step
from penstock.image.image_operator import ImageOperator
from penstock.image.passes.morphology_pass import MorphologyPass

MorphologyBorder = Literal["constant", "replicate", "reflect", "reflect_101", "wrap"]

# Names of the borders in `penstock.image.passes.correlation_pass`.
_BORDERS: Mapping[MorphologyBorder, str] = {
    "constant": "constant",
    "replicate": "clamp",
    "reflect": "reflect_1001",
    "reflect_101": "reflect_101",
    "wrap": "wrap",
}


@dataclass(frozen=True)
class Morphology(ImageOperator):
    """Erosion or dilation by a rectangle.

    Args:
        layout: Layout of the images.
        greatest: True for the maximum (dilation), False for the minimum (erosion).
        border: Pixels outside the image.
        iterations: Number of repetitions.
    """

    layout: str
    greatest: bool
    border: str
    iterations: int
    schema: ClassVar[Mapping[str, Argument]] = {
        "mask_size": Argument(np.int32, (None,), low=-1, high=1 << 20, example=3),
        "anchor": Argument(np.int32, (None,), example=-1),
    }

    def infer(self, images: Spec, *, mask_size: Any, anchor: Any) -> Spec:
        """Return the spec of the input."""
        for name, value in (("mask_size", mask_size), ("anchor", anchor)):
            if not isinstance(value, Spec) and np.size(value) not in (1, 2):
                raise DefinitionError(f"{name} needs one number, or one per axis", given=value)
        if not fits_float32(images.dtype):
            raise DefinitionError(
                f"fn.{self.kind} takes dtypes that float32 represents exactly",
                given=images,
                expected="such as uint8 or float32",
            )
        if not isinstance(mask_size, Spec) and not isinstance(anchor, Spec):
            self._check(*(np.broadcast_to(np.ravel(value), 2) for value in (mask_size, anchor)))
        return images

    def describe(self, images: ImageInfo, bits: Any, *, mask_size: Any, anchor: Any) -> Sequence[Step]:
        """Return one pass with one rectangle per row."""
        xp, rows = images.xp, max(len(mask_size), len(anchor))
        mask, anchor = (xp.broadcast_to(value, (rows, 2)) for value in (mask_size, anchor))
        if xp is np:
            self._check(mask, anchor)
        # As in DALI, -1 for either extent means a mask of 3 x 3.
        mask = xp.where((mask == -1).any(axis=1, keepdims=True), 3, mask)
        anchor = xp.where(anchor < 0, mask // 2, anchor)
        # Iterations with one rectangle equal one pass with a larger rectangle.
        # Users give (width, height), as in DALI; the pass takes rows first.
        numbers = xp.concatenate([1 + self.iterations * (mask - 1)[:, ::-1], self.iterations * anchor[:, ::-1]], axis=1)
        transform = MorphologyPass(self.layout, self.greatest, self.border)
        return custom_steps(transform, images, images.sizes, (numbers.astype(np.float32),), images.dtype)

    @property
    def kind(self) -> str:
        """Name of the operator, for messages."""
        return "dilate" if self.greatest else "erode"

    def _check(self, mask: Any, anchor: Any) -> None:
        """Refuse an empty mask and an anchor outside the mask."""
        size = np.where((mask == -1).any(axis=-1, keepdims=True), 3, mask)
        if (size == 0).any():
            raise DefinitionError("the mask is empty", given=f"mask_size={mask.tolist()}")
        if (anchor >= size).any():
            raise DefinitionError("the anchor is outside the mask", given=anchor.tolist())


def morphology(
    data: DataNode,
    *,
    greatest: bool,
    mask_size: int | Sequence[int] | DataNode,
    anchor: int | Sequence[int] | DataNode,
    iterations: int,
    border_mode: MorphologyBorder,
) -> DataNode:
    """Apply `dilate` or `erode` to images.

    Raises:
        DefinitionError: The input is a volume, the border is unknown, or there is less than one iteration.
    """
    kind = "dilate" if greatest else "erode"
    layout = assumed_layout(data.spec)
    if "D" in layout:
        raise DefinitionError(f"fn.{kind} takes images, not volumes", given=f"layout {layout!r}", expected="HWC, FHWC")
    if iterations < 1:
        raise DefinitionError("iterations must be positive", given=iterations, expected="at least 1")
    kernel = Morphology(layout, greatest, _BORDERS[border_mode], int(iterations))
    return apply(kernel, data, mask_size=mask_size, anchor=anchor)
