"""transforms.shear: the map that slants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from penstock.errors import DefinitionError
from penstock.graph.ir.argument_schema import Argument
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.operators.tensors.reshape import reshape
from penstock.operators.transforms.affine_operator import (
    AffineOperator,
    center_offset,
    check_center,
    dimensions,
    extent,
)


@dataclass(frozen=True)
class Shear(AffineOperator):
    """Each coordinate, plus multiples of the others, about a centre."""

    schema: ClassVar[Mapping[str, Argument]] = {
        "shear": Argument(np.float32, (None,)),
        "angles": Argument(np.float32, (None,), -90, 90),
        "center": Argument(np.float32, (None,)),
    }

    def told(self, given: Mapping[str, Any]) -> int:
        """Two dimensions for two factors, three for six."""
        factors = given["shear"] if "shear" in given else given["angles"]
        return 2 if factors.shape[1] == 2 else 3

    def parts(self, xp: Any, ndim: int, given: Mapping[str, Any]) -> tuple[Any, Any]:
        """Ones on the diagonal, the factors row by row beside it."""
        factors = given["shear"] if "shear" in given else xp.tan(given["angles"] * np.float32(np.pi / 180))
        if factors.shape[1] != ndim * (ndim - 1):
            raise ValueError(f"a shear of {ndim} dimensions has {ndim * (ndim - 1)} factors, not {factors.shape[1]}")
        one, count = xp.ones_like(factors[:, 0]), iter(range(factors.shape[1]))
        places = [(row, column) for row in range(ndim) for column in range(ndim)]
        entries = [one if row == column else factors[:, next(count)] for row, column in places]
        linear = xp.stack(entries, axis=1).reshape(-1, ndim, ndim)
        return linear, center_offset(xp, linear, given.get("center"))


@operator("transforms.shear")
def shear(
    transform: DataNode | None = None,
    *,
    shear: Sequence[float] | DataNode | None = None,
    angles: Sequence[float] | DataNode | None = None,
    center: Sequence[float] | DataNode | None = None,
    reverse_order: bool = False,
) -> DataNode:
    """Make the map that slants, in the plane or in space, alone or after another map.

    Args:
        transform: another map, float32 (n, n + 1).
        shear: how far a coordinate moves per unit of another one: (xy, yx), or (xy, xz, yx, yz, zx, zy); a node gives
            each sample its own.
        angles: the same as angles in degrees, from -90 to 90, whose tangents they are.
        center: the point that stays where it is, n numbers; a node gives each sample its own. The origin by default.
        reverse_order: whether `transform` is applied after the map, not before it.

    Returns:
        A map, float32 (n, n + 1), as `fn.warp_affine` and the MT of `fn.coord_transform` take it.

    Raises:
        DefinitionError: both `shear` and `angles`, or neither; not 2 or 6 numbers; `transform` has another number of
            dimensions.

    Example:
        >>> import penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     pipeline.set_outputs(fn.transforms.shear(shear=[2, 3]))
        >>> pipeline.run()[0].as_array().tolist()
        [[[1.0, 2.0, 0.0], [3.0, 1.0, 0.0]]]
    """
    kind = "transforms.shear"
    if (shear is None) == (angles is None):
        raise DefinitionError(f"fn.{kind} takes shear= or angles=", given="both" if shear is not None else "neither")
    numbers: Any = angles if shear is None else shear
    count = extent(numbers)
    if count not in (None, 2, 6):
        raise DefinitionError(
            f"fn.{kind} takes a number per pair of coordinates",
            given=numbers,
            expected="2 numbers for the plane, 6 for space",
        )
    ndim = dimensions(kind, transform, {2: 2, 6: 3}.get(count or 0))
    check_center(kind, center, ndim)
    if isinstance(numbers, DataNode):
        framed = numbers.spec.layout[:1] == "F"
        flat: Any = numbers
        if framed and count is not None and len(numbers.spec.shape) == 3:
            flat = reshape(numbers, shape=[-1, count], layout="F*")
        elif not framed and len(numbers.spec.shape) == 2:
            flat = reshape(numbers, shape=[count or -1])
    else:
        flat = np.ravel(numbers)
    arguments: dict[str, Any] = {"angles" if shear is None else "shear": flat}
    arguments |= {} if center is None else {"center": center}
    before = () if transform is None else (transform,)
    return apply(Shear(ndim, bool(reverse_order)), *before, **arguments)
