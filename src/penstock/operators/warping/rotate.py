"""rotate: turn images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Unpack

import numpy as np

from penstock.core.spec import Spec
from penstock.errors import DefinitionError, short_repr
from penstock.graph.arguments.argument_groups import select_arguments
from penstock.graph.ir.argument_schema import Argument
from penstock.graph.layouts import image_layout
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.image.describe.steps import ImageInfo, Step
from penstock.image.image_operator import ImageOperator
from penstock.image.passes.sampling_coordinates import Affine
from penstock.operators.warping.warp_options import WarpArguments, WarpOptions, given_size, warping


@dataclass(frozen=True)
class Rotate(ImageOperator):
    """A rotation about the centre.

    Args:
        warping: how pixels are looked up.
        canvas: "given" where a size is, "kept" where it is the image's, "grown" where all of the image stays visible.
        frames: how many images, one after the other, have one canvas.
    """

    warping: WarpOptions
    canvas: str
    frames: int = 1
    schema: ClassVar[Mapping[str, Argument]] = {
        "angle": Argument(np.float32, example=30.0),
        "size": Argument(np.float32, (2,), low=1),
    }

    def of_sequences(self, frames: int) -> Rotate:
        """One canvas for all frames of a sequence."""
        return replace(self, frames=frames)

    @property
    def traceable(self) -> bool:
        """A canvas that grows with an angle has no one size on the device."""
        return self.canvas != "grown"

    def infer(self, images: Spec, *, angle: Any, size: Any) -> Spec:
        """The input's, on another canvas."""
        if self.canvas == "kept":
            return self.warping.made(images, None)
        if self.canvas == "given":
            return self.warping.sized(images, size)
        height, width = (images.shape[self.warping.layout.index(letter)] for letter in "HW")
        if isinstance(angle, Spec) or height is None or width is None:
            return self.warping.made(images, (None, None))
        made = grown(np.ravel(np.asarray(angle, np.float32))[:1], np.array([height]), np.array([width]))
        return self.warping.made(images, (int(made[0][0]), int(made[1][0])))

    def describe(self, images: ImageInfo, bits: Any, *, angle: Any, size: Any) -> Sequence[Step]:
        """One warp about the centres of the image and of the canvas."""
        xp = images.xp
        given = [images.sizes[self.warping.layout.index(letter)] for letter in "HW"]
        match self.canvas:
            case "given":
                made = [size[:, k].astype(np.int32) for k in range(2)]
            case "kept":
                made = given
            case _:
                made = list(grown(angle, *given, frames=self.frames))
        turn = angle * np.float32(np.pi / 180)
        cos, sin = xp.cos(turn), xp.sin(turn)
        half = np.float32(0.5)
        (in_y, in_x), (out_y, out_x) = ([each.astype(np.float32) * half for each in pair] for pair in (given, made))
        rows = (cos, -sin, (sin * out_y - cos * out_x) + in_x), (sin, cos, in_y - (sin * out_x + cos * out_y))
        matrix = xp.stack(xp.broadcast_arrays(*rows[0], *rows[1]), axis=1)
        return self.warping.steps(images, Affine(), matrix, None if self.canvas == "kept" else (made[0], made[1]))


def grown(angle: Any, height: Any, width: Any, frames: int = 1) -> tuple[Any, Any]:
    """Height and width of the canvas that holds all of a turned image.

    An image that is turned by a right angle has its pixels where the canvas has its own: so the canvas is even or odd
    as the image is, or, beyond 45 degrees, as its other side is. A hundredth of a pixel is not worth another one.

    Args:
        angle: degrees, one entry per row.
        height: of each image.
        width: likewise.
        frames: as for `Rotate`.
    """
    turn = (np.asarray(angle, np.float32) * np.float32(np.pi / 180)).astype(np.float64)  # as DALI: 45 counts as beyond
    cos, sin = abs(np.cos(turn)), abs(np.sin(turn))
    across = sin >= cos
    height, width = np.broadcast_arrays(height, width, turn)[:2]
    return (
        _shared(np.ceil(height * cos + width * sin - 1e-2), np.where(across, width, height), frames),
        _shared(np.ceil(width * cos + height * sin - 1e-2), np.where(across, height, width), frames),
    )


