"""getitem: indexing and slicing with Python's brackets."""

from collections.abc import Mapping, Sequence
from operator import index as as_index
from typing import Any, cast

import numpy as np

from penstock.core import Array, Spec
from penstock.core.dataclass import dataclass
from penstock.errors import ArgumentTypeError, DefinitionError, short_repr
from penstock.graph import (
    BatchContext,
    BatchKernel,
    DataNode,
    Operator,
    SampleContext,
    SampleKernel,
    apply,
    current_trace,
    operator,
)
from penstock.operators.elementwise.constant import constant
from penstock.types import Constant, NewAxis


@dataclass(frozen=True)
class IndexItem:
    """Index along an axis: a constant, or the name of the argument that contains it."""

    index: int | str


@dataclass(frozen=True)
class SliceItem:
    """Slice along an axis. Limits and step are constants or names of arguments."""

    start: int | str | None = None
    stop: int | str | None = None
    step: int | str | None = None

    @property
    def varies(self) -> bool:
        """True if the slice can differ between samples."""
        return any(isinstance(limit, str) for limit in (self.start, self.stop, self.step))


Item = IndexItem | SliceItem | NewAxis


@dataclass(frozen=True)
class Index(Operator, SampleKernel, BatchKernel):
    """Indexing by one item per axis, with new axes in between."""

    items: tuple[Item, ...]

    def infer(self, value: Spec, **arguments: Spec) -> Spec:
        """Return the spec of the selected part."""
        if self._axes > len(value.shape):
            raise DefinitionError("too many indices", given=f"{self._axes} for a value of shape {value.shape}")
        for name, spec in arguments.items():
            if spec.dtype.kind not in "iu" or spec.shape not in ((), (1,), (None,)):
                raise DefinitionError("an index must be one integer per sample", given=f"{name}: {spec}")
        extents = iter(enumerate(value.shape))
        shape: list[int | None] = []
        layout = ""
        named = bool(value.layout)
        for item in (*self.items, *(SliceItem() for _ in range(len(value.shape) - self._axes))):
            if isinstance(item, NewAxis):
                shape.append(1)
                layout += item.layout
                # A layout names all axes or none.
                named = named and bool(item.layout)
                continue
            axis, extent = next(extents)
            if isinstance(item, SliceItem):
                shape.append(_slice_extent(item, extent))
                layout += value.layout[axis : axis + 1]
        return Spec(value.dtype, tuple(shape), layout if named else "")

    @property
    def _axes(self) -> int:
        return sum(not isinstance(item, NewAxis) for item in self.items)

    def sample(self, context: SampleContext, value: Array, **arguments: Any) -> Array:
        """Return the selected part of one sample. It serves ragged values and slices that differ per sample."""
        return value[tuple(_python_index(item, arguments) for item in self.items)]

    def batch(self, context: BatchContext, value: Any, **arguments: Any) -> Any:
        """Return the selected part of each row. Only indexes, not slices, can differ between rows."""
        # First, indexes that differ between rows; their axes stay with extent 1, so that other axes keep their numbers.
        # Then, constant items. Last, the reshape removes the axes of extent 1.
        xp, axis = context.xp, 1
        for item in self.items:
            if isinstance(item, IndexItem) and isinstance(item.index, str):
                value = _take(xp, value, arguments[item.index], axis)
            axis += not isinstance(item, NewAxis)
        static = (SliceItem() if isinstance(i, IndexItem) and isinstance(i.index, str) else i for i in self.items)
        value = value[(slice(None), *(_python_index(item, {}) for item in static))]
        left = [item for item in self.items if not (isinstance(item, IndexItem) and isinstance(item.index, int))]
        removed = {axis for axis, item in enumerate(left, start=1) if isinstance(item, IndexItem)}
        return value.reshape(tuple(extent for axis, extent in enumerate(value.shape) if axis not in removed))


def _take(xp: Any, value: Any, index: Any, axis: int) -> Any:
    """Select one entry per row along an axis, which stays with extent 1."""
    extent = value.shape[axis]
    flat = index.reshape(-1).astype(np.int32)
    if xp is np and ((flat < -extent) | (flat >= extent)).any():
        raise IndexError(f"index {flat.tolist()} along an axis of {extent}")
    # A device program cannot raise errors, so out-of-range indexes are clipped there.
    flat = xp.clip(xp.where(flat < 0, flat + np.int32(extent), flat), 0, extent - 1)
    return xp.take_along_axis(value, flat.reshape(-1, *(1,) * (value.ndim - 1)), axis=axis)


