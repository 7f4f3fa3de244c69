"""copy: the same value; where `.gpu()` and `.cpu()` leave their hint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from penstock.core.spec import Spec
from penstock.graph.ir.operator import BatchContext, Operator, ViewKernel
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode


@dataclass(frozen=True)
class Copy(Operator, ViewKernel):
    """The identity."""

    pixel_aligned: ClassVar[bool] = True

    def infer(self, value: Spec) -> Spec:
        """The input's."""
        return value

    def batch(self, context: BatchContext, values: Any) -> Any:
        """The input."""
        return values


@operator("copy")
def copy(data: DataNode) -> DataNode:
    """Pass a value on, with the hint to run what follows on `device`.

    `node.gpu()` and `node.cpu()` are short for it. Nothing is moved by it: the planner decides where each value lives.

    Args:
        data: any value.

    Returns:
        The value: same shape, dtype and layout.

    Example:
        >>> import penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=2)
        >>> with pipeline:
        ...     numbers = fn.readers.arrays([[1], [2]])
        ...     pipeline.set_outputs(fn.copy(numbers, device="gpu"))
        >>> pipeline.run()[0].as_array().tolist()
        [[1], [2]]
    """
    return apply(Copy(), data)
