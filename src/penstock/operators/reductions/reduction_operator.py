"""Kernel of all reductions: a table of formulas, the common arguments, and the shape of the result."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, cast

import numpy as np
from typing_extensions import TypedDict

from penstock.core import Shape, Spec
from penstock.errors import DefinitionError
from penstock.graph import (
    BatchContext,
    BatchKernel,
    DataNode,
    Default,
    Input,
    Operator,
    apply,
    axis_numbers,
    with_defaults,
)
from penstock.graph.tracing.registry import running_operator
from penstock.numerics.casting import cast_saturating
from penstock.numerics.ordered_sums import ordered_sum, sum_of_squares
from penstock.operators.reductions.wide_sums import wide_sum

Numbers = Annotated[DataNode, Input(("number",))]


class ReductionArguments(TypedDict, total=False):
    """Arguments of all reductions.

    Args:
        axes: Axes of a sample to reduce; negative numbers count from the end. None reduces all axes, [] reduces none,
            so each element is reduced by itself.
        axis_names: Axes to reduce as letters of the layout, such as "HW", instead of `axes`.
        keep_dims: If True, reduced axes stay in the result with extent 1.
    """

    axes: Annotated[int | Sequence[int] | None, Default(None)]
    axis_names: Annotated[str | None, Default(None)]
    keep_dims: Annotated[bool, Default(False)]


def _extreme(xp: Any, data: Any, axes: tuple[int, ...], *, greatest: bool) -> Any:
    dtype, is_float = data.dtype, data.dtype.kind == "f"
    limits: Any = None if is_float else np.iinfo(dtype)
    neutral = dtype.type((-np.inf if greatest else np.inf) if is_float else limits.min if greatest else limits.max)
    if is_float:
        # DALI ignores NaN. NumPy and XLA would return it.
        data = xp.where(xp.isnan(data), neutral, data)
    # Without `initial`, an empty sample would be an error.
    return (xp.max if greatest else xp.min)(data, axis=axes, initial=neutral)


def _sum(xp: Any, data: Any, axes: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    if data.dtype.kind == "f":
        return ordered_sum(xp, data.astype(_work_dtype(data.dtype)), axes)
    # Integer sums do not depend on the order of additions. JAX has no 64-bit integers unless x64 is enabled, and only
    # then do programs with 64-bit integers run on a device.
    bits = 64 if xp is np or 8 in (data.dtype.itemsize, dtype.itemsize) else 32
    wide, own = np.dtype(f"{data.dtype.kind}{bits // 8}"), np.iinfo(data.dtype)
    count = math.prod(data.shape[axis] for axis in axes)
    if bits == 32 and (count * own.max > np.iinfo(wide).max or count * own.min < np.iinfo(wide).min):
        return wide_sum(xp, data, axes, dtype)
    return xp.sum(data.astype(wide), axis=axes, dtype=wide)


def _mean(total: Callable[[Any, Any, Sequence[int]], Any], xp: Any, data: Any, axes: tuple[int, ...], ddof: int) -> Any:
    work = _work_dtype(data.dtype)
    count = math.prod(data.shape[axis] for axis in axes) - ddof
    return total(xp, data.astype(work), axes) / xp.asarray(count, work)


# Reductions by DALI's name, as functions of (namespace, batch, axes of the batch, ddof). `_sum` is apart, because it
# needs the dtype of the result. Variance and standard deviation are the mean square of differences from the mean, and
# its root; `Reduction.batch` subtracts the mean first.
_FORMULAS: Mapping[str, Callable[[Any, Any, tuple[int, ...], int], Any]] = {
    "reductions.min": lambda xp, data, axes, _ddof: _extreme(xp, data, axes, greatest=False),
    "reductions.max": lambda xp, data, axes, _ddof: _extreme(xp, data, axes, greatest=True),
    "reductions.mean": lambda xp, data, axes, ddof: _mean(ordered_sum, xp, data, axes, ddof),
    "reductions.mean_square": lambda xp, data, axes, ddof: _mean(sum_of_squares, xp, data, axes, ddof),
    "reductions.rms": lambda xp, data, axes, ddof: xp.sqrt(_mean(sum_of_squares, xp, data, axes, ddof)),
    "reductions.variance": lambda xp, data, axes, ddof: _mean(sum_of_squares, xp, data, axes, ddof),
    "reductions.std_dev": lambda xp, data, axes, ddof: xp.sqrt(_mean(sum_of_squares, xp, data, axes, ddof)),
}


@dataclass(frozen=True)
class Reduction(Operator, BatchKernel):
    """One number for all elements along some axes, optionally of their differences from a mean.

    Args:
        kind: Public name of the operator, a key of the table of formulas.
        axes: Axes of a sample, ascending.
        keep_dims: True if the axes stay, with extent 1.
        dtype: Element type of the result.
        ddof: Number to subtract from the number of elements that a mean divides by.
    """

    kind: str
    axes: tuple[int, ...]
    keep_dims: bool
    dtype: np.dtype[Any]
    ddof: int = 0

    def infer(self, data: Spec, *mean: Spec) -> Spec:
        """Return the spec without the reduced axes, or with extent 1 for them."""
        for spec in mean:
            self._check_mean(data, spec)
        if self.keep_dims:
            return Spec(self.dtype, self._reduced(data.shape), data.layout)
        kept = [axis for axis in range(len(data.shape)) if axis not in self.axes]
        layout = "".join(data.layout[axis] for axis in kept) if data.layout else ""
        return Spec(self.dtype, tuple(data.shape[axis] for axis in kept), layout)

    def _reduced(self, shape: Shape) -> Shape:
        """Return a sample's shape with extent 1 for the reduced axes."""
        return tuple(1 if axis in self.axes else extent for axis, extent in enumerate(shape))

    def _check_mean(self, data: Spec, mean: Spec) -> None:
        # The mean may come from a reduction with or without `keep_dims`, so axes of extent 1 do not count.
        squeezed = tuple(extent for extent in mean.shape if extent != 1)
        wanted = tuple(extent for extent in self._reduced(data.shape) if extent != 1)
        known = None not in squeezed and None not in wanted
        if mean.shape and known and math.prod(n or 0 for n in squeezed) not in (1, math.prod(n or 0 for n in wanted)):
            raise DefinitionError(
                "the shape of the mean does not match the shape of the result",
                given=f"{mean} for axes {list(self.axes)} of {data}",
                fix=f"fn.reductions.mean(x, axes={list(self.axes)})",
            )

    def batch(self, context: BatchContext, data: Any, *mean: Any) -> Any:
        """Return the reduced batch."""
        xp, reduced = context.xp, self._reduced(data.shape[1:])
        values = data
        if mean:
            work = _work_dtype(data.dtype)
            shape = [1] * len(reduced) if math.prod(mean[0].shape[1:]) == 1 else [n or 0 for n in reduced]
            values = data.astype(work) - mean[0].astype(work).reshape(context.rows, *shape)
        axes = tuple(axis + 1 for axis in self.axes)
        if self.kind == "reductions.sum":
            result = _sum(xp, values, axes, self.dtype)
        else:
            result = _FORMULAS[self.kind](xp, values, axes, self.ddof)
        if self.keep_dims:
            result = result.reshape(len(data), *reduced)
        return cast_saturating(xp, result, self.dtype)


def _work_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the float type for sums and means. Float64 only for 64-bit inputs: JAX has none unless x64 is enabled."""
    return np.dtype(np.float64) if dtype.itemsize == 8 else np.dtype(np.float32)


def reduce(
    data: DataNode, *mean: DataNode, arguments: ReductionArguments, dtype: np.dtype[Any], ddof: int = 0
) -> DataNode:
    """Apply the reduction whose public function is running.

    Raises:
        DefinitionError: An axis does not exist or occurs twice, or both `axes` and `axis_names` are set.
    """
    kind, values = cast(Any, running_operator()).name, with_defaults(ReductionArguments, arguments)
    axes, names = values["axes"], values["axis_names"]
    # `axis_numbers` takes an empty list for all axes.
    none = names is None and axes is not None and not isinstance(axes, int) and len(axes) == 0
    numbers = () if none else tuple(sorted(axis_numbers(axes, names, data.spec)))
    return apply(Reduction(kind, numbers, values["keep_dims"], dtype, ddof), data, *mean)
