"""pad: arrays to a common shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, cast

import numpy as np

from penstock.core.columns import Array, Column
from penstock.core.spec import Spec
from penstock.errors import DefinitionError
from penstock.graph.ir.argument_schema import Argument
from penstock.graph.ir.operator import BatchContext, Operator, WholeBatchKernel
from penstock.graph.layouts import axis_numbers
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.image.describe.steps import CropStep, FillStep, ImageInfo, Step
from penstock.image.image_operator import ImageOperator

Extents = int | Sequence[int] | DataNode


@dataclass(frozen=True)
class PadTo(ImageOperator):
    """A shape that is given, so that each sample is padded on its own.

    Args:
        axes: those that are padded.
        dtype: of the data.
    """

    axes: tuple[int, ...]
    dtype: np.dtype[Any]
    schema: ClassVar[Mapping[str, Argument]] = {
        "shape": Argument(shape=(None,), low=1),
        "align": Argument(shape=(None,), low=1),
        "fill_value": Argument(),
    }

    def infer(self, data: Spec, *, shape: Any, align: Any, fill_value: Any) -> Spec:
        """The shape that was given, where the samples are known to fit."""
        del fill_value
        extents = list(data.shape)
        if isinstance(shape, Spec) or isinstance(align, Spec):
            steps = wanted = [None] * len(self.axes)
        else:
            wanted, steps = list(shape), _per_axis(align, len(self.axes))
        for axis, least, step in zip(self.axes, wanted, steps, strict=True):
            own = extents[axis]
            extents[axis] = None if None in (own, least, step) else _aligned(max(own or 0, least or 0), step or 1)
        return Spec(data.dtype, tuple(extents), data.layout)

    def describe(self, images: ImageInfo, bits: Any, *, shape: Any, align: Any, fill_value: Any) -> Sequence[Step]:
        """A window that goes on beyond the end of each axis."""
        xp = images.xp
        steps = xp.broadcast_to(align, (images.rows, len(self.axes))).astype(np.int32)
        wanted = shape.astype(np.int32)
        cuts = [
            CropStep(
                axis,
                0 * images.sizes[axis],
                _aligned(xp.maximum(wanted[:, n], images.sizes[axis]), steps[:, n]),
                may_exceed=True,
            )
            for n, axis in enumerate(self.axes)
        ]
        return [*cuts, FillStep(fill_value.reshape(-1, 1).astype(self.dtype))]


@dataclass(frozen=True)
class PadToLargest(Operator, WholeBatchKernel):
    """The largest extents in the batch, along the axes for which `shape` has no positive number."""

    axes: tuple[int, ...]
    shape: tuple[int, ...]

    def infer(self, data: Spec, **_arguments: Any) -> Spec:
        """Unknown along the padded axes."""
        extents = tuple(None if axis in self.axes else extent for axis, extent in enumerate(data.shape))
        return Spec(data.dtype, extents, data.layout)

    def whole_batch(self, context: BatchContext, data: Column, *, align: Any, fill_value: Any) -> Column:
        """All samples."""
        largest = [max(sample.shape[axis] for sample in data) for axis in self._free]
        found = dict(zip(self._free, largest, strict=True))
        least = [found.get(axis, extent) for axis, extent in zip(self.axes, self.shape, strict=True)]
        padded: list[Array] = []
        for row, sample in enumerate(data):
            padded.append(self._padded(sample, least, _of_row(align, row), _of_row(fill_value, row)))
        return padded

    def _padded(self, data: Array, least: Sequence[int], align: Any, fill_value: Any) -> Array:
        """One sample, whose padded axes get at least these extents, rounded up to multiples of `align`."""
        shape = list(data.shape)
        for axis, extent, step in zip(self.axes, least, _per_axis(align, len(self.axes)), strict=True):
            shape[axis] = _aligned(max(extent, data.shape[axis]), step)
        out = np.full(shape, np.asarray(fill_value).astype(data.dtype), data.dtype)
        out[tuple(slice(extent) for extent in data.shape)] = data
        return out

    @cached_property
    def _free(self) -> list[int]:
        return [axis for axis, extent in zip(self.axes, self.shape, strict=True) if extent <= 0]


def _of_row(argument: Any, row: int) -> Any:
    """A sample's own argument, where a node gave a column of them; constants are tuples and numbers."""
    return cast(Any, argument)[row] if isinstance(argument, list | np.ndarray) else argument


def _per_axis(align: Any, axes: int) -> list[int]:
    return np.broadcast_to(np.ravel(align), (axes,)).tolist()


def _aligned(extent: Any, step: Any) -> Any:
    """The next multiple of `step`."""
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
    """Pad arrays at the end of their axes: to a shape, or to the largest extents in the batch.

    To the largest extents, which it does along axes without a `shape`, the result depends on the whole batch: it is for
    `Pipeline.run`. An iterator needs one shape for all batches, so there `shape` is to be given.

    Args:
        data: any dtype and shape.
        fill_value: the value of what is added, converted to the input's dtype; a node gives each sample its own.
        axes: the numbers of the axes to pad; all by default.
        axis_names: their letters in the layout, instead.
        shape: the extents along these axes; -1 (or 0) stands for the largest in the batch. What is larger is not cut,
            so that 1 keeps a sample's own extent. A node gives each sample its own, at least 1.
        align: extents are rounded up to multiples of this, one number or one per axis; a node gives each sample its
            own.

    Returns:
        Padded arrays, in the input's dtype and layout. A ragged input stays ragged in its spec, since a sample may be
        larger than `shape`; where a consumer needs one shape, that of sample 0 is expected of all.

    Raises:
        DefinitionError: axes that do not exist, or another number of extents.

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
    # what is empty says nothing, as in DALI
    numbers = axis_numbers(axes, axis_names or None, data.spec, "pad")
    shape = None if shape is None or not (isinstance(shape, DataNode) or np.size(shape)) else shape
    align = align if isinstance(align, DataNode) or np.size(align) else 1
    for name, value in (("shape", shape), ("align", align)):
        count = (*value.spec.shape, 1)[0] if isinstance(value, DataNode) else 1 if value is None else np.size(value)
        if value is not None and count not in (len(numbers), None) and not (name == "align" and count == 1):
            raise DefinitionError(f"fn.pad: {name} has a number per axis", given=value, expected=f"{len(numbers)}")
    if not isinstance(align, DataNode):
        align = tuple(np.ravel(align).tolist())  # a list is a column to a kernel that gets columns
        if min(align) < 1:
            raise DefinitionError("fn.pad: align is at least 1", given=align)
    if isinstance(shape, DataNode):
        return apply(PadTo(numbers, data.spec.dtype), data, shape=shape, align=align, fill_value=fill_value)
    extents = tuple(int(extent) for extent in np.ravel(shape)) if shape is not None else (-1,) * len(numbers)
    if all(extent > 0 for extent in extents):
        return apply(PadTo(numbers, data.spec.dtype), data, shape=extents, align=align, fill_value=fill_value)
    return apply(PadToLargest(numbers, extents), data, align=align, fill_value=fill_value)
