"""Operator that pads arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np

from penstock.core import Array, Column, Spec
from penstock.errors import DefinitionError
from penstock.graph import Argument, BatchContext, DataNode, Operator, WholeBatchKernel, apply, axis_numbers, operator
from penstock.image.describe.steps import CropStep, FillStep, ImageInfo, Step
from penstock.image.image_operator import ImageOperator

Extents = int | Sequence[int] | DataNode


@dataclass(frozen=True)
class PadTo(ImageOperator):
    """Padding to a known shape. Samples do not depend on each other.

    Args:
        axes: Axes to pad.
        dtype: Dtype of the data.
    """

    axes: tuple[int, ...]
    dtype: np.dtype[Any]
    schema: ClassVar[Mapping[str, Argument]] = {
        "shape": Argument(shape=(None,), low=1),
        "align": Argument(shape=(None,), low=1),
        "fill_value": Argument(),
    }

    def infer(self, data: Spec, *, shape: Any, align: Any, fill_value: Any) -> Spec:
        """Return the spec, with the padded extents of samples whose extents are known."""
        del fill_value
        extents = list(data.shape)
        if isinstance(shape, Spec) or isinstance(align, Spec):
            steps = minimums = [None] * len(self.axes)
        else:
            minimums, steps = list(shape), _per_axis(align, len(self.axes))
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
        cuts = [
            CropStep(
                axis,
                0 * images.sizes[axis],
                _aligned(xp.maximum(minimums[:, n], images.sizes[axis]), steps[:, n]),
                may_exceed=True,
            )
            for n, axis in enumerate(self.axes)
        ]
        return [*cuts, FillStep(fill_value.reshape(-1, 1).astype(self.dtype))]


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
        # Samples are padded one by one: their extents along the other axes may differ.
        return [
            self._pad(sample, minimums, _of_row(align, row), _of_row(fill_value, row))
            for row, sample in enumerate(data)
        ]

    def _pad(self, data: Array, minimums: Sequence[int], align: Any, fill_value: Any) -> Array:
        """Pad one sample to at least the minimum extents, rounded up to multiples of `align`."""
        shape = list(data.shape)
        for axis, extent, step in zip(self.axes, minimums, _per_axis(align, len(self.axes)), strict=True):
            shape[axis] = _aligned(max(extent, data.shape[axis]), step)
        out = np.full(shape, np.asarray(fill_value).astype(data.dtype), data.dtype)
        out[tuple(slice(extent) for extent in data.shape)] = data
        return out


def _of_row(argument: Any, row: int) -> Any:
    """Return the argument of one sample: an entry of a column if a node gave it, otherwise the constant."""
    return cast(Any, argument)[row] if isinstance(argument, list | np.ndarray) else argument


def _per_axis(align: Any, axes: int) -> list[int]:
    return np.broadcast_to(np.ravel(align), (axes,)).tolist()


def _aligned(extent: Any, step: Any) -> Any:
    """Round an extent up to a multiple of `step`."""
    return -(-extent // step) * step


@operator("pad")
def pad(
    data: DataNode,
    *,
    fill_value: float | DataNode = 0.0,
    axes: int | Sequence[int] | None = None,
    axis_names: str | None = None,
    shape: Extents | None = None,
    align: Extents = 1,
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
    shape = None if shape is None or not (isinstance(shape, DataNode) or np.size(shape)) else shape
    align = align if isinstance(align, DataNode) or np.size(align) else 1
    for name, value in (("shape", shape), ("align", align)):
        count = (*value.spec.shape, 1)[0] if isinstance(value, DataNode) else 1 if value is None else np.size(value)
        if value is not None and count not in (len(numbers), None) and not (name == "align" and count == 1):
            raise DefinitionError(f"{name} needs one number per axis", given=value, expected=f"{len(numbers)}")
    if not isinstance(align, DataNode):
        # A tuple, because a whole-batch kernel takes a list for a column with an entry per sample.
        align = tuple(np.ravel(align).tolist())
        if min(align) < 1:
            raise DefinitionError("align must be at least 1", given=align)
    if isinstance(shape, DataNode):
        return apply(PadTo(numbers, data.spec.dtype), data, shape=shape, align=align, fill_value=fill_value)
    extents = tuple(int(extent) for extent in np.ravel(shape)) if shape is not None else (-1,) * len(numbers)
    if all(extent > 0 for extent in extents):
        return apply(PadTo(numbers, data.spec.dtype), data, shape=extents, align=align, fill_value=fill_value)
    return apply(PadToLargest(numbers, extents), data, align=align, fill_value=fill_value)
