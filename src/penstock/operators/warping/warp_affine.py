"""warp_affine: move pixels by an affine map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Unpack

import numpy as np

from penstock.core.spec import Spec
from penstock.errors import DefinitionError
from penstock.graph.arguments.argument_groups import select_arguments
from penstock.graph.ir.argument_schema import Argument, as_numbers
from penstock.graph.layouts import image_layout
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.image.describe.steps import ImageInfo, Step
from penstock.image.image_operator import ImageOperator
from penstock.image.passes.sampling_coordinates import Affine
from penstock.operators.warping.warp_options import (
    WarpArguments,
    WarpOptions,
    adjugate,
    flatten_matrices,
    given_size,
    warping,
)


@dataclass(frozen=True)
class WarpAffine(ImageOperator):
    """An affine map of the plane.

    Args:
        warping: how pixels are looked up.
        inverse: whether the matrix maps the result to the image.
        sized: whether the result has a size of its own.
    """

    warping: WarpOptions
    inverse: bool
    sized: bool
    schema: ClassVar[Mapping[str, Argument]] = {
        "matrix": Argument(np.float32, (6,)),
        "size": Argument(np.float32, (2,), low=1),
    }

    def infer(self, images: Spec, *, matrix: Any, size: Any) -> Spec:
        """The input's, with another height and width where a size is given."""
        return self.warping.sized(images, size) if self.sized else self.warping.made(images, None)

    def describe(self, images: ImageInfo, bits: Any, *, matrix: Any, size: Any) -> Sequence[Step]:
        """One warp, with the matrix from the result to the image."""
        xp = images.xp
        sizes = [extents.astype(np.int32) for extents in size.T] if self.sized else None
        return self.warping.steps(images, Affine(), matrix if self.inverse else _inverse(xp, matrix), sizes)


@dataclass(frozen=True)
class WarpVolume(WarpAffine):
    """An affine map of space."""

    schema: ClassVar[Mapping[str, Argument]] = {
        "matrix": Argument(np.float32, (12,)),
        "size": Argument(np.float32, (3,), low=1),
    }


def _inverse(xp: Any, matrix: Any) -> Any:
    """The inverses of affine maps, (rows, 6) or (rows, 12)."""
    if matrix.shape[1] == 6:
        a, b, c, d, e, f = (matrix[:, k] for k in range(6))
        scale, entries = a * e - b * d, (e, -b, b * f - c * e, -d, a, c * d - a * f)
    else:
        a, b, c, p, d, e, f, q, g, h, i, r = (matrix[:, k] for k in range(12))
        linear = adjugate((a, b, c, d, e, f, g, h, i))
        scale = a * linear[0] + b * linear[3] + c * linear[6]
        rows = [linear[k : k + 3] for k in (0, 3, 6)]
        entries = [n for x, y, z in rows for n in (x, y, z, -(x * p + y * q + z * r))]
    if xp is np and (scale == 0).any():
        raise ValueError("the matrix has no inverse")
    return xp.stack([each / scale for each in entries], axis=1)


@operator("warp_affine")
def warp_affine(
    data: DataNode,
    mtx: DataNode | None = None,
    *,
    matrix: Sequence[float] | Sequence[Sequence[float]] | DataNode | None = None,
    size: Sequence[float] | DataNode | None = None,
    inverse_map: bool = True,
    **arguments: Unpack[WarpArguments],
) -> DataNode:
    """Move the pixels of images or volumes by an affine map.

    The pixel at (x, y) of the result is the image's value at (M11 x + M12 y + M13, M21 x + M22 y + M23). The corner of
    the first pixel has the coordinates (0, 0), its centre (0.5, 0.5). Volumes have three coordinates: x, y and z.

    Args:
        data: images, volumes or sequences of any dtype; layout with H and W (HWC where none is named).
        mtx: the matrix as a second input.
        matrix: (M11, M12, M13, M21, M22, M23), or two rows of three numbers; for volumes twelve, or three rows of four.
            A node gives each sample its own. The identity by default.
        size: height and width of the result, before these the depth of a volume; numbers, which are rounded, or a node
            with as many per sample, whose fractions are cut off. The image's by default.
        inverse_map: whether the matrix maps places of the result to places of the image; if not, it is inverted.
        **arguments: See `WarpArguments`.

    Returns:
        The warped images, in the input's layout.

    Raises:
        DefinitionError: a matrix that is given twice, or has too few numbers or too many; an interpolation or dtype
            that is not offered.
        SampleError: while running, a matrix without an inverse.

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
    layout = image_layout(data, kind)
    if mtx is not None and matrix is not None:
        raise DefinitionError(f"fn.{kind}: the matrix is given twice", given="mtx and matrix=", fix="leave out one")
    how = warping(data, layout, kind, select_arguments(WarpArguments, arguments))
    space = len(how.axes)
    count = space * (space + 1)
    numbers: Any = mtx if mtx is not None else matrix
    if isinstance(numbers, DataNode):
        numbers = flatten_matrices(numbers, count)
    elif numbers is None or as_numbers(f"fn.{kind}: matrix", numbers).size == 0:
        numbers = np.eye(space, space + 1).ravel()
    elif np.shape(numbers) == (space, space + 1):
        numbers = np.reshape(numbers, count)
    sized = isinstance(size, DataNode) or (size is not None and np.size(size) > 0)
    made = (WarpVolume if space == 3 else WarpAffine)(how, bool(inverse_map), sized)
    return apply(made, data, matrix=numbers, size=given_size(size, space))
