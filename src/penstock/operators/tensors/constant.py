"""constant: a value that is the same for every sample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Unpack, cast

import numpy as np

from penstock.data.spec import Spec
from penstock.errors import ArgumentTypeError
from penstock.graph.operator import BatchContext, BatchKernel, Common, Operator
from penstock.graph.registry import operator
from penstock.graph.trace import DataNode, apply
from penstock.operators.axes import check_layout
from penstock.types import Constant


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
def constant(value: Any, *, dtype: Any = None, layout: str = "", **common: Unpack[Common]) -> DataNode:
    """A value that is the same for every sample. Operators make one of every number or array they are given.

    Args:
        value: a number, a nested list of numbers, an array, or a `types.Constant`.
        dtype: the element type; None keeps an array's own, and gives Python numbers int32, float32 or bool.
        layout: the names of its axes, or "".
        **common: what every operator takes.

    Returns:
        A node of the value's shape.

    Raises:
        ArgumentTypeError: the value holds something else than numbers.

    Example:
        >>> import penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=2)
        >>> with pipeline:
        ...     pipeline.set_outputs(fn.constant([1, 2]))
        >>> pipeline.run()[0].as_array().tolist()
        [[1, 2], [1, 2]]
    """
    if value is None or isinstance(value, str | bytes | dict):
        raise ArgumentTypeError(
            "a value of the pipeline is needed",
            given=f"{value!r} of type {type(cast(Any, value)).__name__}",
            expected="a node, a number, an array or types.Constant",
        )
    wrapped = value if isinstance(value, Constant) else Constant(value, dtype, layout)
    array = wrapped.array()
    if array.dtype.kind not in "biufV":
        raise ArgumentTypeError("a constant holds numbers", given=f"{value!r} of dtype {array.dtype}")
    checked = check_layout(wrapped.layout, Spec(array.dtype, array.shape), array.ndim, "constant")
    return apply(ConstantValue(array, checked), common=common)
