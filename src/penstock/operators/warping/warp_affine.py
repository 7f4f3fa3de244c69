"""Operator that warps images and volumes with an affine transform."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from penstock.core import Spec
from penstock.errors import DefinitionError
from penstock.graph import DataNode, Images, apply, operator, select_arguments
from penstock.image.describe.steps import ImageInfo, Step
from penstock.image.passes.sampling_coordinates import Affine
from penstock.operators.elementwise.bfloat16_results import rounds_to_bfloat16
from penstock.operators.repeated_frames import repeated_for_frames
from penstock.operators.warping.warp_options import (
    AffineWarp,
    OutputSize,
    WarpArguments,
    adjugate,
    affine_options,
    flat_matrix,
    rounded_size,
)


@dataclass(frozen=True)
class WarpAffine(AffineWarp):
    """Affine warp of images or volumes.

    Args:
        inverse: True if the matrix maps the result to the image.
    """

    inverse: bool

    def infer(self, images: Spec, *, matrix: Any, size: Any = None) -> Spec:
        """Return the spec of the input with the new size."""
        return self.warping.spec(images, size)

    def describe(self, images: ImageInfo, bits: Any, *, matrix: Any, size: Any = None) -> Sequence[Step]:
        """Return one warp, with the matrix that maps the result to the image."""
        sizes = None if size is None else [extents.astype(np.int32) for extents in size.T]
        return self.warping.steps(images, Affine(), matrix if self.inverse else _inverse(images.xp, matrix), sizes)


def _inverse(xp: Any, matrix: Any) -> Any:
    """Invert affine transforms, (rows, 6) or (rows, 12)."""
    # Written out by Cramer's rule: the same float32 operations on the host and under XLA.
    if matrix.shape[1] == 6:
        a, b, c, d, e, f = (matrix[:, k] for k in range(6))
        scale, entries = a * e - b * d, (e, -b, b * f - c * e, -d, a, c * d - a * f)
    else:
        a, b, c, p, d, e, f, q, g, h, i, r = (matrix[:, k] for k in range(12))
        linear = adjugate((a, b, c, d, e, f, g, h, i))
        scale = a * linear[0] + b * linear[3] + c * linear[6]
        rows = [linear[k : k + 3] for k in (0, 3, 6)]
        entries = [n for x, y, z in rows for n in (x, y, z, -(x * p + y * q + z * r))]
    # The device program cannot raise.
    if xp is np and (scale == 0).any():
        raise ValueError("the matrix has no inverse")
    return xp.stack([entry / scale for entry in entries], axis=1)


@operator("warp_affine")
@rounds_to_bfloat16
def warp_affine(
    data: Images,
    mtx: DataNode | None = None,
    *,
    matrix: Sequence[float] | Sequence[Sequence[float]] | DataNode | None = None,
    size: OutputSize | None = None,
    inverse_map: bool = True,
    **arguments: Unpack[WarpArguments],
) -> DataNode:
    """Warp images or volumes with an affine transform.

    The pixel at (x, y) of the result is the value of the image at (M11 x + M12 y + M13, M21 x + M22 y + M23). The
    corner of the first pixel is at (0, 0) and its center at (0.5, 0.5). Volumes have coordinates (x, y, z).

    Args:
        data: Images, volumes or sequences of any dtype; the layout needs H and W and defaults to HWC.
        mtx: Matrix as a second input, instead of `matrix`.
        matrix: (M11, M12, M13, M21, M22, M23) or (2, 3); for volumes 12 numbers or (3, 4); or a node with a matrix per
            sample. By default the identity.
        size: (height, width) or (depth, height, width) of the result in pixels, or a node with them per sample; by
            default the size of the image. Fractions of constants are rounded; those of a node are truncated, as in
            DALI.
        inverse_map: True if the matrix maps coordinates of the result to coordinates of the image, False to invert it.
        **arguments: See `WarpArguments`.

    Returns:
        Warped images in the layout of the input. If `mtx` has a matrix per frame (`fn.per_frame`), the result of an
        image is a sequence.

    Raises:
        DefinitionError: The matrix is given twice or has the wrong shape, or the interpolation or dtype is not
            supported.
        SampleError: At run time, a matrix that must be inverted is singular.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     images = fn.readers.arrays(np.arange(4, dtype=np.uint8).reshape(1, 2, 2, 1), layout="HWC")
        ...     pipeline.set_outputs(fn.warp_affine(images, matrix=[1, 0, 1, 0, 1, 0], fill_value=9))
        >>> pipeline.run()[0].as_array().reshape(2, 2).tolist()
        [[1, 9], [3, 9]]
    """
    if mtx is not None and matrix is not None:
        raise DefinitionError("the matrix is given twice", given="mtx and matrix=", fix="leave out one")
    data = repeated_for_frames(data, mtx)
    options = affine_options(data, select_arguments(WarpArguments, arguments))
    ndim = len(options.axes)
    given = matrix if mtx is None else mtx
    if given is None:
        raise DefinitionError(
            "the matrix is missing", expected=f"matrix, {ndim} x {ndim + 1} numbers", fix="fn.transforms makes matrices"
        )
    numbers = flat_matrix(given, ndim, ndim + 1)
    return apply(WarpAffine(options, inverse_map), data, matrix=numbers, size=rounded_size(size))
