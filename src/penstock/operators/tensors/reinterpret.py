"""reinterpret: the same bytes as elements of another type, under another shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from penstock.core.spec import Spec
from penstock.errors import DefinitionError
from penstock.graph.ir.operator import BatchContext, BatchKernel, Operator
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.operators.elementwise.constant import constant
from penstock.operators.tensors.reshape import multiples, reshape
from penstock.types import DATA_TYPE, IMAGE_TYPE, INT32, INTERP_TYPE, DALIDataType, as_dtype

_NAMES = (INTERP_TYPE, IMAGE_TYPE, DATA_TYPE)


@dataclass(frozen=True)
class Reinterpret(Operator, BatchKernel):
    """The same bytes, as elements of another type; the last extent changes with their size."""

    dtype: np.dtype[Any]

    def infer(self, data: Spec) -> Spec:
        """The input's shape but for the last extent."""
        if data.dtype.itemsize == self.dtype.itemsize:
            return replace(data, dtype=self.dtype)
        if not data.shape:
            raise DefinitionError(
                "fn.reinterpret: a number is as large as its type",
                given=f"{data.dtype} as {self.dtype}",
                fix="fn.reshape(x, shape=[1]) before",
            )
        last = data.shape[-1]
        if last is not None:
            if last * data.dtype.itemsize % self.dtype.itemsize:
                raise DefinitionError(
                    "fn.reinterpret: the bytes of the last axis make no whole number of elements",
                    given=f"{last} times {data.dtype} as {self.dtype}",
                    fix="shape=[-1] joins all axes first",
                )
            last = last * data.dtype.itemsize // self.dtype.itemsize
        return Spec(self.dtype, (*data.shape[:-1], last), data.layout)

    def batch(self, context: BatchContext, data: Any) -> Any:
        """The same bytes."""
        xp = context.xp
        if data.dtype == self.dtype:
            return data
        if xp is np:
            return np.ascontiguousarray(data).view(self.dtype)
        whole = np.dtype(np.uint8) if self.dtype.kind == "b" else self.dtype
        values = (data.astype(np.uint8) if data.dtype.kind == "b" else data).view(whole)
        return values if whole == self.dtype else values != xp.zeros((), whole)


@operator("reinterpret")
def reinterpret(
    data: DataNode,
    new_shape: DataNode | None = None,
    *,
    shape: int | Sequence[int] | DataNode | None = None,
    rel_shape: float | Sequence[float] | DataNode | None = None,
    src_dims: int | Sequence[int] | None = None,
    layout: str | None = None,
    dtype: Any = None,
) -> DataNode:
    """Take the same bytes as elements of another type, under another shape, without moving them.

    Args:
        data: any shape, any dtype.
        new_shape: a node with a shape of its own for each sample, in elements of the new type.
        shape: the new extents, in elements of the new type; one of them may be -1 and takes what is left. Without a
            shape, the last extent changes with the size of the elements.
        rel_shape: the new extents as multiples of the old; a negative one takes what is left. Or a node with those of
            each sample.
        src_dims: the axis of `data` whose extent each new axis gets; -1 for a new axis of extent 1.
        layout: the names of the new axes. Without it, the old ones are kept if there are as many axes.
        dtype: the new element type; None keeps the old. types.INTERP_TYPE and other types of numbers that stand for a
            name are those of an int32: `fn.resize(interp_type=...)` takes such a node.

    Returns:
        The same bytes in the same order.

    Raises:
        DefinitionError: the bytes do not make a whole number of elements, or not that shape.

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
    element = (
        data.dtype
        if dtype is None
        else as_dtype(INT32 if isinstance(dtype, DALIDataType) and dtype in _NAMES else dtype)
    )
    target: Any = new_shape if new_shape is not None else shape
    plain = target is None and rel_shape is None and src_dims is None
    if element.itemsize == data.dtype.itemsize or plain:
        taken = apply(Reinterpret(element), data)
        return taken if plain and layout is None else _reshaped(taken, target, rel_shape, src_dims, layout)
    if target is not None and src_dims is None:
        flat = apply(Reinterpret(element), reshape(data, shape=[-1]))
        extents = target.spec.shape if isinstance(target, DataNode) else np.shape(target)
        kept = data.layout if layout is None and extents == (data.ndim,) else layout
        return _reshaped(flat, target, None, None, kept)
    if rel_shape is not None and src_dims is None:
        factors: Any = (
            rel_shape if isinstance(rel_shape, DataNode) else np.atleast_1d(np.asarray(rel_shape, np.float32))
        )
        if isinstance(factors, DataNode) or not data.spec.dense:
            sizes: Any = multiples(data, factors if isinstance(factors, DataNode) else constant(factors))
        else:
            sizes = [-1 if f < 0 else round(f * n) for f, n in zip(factors, data.spec.fixed_shape, strict=False)]
        return reinterpret.forward(data, shape=sizes, layout=layout, dtype=dtype)
    raise DefinitionError(
        "fn.reinterpret changes the size of elements or the axes, not both",
        given=f"{data.spec} as {element}, with src_dims",
        fix="fn.reinterpret(fn.reshape(x, ...), dtype=...)",
    )


def _reshaped(data: DataNode, shape: Any, rel_shape: Any, src_dims: Any, layout: str | None) -> DataNode:
    return reshape(data, shape=shape, rel_shape=rel_shape, src_dims=src_dims, layout=layout)