def _slice_extent(item: SliceItem, extent: int | None) -> int | None:
    if extent is None or item.varies:
        # A slice may cut an unknown extent or not, unless it selects the whole axis.
        return extent if item == SliceItem() else None
    return len(range(*cast(slice, _python_index(item, {})).indices(extent)))


def _python_index(item: Item, arguments: Mapping[str, Any]) -> Any:
    def number(limit: int | str | None) -> int | None:
        return int(np.asarray(arguments[limit]).item()) if isinstance(limit, str) else limit

    match item:
        case NewAxis():
            return None
        case IndexItem():
            return number(item.index)
        case SliceItem():
            return slice(number(item.start), number(item.stop), number(item.step))


@operator("getitem")
def getitem(value: DataNode, *indices: Any) -> DataNode:
    """Select a part of each sample, as ``value[indices]`` does.

    Args:
        value: Any shape, any dtype.
        *indices: One per axis: an integer, a `types.Constant`, a slice, or a node with one integer per sample. Negative
            numbers count from the end. `penstock.newaxis` adds an axis. ... selects all remaining axes. None selects a
            whole axis, as in DALI; it does not add one.

    Returns:
        The selected part. Letters of the layout follow their axes.

    Raises:
        DefinitionError: There are too many indices, or one is out of range.
        ArgumentTypeError: An index has another type.

    Example:
        >>> import penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=2)
        >>> with pipeline:
        ...     pairs = fn.readers.arrays([[1, 2], [3, 4]])
        ...     pipeline.set_outputs(pairs[0], pairs[::-1])
        >>> [output.as_array().tolist() for output in pipeline.run()]
        [[1, 3], [[2, 1], [4, 3]]]
    """
    arguments: dict[str, Any] = {}

    def number(index: Any) -> Any:
        if isinstance(index, Constant) and index.device is not None:
            # As in DALI, a constant with a device is a node. It is never out of range in a branch that no sample takes.
            index = constant(index)
        if isinstance(index, DataNode):
            arguments[name := f"index{len(arguments)}"] = index
            return name
        if index is None:
            return None
        try:
            return as_index(index.array() if isinstance(index, Constant) else index)
        except TypeError:
            raise ArgumentTypeError("an index must be an integer", given=short_repr(index)) from None

    items: list[Item] = []
    for index in _expanded(indices, value.ndim):
        match index:
            case slice():
                index = cast(Any, index)
                step = number(index.step)
                if step == 0:
                    raise ArgumentTypeError("the step of a slice must not be 0", given=short_repr(index))
                items.append(SliceItem(number(index.start), number(index.stop), step))
            case NewAxis():
                items.append(index)
            case None:
                items.append(SliceItem())
            case _:
                position, axis = number(index), sum(not isinstance(item, NewAxis) for item in items)
                if isinstance(position, int) and axis < value.ndim:
                    position = number(_check_range(position, value.spec.shape[axis]))
                items.append(IndexItem(position))
    return apply(Index(tuple(items)), value, **arguments)


def _check_range(index: int, extent: int | None) -> Any:
    """Return the index, as a node if it is out of range within a conditional branch.

    Raises:
        DefinitionError: It is out of range outside of branches, so for all samples.
    """
    if extent is None or -extent <= index < extent:
        return index
    if current_trace().guard is None:
        raise DefinitionError("the index is out of range", given=f"{index} along an axis of {extent}")
    # Perhaps no sample takes the branch. A node is checked only for samples that do.
    return constant(index)


def _expanded(indices: Sequence[Any], ndim: int) -> list[Any]:
    """Replace an ellipsis by slices of whole axes."""
    positions = [position for position, index in enumerate(indices) if index is Ellipsis]
    if not positions:
        return list(indices)
    if len(positions) > 1:
        raise DefinitionError("an index can contain ... only once", given=f"{len(positions)} times")
    first, indexed = positions[0], sum(not isinstance(index, NewAxis) for index in indices) - 1
    return [*indices[:first], *[slice(None)] * max(0, ndim - indexed), *indices[first + 1 :]]
