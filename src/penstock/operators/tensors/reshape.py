"""reshape: the same elements under another shape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.core.columns import Array
from penstock.core.spec import Shape, Spec
from penstock.errors import DefinitionError
from penstock.graph.ir.operator import BatchContext, Operator, SampleContext, SampleKernel, ViewKernel
from penstock.graph.layouts import check_layout
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import lookup, operator
from penstock.graph.tracing.trace import DataNode
from penstock.operators.elementwise.cast import cast
from penstock.operators.first_sample import vector_length
from penstock.types import INT64

Extents = tuple[float, ...]


@dataclass(frozen=True)
class Reshape(Operator, ViewKernel):
    """A shape that follows from the input's.

    Args:
        shape: the output's extents, one of them -1 for what is left; None takes the input's.
        relative: whether `shape` counts in multiples of the input's extents.
        src_dims: per output axis the input's axis that gives its extent, -1 for a new axis of extent 1; None: in order.
        layout: of the output; None keeps the input's where the rank is the same.
    """

    shape: Extents | None
    relative: bool
    src_dims: tuple[int, ...] | None
    layout: str | None

    @property
    def needs_one_shape(self) -> bool:
        """A shape without a wildcard: all samples have as many elements, and are taken to have one shape."""
        return self.shape is not None and not self.relative and min(self.shape, default=0) >= 0

    def infer(self, data: Spec) -> Spec:
        """The new shape, as far as the input's is known."""
        shape = self._target(data.shape)
        if (
            data.dense
            and None not in shape
            and math.prod(data.fixed_shape) != math.prod(n for n in shape if n is not None)
        ):
            raise DefinitionError(
                "fn.reshape keeps the number of elements",
                given=f"{list(shape)} for samples of shape {list(data.shape)}",
                expected=f"{math.prod(data.fixed_shape)} elements",
                fix="use -1 for one extent",
            )
        return Spec(data.dtype, shape, check_layout(self.layout, data, len(shape), "fn.reshape"))

    def _target(self, given: Shape) -> Shape:
        source = self.src_dims if self.src_dims is not None else tuple(range(len(given)))
        if any(axis >= len(given) for axis in source):
            raise DefinitionError("fn.reshape: src_dims names no axis of the input", given=f"{source} of {given}")
        extents: Shape = tuple(1 if axis < 0 else given[axis] for axis in source)
        if self.shape is not None and self.relative:
            extents += (1,) * (len(self.shape) - len(extents))  # a wildcard needs no axis
            if any(factor >= 0 for factor in self.shape[len(source) :]):
                raise DefinitionError(
                    "fn.reshape: rel_shape has more extents than there are axes",
                    given=f"{self.shape} for {len(source)} axes",
                    fix="name the axes with src_dims",
                )
            pairs = zip(self.shape, extents, strict=False)
            extents = tuple(-1 if f < 0 else None if n is None else round(f * n) for f, n in pairs)
        elif self.shape is not None:
            extents = tuple(int(extent) for extent in self.shape)
        return self._fill_in(extents, given)

    def _fill_in(self, extents: Shape, given: Shape) -> Shape:
        """The extents with what is left in place of -1."""
        if -1 not in extents:
            return extents
        at = extents.index(-1)
        others = extents[:at] + extents[at + 1 :]
        if None in others or None in given:
            return (*extents[:at], None, *extents[at + 1 :])
        known, elements = (
            math.prod(n for n in others if n is not None),
            math.prod(n for n in given if n is not None),
        )
        if not known or elements % known:
            raise DefinitionError("fn.reshape: no extent fits in place of -1", given=f"{extents} for shape {given}")
        return (*extents[:at], elements // known, *extents[at + 1 :])

    def batch(self, context: BatchContext, data: Any) -> Any:
        """The same elements."""
        shape = self._target(tuple(data.shape[1:]))
        return data.reshape(context.rows, *(extent or 0 for extent in shape))


@dataclass(frozen=True)
class ReshapeTo(Operator, SampleKernel):
    """A shape of its own for each sample."""

    rank: int
    layout: str | None

    def infer(self, data: Spec, _shape: Spec) -> Spec:
        """Any shape of that rank."""
        return Spec(data.dtype, (None,) * self.rank, check_layout(self.layout, data, self.rank, "fn.reshape"))

    def sample(self, context: SampleContext, data: Array, shape: Array) -> Array:
        """The same elements."""
        return data.reshape(np.atleast_1d(shape).tolist())


@operator("reshape")
def reshape(
    data: DataNode,
    new_shape: DataNode | None = None,
    *,
    shape: int | Sequence[int] | DataNode | None = None,
    rel_shape: float | Sequence[float] | DataNode | None = None,
    src_dims: int | Sequence[int] | None = None,
    layout: str | None = None,
) -> DataNode:
    """Give the elements another shape, without moving them.

    A `shape` without -1 says that all samples have as many elements; samples that come from a decoder are then taken
    to have one shape, that of sample 0, and a sample of another is an error. (DALI lets them differ.)

    Args:
        data: any shape, any dtype.
        new_shape: a node with a shape of its own for each sample.
        shape: the new extents; one of them may be -1 and takes what is left. [] gives a scalar. A node counts as
            `new_shape`.
        rel_shape: the new extents as multiples of the old; a negative one takes what is left. Or a node with those of
            each sample.
        src_dims: the axis of `data` whose extent each new axis gets; -1 for a new axis of extent 1.
        layout: the names of the new axes. Without it, the old ones are kept if there are as many axes.

    Returns:
        The same elements in the same order.

    Raises:
        DefinitionError: the numbers of elements differ, an extent is 0, more than one is -1.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=2)
        >>> with pipeline:
        ...     images = fn.readers.arrays(np.zeros((2, 28, 28, 1), np.uint8))
        ...     pipeline.set_outputs(fn.reshape(images, shape=[-1]))
        >>> pipeline.run()[0].as_array().shape
        (2, 784)
    """
    node = new_shape if new_shape is not None else shape if isinstance(shape, DataNode) else None
    node = multiples(data, rel_shape) if isinstance(rel_shape, DataNode) else node
    if sum(given is not None for given in (new_shape, shape, rel_shape)) > 1:
        raise DefinitionError("fn.reshape: the shape is given more than once", fix="shape, rel_shape or a second input")
    if node is not None:
        return apply(ReshapeTo(vector_length(node, "fn.reshape: a shape"), layout), data, node)
    extents = _extents(rel_shape if shape is None else shape)
    if extents is not None and (0 in extents or sum(extent < 0 for extent in extents) > 1):
        raise DefinitionError("fn.reshape: extents are positive, at most one is -1", given=extents)
    axes = _extents(src_dims)
    change = Reshape(extents, rel_shape is not None, None if axes is None else tuple(map(int, axes)), layout)
    return apply(change, data)


def multiples(data: DataNode, factors: DataNode) -> DataNode:
    """The extents of each sample times some factors; a negative one makes -1.

    Raises:
        DefinitionError: the factors are no vector.
    """
    count = vector_length(factors, "fn.reshape: rel_shape")
    return lookup("arithmetic.max")(cast(data.shape()[:count] * factors, dtype=INT64), -1)


def _extents(given: Any) -> Extents | None:
    return None if given is None else tuple(np.atleast_1d(np.asarray(given)).tolist())