def _shared(extents: Any, like: Any, frames: int) -> Any:
    """The extents of canvases, of which those of a sequence's frames become one.

    Args:
        extents: what each frame needs, an entry per row.
        like: what its canvas is even or odd as; of several frames most decide, and where they are as many, for even.
        frames: how many rows have one canvas.
    """
    largest = extents.astype(np.int32).reshape(-1, frames).max(axis=1)
    odd = 2 * (like.astype(np.int32) % 2).reshape(-1, frames).sum(axis=1) > frames
    return np.repeat(largest + (largest % 2 != odd), frames).astype(np.int32)


@dataclass(frozen=True)
class RotateVolume(ImageOperator):
    """A rotation about an axis through the centre of a volume.

    Args:
        warping: as for images.
        canvas: likewise.
        frames: likewise.
    """

    warping: WarpOptions
    canvas: str
    frames: int = 1
    schema: ClassVar[Mapping[str, Argument]] = {
        "angle": Argument(np.float32, example=30.0),
        "axis": Argument(np.float32, (3,)),
        "size": Argument(np.float32, (3,), low=1),
    }

    def of_sequences(self, frames: int) -> RotateVolume:
        """As for images."""
        return replace(self, frames=frames)

    @property
    def traceable(self) -> bool:
        """As for images."""
        return self.canvas != "grown"

    def infer(self, images: Spec, *, angle: Any, axis: Any, size: Any) -> Spec:
        """The input's, on another canvas."""
        if not isinstance(axis, Spec) and not np.any(axis):
            raise DefinitionError("fn.rotate: axis has no direction", given=axis, expected="a length that is not 0")
        if self.canvas == "kept":
            return self.warping.made(images, None)
        if self.canvas == "given":
            return self.warping.sized(images, size)
        extents = [images.shape[at] for at in self.warping.axes]
        if isinstance(angle, Spec) or isinstance(axis, Spec) or None in extents:
            return self.warping.made(images, (None,) * 3)
        turn = _turned(np, np.asarray(angle, np.float32).reshape(-1)[:1], np.asarray(axis, np.float32).reshape(1, 3))
        depth, height, width = (np.array([extent]) for extent in extents)
        made = grown_in_space(turn, depth, height, width)
        return self.warping.made(images, [int(each[0]) for each in made])

    def describe(self, images: ImageInfo, bits: Any, *, angle: Any, axis: Any, size: Any) -> Sequence[Step]:
        """One warp about the centres of the volume and of the canvas."""
        xp, half = images.xp, np.float32(0.5)
        if xp is np and not axis.any(axis=1).all():
            raise ValueError("the axis of a rotation has no direction: its length is 0")
        turn = _turned(xp, angle, axis)
        given = [images.sizes[at] for at in self.warping.axes]
        match self.canvas:
            case "given":
                made = [extents.astype(np.int32) for extents in size.T]
            case "kept":
                made = given
            case _:
                made = list(grown_in_space(turn, *given, frames=self.frames))
        centre, middle = ([each.astype(np.float32) * half for each in reversed(sizes)] for sizes in (given, made))
        numbers: list[Any] = []
        for k in range(3):  # the result is turned back: columns of the matrix are rows of its inverse
            row = [turn[j][k] for j in range(3)]
            moved = sum((a * b for a, b in zip(row, middle, strict=True)), np.float32(0))
            numbers += [*row, centre[k] - moved]
        matrix = xp.stack(xp.broadcast_arrays(*numbers), axis=1)
        return self.warping.steps(images, Affine(), matrix, None if self.canvas == "kept" else made)


