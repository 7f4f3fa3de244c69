"""normalize: subtract the mean, divide by the standard deviation."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np

from penstock.core.columns import Array, Column
from penstock.core.spec import Spec
from penstock.errors import ArgumentTypeError, DefinitionError, short_repr
from penstock.graph.ir.operator import (
    BatchContext,
    BatchKernel,
    Operator,
    SampleContext,
    SampleKernel,
    WholeBatchKernel,
)
from penstock.graph.layouts import axis_numbers
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.image.kernels.sample_statistics import standardize, total
from penstock.numerics.casting import broadcast_rows, cast_saturating
from penstock.numerics.ordered_sums import no_fma, ordered_sum, sum_of_squares
from penstock.types import FLOAT, as_dtype

Statistic = float | Sequence[Any] | np.ndarray[Any, Any] | DataNode


Nested = float | tuple["Nested", ...]


@dataclass(frozen=True)
class _Normalize(Operator):
    """Statistics along axes of a sample.

    Args:
        axes: over which mean and deviation are computed; None: those in which a given statistic has extent 1, or all.
        mean, stddev: constants that stand instead; so do arguments of these names.
        scale, shift: applied last.
        ddof: subtracted from the number of elements, for the deviation.
        epsilon: added to the variance.
        dtype: of the result.
    """

    axes: tuple[int, ...] | None
    mean: Nested | None
    stddev: Nested | None
    scale: float
    shift: float
    ddof: int
    epsilon: float
    dtype: np.dtype[Any]
    pixel_aligned: ClassVar[bool] = True

    def infer(self, data: Spec, **_statistics: Any) -> Spec:
        """The input's shape."""
        if data.dtype.itemsize > 4 or data.dtype.kind not in "iuf":
            raise DefinitionError(
                "fn.normalize normalises numbers of at most 32 bits",
                given=data.dtype,
                fix="fn.cast(x, dtype=types.FLOAT)",
            )
        return Spec(self.dtype, data.shape, data.layout)

    def _reduced(self, ndim: int, shapes: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
        """The axes of a sample over which both are computed, from the shapes of what stands for them."""
        if self.axes is not None:
            return self.axes
        shape = next((shape for shape in shapes if len(shape) == ndim), (1,) * ndim)
        return tuple(axis for axis, extent in enumerate(shape) if extent == 1)

    def _inverse(self, xp: Any, variance: Any) -> Any:
        """One over a deviation that was computed; 0 where nothing varies."""
        variance = variance + xp.asarray(self.epsilon, np.float32)
        nothing = variance == xp.zeros((), np.float32)
        one = xp.ones((), np.float32)
        return xp.where(nothing, xp.zeros((), np.float32), one / no_fma(xp, xp.sqrt(xp.where(nothing, one, variance))))

    def _inverse_given(self, xp: Any, stddev: Any) -> Any:
        """One over a deviation that was given."""
        if self.epsilon:
            stddev = xp.sqrt(no_fma(xp, stddev * stddev) + xp.asarray(self.epsilon, np.float32))
        return xp.ones((), np.float32) / stddev

    def _finish(self, xp: Any, centred: Any, inverse: Any) -> Any:
        scaled = no_fma(xp, centred * (inverse * xp.asarray(self.scale, np.float32)))
        return cast_saturating(xp, scaled + xp.asarray(self.shift, np.float32), self.dtype)


@dataclass(frozen=True)
class Normalize(_Normalize, SampleKernel, BatchKernel):
    """Each sample by its own statistics."""

    def sample(self, context: SampleContext, data: Array, **given: Any) -> Array:
        """One sample."""
        del context
        return self._normalized(np, data, 0, given)

    def batch(self, context: BatchContext, data: Any, **given: Any) -> Any:
        """A dense batch; under NumPy row by row, since the rounding of a sum depends on what is summed beside it."""
        xp = context.xp
        if xp is np and not given and self._is_of_rows(data):
            return self._of_rows(data, context.out)
        if xp is np:
            rows = ({name: value[row] for name, value in given.items()} for row in range(context.rows))
            return np.stack([self._normalized(np, x, 0, own) for x, own in zip(data, rows, strict=True)])
        shaped = {
            name: np.asarray(c)[None] for name, c in (("mean", self.mean), ("stddev", self.stddev)) if np.ndim(c or 0)
        }
        shaped |= {name: broadcast_rows(xp, v, data.ndim) if v.ndim < data.ndim else v for name, v in given.items()}
        return self._normalized(xp, data, 1, shaped)

    def _is_of_rows(self, data: Array) -> bool:
        """Whether each sample's own statistics are those of its first axes, as per channel."""
        own = self.mean is None and self.stddev is None and self.axes is not None
        return own and data.size > 0 and self.axes == tuple(range(len(self.axes or ()))) != tuple(range(data.ndim - 1))

    def _of_rows(self, data: Array, out: Array | None) -> Array:
        """All samples of a batch."""
        axes = len(self.axes or ())
        values = np.ascontiguousarray(data if data.dtype == np.uint8 else data.astype(np.float32))
        count, kept = math.prod(data.shape[1 : 1 + axes]), math.prod(data.shape[1 + axes :])
        values = values.reshape(len(data), count * kept)
        mean, sums = np.zeros((len(data), kept), np.float32), np.empty((len(data), kept), np.float32)
        total(values, mean, False, sums)
        mean = sums / np.float32(count)
        total(values, mean, True, sums)
        factor = self._inverse(np, sums / np.float32(max(count - self.ddof, 1))) * np.float32(self.scale)
        made = np.empty(data.shape, np.float32) if out is None or out.dtype != np.float32 else out
        several = math.gcd(count, 16)  # a longer line is many at a time
        lines = len(data), count // several, kept * several
        mean, factor = (np.tile(each, (1, several)) for each in (mean, factor))
        standardize(values.reshape(lines), mean, factor, np.float32(self.shift), made.reshape(lines))
        return cast_saturating(np, made, self.dtype)

    def _normalized(self, xp: Any, data: Any, first: int, given: Mapping[str, Any]) -> Any:
        """Samples whose axes count from `first`."""
        mean, stddev = given.get("mean", self.mean), given.get("stddev", self.stddev)
        shapes = (np.shape(term)[first:] for term in (mean, stddev) if term is not None)
        axes = tuple(axis + first for axis in self._reduced(data.ndim - first, shapes))
        values = data.astype(np.float32)
        count = math.prod(data.shape[axis] for axis in axes)
        if mean is None:
            mean = no_fma(xp, _sum(xp, values, axes) / np.float32(count))
        centred = values - xp.asarray(mean, np.float32)
        if stddev is not None:
            return self._finish(xp, centred, self._inverse_given(xp, xp.asarray(stddev, np.float32)))
        squares = _sum(xp, centred, axes, squared=True)
        return self._finish(xp, centred, self._inverse(xp, no_fma(xp, squares / np.float32(max(count - self.ddof, 1)))))


@dataclass(frozen=True)
class NormalizeBatch(_Normalize, WholeBatchKernel):
    """All samples by the statistics of the batch."""

    def whole_batch(self, context: BatchContext, data: Column) -> Column:
        """All samples."""
        samples = [sample.astype(np.float32) for sample in data]
        shapes = (np.shape(term) for term in (self.mean, self.stddev) if term is not None)
        axes = self._reduced(samples[0].ndim, shapes)
        count = sum(math.prod(sample.shape[axis] for axis in axes) for sample in samples)
        mean: Any = self.mean
        if mean is None:
            mean = sum(np.sum(x, axis=axes, keepdims=True, dtype=np.float64) for x in samples) / count
        centred = [sample - np.asarray(mean, np.float32) for sample in samples]
        if self.stddev is not None:
            inverse = self._inverse_given(np, np.asarray(self.stddev, np.float32))
        else:
            squares = sum(np.sum(x * x, axis=axes, keepdims=True, dtype=np.float64) for x in centred)
            inverse = self._inverse(np, np.asarray(squares / max(count - self.ddof, 1), np.float32))
        return [self._finish(np, sample, inverse) for sample in centred]


@operator("normalize")
def normalize(
    data: DataNode,
    *,
    batch: bool = False,
    mean: Statistic | None = None,
    stddev: Statistic | None = None,
    axes: int | Sequence[int] | None = None,
    axis_names: str | None = None,
    scale: float = 1.0,
    shift: float = 0.0,
    ddof: int = 0,
    epsilon: float = 0.0,
    dtype: Any = FLOAT,
) -> DataNode:
    """Subtract the mean and divide by the standard deviation: ``(x - mean) / stddev * scale + shift``.

    Args:
        data: numbers of at most 32 bits, any shape.
        batch: whether mean and deviation are those of the whole batch; then the result for a sample depends on the
            batch it is in. Else each sample has its own.
        mean: a number, or an array with the reduced axes of extent 1, that stands for the mean; a node gives each
            sample its own.
        stddev: the same for the standard deviation. Where only `mean` is given, the deviation is that about it.
        axes: the axes over which both are computed; all by default, or those in which a given statistic has extent 1.
        axis_names: their letters in the layout, instead.
        scale: the standard deviation of the result.
        shift: the mean of the result.
        ddof: subtracted from the number of elements in the deviation; 1 gives Bessel's correction.
        epsilon: added to the variance.
        dtype: of the result; integers are rounded and saturate.

    Returns:
        Same shape and layout. Where nothing varies and `epsilon` is 0, `shift`.

    Raises:
        DefinitionError: 64-bit numbers, axes that do not exist, a constant of another rank.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     numbers = fn.readers.arrays(np.array([[1.0, 3.0]], np.float32))
        ...     pipeline.set_outputs(fn.normalize(numbers))
        >>> pipeline.run()[0].as_array().tolist()
        [[-1.0, 1.0]]
    """
    numbers = axis_numbers(axes, axis_names, data.spec, "normalize")
    terms = {"mean": mean, "stddev": stddev}
    varying: dict[str, Any] = {name: term for name, term in terms.items() if isinstance(term, DataNode)}
    constants = {n: None if t is None or n in varying else _constant(n, t) for n, t in terms.items()}
    for name, constant in constants.items():
        if constant is None or not constant.ndim:
            continue
        if constant.ndim != data.ndim:
            raise DefinitionError(
                f"fn.normalize: {name} is a number, or has all axes of a sample, those that are reduced of extent 1",
                given=f"shape {constant.shape}",
                expected=f"{data.ndim} axes",
            )
    if batch and varying:
        raise DefinitionError("fn.normalize: with batch=True all samples share one mean and deviation", given=varying)
    kernel = (NormalizeBatch if batch else Normalize)(
        axes=None if axes is None and axis_names is None else numbers,
        mean=_nested(constants["mean"]),
        stddev=_nested(constants["stddev"]),
        scale=float(scale),
        shift=float(shift),
        ddof=int(ddof),
        epsilon=float(epsilon),
        dtype=as_dtype(dtype),
    )
    return apply(kernel, data, **varying)


def _sum(xp: Any, values: Any, axes: tuple[int, ...], *, squared: bool = False) -> Any:
    """The sum of values or of their squares over axes, which stay with extent 1; the same however many rows there are.

    NumPy is given one sample, and its own order is the quicker one.
    """
    if xp is np:
        return np.sum(values * values if squared else values, axis=axes, keepdims=True)
    total = (sum_of_squares if squared else ordered_sum)(xp, values, axes)
    return total.reshape([1 if axis in axes else extent for axis, extent in enumerate(values.shape)])


def _constant(name: str, given: Any) -> np.ndarray[Any, Any]:
    try:
        numbers = np.asarray(given, np.float64)
    except (TypeError, ValueError):  # text, or a ragged list
        raise ArgumentTypeError(f"fn.normalize: {name} holds numbers", given=short_repr(given)) from None
    if not np.isfinite(numbers).all():
        raise DefinitionError(f"fn.normalize: {name} holds finite numbers", given=short_repr(given))
    return numbers


def _nested(constant: np.ndarray[Any, Any] | None) -> Nested | None:
    def tuples(value: Any) -> Nested:
        return tuple(map(tuples, cast(list[Any], value))) if isinstance(value, list) else value

    return None if constant is None else tuples(constant.tolist())
