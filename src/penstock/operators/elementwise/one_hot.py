"""one_hot: one-hot encoding of class numbers."""

import math
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np

from penstock.core import Array, CallSite, Spec, user_call_site
from penstock.core.warn_once import warn_once
from penstock.errors import DefinitionError, SampleError, short_repr
from penstock.graph import (
    BatchContext,
    BatchKernel,
    DataNode,
    DType,
    Input,
    Operator,
    Range,
    apply,
    check_layout,
    operator,
)
from penstock.operators.elementwise.bfloat16_results import rounds_to_bfloat16
from penstock.operators.first_sample import first_sample
from penstock.types import FLOAT, as_dtype


@dataclass(frozen=True)
class OneHot(Operator, BatchKernel):
    """One-hot encoding along a new axis.

    Args:
        classes: Extent of the new axis.
        axis: Position of the new axis; None if each sample contains a single number.
        on: Value at the index of the class.
        off: Value at all other indexes.
        dtype: Element type of the result.
        axis_name: Letter of the new axis, or "" for none.
        where: Line of the user's definition, for the warning of a number that is not a class.
    """

    classes: int
    axis: int | None
    on: float
    off: float
    dtype: np.dtype[Any]
    axis_name: str
    where: CallSite = field(compare=False)

    def infer(self, labels: Spec) -> Spec:
        """Return the spec of the labels with the new axis."""
        if self.axis is None:
            return Spec(self.dtype, (self.classes,), self.axis_name)
        shape = (*labels.shape[: self.axis], self.classes, *labels.shape[self.axis :])
        # A layout names all axes or none, so an unnamed new axis clears it.
        layout = labels.layout[: self.axis] + self.axis_name + labels.layout[self.axis :] if self.axis_name else ""
        return Spec(self.dtype, shape, check_layout(layout, labels, len(shape)))

    def batch(self, context: BatchContext, labels: Any) -> Any:
        """Encode a batch of labels."""
        xp = context.xp
        if self.axis is None:
            if labels.size != context.rows:
                raise SampleError(
                    "the first sample contains one number, but another does not",
                    given=f"shape {list(labels.shape[1:])}",
                    fix="axis=-1, if labels are not single numbers",
                )
            labels = labels.reshape(context.rows)
            if xp is np and labels.dtype.kind in "iu":
                return self._scatter(labels, context.out)
        # A batch of single numbers has only the axis of rows.
        axis = 1 if self.axis is None else self.axis + 1
        if labels.dtype.kind == "f":
            # As in DALI, fractions are truncated.
            whole = xp.trunc(labels.astype(np.float32) if labels.dtype.itemsize == 2 else labels)
        else:
            # A narrow type could not hold the class indexes.
            whole = labels.astype(np.int64 if labels.dtype.itemsize == 8 else np.int32)
        classes = np.arange(self.classes, dtype=whole.dtype).reshape(-1, *(1,) * (labels.ndim - axis))
        # The device program cannot warn.
        if xp is np and ((whole < 0) | (whole >= self.classes)).any():
            self._warn()
        match = whole.reshape(*whole.shape[:axis], 1, *whole.shape[axis:]) == classes[(None,) * axis]
        return xp.where(match, self.dtype.type(self.on), self.dtype.type(self.off))

    def _scatter(self, labels: Array, out: Array | None) -> Array:
        """Encode single integers on the host, without one comparison per element of the result."""
        vectors = np.empty((len(labels), self.classes), self.dtype) if out is None else out
        vectors.fill(self.off)
        # As in DALI, a number out of range leaves its row without a class.
        rows = np.flatnonzero((labels >= 0) & (labels < self.classes))
        if len(rows) < len(labels):
            self._warn()
        vectors[rows, labels[rows]] = self.on
        return vectors

    def _warn(self) -> None:
        warn_once(
            "one_hot",
            f"fn.one_hot: a label is not from 0 to {self.classes - 1}, so its vector has no class",
            fix="num_classes=... with the largest label plus 1, or labels that begin at 0, such as labels - 1",
            where=self.where,
        )


@operator("one_hot")
@rounds_to_bfloat16
def one_hot(
    data: Annotated[DataNode, Input(("number",))],
    *,
    num_classes: Annotated[int, Range(0)] = 0,
    axis: int | None = None,
    axis_name: str | None = None,
    dtype: DType = FLOAT,
    on_value: float = 1.0,
    off_value: float = 0.0,
) -> DataNode:
    """Encode class numbers as one-hot vectors.

    Args:
        data: Class numbers, any shape. Floats are truncated. A number that is not a class results in `off_value`
            everywhere, with a warning if the host computes it.
        num_classes: Number of classes, the extent of the new axis.
        axis: Position of the new axis; -1 is after the last. By default, a sample with a single number, of any shape,
            becomes a vector, and other samples get the axis after the last.
        axis_name: Letter of the new axis in the layout. Needs a layout of labels that are not single numbers.
        dtype: Element type of the result; FLOAT16 is not supported, as in DALI.
        on_value: Value at the index of the class, truncated for integer types.
        off_value: Value at all other indexes, truncated for integer types.

    Returns:
        `(num_classes,)` for single numbers, otherwise the shape of `data` with the new axis.

    Raises:
        DefinitionError: The axis does not exist, or `dtype` cannot represent a value.

    Example:
        >>> import penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=2)
        >>> with pipeline:
        ...     pipeline.set_outputs(fn.one_hot(fn.readers.arrays([[2], [0]]), num_classes=3))
        >>> pipeline.run()[0].as_array().tolist()
        [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """
    target = as_dtype(dtype)
    if target == np.float16:
        raise DefinitionError("dtype cannot be float16", fix="fn.cast(fn.one_hot(...), dtype=types.FLOAT16)")
    if axis is not None and not -1 <= axis <= data.ndim:
        raise DefinitionError("axis is out of range", given=axis, expected=f"a number from -1 to {data.ndim}")
    if target.kind in "iu":
        on_value, off_value = math.trunc(on_value), math.trunc(off_value)
        limits = np.iinfo(target)
        if not all(limits.min <= value <= limits.max for value in (on_value, off_value)):
            raise DefinitionError(f"{target} cannot represent on_value and off_value", given=(on_value, off_value))
    if axis is None or axis < 0:
        axis = None if axis is None and _is_single(data) else data.ndim
    if axis_name is not None and len(axis_name) != 1:
        raise DefinitionError("axis_name must be one letter", given=short_repr(axis_name))
    if axis is not None and axis_name and data.ndim and not data.layout:
        raise DefinitionError(
            "axis_name needs names of the other axes", given=data.spec, fix="fn.reshape(labels, layout=...)"
        )
    return apply(OneHot(num_classes, axis, on_value, off_value, target, axis_name or "", user_call_site()), data)


def _is_single(labels: DataNode) -> bool:
    """Return True if samples contain one number. If shapes are unknown, the first sample decides."""
    if labels.spec.dense:
        return math.prod(labels.spec.fixed_shape) == 1
    try:
        return first_sample(labels.value, "axis=").size == 1
    except DefinitionError:
        # The first sample is not available while tracing; then labels are not taken for single numbers.
        return False
