"""Operator that draws windows that overlap a region of interest."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from penstock.core import Spec
from penstock.errors import DefinitionError
from penstock.graph import Argument, BatchContext, BatchKernel, DataNode, Operator, apply, lookup, operator
from penstock.operators.number_arguments import number_count
from penstock.operators.random.random_operator import fractions

Numbers = Annotated[int | Sequence[int] | DataNode, Argument(np.int64, (None,))]
OptionalNumbers = Annotated[Numbers | None, Argument(np.int64, (None,))]


@dataclass(frozen=True)
class RoiRandomCrop(Operator, BatchKernel):
    """Anchor of a random window.

    Args:
        ndim: Number of axes.
    """

    ndim: int

    @property
    def random_bits(self) -> int:
        """One word per axis."""
        return self.ndim

    def infer(self, **_arguments: Any) -> Spec:
        """Return the spec of an anchor."""
        return Spec(np.dtype(np.int64), (self.ndim,))

    def batch(self, context: BatchContext, **arguments: Any) -> Any:
        """Draw uniformly among the anchors for which the window contains the ROI, or the ROI the window."""
        xp = context.xp
        if any(value.shape[1] != self.ndim for value in arguments.values()):
            sizes = ", ".join(f"{name} {value.shape[1]}" for name, value in arguments.items())
            raise ValueError(f"arguments must have one number per axis: {sizes}")
        size, start = arguments["crop_shape"], arguments["roi_start"]
        end = arguments["roi_end"] if "roi_end" in arguments else start + arguments["roi_shape"]
        # A window larger than the ROI may start from end - size to start; a smaller one from start to end - size.
        low, high = xp.minimum(start, end - size), xp.maximum(start, end - size)
        if "in_shape" in arguments:
            whole = arguments["in_shape"]
            if xp is np and ((size > whole).any() or (start < 0).any() or (end > whole).any()):
                raise ValueError(
                    f"a window of {size[0].tolist()}, or the ROI from {start[0].tolist()} to {end[0].tolist()}, "
                    f"does not fit into {whole[0].tolist()}"
                )
            low, high = (xp.clip(limit, 0, whole - size) for limit in (low, high))
        count = high - low + 1
        drawn = xp.floor(fractions(context.bits) * count.astype(np.float32)).astype(low.dtype)
        # The product in float32 may round up to `count`.
        return low + xp.minimum(drawn, count - 1)


@operator("roi_random_crop")
def roi_random_crop(
    data: DataNode | None = None,
    *,
    crop_shape: Annotated[int | Sequence[int] | DataNode, Argument(np.int64, (None,), low=0)],
    roi_start: Numbers,
    roi_shape: OptionalNumbers = None,
    roi_end: OptionalNumbers = None,
    in_shape: OptionalNumbers = None,
    seed: int = -1,
) -> DataNode:
    """Draw a random window of a given size that overlaps a region of interest (ROI) as much as possible.

    Along each axis, a window that is larger than the ROI contains it; a smaller window is inside the ROI.

    Args:
        data: Data from which the window will be cut; the window stays inside.
        crop_shape: Shape of the window, one number per axis; a node has one shape per sample, as for all arguments.
        roi_start: Start of the ROI.
        roi_shape: Shape of the ROI.
        roi_end: End of the ROI, instead of `roi_shape`.
        in_shape: Shape of the data, instead of `data`. Without either, the window may exceed the data.
        seed: Seed of this operator; -1 (default) derives one from the pipeline's seed.

    Returns:
        Start of the window, int64 (axes,).

    Raises:
        DefinitionError: You pass both or neither of `roi_shape` and `roi_end`, both `data` and `in_shape`, or the
            number of axes is unknown.
        SampleError: At run time, the window or the ROI does not fit into `data`.

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
    if (roi_shape is None) == (roi_end is None):
        raise DefinitionError(
            "the ROI needs either roi_shape or roi_end", given="neither" if roi_end is None else "both"
        )
    if data is not None and in_shape is not None:
        raise DefinitionError("data and in_shape cannot be combined", given="both")
    arguments: dict[str, Any] = {"crop_shape": crop_shape, "roi_start": roi_start}
    ends = {"roi_shape": roi_shape, "roi_end": roi_end, "in_shape": in_shape}
    arguments |= {name: value for name, value in ends.items() if value is not None}
    known = {count for value in arguments.values() if (count := number_count(value)) is not None}
    if len(known) != 1 or 0 in known:
        raise DefinitionError(
            f"{', '.join(arguments)} must have one number per axis",
            given=f"{sorted(known)} numbers" if known else "nodes of unknown length",
            expected="one number of axes",
        )
    (ndim,) = known
    if data is not None:
        arguments["in_shape"] = lookup("shapes")(data)[:ndim]
    return apply(RoiRandomCrop(ndim), seed=seed, **arguments)
