"""Options and helpers of the warp operators: size, interpolation, border and dtype."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from typing_extensions import TypedDict

from penstock.core import Spec
from penstock.errors import DefinitionError, short_repr
from penstock.graph import SPATIAL, Argument, DataNode, DType, NotEmpty, assumed_layout
from penstock.graph.ir.argument_schema import as_numbers
from penstock.image.codecs.image_header import MAX_PIXELS
from penstock.image.describe.custom_pass import CustomPass, custom_steps
from penstock.image.describe.steps import ImageInfo, Step, check_fill_count
from penstock.image.image_operator import ImageOperator
from penstock.image.kernels.border_modes import Border
from penstock.image.passes.sampling_coordinates import CoordinateMap
from penstock.image.passes.warp_pass import Interpolation, WarpPass
from penstock.image.passes.warp_volume_pass import WarpVolumePass
from penstock.numerics.casting import cast_saturating, output_dtype, result_dtype
from penstock.operators.tensors.reshape import flatten_matrices
from penstock.types import INTERP_CUBIC, INTERP_LINEAR, INTERP_NN, DALIInterpType

# Size of the result, a number per spatial axis.
OutputSize = Annotated[Sequence[float] | DataNode, NotEmpty()]


class WarpArguments(TypedDict, total=False):
    """Arguments of all warps.

    Args:
        fill_value: Value of pixels outside the image, converted to the dtype of the input. By default the edge pixels
            are repeated.
        interp_type: INTERP_LINEAR (default) or INTERP_NN.
        dtype: Dtype of the result: that of the input (default) or FLOAT; for float32 inputs also UINT8, INT16 or INT32.
        output_dtype: Older name of `dtype`.
    """

    fill_value: float | None
    interp_type: DALIInterpType | int
    dtype: DType
    output_dtype: DType


@dataclass(frozen=True)
class WarpOptions:
    """Options of a warp that are the same for all samples.

    Args:
        layout: Layout of the images.
        interpolation: Interpolation between pixels.
        border: Pixels outside the image.
        fill: Value for a constant border, one number or one per channel.
        dtype: Dtype of the result.
    """

    layout: str
    interpolation: Interpolation
    border: Border
    fill: tuple[float, ...]
    dtype: np.dtype[Any]

    @property
    def axes(self) -> tuple[int, ...]:
        """Spatial axes in the order D, H, W."""
        return tuple(self.layout.index(letter) for letter in SPATIAL if letter in self.layout)

    def spec(self, images: Spec, size: Any = None) -> Spec:
        """Return the spec of the result.

        Args:
            images: Spec of the images.
            size: Extents along `axes`, None for unknown ones, or the spec of a node; by default those of the images.
        """
        shape, bounds = list(images.shape), images.bounds
        if size is not None:
            extents = [None] * len(self.axes) if isinstance(size, Spec) else size
            for axis, extent in zip(self.axes, extents, strict=True):
                shape[axis] = None if extent is None else int(extent)
            # The bounds of the input do not apply to the new size.
            bounds = ()
        return replace(images, dtype=self.dtype, shape=tuple(shape), layout=self.layout, bounds=bounds)

    def steps(
        self, images: ImageInfo, places: CoordinateMap, numbers: Any, size: Sequence[Any] | None = None
    ) -> Sequence[Step]:
        """Return the steps: the warp and the conversions around it.

        Args:
            images: Extents and dtype of the images.
            places: Map from pixels of the result to coordinates in the image; ignored for volumes, whose map is always
                affine.
            numbers: Parameters of the map for each row, float32 (rows, n), such as a matrix.
            size: Extents of the result along `axes`, integers with an entry per row; None for those of the images.

        Raises:
            ValueError: The result is too large, or the number of fill values is wrong. Checked on the host only, before
                memory is allocated.
        """
        sizes = list(images.sizes)
        channels = sizes[self.layout.index("C")] if "C" in self.layout else np.ones(1, np.int32)
        check_fill_count(len(self.fill), channels)
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


@dataclass(frozen=True)
class AffineWarp(ImageOperator):
    """Warp by an affine transform of n axes, with an optional argument `size`.

    Args:
        warping: Interpolation, border and dtype.
    """

    warping: WarpOptions

    @property
    def schema(self) -> Mapping[str, Argument]:  # pyright: ignore[reportIncompatibleVariableOverride]  # by rank
        """Declarations of the size, with a number per axis, and of the matrix."""
        ndim = len(self.warping.axes)
        return {"size": Argument(np.float32, (ndim,), low=1), "matrix": Argument(np.float32, (ndim * (ndim + 1),))}


def adjugate(matrix: Sequence[Any]) -> tuple[Any, ...]:
    """Return the adjugate of a 3 x 3 matrix, row by row: its inverse times its determinant."""
    a, b, c, d, e, f, g, h, i = matrix
    return (
        *(e * i - f * h, c * h - b * i, b * f - c * e),
        *(f * g - d * i, a * i - c * g, c * d - a * f),
        *(d * h - e * g, b * g - a * h, a * e - b * d),
    )


# Dtypes besides FLOAT to which DALI's warps convert float32 images.
_INTEGER_DTYPES = (np.dtype(np.uint8), np.dtype(np.int16), np.dtype(np.int32))


def affine_options(data: DataNode, arguments: WarpArguments) -> WarpOptions:
    """Return the options of an affine warp for a user's arguments.

    Raises:
        DefinitionError: The interpolation is neither linear nor nearest, or the dtype is not supported.
    """
    fill, own = arguments.get("fill_value"), data.spec.dtype
    dtype = result_dtype(own, arguments.get("dtype"), arguments.get("output_dtype"))
    if own != np.float32 or dtype not in _INTEGER_DTYPES:
        dtype = output_dtype(own, dtype)
    interpolation = warp_interpolation(arguments.get("interp_type", INTERP_LINEAR))
    # Without a fill value DALI clamps coordinates, which repeats the edge pixels.
    if fill is None:
        return warp_options(data, interpolation, Border.REPLICATE, 0.0, dtype)
    return warp_options(data, interpolation, Border.CONSTANT, fill, dtype)


def warp_options(
    data: DataNode,
    interpolation: Interpolation,
    border: Border,
    fill: float | Sequence[float],
    dtype: np.dtype[Any] | None = None,
) -> WarpOptions:
    """Return the options of a warp.

    Args:
        data: The images.
        interpolation: Interpolation between pixels.
        border: Pixels outside the image.
        fill: Their value for a constant border, one number or one per channel, in the range of the images' dtype.
        dtype: Dtype of the result; by default that of the images.

    Raises:
        DefinitionError: The number of values is neither 1 nor the number of channels.
    """
    own, layout = data.spec.dtype, assumed_layout(data.spec)
    values = np.atleast_1d(np.asarray(fill, np.float64))
    channels = data.spec.shape[layout.index("C")] if "C" in layout else 1
    if values.ndim != 1 or len(values) not in (1, channels or len(values)):
        raise DefinitionError(
            "fill_value must be one number, or one per channel", given=fill, expected=f"1 or {channels}"
        )
    # DALI converts the fill value to the dtype of the input, even if the result is float.
    color = tuple(map(float, cast_saturating(np, values, own)))
    return WarpOptions(layout, interpolation, border, color, dtype or own)


def rounded_size(size: Any) -> Any:
    """Return the argument `size` with constants rounded, or None if it is not set."""
    # DALI rounds constants and truncates the values of nodes, which operators do when they convert to int32.
    if size is None or isinstance(size, DataNode):
        return size
    return np.floor(np.asarray(size, np.float64) + 0.5)


_INTERPOLATIONS = {
    int(INTERP_NN): Interpolation.NEAREST,
    int(INTERP_LINEAR): Interpolation.LINEAR,
    int(INTERP_CUBIC): Interpolation.CUBIC,
}


def warp_interpolation(interp_type: DALIInterpType | int, *, cubic: bool = False) -> Interpolation:
    """Return the interpolation for a constant of DALI.

    Args:
        interp_type: Argument of the user.
        cubic: True if the operator supports INTERP_CUBIC.

    Raises:
        DefinitionError: The operator does not support the interpolation.
    """
    interpolation = _INTERPOLATIONS.get(int(interp_type))
    if interpolation is None or (interpolation is Interpolation.CUBIC and not cubic):
        raise DefinitionError(
            "interp_type is not supported",
            given=short_repr(interp_type),
            expected="types.INTERP_LINEAR, types.INTERP_NN" + (" or types.INTERP_CUBIC" if cubic else ""),
        )
    return interpolation


def flat_matrix(matrix: Any, rows: int, columns: int) -> Any:
    """Return a matrix, constant or a node, as a vector; a vector unchanged."""
    if isinstance(matrix, DataNode):
        return flatten_matrices(matrix, rows * columns)
    numbers = as_numbers("matrix", matrix)
    return numbers.ravel() if numbers.shape == (rows, columns) else numbers
