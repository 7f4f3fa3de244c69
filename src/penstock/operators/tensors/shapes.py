"""shapes: extents of each sample as a vector."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.core import Spec
from penstock.errors import DefinitionError
from penstock.graph import BatchContext, BatchKernel, DataNode, DType, Operator, apply, operator
from penstock.numerics.casting import result_dtype


@dataclass(frozen=True)
class Shapes(Operator, BatchKernel):
    """Extents of a sample as a vector."""

    dtype: np.dtype[Any]

    def infer(self, data: Spec) -> Spec:
        """Return the spec of one extent per axis."""
        return Spec(self.dtype, (len(data.shape),))

    def batch(self, context: BatchContext, data: Any) -> Any:
        """Return the extents. A batch is dense, so all rows have the same."""
        extents = np.array(data.shape[1:], self.dtype)
        return context.xp.broadcast_to(context.xp.asarray(extents), (context.rows, len(extents)))


@operator("shapes")
def shapes(
    data: DataNode,
    *,
    dtype: DType = None,
    type: Any = None,  # noqa: A002  # DALI's name
) -> DataNode:
    """Return the extents of each sample as a vector. ``data.shape()`` is a shorthand.

    Args:
        data: Any shape, any dtype.
        dtype: Element type: an integer or float of 32 or 64 bits. None is INT64.
        type: Older name of `dtype`.

    Returns:
        One extent per axis, of type `dtype`.

    Raises:
        DefinitionError: `dtype` is not supported.

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
    # INT64 is DALI's default.
    element = result_dtype(np.dtype(np.int64), dtype, type)
    # DALI offers the same dtypes.
    if element.kind not in "iuf" or element.itemsize < 4:
        raise DefinitionError(
            "dtype must be a number of 32 or 64 bits", given=element, fix="fn.cast(fn.shapes(x), dtype=...)"
        )
    return apply(Shapes(element), data)
