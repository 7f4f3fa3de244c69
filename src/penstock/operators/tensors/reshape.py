"""reshape: the same elements with another shape or layout."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from penstock.core import Array, Shape, Spec
from penstock.errors import DefinitionError
from penstock.graph import (
    BatchContext,
    DataNode,
    NotEmpty,
    Operator,
    Range,
    SampleContext,
    SampleKernel,
    ViewKernel,
    apply,
    check_layout,
    lookup,
    operator,
)
from penstock.operators.elementwise.cast import cast
from penstock.operators.elementwise.constant import constant
from penstock.operators.first_sample import vector_length
from penstock.operators.tensors.cat import cat, stack
from penstock.types import INT64

Extents = tuple[float, ...]


@dataclass(frozen=True)
class Reshape(Operator, ViewKernel):
    """Reshape whose target follows from the shape of the input.

    Args:
        shape: Extents of the output; -1 is derived from the others. None uses those of the input.
        relative: True if `shape` contains multiples of the input's extents.
        src_dims: For each axis of the output, the axis of the input with its extent; -1 for a new axis of extent 1.
            None is the order of the input.
        layout: Layout of the output; None keeps that of the input if the rank is the same.
    """

    shape: Extents | None
    relative: bool
    src_dims: tuple[int, ...] | None
    layout: str | None

    @property
    def needs_one_shape(self) -> bool:
        """True without -1: all samples then have the same number of elements and are assumed to have one shape."""
        return self.shape is not None and not self.relative and min(self.shape, default=0) >= 0

    def infer(self, data: Spec) -> Spec:
        """Return the new spec; extents are unknown where they follow from unknown ones."""
        shape = self._target(data.shape)
        # Otherwise the reshape of `batch` or `sample` finds the mismatch.
        known = [n for n in shape if n is not None]
        if data.dense and len(known) == len(shape) and math.prod(data.fixed_shape) != math.prod(known):
            raise DefinitionError(
                "the new shape changes the number of elements",
                given=f"{list(shape)} for samples of shape {list(data.shape)}",
                expected=f"{math.prod(data.fixed_shape)} elements",
                fix="use -1 for one extent",
            )
        return Spec(data.dtype, shape, check_layout(self.layout, data, len(shape)))

    def _target(self, old: Shape) -> Shape:
        source = self.src_dims if self.src_dims is not None else tuple(range(len(old)))
        if any(axis >= len(old) for axis in source):
            raise DefinitionError("src_dims contains an axis that does not exist", given=f"{source} of {old}")
        extents: Shape = tuple(1 if axis < 0 else old[axis] for axis in source)
        if self.shape is not None and self.relative:
            # A wildcard does not need an axis of the input.
            extents += (1,) * (len(self.shape) - len(extents))
            if any(factor >= 0 for factor in self.shape[len(source) :]):
                raise DefinitionError(
                    "rel_shape has more entries than the input has axes",
                    given=f"{self.shape} for {len(source)} axes",
                    fix="name the axes with src_dims",
                )
            pairs = zip(self.shape, extents, strict=False)
            extents = tuple(-1 if f < 0 else None if n is None else scaled_extent(f, n) for f, n in pairs)
        elif self.shape is not None:
            extents = tuple(int(extent) for extent in self.shape)
        return self._resolve_wildcard(extents, old)

    def _resolve_wildcard(self, extents: Shape, old: Shape) -> Shape:
        """Replace -1 by the extent that keeps the number of elements."""
        if -1 not in extents:
            return extents
        wildcard = extents.index(-1)
        before, after = extents[:wildcard], extents[wildcard + 1 :]
        if None in before + after or None in old:
            return (*before, None, *after)
        known, elements = (math.prod(n for n in shape if n is not None) for shape in (before + after, old))
        if not known or elements % known:
            raise DefinitionError("no extent fits in place of -1", given=f"{extents} for shape {old}")
        return (*before, elements // known, *after)

    def batch(self, context: BatchContext, data: Any) -> Any:
        """Return the batch in the new shape."""
        shape = self._target(tuple(data.shape[1:]))
        return data.reshape(context.rows, *(extent or 0 for extent in shape))


@dataclass(frozen=True)
class ReshapeTo(Operator, SampleKernel):
    """Reshape with one target per sample."""

    rank: int
    layout: str | None

    def infer(self, data: Spec, _shape: Spec) -> Spec:
        """Return a spec of unknown extents."""
        return Spec(data.dtype, (None,) * self.rank, check_layout(self.layout, data, self.rank))

    def sample(self, context: SampleContext, data: Array, shape: Array) -> Array:
        """Return the sample in the new shape."""
        return data.reshape(np.atleast_1d(shape).tolist())


@operator("reshape")
def reshape(
    data: DataNode,
    new_shape: DataNode | None = None,
    *,
    shape: int | Sequence[int] | DataNode | None = None,
    rel_shape: Annotated[float | Sequence[float] | DataNode, NotEmpty()] | None = None,
    src_dims: Annotated[int | Sequence[int], Range(-1)] | None = None,
    layout: str | None = None,
) -> DataNode:
    """Change the shape or layout of samples, without copying.

    If `shape` does not contain -1, all samples have the same number of elements. Samples from a decoder are then
    assumed to have the shape of sample 0, and a sample of another shape is an error. (DALI allows different shapes.)

    Args:
        data: Any shape, any dtype.
        new_shape: A node with one shape per sample.
        shape: New extents. One of them can be -1 and is derived from the others. [] makes a scalar. A node is the same
            as `new_shape`.
        rel_shape: New extents as multiples of the old ones; a negative one is derived from the others. A node sets them
            per sample.
        src_dims: For each new axis, the axis of `data` with its extent; -1 for a new axis of extent 1.
        layout: Layout of the result. By default, the layout of `data` is kept if the rank is the same.

    Returns:
        The same elements in the same order.

    Raises:
        DefinitionError: The number of elements changes, an extent is 0, or more than one is -1.

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
    check_source_axes(src_dims, rel_shape)
    node = new_shape if new_shape is not None else shape if isinstance(shape, DataNode) else None
    node = multiples(data, rel_shape, src_dims) if isinstance(rel_shape, DataNode) else node
    if sum(argument is not None for argument in (new_shape, shape, rel_shape)) > 1:
        raise DefinitionError("the shape is set more than once", fix="shape, rel_shape or a second input")
    if all(argument is None for argument in (new_shape, shape, rel_shape, src_dims, layout)):
        raise DefinitionError(
            "the new shape is missing", expected="shape, rel_shape, src_dims, layout or a second input"
        )
    if node is not None:
        return apply(ReshapeTo(vector_length(node, "shape"), layout), data, node)
    extents = _extents(rel_shape if shape is None else shape)
    name = "rel_shape" if shape is None else "shape"
    # As in DALI, any negative extent is derived from the others.
    extents = extents and tuple(-1 if extent < 0 else extent for extent in extents)
    if extents is not None and (0 in extents or sum(extent < 0 for extent in extents) > 1):
        raise DefinitionError(f"{name}: extents must be positive, except for at most one -1", given=extents)
    axes = _extents(src_dims)
    change = Reshape(extents, rel_shape is not None, None if axes is None else tuple(map(int, axes)), layout)
    return apply(change, data)


