"""What dilate and erode share: the extreme of a rectangle around each pixel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from penstock.core.spec import Spec
from penstock.errors import DefinitionError
from penstock.graph.ir.argument_schema import Argument
from penstock.graph.layouts import image_layout
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.trace import DataNode
from penstock.image.describe.custom_pass import custom_steps
from penstock.image.describe.pixel_pass import fits_float32
from penstock.image.describe.steps import ImageInfo, Step
from penstock.image.image_operator import ImageOperator
from penstock.image.passes.morphology_pass import MorphologyPass

MorphologyBorder = Literal["constant", "replicate", "reflect", "reflect_101", "wrap"]

_BORDERS: Mapping[MorphologyBorder, str] = {
    "constant": "constant",
    "replicate": "clamp",
    "reflect": "reflect_1001",
    "reflect_101": "reflect_101",
    "wrap": "wrap",
}
"""How these operators call what is beyond the edge, and how `penstock.image.passes.correlation_pass` does."""


@dataclass(frozen=True)
class Morphology(ImageOperator):
    """Erosion or dilation by a rectangle.

    Args:
        layout: of the images.
        greatest: whether the greatest value is taken; else the least.
        border: what is beyond the edge.
        iterations: how often it is done.
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
        """The input's."""
        for name, given in (("mask_size", mask_size), ("anchor", anchor)):
            if not isinstance(given, Spec) and np.size(given) not in (1, 2):
                raise DefinitionError(f"fn.{self.kind}: {name} is one number, or one per axis", given=given)
        if not fits_float32(images.dtype):
            raise DefinitionError(
                f"fn.{self.kind} takes images that float32 holds", given=images, expected="such as uint8 or float32"
            )
        if not isinstance(mask_size, Spec) and not isinstance(anchor, Spec):
            self._check(*(np.broadcast_to(np.ravel(given), 2) for given in (mask_size, anchor)))
        return images

    def describe(self, images: ImageInfo, bits: Any, *, mask_size: Any, anchor: Any) -> Sequence[Step]:
        """One rectangle, as large as all iterations make it. Users give columns first, transforms take rows first."""
        xp, rows = images.xp, max(len(mask_size), len(anchor))
        mask, anchor = (xp.broadcast_to(given, (rows, 2)) for given in (mask_size, anchor))
        if xp is np:
            self._check(mask, anchor)
        mask = xp.where((mask == -1).any(axis=1, keepdims=True), 3, mask)
        anchor = xp.where(anchor < 0, mask // 2, anchor)
        numbers = xp.concatenate([1 + self.iterations * (mask - 1)[:, ::-1], self.iterations * anchor[:, ::-1]], axis=1)
        transform = MorphologyPass(self.layout, self.greatest, self.border)
        return custom_steps(transform, images, images.sizes, (numbers.astype(np.float32),), images.dtype)

    @property
    def kind(self) -> str:
        """The operator's name, for messages."""
        return "dilate" if self.greatest else "erode"

    def _check(self, mask: Any, anchor: Any) -> None:
        size = np.where((mask == -1).any(axis=-1, keepdims=True), 3, mask)
        if (size == 0).any():
            raise DefinitionError(f"fn.{self.kind}: the mask is empty", given=f"mask_size={mask.tolist()}")
        if (anchor >= size).any():
            raise DefinitionError(f"fn.{self.kind}: the anchor lies outside of the mask", given=anchor.tolist())


def morphology(
    data: DataNode,
    *,
    greatest: bool,
    mask_size: int | Sequence[int] | DataNode,
    anchor: int | Sequence[int] | DataNode,
    iterations: int,
    border_mode: MorphologyBorder,
) -> DataNode:
    """A use of dilate or erode.

    Raises:
        DefinitionError: a volume, another border, less than one iteration.
    """
    kind = "dilate" if greatest else "erode"
    layout = image_layout(data, kind)
    if "D" in layout:
        raise DefinitionError(f"fn.{kind} takes images, not volumes", given=f"layout {layout!r}", expected="HWC, FHWC")
    if iterations < 1:
        raise DefinitionError(f"fn.{kind}: iterations is a number of times", given=iterations, expected="at least 1")
    made = Morphology(layout, greatest, _BORDERS[border_mode], int(iterations))
    return apply(made, data, mask_size=mask_size, anchor=anchor)
