"""`fn.normalize`."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, cast

import numpy as np

from penstock.core import Array, Column, Spec
from penstock.errors import DefinitionError, short_repr
from penstock.graph import (
    BatchContext,
    BatchKernel,
    DataNode,
    DType,
    Input,
    NotEmpty,
    Operator,
    Range,
    SampleContext,
    SampleKernel,
    WholeBatchKernel,
    apply,
    axis_numbers,
    operator,
)
from penstock.graph.ir.argument_schema import as_numbers
from penstock.image.kernels.sample_statistics import standardize, total
from penstock.numerics.casting import broadcast_rows, cast_saturating
from penstock.numerics.ordered_sums import no_fma, ordered_sum, sum_of_squares
from penstock.operators.color.image_statistics import check_statistics
from penstock.operators.elementwise.bfloat16_results import rounds_to_bfloat16
from penstock.types import FLOAT, as_dtype

Statistic = float | Sequence[Any] | np.ndarray[Any, Any] | DataNode

Nested = float | tuple["Nested", ...]

# Statistics are computed in float32, so 64-bit numbers would lose precision.
_NUMBERS = ("float32", "float16", "uint8", "int8", "uint16", "int16", "uint32", "int32")


@dataclass(frozen=True)
class _Normalize(Operator):
    """Options and arithmetic common to per-sample and per-batch normalization.

    Args:
        axes: Reduced axes; None for the axes in which a given statistic has extent 1, or for all.
        mean, stddev: Constants that replace the statistics, as arguments of the same names do.
        scale, shift: Applied last.
        ddof: Subtracted from the number of elements in the variance.
        epsilon: Added to the variance.
        dtype: Dtype of the result.
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
        """Return the spec of the input with the dtype of the result."""
        return Spec(self.dtype, data.shape, data.layout)

    def _reduced(self, ndim: int, shapes: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
        """Return the reduced axes of a sample, from the shapes of given statistics if there are no `axes`."""
        if self.axes is not None:
            return self.axes
        shape = next((shape for shape in shapes if len(shape) == ndim), (1,) * ndim)
        return tuple(axis for axis, extent in enumerate(shape) if extent == 1)

    def _variance(self, squares: Any, count: int) -> Any:
        """Return the variance from the sum of squared deviations; 0 if it has no degree of freedom, as in DALI."""
        number, freedom = squares.dtype.type, count - self.ddof
        return squares / number(freedom) if freedom > 0 else squares * number(0)

    def _inverse(self, xp: Any, variance: Any) -> Any:
        """Return the reciprocal of a computed standard deviation; 0 where the variance is 0, as in DALI."""
        variance = variance + xp.asarray(self.epsilon, np.float32)
        return _reciprocal(xp, variance, lambda value: no_fma(xp, xp.sqrt(value)))

    def _inverse_stddev(self, xp: Any, stddev: Any) -> Any:
        """Return the reciprocal of a given standard deviation; 0 where it is 0, except for a number, as in DALI."""
        is_number = stddev is self.stddev and not np.ndim(stddev)
        stddev = xp.asarray(stddev, np.float32)
        if self.epsilon:
            stddev = xp.sqrt(no_fma(xp, stddev * stddev) + xp.asarray(self.epsilon, np.float32))
        return xp.ones((), np.float32) / stddev if is_number else _reciprocal(xp, stddev)

    def _finish(self, xp: Any, centered: Any, inverse: Any) -> Any:
        # no_fma: XLA would contract the product and the sum into an FMA, whose bits differ from NumPy's.
        product = centered * (inverse * xp.asarray(self.scale, np.float32))
        # It would change minus infinity, the result for values below the mean with a standard deviation of 0.
        scaled = product if xp is np else xp.where(xp.isneginf(product), product, no_fma(xp, product))
        return cast_saturating(xp, scaled + xp.asarray(self.shift, np.float32), self.dtype)


def _reciprocal(xp: Any, value: Any, root: Callable[[Any], Any] = lambda value: value) -> Any:
    """Return the reciprocal of a value, or of its root; 0 where the value is 0."""
    zero, one = xp.zeros((), np.float32), xp.ones((), np.float32)
    # The inner `where` avoids a division by zero, which NumPy reports even if the outer `where` discards it.
    return xp.where(value == zero, zero, one / root(xp.where(value == zero, one, value)))


@dataclass(frozen=True)
class Normalize(_Normalize, SampleKernel, BatchKernel):
    """Normalization of each sample by its own statistics."""

    def sample(self, context: SampleContext, data: Array, **statistics: Any) -> Array:
        """Normalize one sample."""
        del context
        return self._normalized(np, data, 0, statistics)

    def batch(self, context: BatchContext, data: Any, **statistics: Any) -> Any:
        """Normalize a dense batch.

        NumPy computes row by row: its order of summation, and so the rounding, would depend on the batch size.
        """
        xp = context.xp
        if xp is np and not statistics and self._reduces_leading_axes(data):
            return self._normalize_leading(data, context.out)
        if xp is np:
            rows = ({name: value[row] for name, value in statistics.items()} for row in range(context.rows))
            return np.stack([self._normalized(np, x, 0, own) for x, own in zip(data, rows, strict=True)])
        shaped = {
            name: np.asarray(c)[None] for name, c in (("mean", self.mean), ("stddev", self.stddev)) if np.ndim(c or 0)
        }
        shaped |= {
            name: broadcast_rows(xp, v, data.ndim) if v.ndim < data.ndim else v for name, v in statistics.items()
        }
        return self._normalized(xp, data, 1, shaped)

    def _reduces_leading_axes(self, data: Array) -> bool:
        """True if statistics are computed, and over leading axes, as per channel of HWC images."""
        own = self.mean is None and self.stddev is None and self.axes is not None
        return own and data.size > 0 and self.axes == tuple(range(len(self.axes or ()))) != tuple(range(data.ndim - 1))

    def _normalize_leading(self, data: Array, out: Array | None) -> Array:
        """Normalize a batch over leading axes with compiled loops."""
        axes = len(self.axes or ())
        values = np.ascontiguousarray(data if data.dtype == np.uint8 else data.astype(np.float32))
        count, kept = math.prod(data.shape[1 : 1 + axes]), math.prod(data.shape[1 + axes :])
        values = values.reshape(len(data), count * kept)
        mean, sums = np.zeros((len(data), kept), np.float32), np.empty((len(data), kept), np.float32)
        total(values, mean, False, sums)
        mean = sums / np.float32(count)
        total(values, mean, True, sums)
        factor = self._inverse(np, self._variance(sums, count)) * np.float32(self.scale)
        result = np.empty(data.shape, np.float32) if out is None or out.dtype != np.float32 else out
        # Repeat the statistics so that up to 16 pixels form one line: the compiled loop runs over long lines.
        repeats = math.gcd(count, 16)
        lines = len(data), count // repeats, kept * repeats
        mean, factor = (np.tile(statistic, (1, repeats)) for statistic in (mean, factor))
        standardize(values.reshape(lines), mean, factor, np.float32(self.shift), result.reshape(lines))
        return cast_saturating(np, result, self.dtype)

    def _normalized(self, xp: Any, data: Any, first: int, statistics: Mapping[str, Any]) -> Any:
        """Normalize data whose sample axes start at `first`: 0 for one sample, 1 for a batch."""
        mean, stddev = statistics.get("mean", self.mean), statistics.get("stddev", self.stddev)
        shapes = (np.shape(term)[first:] for term in (mean, stddev) if term is not None)
        axes = tuple(axis + first for axis in self._reduced(data.ndim - first, shapes))
        values = data.astype(np.float32)
        count = math.prod(data.shape[axis] for axis in axes)
        if mean is None:
            mean = no_fma(xp, _sum(xp, values, axes) / np.float32(count))
        centered = values - xp.asarray(mean, np.float32)
        if stddev is not None:
            return self._finish(xp, centered, self._inverse_stddev(xp, stddev))
        squares = _sum(xp, centered, axes, squared=True)
        return self._finish(xp, centered, self._inverse(xp, no_fma(xp, self._variance(squares, count))))


@dataclass(frozen=True)
class NormalizeBatch(_Normalize, WholeBatchKernel):
    """Normalization of all samples by the statistics of the batch."""

    def whole_batch(self, context: BatchContext, data: Column) -> Column:
        """Normalize all samples. Sums are float64, so that large batches keep their precision."""
        samples = [sample.astype(np.float32) for sample in data]
        shapes = (np.shape(term) for term in (self.mean, self.stddev) if term is not None)
        axes = self._reduced(samples[0].ndim, shapes)
        count = sum(math.prod(sample.shape[axis] for axis in axes) for sample in samples)
        mean: Any = self.mean
        if mean is None:
            mean = sum(np.sum(x, axis=axes, keepdims=True, dtype=np.float64) for x in samples) / count
        centered = [sample - np.asarray(mean, np.float32) for sample in samples]
        if self.stddev is not None:
            inverse = self._inverse_stddev(np, self.stddev)
        else:
            squares = sum(np.sum(x * x, axis=axes, keepdims=True, dtype=np.float64) for x in centered)
            inverse = self._inverse(np, np.asarray(self._variance(squares, count), np.float32))
        return [self._finish(np, sample, inverse) for sample in centered]


@operator("normalize")
@rounds_to_bfloat16
def normalize(
    data: Annotated[DataNode, Input(_NUMBERS)],
    *,
    batch: bool = False,
    mean: Statistic | None = None,
    stddev: Statistic | None = None,
    axes: Annotated[int | Sequence[int], Range(0), NotEmpty()] | None = None,
    axis_names: str | None = None,
    scale: float = 1.0,
    shift: float = 0.0,
    ddof: int = 0,
    epsilon: float = 0.0,
    dtype: DType = FLOAT,
) -> DataNode:
    """Subtract the mean and divide by the standard deviation: ``(x - mean) / stddev * scale + shift``.

    Args:
        data: Numbers of at most 32 bits, any shape.
        batch: If True, compute statistics over the whole batch, so that the result of a sample depends on its batch.
            By default each sample has its own statistics.
        mean: Mean to use instead of the computed one: a number, an array whose reduced axes have extent 1, or a node
            with one of these per sample.
        stddev: Standard deviation to use, in the same forms. If you pass only `mean`, the deviation is computed about
            it.
        axes: Reduced axes, counted from 0; by default the axes in which a given statistic has extent 1, or all axes.
        axis_names: Reduced axes as letters of the layout, instead of `axes`.
        scale: Standard deviation of the result.
        shift: Mean of the result.
        ddof: Delta degrees of freedom, subtracted from the number of elements in the variance; 1 for Bessel's
            correction.
        epsilon: Added to the variance, against division by zero.
        dtype: Dtype of the result, FLOAT by default. Integers are rounded and clipped.

    Returns:
        Values with the shape and layout of the input. If the variance and `epsilon` are 0, the result is `shift`.

    Raises:
        DefinitionError: If the input has 64-bit numbers, an axis does not exist, or a constant has the wrong rank.

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
    numbers = axis_numbers(axes, axis_names, data.spec)
    statistics = {"mean": mean, "stddev": stddev}
    varying: dict[str, Any] = {name: value for name, value in statistics.items() if isinstance(value, DataNode)}
    scalars = [name for name, value in statistics.items() if value is not None and not np.ndim(cast(Any, value))]
    if (axes is not None or axis_names is not None) and len(scalars) == len(statistics) and not varying:
        raise DefinitionError("mean and stddev as numbers leave nothing to reduce over axes", given=axes or axis_names)
    if "H" in data.layout:
        check_statistics(data, mean, stddev)
    if batch and varying:
        raise DefinitionError("with batch=True, mean and stddev must be constants", given=varying)
    kernel = (NormalizeBatch if batch else Normalize)(
        axes=None if axes is None and axis_names is None else numbers,
        mean=_constant("mean", mean, data.ndim),
        stddev=_constant("stddev", stddev, data.ndim),
        scale=float(scale),
        shift=float(shift),
        ddof=int(ddof),
        epsilon=float(epsilon),
        dtype=as_dtype(dtype),
    )
    return apply(kernel, data, **varying)


def _sum(xp: Any, values: Any, axes: tuple[int, ...], *, squared: bool = False) -> Any:
    """Return the sum of values or of their squares over axes, which keep extent 1."""
    # NumPy gets one sample at a time, so its own, faster order of summation is reproducible. XLA's order depends on the
    # shape of the batch; `ordered_sum` fixes it.
    if xp is np:
        return np.sum(values * values if squared else values, axis=axes, keepdims=True)
    total = (sum_of_squares if squared else ordered_sum)(xp, values, axes)
    return total.reshape([1 if axis in axes else extent for axis, extent in enumerate(values.shape)])


def _constant(name: str, value: Statistic | None, ndim: int) -> Nested | None:
    """Return a constant statistic in a form that can be compared and hashed; None for others."""
    if value is None or isinstance(value, DataNode):
        return None
    numbers = as_numbers(name, value).astype(np.float64)
    if not np.isfinite(numbers).all():
        raise DefinitionError(f"{name} must contain finite numbers", given=short_repr(value))
    if numbers.ndim not in (0, ndim):
        raise DefinitionError(
            f"{name} must be a number, or an array with the rank of a sample",
            given=f"shape {numbers.shape}",
            expected=f"{ndim} axes",
        )
    return _nested(numbers.tolist())


def _nested(value: Any) -> Nested:
    return tuple(map(_nested, cast(list[Any], value))) if isinstance(value, list) else value
