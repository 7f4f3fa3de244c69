"""reinterpret: the same bytes with another dtype and shape."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from penstock.core import Spec
from penstock.errors import DefinitionError
from penstock.graph import BatchContext, BatchKernel, DataNode, DType, NotEmpty, Operator, Range, apply, operator
from penstock.operators.elementwise.constant import constant
from penstock.operators.tensors.reshape import check_source_axes, multiples, reshape, scaled_extent
from penstock.types import DATA_TYPE, IMAGE_TYPE, INT32, INTERP_TYPE, DALIDataType, as_dtype

# DALI's enums; their values are stored as int32.
_ENUM_TYPES = (INTERP_TYPE, IMAGE_TYPE, DATA_TYPE)


@dataclass(frozen=True)
class Reinterpret(Operator, BatchKernel):
    """View of the bytes as another dtype. The last extent changes with the element size."""

    dtype: np.dtype[Any]

    def infer(self, data: Spec) -> Spec:
        """Return the spec with the new dtype and last extent."""
        if data.dtype.itemsize == self.dtype.itemsize:
            return replace(data, dtype=self.dtype)
        if not data.shape:
            raise DefinitionError(
                "the element size of a scalar cannot change",
                given=f"{data.dtype} as {self.dtype}",
                fix="fn.reshape(x, shape=[1]) before",
            )
        last = data.shape[-1]
        if last is not None:
            if last * data.dtype.itemsize % self.dtype.itemsize:
                raise DefinitionError(
                    "the bytes of the last axis are not a multiple of the new element size",
                    given=f"{last} times {data.dtype} as {self.dtype}",
                    fix="shape=[-1], which merges all axes first",
                )
            last = last * data.dtype.itemsize // self.dtype.itemsize
        return Spec(self.dtype, (*data.shape[:-1], last), data.layout)

    def batch(self, context: BatchContext, data: Any) -> Any:
        """Return a view of the bytes."""
        xp = context.xp
        if data.dtype == self.dtype:
            return data
        if xp is np:
            # NumPy can change the element size only if the last axis is contiguous.
            return np.ascontiguousarray(data).view(self.dtype)
        # `lax.bitcast_convert_type` does not support bool.
        integer = np.dtype(np.uint8) if self.dtype.kind == "b" else self.dtype
        values = (data.astype(np.uint8) if data.dtype.kind == "b" else data).view(integer)
        return values if integer == self.dtype else values != xp.zeros((), integer)


@operator("reinterpret")
def reinterpret(
    data: DataNode,
    new_shape: DataNode | None = None,
    *,
    shape: int | Sequence[int] | DataNode | None = None,
    rel_shape: Annotated[float | Sequence[float] | DataNode, NotEmpty()] | None = None,
    src_dims: Annotated[int | Sequence[int], Range(-1)] | None = None,
    layout: str | None = None,
    dtype: DALIDataType | DType | None = None,
) -> DataNode:
    """Reinterpret the bytes of a value as another dtype and shape, without copying.

    Args:
        data: Any shape, any dtype.
        new_shape: A node with one shape per sample, in elements of the new dtype.
        shape: New extents, in elements of the new dtype. One of them can be -1 and is derived from the others. Without
            a shape, the last extent changes with the element size.
        rel_shape: New extents as multiples of the old ones; a negative one is derived from the others. A node sets them
            per sample.
        src_dims: For each new axis, the axis of `data` with its extent; -1 for a new axis of extent 1.
        layout: Layout of the result. By default, the layout of `data` is kept if the rank is the same.
        dtype: New element type; None keeps that of `data`. Enum types, such as types.INTERP_TYPE, count as int32:
            `fn.resize(interp_type=...)` accepts such a node.

    Returns:
        The same bytes in the same order.

    Raises:
        DefinitionError: The bytes do not fill a whole number of elements, or not that shape.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn, types
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     bytes_ = fn.readers.arrays(np.uint8([[1, 0, 0, 0, 2, 0, 0, 0]]))
        ...     pipeline.set_outputs(fn.reinterpret(bytes_, dtype=types.INT32))
        >>> pipeline.run()[0].as_array().tolist()
        [[1, 2]]
    """
    wanted = INT32 if isinstance(dtype, DALIDataType) and dtype in _ENUM_TYPES else dtype
    element = data.dtype if wanted is None else as_dtype(wanted)
    target: Any = new_shape if new_shape is not None else shape
    plain = target is None and rel_shape is None and src_dims is None
    if plain and layout is None and dtype is None:
        raise DefinitionError(
            "nothing is to change", expected="dtype, shape, rel_shape, src_dims, layout or a second input"
        )
    if element.itemsize == data.dtype.itemsize or plain:
        result = apply(Reinterpret(element), data)
        if plain and layout is None:
            return result
        return reshape(result, shape=target, rel_shape=rel_shape, src_dims=src_dims, layout=layout)
    if target is not None:
        # The shape counts new elements. A single axis has the fewest restrictions on the element size.
        flat = apply(Reinterpret(element), reshape(data, shape=[-1]))
        extents = target.spec.shape if isinstance(target, DataNode) else np.shape(target)
        kept = data.layout if layout is None and extents == (data.ndim,) else layout
        return reshape(flat, shape=target, layout=kept)
    if rel_shape is None:
        return apply(Reinterpret(element), reshape(data, src_dims=src_dims, layout=layout))
    # Factors refer to the old extents, in elements of the new dtype, so convert them to a shape first.
    check_source_axes(src_dims, rel_shape)
    factors: Any = rel_shape
    if not isinstance(rel_shape, DataNode):
        factors = np.atleast_1d(np.asarray(rel_shape, np.float32))
        factors = factors if data.spec.dense else constant(factors)
    if isinstance(factors, DataNode):
        sizes: Any = multiples(data, factors, src_dims)
    else:
        old = data.spec.fixed_shape
        axes: Any = range(len(old)) if src_dims is None else np.atleast_1d(src_dims).tolist()
        if any(axis >= len(old) for axis in axes):
            raise DefinitionError("src_dims contains an axis that does not exist", given=f"{src_dims} of {old}")
        sizes_of_axes: list[int] = [1 if axis < 0 else old[axis] for axis in axes]
        sizes = [-1 if f < 0 else scaled_extent(f, n) for f, n in zip(factors, sizes_of_axes, strict=False)]
    return reinterpret.forward(data, shape=sizes, layout=layout, dtype=dtype)
