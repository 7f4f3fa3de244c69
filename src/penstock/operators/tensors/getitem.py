"""Indexing: parts of a value, as Python's brackets spell them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import index as as_index
from typing import Any, cast

import numpy as np

from penstock.core.columns import Array
from penstock.core.spec import Spec
from penstock.errors import ArgumentTypeError, DefinitionError, short_repr
from penstock.graph.ir.operator import BatchContext, BatchKernel, Operator, SampleContext, SampleKernel
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode, current_trace
from penstock.operators.elementwise.constant import constant
from penstock.types import Constant, NewAxis


@dataclass(frozen=True)
class IndexItem:
    """One number along an axis: a constant, or the name of the argument that holds it."""

    index: int | str


@dataclass(frozen=True)
class SliceItem:
    """A slice along an axis; its limits and its step are constants or names of arguments."""

    start: int | str | None = None
    stop: int | str | None = None
    step: int | str | None = None

    @property
    def varies(self) -> bool:
        """Whether it differs from sample to sample."""
        return any(isinstance(each, str) for each in (self.start, self.stop, self.step))


Item = IndexItem | SliceItem | NewAxis


@dataclass(frozen=True)
class Index(Operator, SampleKernel, BatchKernel):
    """One item per axis, and new axes in between."""

    items: tuple[Item, ...]

    def infer(self, value: Spec, **arguments: Spec) -> Spec:
        """The shape that is left."""
        if self._axes > len(value.shape):
            raise DefinitionError("too many indices", given=f"{self._axes} for a value of shape {value.shape}")
        for name, spec in arguments.items():
            if spec.dtype.kind not in "iu" or spec.shape not in ((), (1,), (None,)):
                raise DefinitionError("an index is one whole number per sample", given=f"{name}: {spec}")
        extents = iter(enumerate(value.shape))
        shape: list[int | None] = []
        layout = ""
        named = bool(value.layout)
        for item in (*self.items, *(SliceItem() for _ in range(len(value.shape) - self._axes))):
            if isinstance(item, NewAxis):
                shape.append(1)
                layout += item.layout
                named = named and bool(item.layout)
                continue
            axis, extent = next(extents)
            if isinstance(item, SliceItem):
                shape.append(_cut_extent(item, extent))
                layout += value.layout[axis : axis + 1]
        return Spec(value.dtype, tuple(shape), layout if named else "")

    @property
    def _axes(self) -> int:
        return sum(not isinstance(item, NewAxis) for item in self.items)

    def sample(self, context: SampleContext, value: Array, **arguments: Any) -> Array:
        """The part of one sample."""
        return value[tuple(_python_index(item, arguments) for item in self.items)]

    def batch(self, context: BatchContext, value: Any, **arguments: Any) -> Any:
        """The part of each row. Only single numbers can differ from row to row."""
        xp, axis = context.xp, 1
        for item in self.items:
            if isinstance(item, IndexItem) and isinstance(item.index, str):
                value = _take(xp, value, arguments[item.index], axis)
                axis += 1
            elif not isinstance(item, NewAxis):
                axis += 1
        static = (SliceItem() if isinstance(i, IndexItem) and isinstance(i.index, str) else i for i in self.items)
        value = value[(slice(None), *(_python_index(item, {}) for item in static))]
        left = [item for item in self.items if not (isinstance(item, IndexItem) and isinstance(item.index, int))]
        taken = {axis for axis, item in enumerate(left, start=1) if isinstance(item, IndexItem)}
        return value.reshape(tuple(extent for axis, extent in enumerate(value.shape) if axis not in taken))


def _take(xp: Any, value: Any, index: Any, axis: int) -> Any:
    """One entry per row along an axis, which stays with extent 1."""
    extent = value.shape[axis]
    flat = index.reshape(-1).astype(np.int32)
    if xp is np and ((flat < -extent) | (flat >= extent)).any():
        raise IndexError(f"index {flat.tolist()} along an axis of {extent}")
    flat = xp.clip(xp.where(flat < 0, flat + np.int32(extent), flat), 0, extent - 1)
    return xp.take_along_axis(value, flat.reshape(-1, *(1,) * (value.ndim - 1)), axis=axis)


def _cut_extent(cut: SliceItem, extent: int | None) -> int | None:
    if extent is None or cut.varies:
        return extent if cut == SliceItem() else None
    return len(range(*cast(slice, _python_index(cut, {})).indices(extent)))


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
    """The part of a value that brackets pick: ``value[indices]``.

    Args:
        value: any shape, any dtype.
        *indices: per axis a whole number (or `types.Constant`), a slice, or a node with one number per sample;
            `penstock.newaxis` adds an axis; None keeps an axis whole, as in DALI; ... keeps all axes that are left.
            Negative numbers count from the end.

    Returns:
        The part. The letters of the layout go with their axes.

    Raises:
        DefinitionError: too many indices, or one outside.
        ArgumentTypeError: an index of another type.

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
            index = constant(index)  # a node, as in DALI: no sample of a branch that is not taken is out of bounds
        if isinstance(index, DataNode):
            arguments[name := f"index{len(arguments)}"] = index
            return name
        if index is None:
            return None
        try:
            return as_index(index.array() if isinstance(index, Constant) else index)
        except TypeError:
            raise ArgumentTypeError("an index is a whole number", given=short_repr(index)) from None

    items: list[Item] = []
    for index in _expanded(indices, value.ndim):
        match index:
            case slice():
                cut = cast(Any, index)
                step = number(cut.step)
                if step == 0:
                    raise ArgumentTypeError("the step of a slice is not 0", given=short_repr(cut))
                items.append(SliceItem(number(cut.start), number(cut.stop), step))
            case NewAxis():
                items.append(index)
            case None:
                items.append(SliceItem())
            case _:
                at, axis = number(index), sum(not isinstance(item, NewAxis) for item in items)
                at = number(_reached(at, value.spec.shape[axis])) if isinstance(at, int) and axis < value.ndim else at
                items.append(IndexItem(at))
    return apply(Index(tuple(items)), value, **arguments)


def _reached(at: int, extent: int | None) -> Any:
    """A number along an axis; a node, if it lies outside in a branch, which other samples may take.

    Raises:
        DefinitionError: it lies outside for all samples.
    """
    if extent is None or -extent <= at < extent:
        return at
    if current_trace().guard is None:
        raise DefinitionError("the index lies outside", given=f"{at} along an axis of {extent}")
    return constant(at)


def _expanded(indices: Sequence[Any], ndim: int) -> list[Any]:
    """The indices with whole axes in the place of an ellipsis."""
    places = [place for place, index in enumerate(indices) if index is Ellipsis]
    if not places:
        return list(indices)
    if len(places) > 1:
        raise DefinitionError("an index has ... at most once", given=f"{len(places)} times")
    named = sum(not isinstance(index, NewAxis) for index in indices) - 1
    return [*indices[: places[0]], *[slice(None)] * max(0, ndim - named), *indices[places[0] + 1 :]]
