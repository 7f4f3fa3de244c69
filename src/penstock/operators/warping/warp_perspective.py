"""Operator that warps images with a perspective transform."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np

from penstock.core import Spec
from penstock.errors import DefinitionError
from penstock.graph import Argument, DataNode, Planes, apply, operator
from penstock.image.describe.steps import ImageInfo, Step
from penstock.image.image_operator import ImageOperator
from penstock.image.kernels.border_modes import Border
from penstock.image.passes.sampling_coordinates import Projective
from penstock.operators.repeated_frames import repeated_for_frames
from penstock.operators.warping.warp_options import (
    OutputSize,
    WarpOptions,
    adjugate,
    flat_matrix,
    rounded_size,
    warp_interpolation,
    warp_options,
)
from penstock.types import INTERP_LINEAR, DALIInterpType


@dataclass(frozen=True)
class WarpPerspective(ImageOperator):
    """Perspective warp of images.

    Args:
        warping: Interpolation, border and dtype.
        inverse: True if the matrix maps the result to the image.
        centered: True if (0, 0) is the center of the first pixel, False if it is its corner.
    """

    warping: WarpOptions
    inverse: bool
    centered: bool

    def infer(self, images: Spec, *, matrix: Any, size: Any = None) -> Spec:
        """Return the spec of the input with the new size."""
        return self.warping.spec(images, size)

    def describe(self, images: ImageInfo, bits: Any, *, matrix: Any, size: Any = None) -> Sequence[Step]:
        """Return one warp, with the matrix that maps corner coordinates of the result to those of the image."""
        xp, half = images.xp, np.float32(0.5)
        a, b, c, d, e, f, g, h, i = (matrix[:, k] for k in range(9))
        if not self.inverse:
            if xp is np and (a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g) == 0).any():
                raise ValueError("the matrix has no inverse")
            # The inverse up to a factor, which a projective transform cancels.
            a, b, c, d, e, f, g, h, i = adjugate((a, b, c, d, e, f, g, h, i))
        if self.centered:
            # Conjugate with a shift by half a pixel: first M T(-1/2), then T(1/2) M.
            c, f, i = (offset - half * (by_x + by_y) for by_x, by_y, offset in ((a, b, c), (d, e, f), (g, h, i)))
            a, b, c, d, e, f = (a + half * g, b + half * h, c + half * i, d + half * g, e + half * h, f + half * i)
        numbers = xp.stack(xp.broadcast_arrays(a, b, c, d, e, f, g, h, i), axis=1)
        sizes = None if size is None else [xp.floor(extents + half).astype(np.int32) for extents in size.T]
        return self.warping.steps(images, Projective(), numbers, sizes)


@operator("warp_perspective")
def warp_perspective(
    data: Planes,
    matrix_input: DataNode | None = None,
    *,
    matrix: Annotated[Sequence[float] | Sequence[Sequence[float]] | DataNode | None, Argument(np.float32, (9,))] = None,
    size: Annotated[OutputSize | None, Argument(np.float32, (2,), low=1)] = None,
    border_mode: Literal["constant", "replicate", "reflect", "reflect_101", "wrap"] = "constant",
    fill_value: float | Sequence[float] = (),
    interp_type: DALIInterpType | int = INTERP_LINEAR,
    inverse_map: bool = True,
    pixel_origin: Literal["corner", "center"] = "corner",
) -> DataNode:
    """Warp images with a perspective transform, like OpenCV's ``warpPerspective``.

    The pixel at (x, y) of the result is the value of the image at ((M11 x + M12 y + M13) / w,
    (M21 x + M22 y + M23) / w) with w = M31 x + M32 y + M33. Results for uint8 match DALI within 1; for int16 DALI
    rounds coordinates to 1/32 of a pixel.

    Args:
        data: Images or sequences of any dtype and number of channels; the layout needs H and W and defaults to HWC.
        matrix_input: Matrix (3, 3) as a second input, instead of `matrix`.
        matrix: Nine numbers or (3, 3), or a node with a matrix per sample.
        size: (height, width) of the result in pixels, or a node with them per sample; by default the size of the image.
        border_mode: Pixels outside the image: "constant" for `fill_value`, "replicate" for the edge pixels, "reflect"
            for the mirrored image, "reflect_101" for the mirrored image without its edge pixels, "wrap" for the
            repeated image.
        fill_value: Value for "constant", one number or one per channel; by default 0.
        interp_type: INTERP_LINEAR, INTERP_NN or INTERP_CUBIC (Keys' cubic with a = -3/4, as in OpenCV).
        inverse_map: True if the matrix maps coordinates of the result to coordinates of the image, False to invert it.
        pixel_origin: Position of (0, 0): the "corner" of the first pixel, or its "center" as in OpenCV.

    Returns:
        Warped images in the dtype and layout of the input.

    Raises:
        DefinitionError: There is no matrix or two, the input is a volume, or the interpolation or fill value is
            invalid.
        SampleError: At run time, a matrix that must be inverted is singular, or an image has another number of channels
            than `fill_value`.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     images = fn.readers.arrays(np.arange(4, dtype=np.uint8).reshape(1, 2, 2, 1), layout="HWC")
        ...     moved = fn.experimental.warp_perspective(images, matrix=[1, 0, 1, 0, 1, 0, 0, 0, 1], border_mode="wrap")
        ...     pipeline.set_outputs(moved)
        >>> pipeline.run()[0].as_array().reshape(2, 2).tolist()
        [[1, 0], [3, 2]]
    """
    if (matrix_input is None) == (matrix is None):
        raise DefinitionError(
            "there must be exactly one matrix",
            given="none" if matrix is None else "matrix_input and matrix=",
            fix="matrix=[...], nine numbers" if matrix is None else "leave out one",
        )
    data = repeated_for_frames(data, matrix_input)
    numbers = flat_matrix(matrix if matrix_input is None else matrix_input, 3, 3)
    interpolation = warp_interpolation(interp_type, cubic=True)
    options = warp_options(data, interpolation, Border[border_mode.upper()], fill_value if np.size(fill_value) else 0.0)
    kernel = WarpPerspective(options, inverse_map, pixel_origin == "center")
    return apply(kernel, data, matrix=numbers, size=rounded_size(size))
