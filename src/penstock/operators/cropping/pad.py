"""Operator that pads arrays."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from penstock.core import Array, Column, Spec
from penstock.errors import DefinitionError
from penstock.graph import Argument, BatchContext, DataNode, Operator, WholeBatchKernel, apply, axis_numbers, operator
from penstock.image.describe.steps import CropStep, FillStep, ImageInfo, Step
from penstock.image.image_operator import ImageOperator
from penstock.operators.number_arguments import check_number_count, number_count


@dataclass(frozen=True)
class PadTo(ImageOperator):
    """Padding to a known shape. Samples do not depend on each other.

    Args:
        axes: Axes to pad.
        dtype: Dtype of the data.
    """

    axes: tuple[int, ...]
    dtype: np.dtype[Any]

    def infer(self, data: Spec, *, shape: Any, align: Any, fill_value: Any) -> Spec:
        """Return the spec, with the padded extents of samples whose extents are known."""
        del fill_value
        extents = list(data.shape)
        if isinstance(shape, Spec) or isinstance(align, Spec):
            steps = minimums = [None] * len(self.axes)
        else:
            minimums, steps = list(shape), np.broadcast_to(np.ravel(align), (len(self.axes),)).tolist()
        for axis, minimum, step in zip(self.axes, minimums, steps, strict=True):
            # A sample of unknown extent may be larger than `shape`, which never cuts.
            own = extents[axis]
            extents[axis] = None if None in (own, minimum, step) else _aligned(max(own or 0, minimum or 0), step or 1)
        return Spec(data.dtype, tuple(extents), data.layout)

    def describe(self, images: ImageInfo, bits: Any, *, shape: Any, align: Any, fill_value: Any) -> Sequence[Step]:
        """Return crop steps that exceed the end of each axis, and a fill step."""
        xp = images.xp
        steps = xp.broadcast_to(align, (images.rows, len(self.axes))).astype(np.int32)
        minimums = shape.astype(np.int32)
        result: list[Step] = []
        for n, axis in enumerate(self.axes):
            size = images.sizes[axis]
            length = _aligned(xp.maximum(minimums[:, n], size), steps[:, n])
            result.append(CropStep(axis, 0 * size, length, may_exceed=True))
        return [*result, FillStep(fill_value.reshape(-1, 1).astype(self.dtype))]


@dataclass(frozen=True)
class PadToLargest(Operator, WholeBatchKernel):
    """Padding to the largest extents in the batch.

    Args:
        axes: Axes to pad.
        shape: Minimum extents along these axes; 0 or less means the largest extent in the batch.
    """

    axes: tuple[int, ...]
    shape: tuple[int, ...]

    def infer(self, data: Spec, **_arguments: Any) -> Spec:
        """Return the spec, with unknown extents along the padded axes."""
        extents = tuple(None if axis in self.axes else extent for axis, extent in enumerate(data.shape))
        return Spec(data.dtype, extents, data.layout)

    def whole_batch(self, context: BatchContext, data: Column, *, align: Any, fill_value: Any) -> Column:
        """Pad all samples of the batch."""
        minimums = [
            extent if extent > 0 else max(sample.shape[axis] for sample in data)
            for axis, extent in zip(self.axes, self.shape, strict=True)
        ]
        steps = np.broadcast_to(align, (len(data), len(self.axes))).astype(np.int64)
        # Samples are padded one by one: their extents along the other axes may differ.
        return [self._pad(sample, minimums, *terms) for sample, *terms in zip(data, steps, fill_value, strict=True)]

    def _pad(self, data: Array, minimums: Sequence[int], steps: Array, fill_value: Array) -> Array:
        """Pad one sample to at least the minimum extents, rounded up to multiples of `steps`."""
        shape = list(data.shape)
        for axis, extent, step in zip(self.axes, minimums, steps.tolist(), strict=True):
            shape[axis] = _aligned(max(extent, data.shape[axis]), step)
        out = np.full(shape, fill_value.astype(data.dtype), data.dtype)
        out[tuple(slice(extent) for extent in data.shape)] = data
        return out


def _aligned(extent: Any, step: Any) -> Any:
    """Round an extent up to a multiple of `step`."""
    return -(-extent // step) * step


@operator("pad")
def pad(
    data: DataNode,
    *,
    fill_value: Annotated[float | DataNode, Argument()] = 0.0,
    axes: int | Sequence[int] | None = None,
    axis_names: str | None = None,
    shape: Annotated[int | Sequence[int] | DataNode | None, Argument(shape=(None,), low=1)] = None,
    align: Annotated[int | Sequence[int] | DataNode, Argument(shape=(None,), low=1)] = 1,
) -> DataNode:
    """Pad arrays at the end of their axes, to a shape or to the largest extents in the batch.

    Without `shape`, the result depends on the whole batch, which suits `Pipeline.run`. An iterator needs the same shape
    in every batch: set `shape`.

    Args:
        data: Arrays of any dtype and shape.
        fill_value: Padding value, converted to the dtype of the input; a number, or a node with one per sample.
        axes: Axes to pad, by number; all axes by default.
        axis_names: Axes to pad, by letter of the layout.
        shape: Minimum extents along these axes; -1 or 0 means the largest extent in the batch. Larger samples are not
            cropped, so 1 keeps the extent of each sample. A node has such numbers per sample, at least 1.
        align: Extents are rounded up to a multiple of this number; one number, one per axis, or a node with either per
            sample.

    Returns:
        Padded arrays in the dtype and layout of the input. The spec of a ragged input remains ragged because a sample
        may be larger than `shape`; a consumer that needs one shape expects the shape of sample 0.

    Raises:
        DefinitionError: An axis does not exist, `shape` or `align` does not have one number per axis, or `align` is
            below 1.

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
    numbers = axis_numbers(axes, axis_names or None, data.spec)
    align = 1 if number_count(align) == 0 else align
    check_number_count("align", align, len(numbers))
    extents: Any = (-1,) * len(numbers) if shape is None or number_count(shape) == 0 else shape
    if number_count(extents) not in (len(numbers), None):
        raise DefinitionError("shape needs one number per axis", given=shape, expected=len(numbers))
    if not isinstance(extents, DataNode):
        extents = tuple(np.ravel(extents).tolist())
        if not all(extent > 0 for extent in extents):
            return apply(PadToLargest(numbers, extents), data, align=align, fill_value=fill_value)
    return apply(PadTo(numbers, data.spec.dtype), data, shape=extents, align=align, fill_value=fill_value)
