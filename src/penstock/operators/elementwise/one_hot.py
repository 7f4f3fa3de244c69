"""one_hot: class numbers as vectors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.core.columns import Array
from penstock.core.spec import Spec
from penstock.errors import ArgumentTypeError, DefinitionError, SampleError
from penstock.graph.ir.operator import BatchContext, BatchKernel, Operator
from penstock.graph.layouts import check_layout
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.operators.first_sample import first_sample
from penstock.types import FLOAT, as_dtype


@dataclass(frozen=True)
class OneHot(Operator, BatchKernel):
    """Along `axis`, `on` where the class number is the place, else `off`. With axis None, a number gives a vector."""

    classes: int
    axis: int | None
    on: float
    off: float
    dtype: np.dtype[Any]
    axis_name: str

    def infer(self, labels: Spec) -> Spec:
        """The labels' shape with the new axis."""
        if self.axis is None:
            return Spec(self.dtype, (self.classes,), self.axis_name)
        at = self._place(len(labels.shape))
        layout = labels.layout
        if self.axis_name and (layout or not labels.shape):
            layout = check_layout(
                layout[:at] + self.axis_name + layout[at:], labels, len(labels.shape) + 1, "fn.one_hot"
            )
        return Spec(
            self.dtype,
            (*labels.shape[:at], self.classes, *labels.shape[at:]),
            layout if self.axis_name else "",
        )

    def _place(self, ndim: int) -> int:
        return ndim if self.axis is None or self.axis < 0 else self.axis

    def batch(self, context: BatchContext, labels: Any) -> Any:
        """The vectors."""
        xp = context.xp
        if self.axis is None:
            if labels.size != context.rows:
                raise SampleError(
                    "the first sample holds one number, and another one does not",
                    given=f"shape {list(labels.shape[1:])}",
                    fix="axis=-1, if the labels are no single numbers",
                )
            labels = labels.reshape(context.rows)
            if xp is np and labels.dtype.kind in "iu":
                return self._scattered(labels, context.out)
        at = self._place(labels.ndim - 1) + 1
        if labels.dtype.kind == "f":
            whole = xp.trunc(labels.astype(np.float32) if labels.dtype.itemsize == 2 else labels)
        else:  # a narrow type could not count the classes
            whole = labels.astype(np.int64 if labels.dtype.itemsize == 8 else np.int32)
        classes = np.arange(self.classes, dtype=whole.dtype).reshape(-1, *(1,) * (labels.ndim - at))
        hit = whole.reshape(*whole.shape[:at], 1, *whole.shape[at:]) == classes[(None,) * at]
        return xp.where(hit, self.dtype.type(self.on), self.dtype.type(self.off))

    def _scattered(self, labels: Array, out: Array | None) -> Array:
        """The vectors of single numbers on the host, without a comparison per element."""
        vectors = np.empty((len(labels), self.classes), self.dtype) if out is None else out
        vectors.fill(self.off)
        rows = np.flatnonzero((labels >= 0) & (labels < self.classes))
        vectors[rows, labels[rows]] = self.on
        return vectors


@operator("one_hot")
def one_hot(
    data: DataNode,
    *,
    num_classes: int = 0,
    axis: int | None = None,
    axis_name: str | None = None,
    dtype: Any = FLOAT,
    on_value: float = 1.0,
    off_value: float = 0.0,
) -> DataNode:
    """Turn class numbers into vectors that are `on_value` at the class's place and `off_value` elsewhere.

    Args:
        data: class numbers, any shape. Fractions are cut off; a number that is no class gives `off_value` everywhere.
        num_classes: the length of the new axis.
        axis: where the new axis goes; -1 is after the last. If it is not given, a sample that holds one number, in
            whatever shape, becomes a vector, and others get the axis after the last.
        axis_name: a letter for the new axis in the layout.
        dtype: element type of the output; any but FLOAT16.
        on_value: for the class's place; cut to a whole number for integer types.
        off_value: for all others.

    Returns:
        `(num_classes,)` for single numbers; else the shape of `data` with the new axis.

    Raises:
        DefinitionError: an axis that does not exist, a value that `dtype` cannot hold.

    Example:
        >>> import penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=2)
        >>> with pipeline:
        ...     pipeline.set_outputs(fn.one_hot(fn.readers.arrays([[2], [0]]), num_classes=3))
        >>> pipeline.run()[0].as_array().tolist()
        [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """
    spec, target = data.spec, as_dtype(dtype)
    if target == np.float16:
        raise DefinitionError("fn.one_hot does not give float16", fix="fn.cast(fn.one_hot(...), dtype=types.FLOAT16)")
    if num_classes < 0 or (axis is not None and not -1 <= axis <= len(spec.shape)):
        raise DefinitionError(
            "fn.one_hot: no such axis or number of classes", given=f"axis={axis}, {num_classes} classes"
        )
    if spec.dtype.kind not in "iuf":
        raise ArgumentTypeError("fn.one_hot takes class numbers", given=spec)
    if target.kind in "iu":
        on_value, off_value = math.trunc(on_value), math.trunc(off_value)
        limits = np.iinfo(target)
        if not all(limits.min <= value <= limits.max for value in (on_value, off_value)):
            raise DefinitionError(f"fn.one_hot: {target} cannot hold these values", given=(on_value, off_value))
    single = axis is None and _holds_one(data)
    place = None if single else -1 if axis is None else axis
    return apply(OneHot(int(num_classes), place, on_value, off_value, target, axis_name or ""), data)


def _holds_one(labels: DataNode) -> bool:
    """Whether each sample holds one number; where shapes are not known, whether the first one does."""
    if labels.spec.dense:
        return math.prod(labels.spec.fixed_shape) == 1
    try:
        return first_sample(labels.value, "axis=").size == 1
    except DefinitionError:
        return False
