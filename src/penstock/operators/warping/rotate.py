"""Operator that rotates images and volumes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Unpack

import numpy as np

from penstock.core import Spec
from penstock.errors import DefinitionError, short_repr
from penstock.graph import Argument, DataNode, Images, apply, assumed_layout, operator, select_arguments
from penstock.image.describe.steps import ImageInfo, Step
from penstock.image.passes.sampling_coordinates import Affine
from penstock.operators.elementwise.bfloat16_results import rounds_to_bfloat16
from penstock.operators.warping.warp_options import AffineWarp, OutputSize, WarpArguments, affine_options, rounded_size


@dataclass(frozen=True)
class Rotate(AffineWarp):
    """Rotation of images about their center.

    Args:
        grows: True for a canvas that holds the whole rotated image; False for the argument `size`, or else for the size
            of the image.
        frames: Number of consecutive images that share one canvas.
    """

    grows: bool
    frames: int = 1

    def of_sequences(self, frames: int) -> Rotate:
        """Return the operator with one canvas for all frames of a sequence."""
        return replace(self, frames=frames)

    @property
    def traceable(self) -> bool:
        """True unless the size of the canvas depends on the angle, since XLA needs static shapes."""
        return not self.grows

    def infer(self, images: Spec, *, angle: Any, axis: Any = None, size: Any = None) -> Spec:
        """Return the spec of the input on the new canvas."""
        extents = [images.shape[at] for at in self.warping.axes]
        if self.grows and (None in extents or isinstance(angle, Spec) or isinstance(axis, Spec)):
            size = [None] * len(extents)
        elif self.grows:
            angles = np.ravel(np.asarray(angle, np.float32))[:1]
            axes = None if axis is None else np.asarray(axis, np.float32).reshape(1, 3)
            size = [extent[0] for extent in self._canvas([np.array([n]) for n in extents], 1, angles, axes)]
        return self.warping.spec(images, size)

    def describe(
        self, images: ImageInfo, bits: Any, *, angle: Any, axis: Any = None, size: Any = None
    ) -> Sequence[Step]:
        """Return one warp that maps the center of the canvas to the center of the image."""
        extents = [images.sizes[at] for at in self.warping.axes]
        canvas = None
        if size is not None:
            canvas = [numbers.astype(np.int32) for numbers in size.T]
        elif self.grows:
            canvas = self._canvas(extents, self.frames, angle, axis)
        xp, half = images.xp, np.float32(0.5)
        center, middle = ([n.astype(np.float32) * half for n in sizes] for sizes in (extents, canvas or extents))
        matrix = xp.stack(xp.broadcast_arrays(*self._matrix(xp, center, middle, angle, axis)), axis=1)
        return self.warping.steps(images, Affine(), matrix, canvas)

    def _canvas(self, extents: Sequence[Any], frames: int, angle: Any, axis: Any) -> Sequence[Any]:
        """Return the extents of the canvas that holds a whole rotated image."""
        return grown(angle, *extents, frames=frames)

    def _matrix(
        self, xp: Any, center: Sequence[Any], canvas_center: Sequence[Any], angle: Any, axis: Any
    ) -> Sequence[Any]:
        """Return the entries of the matrix that maps the result to the image.

        Args:
            xp: Array namespace.
            center: Center of the image, in the order of the axes.
            canvas_center: Center of the canvas.
            angle: Angles in degrees.
            axis: Axes of rotation, for volumes.
        """
        radians = angle * np.float32(np.pi / 180)
        cos, sin = xp.cos(radians), xp.sin(radians)
        (in_y, in_x), (out_y, out_x) = center, canvas_center
        # Rotate by the angle about the origin, then move center to center. The order of the float32 operations decides
        # the last bit.
        return cos, -sin, (sin * out_y - cos * out_x) + in_x, sin, cos, in_y - (sin * out_x + cos * out_y)


@dataclass(frozen=True)
class RotateVolume(Rotate):
    """Rotation of volumes about an axis through their center."""

    def _canvas(self, extents: Sequence[Any], frames: int, angle: Any, axis: Any) -> Sequence[Any]:
        return _grown_volume(_rotation_matrix(np, angle, axis), *extents, frames=frames)

    def _matrix(
        self, xp: Any, center: Sequence[Any], canvas_center: Sequence[Any], angle: Any, axis: Any
    ) -> Sequence[Any]:
        if xp is np and not axis.any(axis=1).all():
            raise ValueError("the axis of a rotation must not have length 0")
        rotation = _rotation_matrix(xp, angle, axis)
        numbers: list[Any] = []
        # Extents are in the order z, y, x, and the rows of the matrix in the order x, y, z.
        for k, own in enumerate(reversed(center)):
            # The warp maps the result to the volume and so rotates back: a row of the inverse of a rotation matrix is a
            # column of the matrix.
            row = [rotation[j][k] for j in range(3)]
            moved = sum((a * b for a, b in zip(row, reversed(canvas_center), strict=True)), np.float32(0))
            numbers += [*row, own - moved]
        return numbers


def grown(angle: Any, height: Any, width: Any, frames: int = 1) -> tuple[Any, Any]:
    """Return the height and width of the canvas that holds a whole rotated image, as DALI computes them.

    Args:
        angle: Angles in degrees, one entry per row.
        height: Height of each image.
        width: Width of each image.
        frames: Number of consecutive rows that share one canvas.
    """
    # DALI has the angle in float32, so that 45 degrees count as more than 45.
    radians = (np.asarray(angle, np.float32) * np.float32(np.pi / 180)).astype(np.float64)
    cos, sin = abs(np.cos(radians)), abs(np.sin(radians))
    across = sin >= cos
    height, width = np.broadcast_arrays(height, width, radians)[:2]
    # The canvas has the parity of the image, or of its other side beyond 45 degrees, so that the pixels of an image
    # rotated by 90 degrees coincide with those of the canvas. Without the tolerance of 0.01, rounding errors would add
    # a pixel.
    return (
        _common_extents(np.ceil(height * cos + width * sin - 1e-2), np.where(across, width, height), frames),
        _common_extents(np.ceil(width * cos + height * sin - 1e-2), np.where(across, height, width), frames),
    )


def _common_extents(extents: Any, parity: Any, frames: int) -> Any:
    """Return the extents of canvases, adjusted in parity and shared by the frames of a sequence.

    Args:
        extents: Minimum extent for each row.
        parity: Extents whose parity the canvas takes.
        frames: Number of consecutive rows that share one canvas.
    """
    largest = extents.astype(np.int32).reshape(-1, frames).max(axis=1)
    # The majority of the frames decides; a tie means even.
    odd = 2 * (parity.astype(np.int32) % 2).reshape(-1, frames).sum(axis=1) > frames
    return np.repeat(largest + (largest % 2 != odd), frames).astype(np.int32)


def _rotation_matrix(xp: Any, angle: Any, axis: Any) -> list[list[Any]]:
    """Return matrices that rotate (x, y, z) about axes of any length: rows of entries, each with a value per sample."""
    # Rodrigues' rotation formula. The diagonal is cos + x² (1 - cos), written for a unit vector without a cancellation.
    radians = angle * np.float32(np.pi / 180)
    cos, sin = xp.cos(radians), xp.sin(radians)
    length = xp.sqrt((axis * axis).sum(axis=1))
    x, y, z = (axis[:, k] / length for k in range(3))
    rest = np.float32(1) - cos
    return [
        [x * x + (y * y + z * z) * cos, x * y * rest - z * sin, x * z * rest + y * sin],
        [x * y * rest + z * sin, y * y + (x * x + z * z) * cos, y * z * rest - x * sin],
        [x * z * rest - y * sin, y * z * rest + x * sin, z * z + (x * x + y * y) * cos],
    ]


def _grown_volume(
    rotation: Sequence[Sequence[Any]], depth: Any, height: Any, width: Any, frames: int = 1
) -> tuple[Any, Any, Any]:
    """Return the depth, height and width of the canvas that holds a whole rotated volume."""
    sizes = [np.asarray(extent, np.float32) for extent in (width, height, depth)]
    result: list[Any] = []
    for own, row in enumerate(rotation):
        shares = [abs(entry) for entry in row]
        extent = sum((share * size for share, size in zip(shares, sizes, strict=True)), np.float32(0))
        # As for images, an extent takes the parity of the axis of the volume that contributes most to it, and its own
        # axis in a tie.
        most, parity = shares[own], sizes[own]
        for share, size in zip(shares, sizes, strict=True):
            most, parity = np.maximum(share, most), np.where(share > most, size, parity)
        whole = np.ceil(extent - np.float32(1e-2))
        result.append(_common_extents(whole, np.broadcast_to(parity, whole.shape), frames))
    return result[2], result[1], result[0]


@operator("rotate")
@rounds_to_bfloat16
def rotate(
    data: Images,
    *,
    angle: Annotated[float | DataNode, Argument(np.float32, example=30.0)],
    axis: Annotated[Sequence[float] | DataNode | None, Argument(np.float32, (3,))] = None,
    size: OutputSize | None = None,
    keep_size: bool = False,
    **arguments: Unpack[WarpArguments],
) -> DataNode:
    """Rotate images about their center, or volumes about an axis through their center.

    By default the canvas grows to hold the whole rotated image. Frames of a sequence share one canvas that holds all
    of them.

    Args:
        data: Images, volumes or sequences of any dtype; the layout needs H and W and defaults to HWC.
        angle: Angle in degrees, counter-clockwise; a number, or a node with one per sample.
        axis: Axis of rotation for volumes, which need one: a vector (x, y, z) of any length but 0, or a node with one
            per sample.
        size: (height, width) or (depth, height, width) of the result in pixels, or a node with them per sample.
            Fractions of constants are rounded; those of a node are truncated, as in DALI.
        keep_size: True to keep the size of the image and cut off its corners.
        **arguments: See `WarpArguments`.

    Returns:
        Rotated images in the layout of the input.

    Raises:
        DefinitionError: A volume without an axis or an image with one, an interpolation or dtype that is not supported,
            or both `size` and `keep_size`.

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
    layout, size = assumed_layout(data.spec), rounded_size(size)
    if size is not None and keep_size:
        raise DefinitionError("the size is given twice", given="size= and keep_size=True", fix="leave out one")
    if ("D" in layout) != (axis is not None):
        raise DefinitionError(
            "volumes need an axis, and images do not take one",
            given=f"layout {layout!r} and axis={short_repr(axis)}",
            fix="axis=[0, 0, 1] rotates x towards y" if axis is None else "leave out axis",
        )
    if axis is not None and not isinstance(axis, DataNode) and not np.any(axis):
        raise DefinitionError("axis must not have length 0", given=axis)
    options = affine_options(data, select_arguments(WarpArguments, arguments))
    kernel = (Rotate if axis is None else RotateVolume)(options, size is None and not keep_size)
    return apply(kernel, data, angle=angle, axis=axis, size=size)
