"""Operator that creates shears."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from penstock.errors import DefinitionError
from penstock.graph import Argument, DataNode, operator
from penstock.operators.number_arguments import OptionalNumbers
from penstock.operators.tensors.reshape import flatten_matrices
from penstock.operators.transforms.affine_operator import (
    AffineOperator,
    OptionalTransform,
    center_offset,
    extent,
    transform_node,
)


@dataclass(frozen=True)
class Shear(AffineOperator):
    """Shear about a center: adds multiples of the other coordinates to each coordinate."""

    def argument_ndim(self, arguments: Mapping[str, Any]) -> int:
        """Return 2 for two factors and 3 for six."""
        factors = arguments["shear"] if "shear" in arguments else arguments["angles"]
        return 2 if factors.shape[1] == 2 else 3

    def linear_and_shift(self, xp: Any, ndim: int, arguments: Mapping[str, Any]) -> tuple[Any, Any]:
        """Return the matrix of factors and the translation that keeps the center fixed."""
        factors = arguments["shear"] if "shear" in arguments else xp.tan(arguments["angles"] * np.float32(np.pi / 180))
        if factors.shape[1] != ndim * (ndim - 1):
            raise ValueError(f"a shear of {ndim} dimensions needs {ndim * (ndim - 1)} factors, not {factors.shape[1]}")
        # DALI orders the factors row by row and leaves out the diagonal, which is 1.
        one, count = xp.ones_like(factors[:, 0]), iter(range(factors.shape[1]))
        cells = [(row, column) for row in range(ndim) for column in range(ndim)]
        entries = [one if row == column else factors[:, next(count)] for row, column in cells]
        linear = xp.stack(entries, axis=1).reshape(-1, ndim, ndim)
        return linear, center_offset(xp, linear, arguments.get("center"))


@operator("transforms.shear")
def shear(
    transform: OptionalTransform = None,
    *,
    shear: OptionalNumbers = None,
    angles: Annotated[Sequence[float] | DataNode | None, Argument(np.float32, (None,), -90, 90)] = None,
    center: OptionalNumbers = None,
    reverse_order: bool = False,
) -> DataNode:
    """Create an affine transform that shears points in 2D or 3D.

    Give either `shear` or `angles`.

    Args:
        transform: Transform to apply before the shear, float32 (n, n + 1).
        shear: Shift of one coordinate per unit of another one: (xy, yx) in 2D, (xy, xz, yx, yz, zx, zy) in 3D, or a
            node with these per sample.
        angles: Angles in degrees from -90 to 90, in the same order; their tangents are the factors.
        center: Fixed point of the shear, n numbers, or a node with them per sample; by default the origin.
        reverse_order: True to apply `transform` after the shear.

    Returns:
        A transform, float32 (n, n + 1), for `fn.warp_affine` or the MT argument of `fn.coord_transform`.

    Raises:
        DefinitionError: Both or neither of `shear` and `angles`, not 2 or 6 numbers, or `transform` has a different
            number of dimensions.

    Example:
        >>> import penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     pipeline.set_outputs(fn.transforms.shear(shear=[2, 3]))
        >>> pipeline.run()[0].as_array().tolist()
        [[[1.0, 2.0, 0.0], [3.0, 1.0, 0.0]]]
    """
    if (shear is None) == (angles is None):
        raise DefinitionError(
            "exactly one of shear and angles must be set", given="both" if shear is not None else "neither"
        )
    numbers: Any = angles if shear is None else shear
    count = extent(numbers)
    if count not in (None, 2, 6):
        raise DefinitionError(
            "shear or angles must have a number for each pair of coordinates",
            given=numbers,
            expected="2 numbers in 2D, 6 in 3D",
        )
    # DALI takes six factors of a node as a (3, 2) matrix.
    flat = flatten_matrices(numbers, count or -1) if isinstance(numbers, DataNode) else np.ravel(numbers)
    factors = {"angles" if shear is None else "shear": flat}
    ndim = {2: 2, 6: 3}.get(count or 0)
    return transform_node(Shear, transform, reverse_order, ndim, center, **factors)
