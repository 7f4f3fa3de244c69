"""Operator that maps points by a matrix and a translation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from penstock.core import Shape, Spec
from penstock.errors import DefinitionError
from penstock.graph import Argument, BatchContext, DataNode, DType, Input, apply, operator
from penstock.graph.ir.argument_schema import as_numbers
from penstock.graph.ir.per_frame_kernel import PerFrameKernel, each_frame
from penstock.numerics.casting import cast_saturating, output_dtype
from penstock.operators.elementwise.bfloat16_results import rounds_to_bfloat16
from penstock.types import FLOAT

Matrix = float | Sequence[float] | Sequence[Sequence[float]] | DataNode | None

# The arithmetic is in float32.
_NUMBERS = ("float32", "int8", "int16", "int32", "uint8", "uint16", "uint32")


@dataclass(frozen=True)
class CoordTransform(PerFrameKernel):
    """Affine map of points: matrix or factor, then shift.

    Args:
        components: Number of components of a resulting point; None if it depends on the data.
        dtype: Dtype of the result.
        blocks: If True, the last column of the matrix is the shift.
    """

    components: int | None
    dtype: np.dtype[Any]
    blocks: bool
    schema: ClassVar[Mapping[str, Argument]] = {
        "matrix": Argument(np.float32, (None, None)),
        "multiple": Argument(np.float32),
        "shift": Argument(np.float32, (None,)),
    }

    def infer(self, points: Spec, **_arguments: Any) -> Spec:
        """Return the spec of the input with another last extent."""
        return Spec(self.dtype, (*points.shape[:-1], self.components), points.layout)

    def batch(
        self, context: BatchContext, points: Any, *, matrix: Any = None, multiple: Any = None, shift: Any = None
    ) -> Any:
        """Map points, in float32."""
        xp, size = context.xp, points.shape[-1]
        spread = (-1, *(1,) * (points.ndim - 2))
        values = [points[..., at].astype(np.float32) for at in range(size)]
        if matrix is None:
            columns = values if multiple is None else [value * multiple.reshape(spread) for value in values]
        else:
            matrix = _by_rows(matrix, size + self.blocks)
            terms = [[entry.reshape(spread) for entry in _columns(matrix[:, row])] for row in range(matrix.shape[1])]
            columns = [_total(values, factors) for factors in terms]
        if shift is not None:
            if shift.shape[1] not in (1, len(columns)):
                raise ValueError(f"T has {shift.shape[1]} numbers, and a resulting point has {len(columns)}")
            shifts = [value.reshape(spread) for value in _columns(shift)]
            columns = [column + shifts[at % len(shifts)] for at, column in enumerate(columns)]
        return cast_saturating(xp, xp.stack(columns, axis=-1), self.dtype)


def _columns(values: Any) -> list[Any]:
    return [values[:, at] for at in range(values.shape[1])]


def _total(values: list[Any], factors: list[Any]) -> Any:
    """Return the sum of the products, plus the last factor if it is the shift."""
    # Add the products one after the other, so that the code fixes the order of summation.
    total = values[0] * factors[0]
    for value, factor in zip(values[1:], factors[1:], strict=False):
        total = total + value * factor
    return total + factors[-1] if len(factors) > len(values) else total


def _by_rows(matrix: Any, width: int) -> Any:
    """Reshape matrices to rows of `width` numbers; a single row may list all numbers, as in DALI.

    Raises:
        ValueError: The number of columns does not fit.
    """
    if matrix.shape[2] != width and (matrix.shape[1] != 1 or matrix.shape[2] % width):
        raise ValueError(f"a matrix of shape {matrix.shape[1:]} does not fit the points, which need {width} columns")
    return matrix.reshape(matrix.shape[0], -1, width)


@operator("coord_transform")
@rounds_to_bfloat16
def coord_transform(
    data: Annotated[DataNode, Input(_NUMBERS, ranks=range(2, 65), needs="points along the last axis")],
    *,
    M: Matrix = None,  # noqa: N803  # DALI's name
    T: float | Sequence[float] | DataNode | None = None,  # noqa: N803  # DALI's name
    MT: Matrix = None,  # noqa: N803  # DALI's name
    dtype: DType = FLOAT,
) -> DataNode:
    """Transform points or vectors by a matrix and a translation: ``M x + T``.

    Args:
        data: Points with n components along the last axis, float32 or integers of up to 32 bits. Pixels are points
            whose components are channels.
        M: Matrix, (m, n) or a flat list; a number is a multiple of the identity. The default is the identity. A node
            has one matrix or number per sample.
        T: Translation: m numbers, or one for all components; a node has one translation per sample.
        MT: Matrix and translation in one, (m, n + 1), as from `fn.transforms`.
        dtype: FLOAT, or the dtype of the input, to which results are rounded.

    Returns:
        Points with the shape of `data`, but m components.

    Raises:
        DefinitionError: The dtype of the points or of the result is not supported, a matrix does not fit the points, or
            you pass MT together with M or T.

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
    if MT is not None and (M is not None or T is not None):
        raise DefinitionError("MT already contains the matrix and the translation", fix="MT=, or M= and T=")
    name, blocks = ("M", False) if MT is None else ("MT", True)
    matrix: Any = MT if blocks else M
    components = size = data.spec.shape[-1]
    arguments: dict[str, Any] = {}
    if matrix is not None:
        if isinstance(matrix, DataNode):
            is_number = not blocks and not _shape_of(matrix)
        else:
            matrix = np.atleast_2d(as_numbers(name, matrix)).astype(np.float32)
            is_number = matrix.size == 1
        if is_number:
            arguments["multiple"] = matrix
        else:
            arguments["matrix"] = matrix
            components = _rows(name, matrix, None if size is None else size + blocks)
    if T is not None:
        shape = _shape_of(T)
        if len(shape) > 1 or (components is not None and shape not in ((), (1,), (None,), (components,))):
            raise DefinitionError("T does not fit M", given=T, expected=f"{components} numbers")
        arguments["shift"] = T
    dtype = output_dtype(data.spec.dtype, dtype)
    return apply(CoordTransform(components, dtype, blocks), data, **arguments)


def _shape_of(numbers: Any) -> Shape:
    """Return the shape of a constant, or of a node's value for one sample or frame."""
    return each_frame(numbers.spec).shape if isinstance(numbers, DataNode) else np.shape(numbers)


def _rows(name: str, matrix: Any, width: int | None) -> int | None:
    """Return the number of rows of a matrix of `width` columns; a constant of one row may list all numbers.

    Raises:
        DefinitionError: The number of columns does not fit.
    """
    node, shape = isinstance(matrix, DataNode), _shape_of(matrix)
    rows, columns = shape if len(shape) == 2 else (None, 0)
    listed = not node and rows == 1
    fits = columns is None or width is None or (columns % width == 0 if listed else columns == width)
    if not fits or columns == 0:
        raise DefinitionError(
            f"{name} does not fit the points",
            given=matrix.spec if node else matrix.tolist(),
            expected=f"m rows of {width} numbers",
        )
    if not listed:
        return rows
    return None if width is None or columns is None else columns // width
