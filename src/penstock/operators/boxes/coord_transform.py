"""coord_transform: a linear map of points or vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from penstock.core.spec import Spec
from penstock.errors import ArgumentTypeError, DefinitionError
from penstock.graph.ir.argument_schema import Argument, as_numbers
from penstock.graph.ir.operator import BatchContext
from penstock.graph.ir.per_frame_kernel import PerFrameKernel, each_frame
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.numerics.casting import cast_saturating
from penstock.types import FLOAT, as_dtype

Numbers = float | Sequence[float] | Sequence[Sequence[float]] | DataNode | None


@dataclass(frozen=True)
class CoordTransform(PerFrameKernel):
    """Points times a matrix, or a number, plus a vector.

    Args:
        components: of a resulting point; None where only the data tell.
        dtype: of the result.
        factor: the number, where there is no matrix.
        blocks: whether the matrix has a column for the vector; else the vector is an argument of its own.
    """

    components: int | None
    dtype: np.dtype[Any]
    factor: float
    blocks: bool
    schema: ClassVar[Mapping[str, Argument]] = {
        "matrix": Argument(np.float32, (None, None)),
        "multiple": Argument(np.float32),
        "shift": Argument(np.float32, (None,)),
    }

    def infer(self, points: Spec, **_arguments: Any) -> Spec:
        """The input's shape, with another last extent."""
        return Spec(self.dtype, (*points.shape[:-1], self.components), points.layout)

    def batch(
        self, context: BatchContext, points: Any, *, matrix: Any = None, multiple: Any = None, shift: Any = None
    ) -> Any:
        """In float32: the products of each component are added up one after the other."""
        xp, size = context.xp, points.shape[-1]
        spread = (-1, *(1,) * (points.ndim - 2))
        values = [points[..., at].astype(np.float32) for at in range(size)]
        if matrix is None:
            factor = np.float32(self.factor) if multiple is None else multiple.reshape(spread)
            columns = [value * factor for value in values]
        else:
            matrix = _by_rows(matrix, size + self.blocks)
            terms = [[entry.reshape(spread) for entry in _columns(matrix[:, row])] for row in range(matrix.shape[1])]
            columns = [_total(values, factors) for factors in terms]
        if shift is not None:
            if shift.shape[1] not in (1, len(columns)):
                raise ValueError(f"T has {shift.shape[1]} numbers, and a resulting point {len(columns)}")
            moves = [each.reshape(spread) for each in _columns(shift)]
            columns = [column + moves[at % len(moves)] for at, column in enumerate(columns)]
        return cast_saturating(xp, xp.stack(columns, axis=-1), self.dtype)


def _columns(values: Any) -> list[Any]:
    return [values[:, at] for at in range(values.shape[1])]


def _total(values: list[Any], factors: list[Any]) -> Any:
    """Products added up one after the other, plus the factor that is left, if there is one."""
    total = values[0] * factors[0]
    for value, factor in zip(values[1:], factors[1:], strict=False):
        total = total + value * factor
    return total + factors[-1] if len(factors) > len(values) else total


def _by_rows(matrix: Any, width: int) -> Any:
    """A matrix whose rows have `width` numbers; one with a single row is a list of all of them.

    Raises:
        ValueError: it cannot have such rows.
    """
    if matrix.shape[2] != width and (matrix.shape[1] != 1 or matrix.shape[2] % width):
        raise ValueError(f"a matrix of shape {matrix.shape[1:]} does not fit points, which need {width} columns")
    return matrix.reshape(matrix.shape[0], -1, width)


