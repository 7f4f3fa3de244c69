"""constant: a value that is the same for every sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from penstock.core.constant import narrowed
from penstock.core.spec import Spec
from penstock.errors import ArgumentTypeError, DefinitionError, dali_object_hint, short_repr
from penstock.graph.arguments.argument_groups import CommonArguments
from penstock.graph.ir.operator import BatchContext, BatchKernel, Operator
from penstock.graph.layouts import check_layout
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import common_arguments, operator
from penstock.graph.tracing.trace import DataNode, current_trace
from penstock.types import FLOAT, INT32, Constant


@dataclass(frozen=True, eq=False)
class ConstantValue(Operator, BatchKernel):
    """The same array in every row."""

    value: np.ndarray[Any, Any]
    layout: str

    def infer(self) -> Spec:
        """The array's own."""
        return Spec(self.value.dtype, self.value.shape, self.layout)

    def batch(self, context: BatchContext) -> Any:
        """The array, as often as there are rows."""
        return context.xp.broadcast_to(context.xp.asarray(self.value), (context.rows, *self.value.shape))


@operator("constant")
def constant(
    value: Any = None,
    *,
    fdata: float | Sequence[float] | None = None,
    idata: int | Sequence[int] | None = None,
    dtype: Any = None,
    shape: int | Sequence[int] | None = None,
    layout: str | None = "",
) -> DataNode:
    """A value that is the same for every sample. Operators make one of every number or array they are given.

    Give one of three: `value`, or as in DALI `fdata` or `idata`, which one number gives one axis.

    Args:
        value: a number, a nested list of numbers, an array, or a `types.Constant`.
        fdata: numbers, float32 unless `dtype` says otherwise.
        idata: whole numbers, int32 unless `dtype` says otherwise.
        dtype: the element type; None gives 32 bits to numbers of 64, as Python's are, and keeps an array's own
            else. Integers are rounded and saturate.
        shape: the shape of a sample; one number fills it.
        layout: the names of its axes, or "".

    Returns:
        A node of the value's shape.

    Raises:
        ArgumentTypeError: the value holds something other than numbers, or a number of them other than that of the
            shape.
        DefinitionError: none or two of the three are given.

    Example:
        >>> import penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=2)
        >>> with pipeline:
        ...     pipeline.set_outputs(fn.constant([1, 2]), fn.constant(fdata=0.5, shape=[2]))
        >>> [output.as_array().tolist() for output in pipeline.run()]
        [[[1, 2], [1, 2]], [[0.5, 0.5], [0.5, 0.5]]]
    """
    given = [name for name, each in (("value", value), ("fdata", fdata), ("idata", idata)) if each is not None]
    if len(given) > 1:
        raise DefinitionError(
            "fn.constant: the numbers are given twice", given=", ".join(given), expected="one of them"
        )
    if fdata is not None:
        value, dtype = np.atleast_1d(np.asarray(fdata, np.float32)), FLOAT if dtype is None else dtype
    elif idata is not None:
        value, dtype = np.atleast_1d(np.asarray(idata).astype(np.int64)), INT32 if dtype is None else dtype
    computing = current_trace().eager
    batch = computing.batch(value) if computing is not None else None
    if batch is not None:
        return batch
    if value is None or isinstance(value, str | bytes | dict):
        raise ArgumentTypeError(
            "a value of the pipeline is needed",
            given=f"{short_repr(cast(Any, value))} of type {type(cast(Any, value)).__name__}",
            expected="a node, a number, an array or types.Constant",
        )
    wrapped = value if isinstance(value, Constant) else Constant(value, dtype, shape, layout or "")
    common = common_arguments()
    if wrapped.device is not None:
        common = cast(CommonArguments, {**common, "device": wrapped.device})
    array = narrowed(wrapped.array()) if wrapped is not value and wrapped.dtype is None else wrapped.array()
    if array.dtype.kind not in "biufV":
        given = f"{short_repr(value)} of dtype {array.dtype}"
        raise ArgumentTypeError("a constant holds numbers", given=given, fix=dali_object_hint(value))
    checked = check_layout(wrapped.layout or "", Spec(array.dtype, array.shape), array.ndim, "constant")
    return apply(ConstantValue(array, checked), common=common)
