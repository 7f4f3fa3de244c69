"""rotate: turn images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Unpack

import numpy as np

from penstock.data.spec import Spec
from penstock.errors import DefinitionError
from penstock.graph.operator import Common, pick
from penstock.graph.registry import operator
from penstock.graph.schema import Argument
from penstock.graph.trace import DataNode, apply
from penstock.operators.axes import plane_layout
from penstock.operators.geometry.warp import WarpArguments, Warping, warping
from penstock.operators.image.operator import ImageOperator
from penstock.operators.image.places import Affine
from penstock.operators.image.steps import Images, Step


@dataclass(frozen=True)
class Rotate(ImageOperator):
    """A rotation about the centre.

    Args:
        warping: how pixels are looked up.
        canvas: "given" where a size is, "kept" where it is the image's, "grown" where all of the image stays visible.
    """

    warping: Warping
    canvas: str
    schema: ClassVar[Mapping[str, Argument]] = {
        "angle": Argument(np.float32, typical=30.0),
        "size": Argument(np.float32, (2,), low=1),
    }

    @property
    def traceable(self) -> bool:
        """A canvas that grows with an angle has no one size on the device."""
        return self.canvas != "grown"

    def infer(self, images: Spec, *, angle: Any, size: Any) -> Spec:
        """The input's, on another canvas."""
        if self.canvas == "kept":
            return self.warping.made(images, None)
        if self.canvas == "given":
            height, width = (None, None) if isinstance(size, Spec) else np.rint(size).astype(int).tolist()
            return self.warping.made(images, (height, width))
        height, width = (images.shape[self.warping.layout.index(letter)] for letter in "HW")
        if isinstance(angle, Spec) or height is None or width is None:
            return self.warping.made(images, (None, None))
        made = grown(np.ravel(np.asarray(angle, np.float32))[:1], np.array([height]), np.array([width]))
        return self.warping.made(images, (int(made[0][0]), int(made[1][0])))

    def describe(self, images: Images, bits: Any, *, angle: Any, size: Any) -> Sequence[Step]:
        """One warp about the centres of the image and of the canvas."""
        xp = images.xp
        given = [images.sizes[self.warping.layout.index(letter)] for letter in "HW"]
        match self.canvas:
            case "given":
                made = [xp.rint(size[:, k]).astype(np.int32) for k in range(2)]
            case "kept":
                made = given
            case _:
                made = list(grown(angle, *given))
        turn = angle * np.float32(np.pi / 180)
        cos, sin = xp.cos(turn), xp.sin(turn)
        half = np.float32(0.5)
        (in_y, in_x), (out_y, out_x) = ([each.astype(np.float32) * half for each in pair] for pair in (given, made))
        rows = (cos, -sin, (sin * out_y - cos * out_x) + in_x), (sin, cos, in_y - (sin * out_x + cos * out_y))
        matrix = xp.stack(xp.broadcast_arrays(*rows[0], *rows[1]), axis=1)
        return self.warping.steps(images, Affine(), matrix, None if self.canvas == "kept" else (made[0], made[1]))


def grown(angle: Any, height: Any, width: Any) -> tuple[Any, Any]:
    """Height and width of the canvas that holds all of a turned image.

    An image that is turned by a right angle has its pixels where the canvas has its own: so the canvas is even or odd
    as the image is, or, beyond 45 degrees, as its other side is. A hundredth of a pixel is not worth another one.
    """
    turn = (np.asarray(angle, np.float32) * np.float32(np.pi / 180)).astype(np.float64)  # as DALI: 45 counts as beyond
    cos, sin = abs(np.cos(turn)), abs(np.sin(turn))
    across = sin >= cos
    made: list[Any] = []
    for own, other in ((height, width), (width, height)):
        size = np.ceil(own * cos + other * sin - 1e-2).astype(np.int32)
        made.append(size + (size - np.where(across, other, own)) % 2)
    return made[0], made[1]


@operator("rotate")
def rotate(
    data: DataNode,
    *,
    angle: float | DataNode,
    size: Sequence[float] | DataNode | None = None,
    keep_size: bool = False,
    **arguments: Unpack[WarpArguments],
) -> DataNode:
    """Turn images about their centre.

    Args:
        data: images or sequences of any dtype; layout with H and W (HWC where none is named).
        angle: degrees, counter-clockwise; a number, or a node with one per sample.
        size: height and width of the result; two numbers, or a node with two per sample.
        keep_size: whether the result has the size of the image, whose corners are then cut off. Without this and `size`
            the result is as large as the turned image.
        **arguments: what all warps take.

    Returns:
        The turned images, in the input's layout.

    Raises:
        DefinitionError: a volume; another interpolation or dtype; both `size` and `keep_size`.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     images = fn.readers.arrays(np.arange(6, dtype=np.uint8).reshape(1, 2, 3, 1), layout="HWC")
        ...     pipeline.set_outputs(fn.rotate(images, angle=90))
        >>> pipeline.run()[0].as_array().reshape(3, 2).tolist()
        [[2, 5], [1, 4], [0, 3]]
    """
    kind = "rotate"
    layout = plane_layout(data, kind)
    sized = isinstance(size, DataNode) or (size is not None and np.size(size) > 0)
    if sized and keep_size:
        raise DefinitionError(
            f"fn.{kind}: the size is given twice", given="size= and keep_size=True", fix="leave out one"
        )
    how = warping(data, layout, kind, pick(WarpArguments, arguments))
    made = Rotate(how, "given" if sized else "kept" if keep_size else "grown")
    return apply(made, data, common=pick(Common, arguments), angle=angle, size=size if sized else (1, 1))
