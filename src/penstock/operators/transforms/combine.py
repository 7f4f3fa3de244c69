"""transforms.combine: several maps as one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar

from penstock.core.spec import Spec
from penstock.errors import DefinitionError
from penstock.graph.ir.operator import BatchContext
from penstock.graph.ir.per_frame_kernel import PerFrameKernel
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.operators.transforms.affine_operator import check_transform, compose


@dataclass(frozen=True)
class Combine(PerFrameKernel):
    """Maps one after the other.

    Args:
        reverse: whether the last one is applied first.
    """

    reverse: bool
    per_frame_inputs: ClassVar[bool] = True

    def infer(self, *maps: Spec) -> Spec:
        """The first one's."""
        check_transform("transforms.combine", maps[0])
        for each in maps[1:]:
            check_transform("transforms.combine", each, maps[0].shape[0])
        return maps[0]

    def batch(self, context: BatchContext, *maps: Any) -> Any:
        """Their product."""
        if len({each.shape[1:] for each in maps}) > 1:
            raise ValueError(f"the maps have different shapes: {', '.join(str(each.shape[1:]) for each in maps)}")
        ordered = reversed(maps) if self.reverse else maps
        return reduce(lambda before, after: compose(context.xp, after, before), ordered)


@operator("transforms.combine")
def combine(*transforms: DataNode, reverse_order: bool = False) -> DataNode:
    """Make one map of several that are applied one after the other.

    Args:
        *transforms: two maps or more, float32 (n, n + 1).
        reverse_order: whether the last one is applied first.

    Returns:
        A map, float32 (n, n + 1), as `fn.warp_affine` and the MT of `fn.coord_transform` take it.

    Raises:
        DefinitionError: fewer than two maps, or maps of different dimensions.

    Example:
        >>> import penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     moved = fn.transforms.translation(offset=[1, 2])
        ...     pipeline.set_outputs(fn.transforms.combine(moved, fn.transforms.scale(scale=[10, 10])))
        >>> pipeline.run()[0].as_array().tolist()
        [[[10.0, 0.0, 10.0], [0.0, 10.0, 20.0]]]
    """
    if len(transforms) < 2:
        raise DefinitionError("fn.transforms.combine takes two maps or more", given=f"{len(transforms)}")
    return apply(Combine(bool(reverse_order)), *transforms)
