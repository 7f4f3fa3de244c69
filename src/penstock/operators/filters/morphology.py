"""Operators that erode and dilate images."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Unpack

import numpy as np
from typing_extensions import TypedDict

from penstock.errors import DefinitionError
from penstock.graph import Argument, DataNode, Default, Range, apply, assumed_layout, operator, with_defaults
from penstock.image.describe.custom_pass import custom_steps
from penstock.image.describe.steps import ImageInfo, Step
from penstock.image.passes.morphology_pass import MorphologyPass
from penstock.operators.filters.window_operator import ExactPlanes, WindowOperator

MorphologyBorder = Literal["constant", "replicate", "reflect", "reflect_101", "wrap"]

# Names of the borders in `penstock.image.passes.correlation_pass`.
_BORDERS: Mapping[MorphologyBorder, str] = {
    "constant": "constant",
    "replicate": "clamp",
    "reflect": "reflect_1001",
    "reflect_101": "reflect_101",
    "wrap": "wrap",
}


class MorphologyArguments(TypedDict, total=False):
    """Arguments of erosion and dilation.

    Args:
        mask_size: Width and height of the rectangle in pixels, or one number for both, or a node with either per
            sample. -1 means 3.
        anchor: Column and row of the rectangle, from 0, that coincide with the pixel, or one number for both, or a node
            with either per sample. -1 means the center.
        iterations: Number of repetitions, 1 to 10,000.
        border_mode: Pixels outside the image: "constant" (ignored), "replicate" (the edge pixels), "reflect" (the
            mirrored image), "reflect_101" (the mirrored image without its edge pixels) or "wrap" (the repeated image).
    """

    mask_size: Annotated[
        int | Sequence[int] | DataNode, Argument(np.int32, (None,), low=-1, high=1 << 20, example=3), Default((3, 3))
    ]
    anchor: Annotated[int | Sequence[int] | DataNode, Argument(np.int32, (None,), example=-1), Default((-1, -1))]
    iterations: Annotated[int, Range(1, 10_000), Default(1)]
    border_mode: Annotated[MorphologyBorder, Default("constant")]


@dataclass(frozen=True)
class Morphology(WindowOperator):
    """Erosion or dilation by a rectangle.

    Args:
        greatest: True for the maximum (dilation), False for the minimum (erosion).
        border: Pixels outside the image.
        iterations: Number of repetitions.
    """

    greatest: bool
    border: str
    iterations: int

    def check(self, **numbers: Any) -> None:
        """Refuse an empty mask and an anchor outside the mask."""
        if "mask_size" not in numbers:
            return
        size = _size(np, numbers["mask_size"])
        if (size == 0).any():
            raise DefinitionError("the mask is empty", given=f"mask_size={size.tolist()}")
        if "anchor" in numbers and (numbers["anchor"] >= size).any():
            raise DefinitionError("the anchor is outside the mask", given=numbers["anchor"].tolist())

    def describe(self, images: ImageInfo, bits: Any, *, mask_size: Any, anchor: Any) -> Sequence[Step]:
        """Return one pass with one rectangle per row."""
        xp = images.xp
        mask, anchor = self.by_row(images, mask_size=mask_size, anchor=anchor)
        mask = _size(xp, mask)
        anchor = xp.where(anchor < 0, mask // 2, anchor)
        # Iterations with one rectangle equal one pass with a larger rectangle.
        # Users give (width, height), as in DALI; the pass takes rows first.
        numbers = xp.concatenate([1 + self.iterations * (mask - 1)[:, ::-1], self.iterations * anchor[:, ::-1]], axis=1)
        transform = MorphologyPass(self.layout, self.greatest, self.border)
        return custom_steps(transform, images, images.sizes, (numbers.astype(np.float32),), images.dtype)


def _size(xp: Any, mask: Any) -> Any:
    """Return the sizes of masks. As in DALI, -1 for either extent means a mask of 3 x 3."""
    return xp.where((mask == -1).any(axis=-1, keepdims=True), 3, mask)


@operator("dilate")
def dilate(data: ExactPlanes, **arguments: Unpack[MorphologyArguments]) -> DataNode:
    """Dilate images: replace each pixel by the maximum of a rectangle around it.

    Args:
        data: Images or sequences of a dtype whose values float32 represents exactly; the layout needs H and W and
            defaults to HWC. Channels are independent.
        **arguments: See `MorphologyArguments`.

    Returns:
        Images of the same shape, dtype and layout.

    Raises:
        DefinitionError: The mask is empty, the anchor is outside the mask, the border is unknown, the input is a
            volume, or its dtype is not supported.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     images = fn.readers.arrays(np.uint8([[[[0], [0], [9], [0], [0]]]]), layout="HWC")
        ...     pipeline.set_outputs(fn.dilate(images))
        >>> pipeline.run()[0].as_array().ravel().tolist()
        [0, 9, 9, 9, 0]
    """
    return _morphology(data, True, arguments)


@operator("erode")
def erode(data: ExactPlanes, **arguments: Unpack[MorphologyArguments]) -> DataNode:
    """Erode images: replace each pixel by the minimum of a rectangle around it.

    Args:
        data: Images or sequences of a dtype whose values float32 represents exactly; the layout needs H and W and
            defaults to HWC. Channels are independent.
        **arguments: See `MorphologyArguments`.

    Returns:
        Images of the same shape, dtype and layout.

    Raises:
        DefinitionError: The mask is empty, the anchor is outside the mask, the border is unknown, the input is a
            volume, or its dtype is not supported.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     images = fn.readers.arrays(np.uint8([[[[9], [9], [9], [0], [0]]]]), layout="HWC")
        ...     pipeline.set_outputs(fn.erode(images))
        >>> pipeline.run()[0].as_array().ravel().tolist()
        [9, 9, 0, 0, 0]
    """
    return _morphology(data, False, arguments)


def _morphology(data: DataNode, greatest: bool, arguments: MorphologyArguments) -> DataNode:
    values, spec = with_defaults(MorphologyArguments, arguments), data.spec
    border = _BORDERS[values["border_mode"]]
    kernel = Morphology(assumed_layout(spec), spec.dtype, greatest, border, values["iterations"])
    return apply(kernel, data, mask_size=values["mask_size"], anchor=values["anchor"])