def check_source_axes(
    src_dims: int | Sequence[int] | None, rel_shape: float | Sequence[float] | DataNode | None
) -> None:
    """Check that each axis of the result has one factor.

    Raises:
        DefinitionError: `src_dims` and `rel_shape` differ in length.
    """
    if src_dims is None or rel_shape is None:
        return
    factors = vector_length(rel_shape, "rel_shape") if isinstance(rel_shape, DataNode) else np.size(rel_shape)
    if np.size(src_dims) != factors:
        raise DefinitionError(
            "src_dims and rel_shape need one entry per axis of the result",
            given=f"{np.size(src_dims)} and {factors} entries",
        )


def multiples(data: DataNode, factors: DataNode, src_dims: int | Sequence[int] | None = None) -> DataNode:
    """Return the extents of each sample times factors, and -1 for negative factors.

    Args:
        data: The samples.
        factors: One factor per axis of the result.
        src_dims: For each axis of the result, the axis of `data` with its extent; None for the order of `data`.

    Raises:
        DefinitionError: The factors are not a vector.
    """
    count, extents = vector_length(factors, "rel_shape"), data.shape()
    if src_dims is None:
        extents = extents[:count]
    else:
        # An axis of extent 1 after the others stands for -1.
        extents = cat(extents, constant(np.ones(1, np.int64), dtype=INT64))
        extents = stack(*(extents[axis] for axis in np.atleast_1d(src_dims).tolist()))
    # `penstock.math` is above this module in the import order.
    return lookup("arithmetic.max")(cast(extents * factors, dtype=INT64), -1)


def scaled_extent(factor: float, extent: int) -> int:
    """Return a multiple of an extent, rounded, since factors such as 1 / 3 are inexact.

    The product is a float32 and halves round up, as in DALI and `multiples`. Whole factors also suit large extents.
    """
    whole = float(factor).is_integer()
    return int(factor) * extent if whole else math.floor(np.float32(factor) * np.float32(extent) + np.float32(0.5))


def flatten_matrices(matrix: DataNode, count: int) -> DataNode:
    """Flatten the matrix of each sample, or of each frame, to `count` numbers; leave flat ones unchanged.

    Args:
        matrix: Matrices or vectors.
        count: Number of elements; -1 if it is unknown, which only matrices per sample may be.
    """
    framed = matrix.spec.layout[:1] == "F"
    if len(matrix.spec.shape) != 2 + framed or (framed and count < 0):
        return matrix
    return reshape(matrix, shape=[-1, count], layout="F*") if framed else reshape(matrix, shape=[count])


def _extents(values: Any) -> Extents | None:
    return None if values is None else tuple(np.atleast_1d(np.asarray(values)).tolist())