@operator("coord_transform")
def coord_transform(
    data: DataNode,
    *,
    M: Numbers = None,  # noqa: N803  # DALI's name
    T: Numbers = None,  # noqa: N803  # DALI's name
    MT: Numbers = None,  # noqa: N803  # DALI's name
    dtype: Any = FLOAT,
) -> DataNode:
    """Map points or vectors by a matrix and a translation: ``M x + T``.

    Args:
        data: points, a component each along the last axis; float32 or integers of up to 32 bits. Pixels are points,
            too, whose components are their channels.
        M: the matrix, m rows of n numbers, or all of them in one list; one number is that multiple of the identity,
            which is the default. A node gives each sample its own, (m, n), or its own number.
        T: m numbers, or one for all components; a node gives each sample its own.
        MT: both in one matrix, m rows of n + 1 numbers, as `fn.transforms` makes them.
        dtype: FLOAT, or the input's, to which results are rounded.

    Returns:
        The shape of `data`, with m components.

    Raises:
        ArgumentTypeError: points or a result of a dtype that is not offered.
        DefinitionError: a matrix that does not fit the points, or MT beside M or T.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     points = fn.readers.arrays(np.float32([[[1, 2], [3, 4]]]))
        ...     pipeline.set_outputs(fn.coord_transform(points, MT=fn.transforms.scale(scale=[1, 10])))
        >>> pipeline.run()[0].as_array().tolist()
        [[[1.0, 20.0], [3.0, 40.0]]]
    """
    spec, target = data.spec, as_dtype(dtype)
    if spec.dtype != np.float32 and not (spec.dtype.kind in "iu" and spec.dtype.itemsize <= 4):
        raise ArgumentTypeError(
            "fn.coord_transform takes float32 and integers of up to 32 bits", given=spec, fix="fn.cast it first"
        )
    if target not in (spec.dtype, np.dtype(np.float32)):
        raise ArgumentTypeError(
            "fn.coord_transform gives float32 or the input's dtype", given=target, fix="fn.cast the result"
        )
    if len(spec.shape) < 2:
        raise DefinitionError(
            "fn.coord_transform takes points, whose components lie along the last of two axes or more",
            given=spec,
            expected="such as float32[n, 2]",
        )
    if MT is not None and (M is not None or T is not None):
        raise DefinitionError("fn.coord_transform: MT has the matrix and the vector", fix="MT=, or M= and T=")
    blocks = MT is not None
    matrix: Any = MT if blocks else M
    if matrix is not None and not isinstance(matrix, DataNode):
        matrix = as_numbers(f"fn.coord_transform: {'MT' if blocks else 'M'}", matrix)
    if T is not None and not isinstance(T, DataNode):
        as_numbers("fn.coord_transform: T", T)
    components = size = spec.shape[-1]
    arguments: dict[str, Any] = {}
    factor = 1.0
    if isinstance(M, DataNode) and not each_frame(M.spec).shape:
        arguments["multiple"] = M
    elif isinstance(matrix, DataNode) or (matrix is not None and np.size(matrix) != 1):
        arguments["matrix"] = matrix if isinstance(matrix, DataNode) else np.atleast_2d(np.asarray(matrix, np.float32))
        components = _rows("MT" if blocks else "M", arguments["matrix"], None if size is None else size + blocks)
    elif matrix is not None:
        factor = float(matrix.reshape(()))
    if T is not None:
        shape = each_frame(T.spec).shape if isinstance(T, DataNode) else np.shape(T)
        if len(shape) > 1 or (components is not None and shape not in ((), (1,), (None,), (components,))):
            raise DefinitionError("fn.coord_transform: T does not fit M", given=T, expected=f"{components} numbers")
        arguments["shift"] = T
    return apply(CoordTransform(components, target, factor, blocks), data, **arguments)


def _rows(name: str, matrix: Any, width: int | None) -> int | None:
    """The number of rows of a matrix with `width` columns, which may be one list of all numbers.

    Raises:
        DefinitionError: it cannot have that many columns.
    """
    node = isinstance(matrix, DataNode)
    shape: tuple[int | None, ...] = each_frame(matrix.spec).shape if node else matrix.shape
    rows, columns = shape if len(shape) == 2 else (None, 0)
    listed = not node and rows == 1
    fits = columns is None or width is None or (columns % width == 0 if listed else columns == width)
    if not fits or columns == 0:
        raise DefinitionError(
            f"fn.coord_transform: {name} does not fit points",
            given=matrix.spec if node else matrix.tolist(),
            expected=f"m rows of {width} numbers",
        )
    if not listed:
        return rows
    return None if width is None or columns is None else columns // width
