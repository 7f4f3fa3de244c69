"""Operator that warps images and volumes with an affine transform."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Unpack

import numpy as np

from penstock.core import Spec
from penstock.errors import DefinitionError
from penstock.graph import DataNode, Images, apply, assumed_layout, operator, select_arguments
from penstock.graph.ir.argument_schema import Argument, as_numbers
from penstock.image.describe.steps import ImageInfo, Step
from penstock.image.image_operator import ImageOperator
from penstock.image.passes.sampling_coordinates import Affine
from penstock.operators.warping.warp_options import (
    WarpArguments,
    WarpOptions,
    adjugate,
    flatten_matrices,
    given_size,
    warp_options,
)


@dataclass(frozen=True)
class WarpAffine(ImageOperator):
    """Affine warp of images.

    Args:
        warping: Interpolation, border and dtype.
        inverse: True if the matrix maps the result to the image.
        sized: True if the argument `size` gives the size of the result.
    """

    warping: WarpOptions
    inverse: bool
    sized: bool
    schema: ClassVar[Mapping[str, Argument]] = {
        "matrix": Argument(np.float32, (6,)),
        "size": Argument(np.float32, (2,), low=1),
    }

    def infer(self, images: Spec, *, matrix: Any, size: Any) -> Spec:
        """Return the spec of the input with the new size."""
        return self.warping.sized_spec(images, size) if self.sized else self.warping.spec(images, None)

    def describe(self, images: ImageInfo, bits: Any, *, matrix: Any, size: Any) -> Sequence[Step]:
        """Return one warp, with the matrix that maps the result to the image."""
        xp = images.xp
        sizes = [extents.astype(np.int32) for extents in size.T] if self.sized else None
        return self.warping.steps(images, Affine(), matrix if self.inverse else _inverse(xp, matrix), sizes)


@dataclass(frozen=True)
class WarpVolume(WarpAffine):
    """Affine warp of volumes."""

    schema: ClassVar[Mapping[str, Argument]] = {
        "matrix": Argument(np.float32, (12,)),
        "size": Argument(np.float32, (3,), low=1),
    }


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
def warp_affine(
    data: Images,
    mtx: DataNode | None = None,
    *,
    matrix: Sequence[float] | Sequence[Sequence[float]] | DataNode | None = None,
    size: Sequence[float] | DataNode | None = None,
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
        Warped images in the layout of the input.

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
    kind = "warp_affine"
    layout = assumed_layout(data.spec)
    if mtx is not None and matrix is not None:
        raise DefinitionError("the matrix is given twice", given="mtx and matrix=", fix="leave out one")
    options = warp_options(data, layout, kind, select_arguments(WarpArguments, arguments))
    ndim = len(options.axes)
    count = ndim * (ndim + 1)
    numbers: Any = mtx if mtx is not None else matrix
    if isinstance(numbers, DataNode):
        numbers = flatten_matrices(numbers, count)
    elif numbers is None or as_numbers("matrix", numbers).size == 0:
        # An empty matrix counts as none.
        numbers = np.eye(ndim, ndim + 1).ravel()
    elif np.shape(numbers) == (ndim, ndim + 1):
        numbers = np.reshape(numbers, count)
    sized = isinstance(size, DataNode) or (size is not None and np.size(size) > 0)
    kernel = (WarpVolume if ndim == 3 else WarpAffine)(options, bool(inverse_map), sized)
    return apply(kernel, data, matrix=numbers, size=given_size(size, ndim))
