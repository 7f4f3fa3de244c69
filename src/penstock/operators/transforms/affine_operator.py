"""What operators that make affine maps share: maps as matrices, and how two become one."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from penstock.core.spec import Spec
from penstock.errors import ArgumentTypeError, DefinitionError
from penstock.graph.ir.operator import BatchContext
from penstock.graph.ir.per_frame_kernel import PerFrameKernel, each_frame
from penstock.graph.tracing.trace import DataNode, as_value


@dataclass(frozen=True)
class AffineOperator(PerFrameKernel):
    """A map of n-dimensional points, as a matrix of n rows and n + 1 columns, after another one or before it.

    Args:
        ndim: n; None where only the data tell.
        reverse: whether the input is applied after it.
    """

    ndim: int | None
    reverse: bool
    per_frame_inputs: ClassVar[bool] = True

    def infer(self, *before: Spec, **_arguments: Any) -> Spec:
        """A matrix of float32."""
        return Spec(np.dtype(np.float32), (None, None) if self.ndim is None else (self.ndim, self.ndim + 1))

    def batch(self, context: BatchContext, *before: Any, **arguments: Any) -> Any:
        """Computed in float32, as DALI does."""
        ndim = self.ndim or (before[0].shape[1] if before else self.told(arguments))
        if before and before[0].shape[1:] != (ndim, ndim + 1):
            raise ValueError(f"the map that is given has shape {before[0].shape[1:]}, not {(ndim, ndim + 1)}")
        linear, shift = self.parts(context.xp, ndim, arguments)
        made = context.xp.concatenate([linear, shift[..., None]], axis=2).astype(np.float32)
        if not before:
            return context.xp.broadcast_to(made, (context.rows, *made.shape[1:]))
        pair = (made, before[0]) if not self.reverse else (before[0], made)
        return compose(context.xp, *pair)

    def told(self, given: Mapping[str, Any]) -> int:
        """The number of dimensions that the arguments tell."""
        return max(values.shape[1] for values in given.values())

    @abstractmethod
    def parts(self, xp: Any, ndim: int, given: Mapping[str, Any]) -> tuple[Any, Any]:
        """The linear part, (rows, n, n), and the vector that is added, (rows, n)."""


def compose(xp: Any, after: Any, before: Any) -> Any:
    """The map that applies `before` first, then `after`: both (rows, n, n + 1), and so is the result.

    Products are added up one after the other, not by the device's matrix units, which may round them to fewer bits.
    """
    ndim = after.shape[1]
    total: Any = 0
    for at in range(ndim):
        total = total + after[:, :, at, None] * before[:, at, None, :]
    columns = [total[..., :ndim], (total[..., ndim] + after[..., ndim])[..., None]]
    return xp.concatenate(columns, axis=2)


def center_offset(xp: Any, linear: Any, center: Any) -> Any:
    """The vector that makes a linear map one about a centre: what it does not do to the centre, (rows, n)."""
    if center is None:
        return xp.zeros(linear.shape[:2], np.float32)
    center = per_dimension(xp, center, linear.shape[1])
    moved: Any = 0
    for at in range(linear.shape[2]):
        moved = moved + linear[:, :, at] * center[:, at, None]
    return center - moved


def extent(given: Any) -> int | None:
    """How many numbers an argument has per sample or frame; None where none is given, or nobody can tell."""
    if given is None:
        return None
    if not isinstance(given, DataNode):
        return int(np.size(given))
    spec = each_frame(given.spec)
    return math.prod(spec.fixed_shape) if spec.dense else None


def dimensions(kind: str, transform: Any, told: int | None) -> int | None:
    """The number of dimensions of a map, which an input, where there is one, must have, too.

    Args:
        kind: the operator's public name.
        transform: the input, or None.
        told: what the arguments say; None where they do not.

    Raises:
        ArgumentTypeError: the input is no float32.
        DefinitionError: the input has another number of dimensions, or there are none.
    """
    if told is not None and told < 1:
        raise DefinitionError(f"fn.{kind} maps points of one dimension or more", given=f"{told} dimensions")
    if transform is None:
        return told
    spec = each_frame(as_value(transform).spec)
    check_transform(kind, spec, told)
    rows, columns = spec.shape
    return told or rows or (columns - 1 if columns else None)


def check_transform(kind: str, given: Spec, ndim: int | None = None) -> None:
    """Check that a value may be an affine map.

    Args:
        kind: the operator's public name.
        given: what is known of the value.
        ndim: of the points; None for any number.

    Raises:
        ArgumentTypeError: it is no float32.
        DefinitionError: its shape is not (n, n + 1), or n is another number.
    """
    if given.dtype != np.float32:
        raise ArgumentTypeError(
            f"fn.{kind} takes a map of float32", given=given, fix="fn.cast(matrix, dtype=types.FLOAT)"
        )
    shape = given.shape
    known = {n - less for less, n in enumerate(shape) if n is not None} | ({ndim} if ndim else set[int]())
    if len(shape) != 2 or len(known) > 1:
        size = "n, n + 1" if ndim is None else f"{ndim}, {ndim + 1}"
        raise DefinitionError(f"fn.{kind}: the map that is given has another form", given=given, expected=f"({size})")


def check_center(kind: str, center: Any, ndim: int | None) -> None:
    """Check that a centre has a number for each dimension, or one for all, as far as that is known.

    Raises:
        DefinitionError: it has not.
    """
    count = extent(center)
    if None not in (count, ndim) and count not in (1, ndim):
        raise DefinitionError(
            f"fn.{kind}: the centre has another number of dimensions", given=center, expected=f"{ndim} numbers"
        )


def diagonal(xp: Any, factors: Any) -> Any:
    """Matrices, (rows, n, n), that multiply each coordinate by one of n factors, (rows, n)."""
    return xp.where(np.eye(factors.shape[1], dtype=bool), factors[:, :, None], np.float32(0))


def per_dimension(xp: Any, values: Any, ndim: int) -> Any:
    """An argument of one number or n per row, (rows, 1) or (rows, n), as n per row.

    Raises:
        ValueError: it has another number.
    """
    if values.shape[1] not in (1, ndim):
        raise ValueError(f"an argument has {values.shape[1]} numbers, and the map {ndim} dimensions")
    return xp.broadcast_to(values, (values.shape[0], ndim))
