"""Operator that pads arrays."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from penstock.core import Array, Column, Spec
from penstock.graph import Argument, BatchContext, DataNode, Operator, WholeBatchKernel, apply, axis_numbers, operator
from penstock.image.describe.axis_mapping import where
from penstock.image.describe.steps import CropStep, FillStep, ImageInfo, Step
from penstock.image.image_operator import ImageOperator
from penstock.numerics.casting import cast_saturating
from penstock.operators.number_arguments import (
    NO_AXIS,
    check_equal_counts,
    check_number_count,
    number_count,
    numbers_per_axis,
)


@dataclass(frozen=True)
class PadTo(ImageOperator):
    """Padding to a known shape. Samples do not depend on each other.

    Args:
        axes: Axes to pad; all of them if each sample names its own in the argument `axes`.
        dtype: Dtype of the data.
    """

    axes: tuple[int, ...]
    dtype: np.dtype[Any]

    def infer(self, data: Spec, *, shape: Any, align: Any, fill_value: Any, axes: Any = None) -> Spec:
        """Return the spec, with the padded extents of samples whose extents are known."""
        del fill_value
        extents = list(data.shape)
        if axes is not None or isinstance(shape, Spec) or isinstance(align, Spec):
            steps = minimums = [None] * len(self.axes)
        else:
            minimums, steps = list(shape), np.broadcast_to(np.ravel(align), (len(self.axes),)).tolist()
        for axis, minimum, step in zip(self.axes, minimums, steps, strict=True):
            # A sample of unknown extent may be larger than `shape`, which never cuts.
            own = extents[axis]
            extents[axis] = None if None in (own, minimum, step) else _aligned(max(own or 0, minimum or 0), step or 1)
        return Spec(data.dtype, tuple(extents), data.layout)

    def describe(
        self, images: ImageInfo, bits: Any, *, shape: Any, align: Any, fill_value: Any, axes: Any = None
    ) -> Sequence[Step]:
        """Return crop steps that exceed the end of each axis, and a fill step."""
        xp, count = images.xp, len(self.axes)
        if axes is not None:
            shape = numbers_per_axis(xp, shape, axes, count, 0)
            align = numbers_per_axis(xp, align, axes, count, 1)
        for numbers in (shape, align) if xp is np else ():
            check_equal_counts(numbers)
        steps, minimums = (xp.broadcast_to(n, (images.rows, count)).astype(np.int32) for n in (align, shape))
        result: list[Step] = []
        for n, axis in enumerate(self.axes):
            size = images.sizes[axis]
            length = _aligned(xp.maximum(minimums[:, n], size), steps[:, n])
            result.append(CropStep(axis, 0 * size, length, may_exceed=True))
        return [*result, FillStep(_fill_as(xp, fill_value.reshape(-1, 1), self.dtype))]


@dataclass(frozen=True)
class PadToLargest(Operator, WholeBatchKernel):
    """Padding to the largest extents in the batch.

    Args:
        axes: Axes to pad; all of them if each sample names its own in the argument `axes`.
        shape: Minimum extents along these axes, or one for all; 0 or less means the largest extent in the batch.
    """

    axes: tuple[int, ...]
    shape: tuple[int, ...]

    def infer(self, data: Spec, **_arguments: Any) -> Spec:
        """Return the spec, with unknown extents along the padded axes."""
        extents = tuple(None if axis in self.axes else extent for axis, extent in enumerate(data.shape))
        return Spec(data.dtype, extents, data.layout)

    def whole_batch(
        self, context: BatchContext, data: Column, *, align: Any, fill_value: Any, axes: Any = None
    ) -> Column:
        """Pad all samples of the batch."""
        if not len(data):
            return data
        rows, ndim = len(data), data[0].ndim
        largest: Any = np.max([sample.shape for sample in data], axis=0)
        axes = np.tile(self.axes, (rows, 1)) if axes is None else axes
        named = numbers_per_axis(np, np.ones((rows, 1)), axes, ndim, 0) > 0
        requested = numbers_per_axis(np, np.tile(self.shape, (rows, 1)), axes, ndim, 0)
        minimums: Any = where(named, where(requested > 0, requested, largest), 0)
        steps = numbers_per_axis(np, align, axes, ndim, 1).astype(np.int64)
        fills = _fill_as(np, fill_value, data[0].dtype)
        # Samples are padded one by one: their extents along the other axes may differ.
        return [self._pad(sample, *terms) for sample, *terms in zip(data, minimums, steps, fills, strict=True)]

    def _pad(self, data: Array, minimums: Array, steps: Array, fill: Array) -> Array:
        """Pad one sample to at least the minimum extents, rounded up to multiples of `steps`."""
        shape = _aligned(np.maximum(minimums, data.shape), steps).tolist()
        out = np.full(shape, fill, data.dtype)
        out[tuple(slice(extent) for extent in data.shape)] = data
        return out


def _aligned(extent: Any, step: Any) -> Any:
    """Round an extent up to a multiple of `step`."""
    return -(-extent // step) * step


def _fill_as(xp: Any, values: Any, dtype: np.dtype[Any]) -> Any:
    """Return fill values in a dtype: integers are truncated and saturate, as those of crops."""
    # Constants stay NumPy arrays while JAX traces.
    own: Any = np if isinstance(values, np.ndarray) else xp
    return cast_saturating(own, own.trunc(values) if dtype.kind in "iu" else values, dtype)


@operator("pad")
def pad(
    data: DataNode,
    *,
    fill_value: Annotated[float | DataNode, Argument()] = 0.0,
    axes: Annotated[int | Sequence[int] | DataNode | None, Argument(np.int64, (None,), example=0, fill=NO_AXIS)] = None,
    axis_names: str | None = None,
    shape: Annotated[int | Sequence[int] | DataNode | None, Argument(shape=(None,), low=1, fill=np.nan)] = None,
    align: Annotated[int | Sequence[int] | DataNode, Argument(shape=(None,), low=1, fill=np.nan)] = 1,
) -> DataNode:
    """Pad arrays at the end of their axes, to a shape or to the largest extents in the batch.

    Without `shape`, the result depends on the whole batch, which suits `Pipeline.run`. An iterator needs the same shape
    in every batch: set `shape`.

    Args:
        data: Arrays of any dtype and shape.
        fill_value: Padding value, a number or a node with one per sample. For integers, it is truncated and saturates.
        axes: Axes to pad, by number; all axes by default and for an empty list. A node has them per sample.
        axis_names: Axes to pad, by letter of the layout.
        shape: Minimum extents along these axes, or one for all; -1 or 0 means the largest extent in the batch. Larger
            samples are not cropped, so 1 keeps the extent of each sample. A node has such numbers per sample, at least
            1.
        align: Extents are rounded up to a multiple of this number; one number, one per axis, or a node with either per
            sample.

    Returns:
        Padded arrays in the dtype and layout of the input. The spec of a ragged input remains ragged because a sample
        may be larger than `shape`; a consumer that needs one shape expects the shape of sample 0. To cut larger samples
        as well, use ``fn.slice(data, 0, 32, axes=[0], out_of_bounds_policy="pad")``.

    Raises:
        DefinitionError: An axis does not exist, `shape` or `align` has neither one number nor one per axis, or
            `align` is below 1.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     numbers = fn.readers.arrays(np.arange(3).reshape(1, 3))
        ...     pipeline.set_outputs(fn.pad(numbers, shape=[5], fill_value=9))
        >>> pipeline.run()[0].as_array().tolist()
        [[0, 1, 2, 9, 9]]
    """
    # DALI takes empty lists and an empty axis_names as "not given".
    own: dict[str, Any] = {"axes": axes} if isinstance(axes, DataNode) and not axis_names else {}
    numbers = axis_numbers(None if own else axes, axis_names or None, data.spec)
    count = number_count(axes) if own and number_count(axes) != 0 else len(numbers)
    align = 1 if number_count(align) == 0 else align
    extents: Any = -1 if shape is None or number_count(shape) == 0 else shape
    for name, value in (("align", align), ("shape", extents)):
        if count is not None:
            check_number_count(name, value, count)
    if not isinstance(extents, DataNode):
        extents = np.ravel(extents)
        extents = tuple((extents if own else np.broadcast_to(extents, (len(numbers),))).tolist())
        if not all(extent > 0 for extent in extents):
            return apply(PadToLargest(numbers, extents), data, align=align, fill_value=fill_value, **own)
    return apply(PadTo(numbers, data.spec.dtype), data, shape=extents, align=align, fill_value=fill_value, **own)
