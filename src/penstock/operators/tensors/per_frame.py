"""per_frame: mark values as one for each frame of a sequence."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from penstock.core.spec import Spec
from penstock.errors import DefinitionError, short_repr
from penstock.graph.ir.operator import BatchContext, Operator, ViewKernel
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode


@dataclass(frozen=True)
class PerFrame(Operator, ViewKernel):
    """The same values, whose layout begins with F.

    Args:
        replaces: whether the first letter of a layout is exchanged.
    """

    replaces: bool

    def infer(self, data: Spec) -> Spec:
        """The input's, with another layout."""
        if not data.shape:
            raise DefinitionError("fn.per_frame: the first axis counts frames", given=data, expected="one axis or more")
        if not data.layout:
            return replace(data, layout="F" + "*" * (len(data.shape) - 1))
        if data.layout[0] != "F" and not self.replaces:
            raise DefinitionError(
                "fn.per_frame: the layout's first axis is no F", given=short_repr(data.layout), fix="replace=True"
            )
        return replace(data, layout="F" + data.layout[1:])

    def batch(self, context: BatchContext, data: Any) -> Any:
        """As they are."""
        return data


@operator("per_frame")
def per_frame(data: DataNode, *, replace: bool = False) -> DataNode:
    """Mark values as one for each frame of a sequence, so that operators on sequences take them as arguments.

    Operators on images take them that draw no random numbers, such as `rotate`, `warp_affine`, `gaussian_blur` and
    `brightness`; `filter` as its second and third input; `coord_transform`; and `transforms`, which then make a map for
    each frame, also of maps. For any other it is an error.

    Args:
        data: any dtype; the first axis counts the frames.
        replace: whether the first letter of a layout is exchanged for F; else it must be one.

    Returns:
        The same values, whose layout begins with F.

    Raises:
        DefinitionError: a scalar, or a layout that does not begin with F.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     videos = fn.readers.arrays(np.ones((1, 2, 1, 1, 3), np.uint8), layout="FHWC")
        ...     factors = fn.readers.arrays(np.float32([[2, 3]]))
        ...     pipeline.set_outputs(fn.brightness(videos, brightness=fn.per_frame(factors)))
        >>> pipeline.run()[0].as_array()[0, :, 0, 0, 0].tolist()
        [2, 3]
    """
    return apply(PerFrame(bool(replace)), data)
