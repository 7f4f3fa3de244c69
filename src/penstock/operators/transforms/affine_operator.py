"""Base of the operators that create affine transforms, and helpers for their matrices."""

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from penstock.core import Spec
from penstock.errors import DefinitionError
from penstock.graph import BatchContext, DataNode, Input, apply
from penstock.graph.ir.per_frame_kernel import PerFrameKernel, each_frame

_MATRIX = Input(("float32",), needs="transforms")
Transform = Annotated[DataNode, _MATRIX]
OptionalTransform = Annotated[DataNode | None, _MATRIX]


@dataclass(frozen=True)
class AffineOperator(PerFrameKernel):
    """Affine transform of n-dimensional points, an (n, n + 1) matrix, optionally combined with an input transform.

    Args:
        ndim: Number of dimensions n; None if only the data determine it.
        reverse: True to apply the input after this transform, False to apply it before.
    """

    ndim: int | None
    reverse: bool
    per_frame_inputs: ClassVar[bool] = True

    def infer(self, *before: Spec, **_arguments: Any) -> Spec:
        """Return the spec of a float32 matrix."""
        return Spec(np.dtype(np.float32), (None, None) if self.ndim is None else (self.ndim, self.ndim + 1))

    def batch(self, context: BatchContext, *before: Any, **arguments: Any) -> Any:
        """Return the matrices of a batch, in float32 like DALI's."""
        ndim = self.ndim or (before[0].shape[1] if before else self.argument_ndim(arguments))
        if before and before[0].shape[1:] != (ndim, ndim + 1):
            raise ValueError(f"the input transform has shape {before[0].shape[1:]}, not {(ndim, ndim + 1)}")
        linear, shift = self.linear_and_shift(context.xp, ndim, arguments)
        matrix = context.xp.concatenate([linear, shift[..., None]], axis=2).astype(np.float32)
        if not before:
            # Constant arguments have one row.
            return context.xp.broadcast_to(matrix, (context.rows, *matrix.shape[1:]))
        pair = (matrix, before[0]) if not self.reverse else (before[0], matrix)
        return compose(context.xp, *pair)

    def argument_ndim(self, arguments: Mapping[str, Any]) -> int:
        """Return the number of dimensions of the arguments at run time."""
        # An argument of one number applies to all dimensions, so the longest argument counts.
        return max(values.shape[1] for values in arguments.values())

    @abstractmethod
    def linear_and_shift(self, xp: Any, ndim: int, arguments: Mapping[str, Any]) -> tuple[Any, Any]:
        """Return the linear part (rows, n, n) and the translation (rows, n)."""


def compose(xp: Any, after: Any, before: Any) -> Any:
    """Return the transform that applies `before` first and `after` second, all of shape (rows, n, n + 1)."""
    # Sums of elementwise products instead of a matmul: the matrix units of a TPU or GPU may round float32 operands to
    # fewer bits.
    ndim = after.shape[1]
    total: Any = 0
    for at in range(ndim):
        total = total + after[:, :, at, None] * before[:, at, None, :]
    columns = [total[..., :ndim], (total[..., ndim] + after[..., ndim])[..., None]]
    return xp.concatenate(columns, axis=2)


def center_offset(xp: Any, linear: Any, center: Any) -> Any:
    """Return the translation (rows, n) that keeps a center fixed: ``center - linear @ center``."""
    if center is None:
        return xp.zeros(linear.shape[:2], np.float32)
    # Summed elementwise for the same reason as in `compose`.
    center = per_dimension(xp, center, linear.shape[1])
    moved: Any = 0
    for at in range(linear.shape[2]):
        moved = moved + linear[:, :, at] * center[:, at, None]
    return center - moved


def extent(value: Any) -> int | None:
    """Return how many numbers an argument has per sample or frame; None if it is None or has an unknown shape."""
    if value is None:
        return None
    if not isinstance(value, DataNode):
        return int(np.size(value))
    # A node whose layout begins with F has an entry per frame.
    spec = each_frame(value.spec)
    return math.prod(spec.fixed_shape) if spec.dense else None


def transform_node(
    kernel: Callable[..., AffineOperator],
    transform: DataNode | None,
    reverse: bool,
    argument_ndim: int | None,
    center: Any = None,
    **arguments: Any,
) -> DataNode:
    """Return a node that creates a transform.

    Args:
        kernel: Class of the operator, called with the number of dimensions (None if it is unknown) and `reverse`.
        transform: Input transform, or None.
        reverse: True to apply the input after the new transform.
        argument_ndim: Number of dimensions according to the arguments; None if they do not determine it.
        center: Fixed point, or None.
        arguments: Other arguments of the operator.

    Raises:
        DefinitionError: The input or the center has a different number of dimensions, or the arguments have none.
    """
    if argument_ndim is not None and argument_ndim < 1:
        raise DefinitionError("points must have at least one dimension", given=f"{argument_ndim} dimensions")
    ndim = argument_ndim
    if transform is not None:
        spec = each_frame(transform.spec)
        check_transform(spec, argument_ndim)
        rows, columns = spec.shape
        ndim = argument_ndim or rows or (columns - 1 if columns else None)
    count = extent(center)
    if None not in (count, ndim) and count not in (1, ndim):
        raise DefinitionError("center must have one number per dimension", given=center, expected=f"{ndim} numbers")
    before = () if transform is None else (transform,)
    return apply(kernel(ndim, reverse), *before, center=center, **arguments)


def check_transform(spec: Spec, ndim: int | None = None) -> None:
    """Check that a spec is that of an affine transform.

    Args:
        spec: Spec of the value.
        ndim: Number of dimensions of the points; None for any number.

    Raises:
        DefinitionError: The shape is not (n, n + 1), or n is not `ndim`.
    """
    # Rows and columns may each be unknown; those that are known must agree on n.
    shape = spec.shape
    known = {n - less for less, n in enumerate(shape) if n is not None} | ({ndim} if ndim else set[int]())
    if len(shape) != 2 or len(known) > 1:
        size = "n, n + 1" if ndim is None else f"{ndim}, {ndim + 1}"
        raise DefinitionError("the input transform has the wrong shape", given=spec, expected=f"({size})")


def diagonal(xp: Any, factors: Any) -> Any:
    """Return diagonal matrices (rows, n, n) of factors (rows, n)."""
    # `where`, not a product with the identity, which would put NaN beside an infinite factor of `transforms.crop`.
    return xp.where(np.eye(factors.shape[1], dtype=bool), factors[:, :, None], np.float32(0))


def per_dimension(xp: Any, values: Any, ndim: int) -> Any:
    """Broadcast an argument of shape (rows, 1) or (rows, n) to (rows, n).

    Raises:
        ValueError: The argument has a different number of values.
    """
    if values.shape[1] not in (1, ndim):
        raise ValueError(f"an argument has {values.shape[1]} numbers, but the transform has {ndim} dimensions")
    return xp.broadcast_to(values, (values.shape[0], ndim))
