"""Operator that combines affine transforms."""

from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar

from penstock.core import Spec
from penstock.errors import DefinitionError
from penstock.graph import BatchContext, DataNode, apply, operator
from penstock.graph.ir.per_frame_kernel import PerFrameKernel
from penstock.operators.transforms.affine_operator import Transform, check_transform, compose


@dataclass(frozen=True)
class Combine(PerFrameKernel):
    """Product of affine transforms.

    Args:
        reverse: True to apply the last transform first.
    """

    reverse: bool
    per_frame_inputs: ClassVar[bool] = True

    def infer(self, *maps: Spec) -> Spec:
        """Return the spec of the first transform."""
        check_transform(maps[0])
        for spec in maps[1:]:
            check_transform(spec, maps[0].shape[0])
        return maps[0]

    def batch(self, context: BatchContext, *maps: Any) -> Any:
        """Compose the matrices of a batch."""
        # `infer` cannot compare shapes that are unknown while tracing.
        if len({matrix.shape[1:] for matrix in maps}) > 1:
            shapes = ", ".join(str(matrix.shape[1:]) for matrix in maps)
            raise ValueError(f"the transforms have different shapes: {shapes}")
        ordered = reversed(maps) if self.reverse else maps
        return reduce(lambda before, after: compose(context.xp, after, before), ordered)


@operator("transforms.combine")
def combine(*transforms: Transform, reverse_order: bool = False) -> DataNode:
    """Combine affine transforms into one that applies them in order.

    Args:
        *transforms: Two or more transforms, float32 (n, n + 1).
        reverse_order: True to apply the last transform first.

    Returns:
        A transform, float32 (n, n + 1), for `fn.warp_affine` or the MT argument of `fn.coord_transform`.

    Raises:
        DefinitionError: There are fewer than two transforms, or they differ in their number of dimensions.

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
        raise DefinitionError("there must be two or more transforms", given=len(transforms))
    return apply(Combine(reverse_order), *transforms)