def _turned(xp: Any, angle: Any, axis: Any) -> list[list[Any]]:
    """The matrices that turn x, y and z about axes of any length: rows of columns, an entry per row of the batch."""
    turn = angle * np.float32(np.pi / 180)
    cos, sin = xp.cos(turn), xp.sin(turn)
    length = xp.sqrt((axis * axis).sum(axis=1))
    x, y, z = (axis[:, k] / length for k in range(3))
    rest = np.float32(1) - cos
    return [
        [x * x + (y * y + z * z) * cos, x * y * rest - z * sin, x * z * rest + y * sin],
        [x * y * rest + z * sin, y * y + (x * x + z * z) * cos, y * z * rest - x * sin],
        [x * z * rest - y * sin, y * z * rest + x * sin, z * z + (x * x + y * y) * cos],
    ]


def grown_in_space(
    turn: Sequence[Sequence[Any]], depth: Any, height: Any, width: Any, frames: int = 1
) -> tuple[Any, Any, Any]:
    """Depth, height and width of the canvas that holds all of a turned volume.

    As for images, an extent is even or odd as that of the volume's axis is of which it shows most.
    """
    sizes = [np.asarray(each, np.float32) for each in (width, height, depth)]
    made: list[Any] = []
    for own, row in enumerate(turn):
        shares = [abs(each) for each in row]
        extent = sum((share * size for share, size in zip(shares, sizes, strict=True)), np.float32(0))
        most, like = shares[own], sizes[own]
        for share, size in zip(shares, sizes, strict=True):
            most, like = np.maximum(share, most), np.where(share > most, size, like)
        whole = np.ceil(extent - np.float32(1e-2))
        made.append(_shared(whole, np.broadcast_to(like, whole.shape), frames))
    return made[2], made[1], made[0]


@operator("rotate")
def rotate(
    data: DataNode,
    *,
    angle: float | DataNode,
    axis: Sequence[float] | DataNode | None = None,
    size: Sequence[float] | DataNode | None = None,
    keep_size: bool = False,
    **arguments: Unpack[WarpArguments],
) -> DataNode:
    """Turn images about their centre, or volumes about an axis through it.

    Args:
        data: images, volumes or sequences of any dtype; layout with H and W (HWC where none is named).
        angle: degrees, counter-clockwise; a number, or a node with one per sample.
        axis: of volumes, which need it: x, y and z of its direction, of any length but 0; a node gives each sample its
            own.
        size: height and width of the result, before these the depth of a volume; numbers, which are rounded, or a node
            with as many per sample, whose fractions are cut off.
        keep_size: whether the result has the size of the image, whose corners are then cut off. Without this and `size`
            the result is as large as the turned image. Frames of a sequence that are turned by angles of their own have
            one size, in which each of them fits.
        **arguments: See `WarpArguments`.

    Returns:
        The turned images, in the input's layout.

    Raises:
        DefinitionError: a volume without an axis, or an image with one; an interpolation or dtype that is not offered;
            both `size` and `keep_size`.

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
    layout = image_layout(data, kind)
    sized = isinstance(size, DataNode) or (size is not None and np.size(size) > 0)
    if sized and keep_size:
        raise DefinitionError(
            f"fn.{kind}: the size is given twice", given="size= and keep_size=True", fix="leave out one"
        )
    if ("D" in layout) != (axis is not None):
        raise DefinitionError(
            f"fn.{kind}: volumes turn about an axis, and images in their plane",
            given=f"layout {layout!r} and axis={short_repr(axis)}",
            fix="axis=[0, 0, 1] turns x towards y" if axis is None else "leave out axis",
        )
    how = warping(data, layout, kind, select_arguments(WarpArguments, arguments))
    made = RotateVolume if "D" in layout else Rotate
    turn: dict[str, Any] = {"angle": angle} if axis is None else {"angle": angle, "axis": axis}
    return apply(
        made(how, "given" if sized else "kept" if keep_size else "grown"),
        data,
        size=given_size(size, len(how.axes)),
        **turn,
    )
