"""full, zeros, ones, full_like, zeros_like, ones_like: samples filled with a value."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from penstock.core import Array, Shape, Spec
from penstock.errors import DefinitionError
from penstock.graph import (
    BatchContext,
    BatchKernel,
    DataNode,
    DType,
    Operator,
    Range,
    SampleContext,
    SampleKernel,
    apply,
    check_layout,
    operator,
)
from penstock.numerics.casting import cast_saturating
from penstock.operators.elementwise.arithmetic import raise_rank
from penstock.operators.elementwise.bfloat16_results import rounds_to_bfloat16
from penstock.operators.elementwise.constant import ConstantValue, constant
from penstock.operators.first_sample import vector_length
from penstock.operators.tensors.reshape import reshape
from penstock.types import INT32, Constant, as_dtype

Extents = Annotated[int | Sequence[int] | DataNode, Range(0)]
OptionalExtents = Annotated[int | Sequence[int] | DataNode | None, Range(0)]


@dataclass(frozen=True)
class Full(Operator, BatchKernel):
    """Broadcast of a value to one shape for all samples.

    Args:
        shape: Shape of a sample of the result.
        layout: Layout of the result; None keeps that of the value if the rank is the same.
    """

    shape: tuple[int, ...]
    layout: str | None

    def infer(self, fill: Spec) -> Spec:
        """Return the target shape in the dtype of the value."""
        _check_fits(fill, self.shape)
        # A value of lower rank cannot lend its layout to the result.
        own = fill if len(fill.shape) == len(self.shape) else Spec(fill.dtype, ())
        return Spec(fill.dtype, self.shape, check_layout(self.layout, own, len(self.shape)))

    def batch(self, context: BatchContext, fill: Any) -> Any:
        """Broadcast the value."""
        return context.xp.broadcast_to(raise_rank(fill, len(self.shape) + 1), (context.rows, *self.shape))


@dataclass(frozen=True)
class FullTo(Operator, SampleKernel):
    """Broadcast of a value to a shape that differs per sample."""

    rank: int
    layout: str | None

    def infer(self, fill: Spec, _shape: Spec) -> Spec:
        """Return a spec of unknown extents."""
        shape = (None,) * self.rank
        return Spec(fill.dtype, shape, check_layout(self.layout, Spec(fill.dtype, shape), self.rank))

    def sample(self, context: SampleContext, fill: Array, shape: Array) -> Array:
        """Broadcast the value of one sample."""
        return np.broadcast_to(fill, np.atleast_1d(shape).tolist())


@dataclass(frozen=True)
class FullLike(Operator, BatchKernel):
    """Broadcast of a value to the shape of another value, with a cast."""

    dtype: np.dtype[Any]

    def infer(self, data: Spec, fill: Spec) -> Spec:
        """Return the shape and layout of the first input in the new dtype."""
        _check_fits(fill, data.shape)
        return replace(data, dtype=self.dtype)

    def batch(self, context: BatchContext, data: Any, fill: Any) -> Any:
        """Cast the value, then broadcast it: fewer elements to convert."""
        values = cast_saturating(context.xp, fill, self.dtype)
        return context.xp.broadcast_to(raise_rank(values, data.ndim), data.shape)


def _check_fits(fill: Spec, shape: Shape) -> None:
    # Axes are aligned at the end, as in NumPy. Unknown extents are checked when samples are computed.
    pairs = zip(reversed(fill.shape), reversed(shape), strict=False)
    if len(fill.shape) > len(shape) or any(n not in (1, None, size) for n, size in pairs if size is not None):
        raise DefinitionError(
            "fill_value does not broadcast to the shape", given=f"{list(fill.shape)} for the shape {list(shape)}"
        )


def _full(fill: DataNode, shape: int | Sequence[int] | DataNode | None, layout: str | None) -> DataNode:
    if isinstance(shape, DataNode):
        if shape.ndim > 1 or shape.dtype.kind not in "iu":
            raise DefinitionError("shape must be a vector of integers", given=shape.spec)
        rank = vector_length(shape, "shape") if shape.ndim else 1
        return apply(FullTo(rank, layout), fill, shape)
    if shape is None:
        # The value itself; `reshape` only changes its layout.
        return apply(FullLike(fill.dtype), fill if layout is None else reshape(fill, layout=layout), fill)
    return apply(Full(tuple(np.atleast_1d(np.asarray(shape, np.int64)).tolist()), layout), fill)


@operator("full")
def full(fill_value: DataNode, *, shape: OptionalExtents = None, layout: str | None = None) -> DataNode:
    """Create samples of a shape, filled with a value.

    Args:
        fill_value: A number, array or node, which is broadcast to the shape.
        shape: Shape of a sample; None uses that of `fill_value`. A node sets it per sample.
        layout: Layout of the result, or "" for none.

    Returns:
        Samples of `shape` in the dtype of `fill_value`: int32 or float32 for a Python number.

    Raises:
        DefinitionError: `fill_value` does not broadcast to the shape, or the shape is not a vector of integers.

    Example:
        >>> import penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     pipeline.set_outputs(fn.full(0.5, shape=[2, 3]))
        >>> pipeline.run()[0].as_array().tolist()
        [[[0.5, 0.5, 0.5], [0.5, 0.5, 0.5]]]
    """
    return _full(fill_value, shape, layout)


@operator("full_like")
def full_like(data_like: DataNode, fill_value: DataNode) -> DataNode:
    """Create samples with the shape and dtype of another value, filled with a value.

    Args:
        data_like: Value with the target shape, dtype and layout. Its elements are ignored.
        fill_value: A number, array or node, which is broadcast to the shape and converted as by `fn.cast`.

    Returns:
        Same shape, dtype and layout as `data_like`.

    Raises:
        DefinitionError: `fill_value` does not broadcast to the shape, or is NaN or infinite for an integer dtype.

    Example:
        >>> import penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=2)
        >>> with pipeline:
        ...     pairs = fn.readers.arrays([[1, 2], [3, 4]])
        ...     pipeline.set_outputs(fn.full_like(pairs, 7))
        >>> pipeline.run()[0].as_array().tolist()
        [[7, 7], [7, 7]]
    """
    source = fill_value.value.node.operator
    # A cast would turn NaN into 0 and infinity into the largest integer, without an error.
    if isinstance(source, ConstantValue) and data_like.dtype.kind in "iu" and not np.isfinite(source.value).all():
        raise DefinitionError(
            "fill_value cannot be converted to an integer",
            given=source.value.tolist(),
            expected=f"a finite number, since data_like is {data_like.dtype}",
        )
    return apply(FullLike(data_like.dtype), data_like, fill_value)


@operator("zeros")
@rounds_to_bfloat16
def zeros(*, shape: Extents = (), dtype: DType = INT32, layout: str | None = None) -> DataNode:
    """Create samples of a shape, filled with 0.

    Args:
        shape: Shape of a sample; by default a scalar. A node sets it per sample.
        dtype: Element type.
        layout: Layout of the result, or "" for none.

    Returns:
        Samples of `shape`, of type `dtype`.

    Raises:
        DefinitionError: The shape is not a vector of integers.

    Example:
        >>> import penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     pipeline.set_outputs(fn.zeros(shape=[2]))
        >>> pipeline.run()[0].as_array().tolist()
        [[0, 0]]
    """
    return _full(constant(0, dtype=dtype), shape, layout)


@operator("ones")
@rounds_to_bfloat16
def ones(*, shape: Extents = (), dtype: DType = INT32, layout: str | None = None) -> DataNode:
    """Create samples of a shape, filled with 1.

    Args:
        shape: Shape of a sample; by default a scalar. A node sets it per sample.
        dtype: Element type.
        layout: Layout of the result, or "" for none.

    Returns:
        Samples of `shape`, of type `dtype`.

    Raises:
        DefinitionError: The shape is not a vector of integers.

    Example:
        >>> import penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     pipeline.set_outputs(fn.ones(shape=[2]))
        >>> pipeline.run()[0].as_array().tolist()
        [[1, 1]]
    """
    return _full(constant(1, dtype=dtype), shape, layout)


@operator("zeros_like")
@rounds_to_bfloat16
def zeros_like(data_like: DataNode, *, dtype: DType = None) -> DataNode:
    """Create samples with the shape of another value, filled with 0.

    Args:
        data_like: Value with the target shape and layout. Its elements are ignored.
        dtype: Element type; None uses that of `data_like`.

    Returns:
        Same shape and layout as `data_like`.

    Example:
        >>> import penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=2)
        >>> with pipeline:
        ...     pipeline.set_outputs(fn.zeros_like(fn.readers.arrays([[1, 2], [3, 4]])))
        >>> pipeline.run()[0].as_array().tolist()
        [[0, 0], [0, 0]]
    """
    return _like(data_like, 0, dtype)


@operator("ones_like")
@rounds_to_bfloat16
def ones_like(data_like: DataNode, *, dtype: DType = None) -> DataNode:
    """Create samples with the shape of another value, filled with 1.

    Args:
        data_like: Value with the target shape and layout. Its elements are ignored.
        dtype: Element type; None uses that of `data_like`.

    Returns:
        Same shape and layout as `data_like`.

    Example:
        >>> import penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=2)
        >>> with pipeline:
        ...     pipeline.set_outputs(fn.ones_like(fn.readers.arrays([[1, 2], [3, 4]])))
        >>> pipeline.run()[0].as_array().tolist()
        [[1, 1], [1, 1]]
    """
    return _like(data_like, 1, dtype)


def _like(data: DataNode, value: int, dtype: Any) -> DataNode:
    element = data.dtype if dtype is None else as_dtype(dtype)
    return apply(FullLike(element), data, Constant(value, element, layout=""))
