"""copy: the identity, which carries the placement hint of `.gpu()` and `.cpu()`."""

from dataclasses import dataclass
from typing import Any, ClassVar

from penstock.core import Spec
from penstock.graph import BatchContext, DataNode, Operator, ViewKernel, apply, operator


@dataclass(frozen=True)
class Copy(Operator, ViewKernel):
    """Identity operator."""

    pixel_aligned: ClassVar[bool] = True

    def infer(self, value: Spec) -> Spec:
        """Return the spec of the input."""
        return value

    def batch(self, context: BatchContext, values: Any) -> Any:
        """Return the input."""
        return values


@operator("copy")
def copy(data: DataNode) -> DataNode:
    """Return the value unchanged, with a hint to run the operators that use it on `device`.

    `node.gpu()` and `node.cpu()` are shorthands. The hint does not copy data; the planner decides where each operator
    runs.

    Args:
        data: Any value.

    Returns:
        The same value.

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
    # `apply` adds the device of the call, which is the only effect.
    return apply(Copy(), data)
