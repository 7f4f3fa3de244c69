"""shapes: the extents of each sample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.core.spec import Spec
from penstock.errors import DefinitionError
from penstock.graph.ir.operator import BatchContext, BatchKernel, Operator
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.numerics.casting import result_dtype


@dataclass(frozen=True)
class Shapes(Operator, BatchKernel):
    """A vector with the extents of a sample."""

    dtype: np.dtype[Any]

    def infer(self, data: Spec) -> Spec:
        """As long as a sample has axes."""
        return Spec(self.dtype, (len(data.shape),))

    def batch(self, context: BatchContext, data: Any) -> Any:
        """The same for every row."""
        extents = np.array(data.shape[1:], self.dtype)
        return context.xp.broadcast_to(context.xp.asarray(extents), (context.rows, len(extents)))


@operator("shapes")
def shapes(
    data: DataNode,
    *,
    dtype: Any = None,
    type: Any = None,  # noqa: A002  # DALI's name
) -> DataNode:
    """The extents of each sample, as a vector. ``data.shape()`` is short for it.

    Args:
        data: any shape, any dtype.
        dtype: element type: a signed or unsigned integer or a float, of 32 or 64 bits. INT64 by default.
        type: its older name.

    Returns:
        An extent per axis, in `dtype`.

    Raises:
        DefinitionError: a `dtype` that is not offered.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=2)
        >>> with pipeline:
        ...     images = fn.readers.arrays(np.zeros((2, 4, 6, 3), np.uint8))
        ...     pipeline.set_outputs(fn.shapes(images))
        >>> pipeline.run()[0].as_array().tolist()
        [[4, 6, 3], [4, 6, 3]]
    """
    element = result_dtype(np.dtype(np.int64), dtype, type)
    if element.kind not in "iuf" or element.itemsize < 4:
        raise DefinitionError(
            "fn.shapes gives numbers of 32 or 64 bits", given=element, fix="fn.cast(fn.shapes(x), dtype=...)"
        )
    return apply(Shapes(element), data)
