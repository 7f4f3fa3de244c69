"""What reductions share: the axes, and the shape that is left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.core.spec import Spec
from penstock.errors import DefinitionError
from penstock.graph.ir.operator import BatchKernel, Operator
from penstock.graph.layouts import axis_numbers


@dataclass(frozen=True)
class Reduction(Operator, BatchKernel):
    """A number for all elements along some axes.

    Args:
        kind: the operator's public name.
        axes: along which, in ascending order.
        keep_dims: whether they stay, with extent 1.
    """

    kind: str
    axes: tuple[int, ...]
    keep_dims: bool

    def left(self, data: Spec, dtype: np.dtype[Any]) -> Spec:
        """The spec of the result.

        Raises:
            DefinitionError: the input holds no numbers.
        """
        if data.dtype.kind not in "iuf":
            raise DefinitionError(
                f"fn.{self.kind} takes numbers", given=data, fix="fn.cast(x, dtype=types.UINT8) before"
            )
        if self.keep_dims:
            return Spec(dtype, tuple(1 if n in self.axes else size for n, size in enumerate(data.shape)), data.layout)
        kept = [axis for axis in range(len(data.shape)) if axis not in self.axes]
        layout = "".join(data.layout[axis] for axis in kept) if data.layout else ""
        return Spec(dtype, tuple(data.shape[axis] for axis in kept), layout)

    @property
    def batch_axes(self) -> tuple[int, ...]:
        """The axes as they are numbered in a batch."""
        return tuple(axis + 1 for axis in self.axes)

    def shaped(self, data: Any, reduced: Any) -> Any:
        """What is left of a batch after reduction, with the axes that stay."""
        if not self.keep_dims:
            return reduced
        return reduced.reshape([1 if axis in self.batch_axes else size for axis, size in enumerate(data.shape)])


def reduced_axes(kind: str, axes: int | Sequence[int] | None, names: str | None, spec: Spec) -> tuple[int, ...]:
    """The axes that a user named, ascending; all if none, and none for an empty list.

    Raises:
        DefinitionError: an axis does not exist or is named twice, or they are named in both ways.
    """
    if names is None and axes is not None and not isinstance(axes, int) and len(axes) == 0:
        return ()
    return tuple(sorted(axis_numbers(axes, names, spec, kind)))


def work_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The float type in which numbers of a type are averaged."""
    return np.dtype(np.float64) if dtype.itemsize == 8 else np.dtype(np.float32)
