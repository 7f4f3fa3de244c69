"""What the operators share that look pixels up where a matrix says: size, interpolation and what lies outside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, TypedDict

import numpy as np

from penstock.core.spec import Spec
from penstock.errors import DefinitionError, short_repr
from penstock.graph.arguments.argument_marks import Doc
from penstock.graph.layouts import SPATIAL
from penstock.graph.tracing.trace import DataNode
from penstock.image.codecs.image_header import MAX_PIXELS
from penstock.image.describe.custom_pass import CustomPass, custom_steps
from penstock.image.describe.steps import ImageInfo, Step
from penstock.image.kernels.border_modes import Border
from penstock.image.passes.sampling_coordinates import CoordinateMap
from penstock.image.passes.warp_pass import Interpolation, WarpPass
from penstock.image.passes.warp_volume_pass import WarpVolumePass
from penstock.numerics.casting import cast_saturating, output_dtype, result_dtype
from penstock.operators.tensors.reshape import reshape
from penstock.types import INTERP_CUBIC, INTERP_LINEAR, INTERP_NN, DALIDataType, DALIInterpType


class WarpArguments(TypedDict, total=False):
    """Arguments of all warps."""

    fill_value: Annotated[
        float | None,
        Doc(
            "Value of pixels outside the image, converted to the input's dtype. By default the pixels at the edge are "
            "repeated."
        ),
    ]
    interp_type: Annotated[DALIInterpType | int, Doc("INTERP_LINEAR (default) or INTERP_NN.")]
    dtype: Annotated[
        DALIDataType | Any,
        Doc("dtype of the result: the input's (default) or FLOAT; for floats also UINT8, INT16 or INT32."),
    ]
    output_dtype: Annotated[DALIDataType | Any, Doc("Older name of `dtype`.")]


@dataclass(frozen=True)
class WarpOptions:
    """How a warp is done, the same for all samples.

    Args:
        layout: of the images.
        interpolation: how values are made of pixels.
        border: what lies outside of the image.
        fill: its value, where it has one: one or one per channel.
        dtype: of the result.
    """

    layout: str
    interpolation: Interpolation
    border: Border
    fill: tuple[float, ...]
    dtype: np.dtype[Any]

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes along which pixels move: those of height and width, and before these of depth."""
        return tuple(self.layout.index(letter) for letter in SPATIAL if letter in self.layout)

    def made(self, images: Spec, size: Sequence[int | None] | None) -> Spec:
        """The spec of the result, with its extents along `axes` where these change."""
        shape, bounds = list(images.shape), images.bounds
        if size is not None:
            for axis, extent in zip(self.axes, size, strict=True):
                shape[axis] = extent
            bounds = ()
        return replace(images, dtype=self.dtype, shape=tuple(shape), layout=self.layout, bounds=bounds)

    def sized(self, images: Spec, size: Any) -> Spec:
        """The spec of the result of a given size: a number per axis, or the spec of a node that has them."""
        unknown = (None,) * len(self.axes)
        return self.made(images, unknown if isinstance(size, Spec) else np.asarray(size).astype(int).tolist())

    def steps(
        self, images: ImageInfo, places: CoordinateMap, numbers: Any, size: Sequence[Any] | None = None
    ) -> Sequence[Step]:
        """The warp, and the conversions around it.

        Args:
            images: what is known of them.
            places: where their pixels are looked up; where volumes are, an affine map says.
            numbers: float32 (rows, n), what this needs of each row, such as a matrix from the result to the image.
            size: its extents along `axes`, integers with an entry per row; None for those of the images.
        """
        sizes = list(images.sizes)
        if size is not None:
            for axis, extents in zip(self.axes, size, strict=True):
                sizes[axis] = extents
            if images.xp is np and (np.prod(np.asarray(size, np.float64), axis=0) > MAX_PIXELS).any():
                raise ValueError(f"the result has more than {MAX_PIXELS} pixels")
        if "D" in self.layout:
            transform: CustomPass = WarpVolumePass(
                self.layout, self.interpolation is Interpolation.NEAREST, self.border
            )
        else:
            transform = WarpPass(self.layout, places, self.interpolation, self.border)
        fill = np.array([self.fill], np.float32)
        return custom_steps(transform, images, sizes, (numbers, fill), self.dtype)


