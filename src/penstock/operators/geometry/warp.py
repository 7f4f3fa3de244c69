"""What the operators share that look pixels up where a matrix says: size, interpolation and what lies outside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from penstock.data.spec import Spec
from penstock.errors import DefinitionError
from penstock.graph.operator import Common
from penstock.graph.trace import DataNode
from penstock.operators.axes import MAX_PIXELS
from penstock.operators.convert import own_or_float
from penstock.operators.image.steps import Images, Step
from penstock.operators.image.transform import applied
from penstock.operators.image.warp import Warp
from penstock.types import INTERP_LINEAR, INTERP_NN, DALIDataType, DALIInterpType


class WarpArguments(Common, total=False):
    """What all warps take.

    fill_value: the value of what lies outside of the image, in the input's range; by default the pixels at the edge are
    repeated. interp_type: INTERP_LINEAR, the default, or INTERP_NN. dtype: of the result: FLOAT or the input's, which
    it is by default.
    """

    fill_value: float | None
    interp_type: DALIInterpType | int
    dtype: DALIDataType | Any


@dataclass(frozen=True)
class Warping:
    """How a warp is done, the same for all samples.

    Args:
        layout: of the images.
        nearest: whether pixels are taken, not interpolated.
        fill: the value of what lies outside; None where the edge is repeated.
        dtype: of the result.
    """

    layout: str
    nearest: bool
    fill: float | None
    dtype: np.dtype[Any]

    def made(self, images: Spec, size: tuple[int | None, int | None] | None) -> Spec:
        """The spec of the result, with height and width where these change."""
        shape, bounds = list(images.shape), images.bounds
        if size is not None:
            shape[self.layout.index("H")], shape[self.layout.index("W")] = size
            bounds = ()
        return replace(images, dtype=self.dtype, shape=tuple(shape), layout=self.layout, bounds=bounds)

    def steps(self, images: Images, matrix: Any, size: tuple[Any, Any] | None) -> Sequence[Step]:
        """The warp, and the conversions around it.

        Args:
            images: what is known of them.
            matrix: float32 (rows, 6 or 9), from the result to the image.
            size: height and width, integers with an entry per row; None for those of the images.
        """
        sizes = list(images.sizes)
        if size is not None:
            sizes[self.layout.index("H")], sizes[self.layout.index("W")] = size
            if images.xp is np and (np.asarray(size[0], np.int64) * np.asarray(size[1], np.int64) > MAX_PIXELS).any():
                raise ValueError(f"the result has more than {MAX_PIXELS} pixels")
        fill = np.array([[0.0 if self.fill is None else self.fill]], np.float32)
        transform = Warp(self.layout, matrix.shape[1] == 6, self.nearest, self.fill is not None)
        return applied(transform, images, sizes, (matrix, fill), self.dtype)


def warping(data: DataNode, layout: str, kind: str, arguments: WarpArguments) -> Warping:
    """How a warp is done.

    Raises:
        DefinitionError: another interpolation than linear and nearest, a dtype that does not fit, a fill value that the
            images cannot have.
    """
    filters = arguments.get("interp_type", INTERP_LINEAR)
    if filters not in (INTERP_LINEAR, INTERP_NN):
        raise DefinitionError(
            f"fn.{kind} interpolates linearly or not at all",
            given=f"interp_type={filters!r}",
            expected="types.INTERP_LINEAR or types.INTERP_NN",
        )
    own, fill = data.spec.dtype, arguments.get("fill_value")
    dtype = own_or_float(own, arguments.get("dtype"), kind)
    if fill is not None and own.kind in "iu" and not np.iinfo(own).min <= fill <= np.iinfo(own).max:
        raise DefinitionError(f"fn.{kind}: no image of this dtype has the fill value", given=fill, expected=own)
    return Warping(layout, filters == INTERP_NN, None if fill is None else float(fill), dtype)
