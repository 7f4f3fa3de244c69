"""warp_perspective: move pixels by a projective map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from penstock.core.spec import Spec
from penstock.errors import DefinitionError, did_you_mean, short_repr
from penstock.graph.ir.argument_schema import Argument, as_numbers
from penstock.graph.layouts import plane_layout
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.image.describe.steps import ImageInfo, Step
from penstock.image.image_operator import ImageOperator
from penstock.image.kernels.border_modes import Border
from penstock.image.passes.sampling_coordinates import Projective
from penstock.operators.warping.warp_options import (
    WarpOptions,
    adjugate,
    fill_color,
    flatten_matrices,
    given_size,
    warp_interpolation,
)
from penstock.types import INTERP_LINEAR, DALIInterpType

BORDERS: Mapping[str, Border] = {border.name.lower(): border for border in Border}


@dataclass(frozen=True)
class WarpPerspective(ImageOperator):
    """A projective map of the plane.

    Args:
        warping: how pixels are looked up.
        inverse: whether the matrix maps the result to the image.
        centered: whether coordinates are counted from the centre of the first pixel, not from its corner.
        sized: whether the result has a size of its own.
    """

    warping: WarpOptions
    inverse: bool
    centered: bool
    sized: bool
    schema: ClassVar[Mapping[str, Argument]] = {
        "matrix": Argument(np.float32, (9,)),
        "size": Argument(np.float32, (2,), low=1),
    }

    def infer(self, images: Spec, *, matrix: Any, size: Any) -> Spec:
        """The input's, with another height and width where a size is given."""
        return self.warping.sized(images, size) if self.sized else self.warping.made(images, None)

    def describe(self, images: ImageInfo, bits: Any, *, matrix: Any, size: Any) -> Sequence[Step]:
        """One warp, with the matrix from the result to the image, between corners of pixels."""
        xp, half = images.xp, np.float32(0.5)
        a, b, c, d, e, f, g, h, i = (matrix[:, k] for k in range(9))
        if not self.inverse:
            if xp is np and (a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g) == 0).any():
                raise ValueError("the matrix has no inverse")
            a, b, c, d, e, f, g, h, i = adjugate((a, b, c, d, e, f, g, h, i))  # but for a factor, which does not matter
        if self.centered:
            c, f, i = (offset - half * (by_x + by_y) for by_x, by_y, offset in ((a, b, c), (d, e, f), (g, h, i)))
            a, b, c, d, e, f = (a + half * g, b + half * h, c + half * i, d + half * g, e + half * h, f + half * i)
        numbers = xp.stack(xp.broadcast_arrays(a, b, c, d, e, f, g, h, i), axis=1)
        sizes = [xp.floor(extents + half).astype(np.int32) for extents in size.T] if self.sized else None
        return self.warping.steps(images, Projective(), numbers, sizes)


@operator("warp_perspective")
def warp_perspective(
    data: DataNode,
    matrix_input: DataNode | None = None,
    *,
    matrix: Sequence[float] | Sequence[Sequence[float]] | DataNode | None = None,
    size: Sequence[float] | DataNode | None = None,
    border_mode: Literal["constant", "replicate", "reflect", "reflect_101", "wrap"] = "constant",
    fill_value: float | Sequence[float] = (),
    interp_type: DALIInterpType | int = INTERP_LINEAR,
    inverse_map: bool = True,
    pixel_origin: Literal["corner", "center"] = "corner",
) -> DataNode:
    """Move the pixels of images by a projective map, as OpenCV's ``warpPerspective`` does.

    The pixel at (x, y) of the result is the image's value at ((M11 x + M12 y + M13) / w, (M21 x + M22 y + M23) / w),
    where w is M31 x + M32 y + M33. As in DALI, within 1 for bytes; it rounds the places of int16 images to a 32nd of a
    pixel.

    Args:
        data: images or sequences of any dtype and any number of channels; layout with H and W (HWC where none is
            named).
        matrix_input: the matrix as a second input, 3 x 3.
        matrix: the matrix: nine numbers, or three rows of three; a node gives each sample its own.
        size: height and width of the result; two numbers, or a node with two per sample. The image's by default.
        border_mode: what lies outside of the image: "constant", a value; "replicate", the pixel at the edge; "reflect",
            the image mirrored; "reflect_101", mirrored without its outermost pixels; "wrap", the image again.
        fill_value: the value for "constant", one number or one per channel; 0 by default.
        interp_type: INTERP_LINEAR, INTERP_NN or INTERP_CUBIC: sixteen pixels, weighed by Keys' cubic with
            a = -3/4.
        inverse_map: whether the matrix maps places of the result to places of the image; if not, it is inverted.
        pixel_origin: whether (0, 0) is the "corner" of the first pixel, or its "center", as in OpenCV.

    Returns:
        The warped images, same dtype and layout.

    Raises:
        DefinitionError: no matrix, or two; a volume; an unknown interpolation; a fill value that the images cannot
            have.
        SampleError: while running, a matrix without an inverse that has to be inverted.

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
    kind = "warp_perspective"
    layout = plane_layout(data, kind)
    for name, given, known in (
        ("border_mode", border_mode, BORDERS),
        ("pixel_origin", pixel_origin, ("corner", "center")),
    ):
        if given not in known:
            raise DefinitionError(f"fn.{kind}: no such {name}", given=short_repr(given), fix=did_you_mean(given, known))
    if (matrix_input is None) == (matrix is None):
        fix = "leave out one" if matrix is not None else "matrix=[...], nine numbers"
        raise DefinitionError(
            f"fn.{kind} takes one matrix", given="none" if matrix is None else "matrix_input and matrix=", fix=fix
        )
    numbers: Any = matrix if matrix_input is None else matrix_input
    if isinstance(numbers, DataNode):
        numbers = flatten_matrices(numbers, 9)
    elif as_numbers(f"fn.{kind}: matrix", numbers).shape == (3, 3):
        numbers = np.reshape(numbers, 9)
    border, sized = BORDERS[border_mode], isinstance(size, DataNode) or (size is not None and np.size(size) > 0)
    fill = fill_color(data, layout, kind, fill_value if np.size(fill_value) else 0.0)
    how = WarpOptions(layout, warp_interpolation(interp_type, kind, cubic=True), border, fill, data.spec.dtype)
    made = WarpPerspective(how, bool(inverse_map), pixel_origin == "center", sized)
    return apply(made, data, matrix=numbers, size=given_size(size, 2))