def adjugate(matrix: Sequence[Any]) -> tuple[Any, ...]:
    """The inverse of a matrix of 3 x 3 numbers, row by row, times its determinant."""
    a, b, c, d, e, f, g, h, i = matrix
    return (
        *(e * i - f * h, c * h - b * i, b * f - c * e),
        *(f * g - d * i, a * i - c * g, c * d - a * f),
        *(d * h - e * g, b * g - a * h, a * e - b * d),
    )


def warping(data: DataNode, layout: str, kind: str, arguments: WarpArguments) -> WarpOptions:
    """How a warp is done.

    Raises:
        DefinitionError: another interpolation than linear and nearest, a dtype that does not fit.
    """
    fill, own = arguments.get("fill_value"), data.spec.dtype
    dtype = result_dtype(own, arguments.get("dtype"), arguments.get("output_dtype"))
    if own != np.float32 or dtype not in _OF_FLOATS:
        dtype = output_dtype(own, dtype, kind)
    border = Border.REPLICATE if fill is None else Border.CONSTANT
    fills = fill_color(data, layout, kind, 0.0 if fill is None else fill)
    return WarpOptions(
        layout, warp_interpolation(arguments.get("interp_type", INTERP_LINEAR), kind), border, fills, dtype
    )


_OF_FLOATS = (np.dtype(np.uint8), np.dtype(np.int16), np.dtype(np.int32))
"""What warps make of float32, besides floats."""


def given_size(size: Any, axes: int) -> Any:
    """The size that a user gave, ones where none is needed.

    As in DALI, numbers are rounded, while of those of a node fractions are cut off.
    """
    if isinstance(size, DataNode):
        return size
    return (1,) * axes if size is None or not np.size(size) else np.floor(np.asarray(size, np.float64) + 0.5)


_INTERPOLATIONS = {
    int(INTERP_NN): Interpolation.NEAREST,
    int(INTERP_LINEAR): Interpolation.LINEAR,
    int(INTERP_CUBIC): Interpolation.CUBIC,
}


def warp_interpolation(given: DALIInterpType | int, kind: str, *, cubic: bool = False) -> Interpolation:
    """How values are made of pixels.

    Args:
        given: what the user wants.
        kind: the operator's public name.
        cubic: whether it has INTERP_CUBIC.

    Raises:
        DefinitionError: an interpolation that the operator has not.
    """
    made = _INTERPOLATIONS.get(int(given))
    if made is None or (made is Interpolation.CUBIC and not cubic):
        raise DefinitionError(
            f"fn.{kind} has no such interpolation",
            given=f"interp_type={short_repr(given)}",
            expected="types.INTERP_LINEAR, types.INTERP_NN" + (" or types.INTERP_CUBIC" if cubic else ""),
        )
    return made


def fill_color(data: DataNode, layout: str, kind: str, value: float | Sequence[float]) -> tuple[float, ...]:
    """The value of what lies outside, one or one per channel, as a pixel of the images has it.

    Raises:
        DefinitionError: another number of values.
    """
    values = np.atleast_1d(np.asarray(value, np.float64))
    channels = data.spec.shape[layout.index("C")] if "C" in layout else 1
    if values.ndim != 1 or len(values) not in (1, channels or len(values)):
        raise DefinitionError(
            f"fn.{kind}: fill_value is one number, or one per channel", given=value, expected=f"1 or {channels}"
        )
    return tuple(map(float, cast_saturating(np, values, data.spec.dtype)))


def flatten_matrices(matrix: DataNode, count: int) -> DataNode:
    """The numbers of matrices in a row; with an entry per frame, those of each frame."""
    framed = matrix.spec.layout[:1] == "F"
    if len(matrix.spec.shape) != 2 + framed:
        return matrix
    return reshape(matrix, shape=[-1, count], layout="F*") if framed else reshape(matrix, shape=[count])
