"""roi_random_crop: a random window that shows as much of a region as it can."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from penstock.core.spec import Spec
from penstock.errors import DefinitionError
from penstock.graph.ir.argument_schema import Argument
from penstock.graph.ir.operator import BatchContext, BatchKernel, Operator
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import lookup, operator
from penstock.graph.tracing.trace import DataNode
from penstock.operators.random.random_operator import fractions

_INTEGERS = ("crop_shape", "roi_start", "roi_shape", "roi_end", "in_shape")


@dataclass(frozen=True)
class RoiRandomCrop(Operator, BatchKernel):
    """The first corner of a window.

    Args:
        ndim: the number of axes.
    """

    ndim: int
    schema: ClassVar[Mapping[str, Argument]] = {name: Argument(np.int64, (None,)) for name in _INTEGERS}

    @property
    def random_bits(self) -> int:
        """One per axis."""
        return self.ndim

    def infer(self, **_arguments: Any) -> Spec:
        """A number per axis."""
        return Spec(np.dtype(np.int64), (self.ndim,))

    def batch(self, context: BatchContext, **arguments: Any) -> Any:
        """Uniform among the places where the window holds the region, or lies in it, and does not leave the image."""
        xp = context.xp
        if any(given.shape[1] != self.ndim for given in arguments.values()):
            sizes = ", ".join(f"{name} {given.shape[1]}" for name, given in arguments.items())
            raise ValueError(f"numbers per sample differ: {sizes}")
        size, start = arguments["crop_shape"], arguments["roi_start"]
        end = arguments["roi_end"] if "roi_end" in arguments else start + arguments["roi_shape"]
        low, high = xp.minimum(start, end - size), xp.maximum(start, end - size)
        if "in_shape" in arguments:
            whole = arguments["in_shape"]
            if xp is np and ((size > whole).any() or (start < 0).any() or (end > whole).any()):
                raise ValueError(
                    f"a window of {size[0].tolist()}, or the region from {start[0].tolist()} to {end[0].tolist()}, "
                    f"does not fit into {whole[0].tolist()}"
                )
            low, high = (xp.clip(each, 0, whole - size) for each in (low, high))
        count = high - low + 1
        drawn = xp.floor(fractions(context.bits) * count.astype(np.float32)).astype(low.dtype)
        return low + xp.minimum(drawn, count - 1)


@operator("roi_random_crop")
def roi_random_crop(
    data: DataNode | None = None,
    *,
    crop_shape: int | Sequence[int] | DataNode,
    roi_start: int | Sequence[int] | DataNode,
    roi_shape: int | Sequence[int] | DataNode | None = None,
    roi_end: int | Sequence[int] | DataNode | None = None,
    in_shape: int | Sequence[int] | DataNode | None = None,
    seed: int = -1,
) -> DataNode:
    """Draw a window of a given size that shows as much of a region as it can.

    A window that is larger than the region holds it; one that is smaller lies inside of it; along each axis.

    Args:
        data: what the window is cut out of, whose bounds it does not leave.
        crop_shape: the size of the window, a number per axis; a node gives each sample its own. So do the others.
        roi_start: where the region begins.
        roi_shape: its size.
        roi_end: where it ends, instead.
        in_shape: the size of what the window is cut out of, instead of `data`. Without either it may leave it.
        seed: a seed for this operator alone; -1 derives it from the pipeline's.

    Returns:
        Where the window begins, int64 (axes,).

    Raises:
        DefinitionError: `roi_shape` and `roi_end`, or neither; `data` and `in_shape`; a number of axes not known.
        SampleError: while running, a window or a region that leaves `data`.

    Example:
        >>> import penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=3, seed=1)
        >>> with pipeline:
        ...     pipeline.set_outputs(fn.roi_random_crop(crop_shape=[10, 2], roi_start=[5, 5], roi_shape=[4, 2]))
        >>> starts = pipeline.run()[0].as_array()
        >>> bool(((starts >= [-1, 5]) & (starts <= 5)).all())
        True
    """
    kind = "fn.roi_random_crop"
    if (roi_shape is None) == (roi_end is None):
        raise DefinitionError(f"{kind} takes roi_shape= or roi_end=", given="neither" if roi_end is None else "both")
    if data is not None and in_shape is not None:
        raise DefinitionError(f"{kind} takes an input or in_shape=", given="both")
    arguments: dict[str, Any] = dict(zip(_INTEGERS, (crop_shape, roi_start, roi_shape, roi_end, in_shape), strict=True))
    arguments = {name: value for name, value in arguments.items() if value is not None}
    known = {count for value in arguments.values() if (count := _count(value)) is not None}
    if len(known) != 1:
        raise DefinitionError(
            f"{kind}: all arguments have a number per axis",
            given=f"{sorted(known)} numbers" if known else "nodes of unknown length",
            expected="one number of axes",
        )
    (ndim,) = known
    if data is not None:
        arguments["in_shape"] = lookup("shapes")(data)[:ndim]
    return apply(RoiRandomCrop(ndim), seed=seed, **arguments)


def _count(given: Any) -> int | None:
    """How many numbers an argument has, where that is known."""
    if not isinstance(given, DataNode):
        return int(np.size(given))
    shape = given.spec.shape
    return shape[0] if shape else 1
