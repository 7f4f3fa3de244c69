"""warp_affine: move pixels by an affine map."""

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
from penstock.operators.tensors.reshape import reshape


@dataclass(frozen=True)
class WarpAffine(ImageOperator):
    """An affine map of the plane.

    Args:
        warping: how pixels are looked up.
        inverse: whether the matrix maps the result to the image.
        sized: whether the result has a size of its own.
    """

    warping: Warping
    inverse: bool
    sized: bool
    schema: ClassVar[Mapping[str, Argument]] = {
        "matrix": Argument(np.float32, (6,)),
        "size": Argument(np.float32, (2,), low=1),
    }

    def infer(self, images: Spec, *, matrix: Any, size: Any) -> Spec:
        """The input's, with another height and width where a size is given."""
        if not self.sized:
            return self.warping.made(images, None)
        height, width = (None, None) if isinstance(size, Spec) else np.rint(size).astype(int).tolist()
        return self.warping.made(images, (height, width))

    def describe(self, images: Images, bits: Any, *, matrix: Any, size: Any) -> Sequence[Step]:
        """One warp, with the matrix from the result to the image."""
        xp = images.xp
        if not self.inverse:
            a, b, c, d, e, f = (matrix[:, k] for k in range(6))
            scale = a * e - b * d
            if xp is np and (scale == 0).any():
                raise ValueError("the matrix has no inverse")
            inverse = (e, -b, b * f - c * e, -d, a, c * d - a * f)
            matrix = xp.stack([each / scale for each in inverse], axis=1)
        sizes = tuple(xp.rint(size[:, k]).astype(np.int32) for k in range(2)) if self.sized else None
        return self.warping.steps(images, Affine(), matrix, sizes)


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
    """Move the pixels of images by an affine map.

    The pixel at (x, y) of the result is the image's value at (M11 x + M12 y + M13, M21 x + M22 y + M23). The corner of
    the first pixel has the coordinates (0, 0), its centre (0.5, 0.5).

    Args:
        data: images or sequences of any dtype; layout with H and W (HWC where none is named).
        mtx: the matrix as a second input.
        matrix: (M11, M12, M13, M21, M22, M23), or two rows of three numbers; a node gives each sample its own. The
            identity by default.
        size: height and width of the result; two numbers, or a node with two per sample. The image's by default.
        inverse_map: whether the matrix maps places of the result to places of the image; if not, it is inverted.
        **arguments: what all warps take.

    Returns:
        The warped images, in the input's layout.

    Raises:
        DefinitionError: a matrix that is given twice, or has not six numbers; a volume; another interpolation or dtype.
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
    layout = plane_layout(data, kind)
    if mtx is not None and matrix is not None:
        raise DefinitionError(f"fn.{kind}: the matrix is given twice", given="mtx and matrix=", fix="leave out one")
    how = warping(data, layout, kind, pick(WarpArguments, arguments))
    numbers: Any = mtx if mtx is not None else matrix
    if isinstance(numbers, DataNode):
        framed = numbers.spec.layout[:1] == "F"
        if len(numbers.spec.shape) == 2 + framed:
            numbers = reshape(numbers, shape=[-1, 6], layout="F*") if framed else reshape(numbers, shape=[6])
    elif numbers is None or np.size(numbers) == 0:
        numbers = [1, 0, 0, 0, 1, 0]
    elif np.shape(numbers) == (2, 3):
        numbers = np.reshape(numbers, 6)
    sized = isinstance(size, DataNode) or (size is not None and np.size(size) > 0)
    made = WarpAffine(how, bool(inverse_map), sized)
    return apply(made, data, common=pick(Common, arguments), matrix=numbers, size=size if sized else (1, 1))
