"""From random bits to numbers, and the shapes of what is drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.data.spec import Spec
from penstock.errors import DefinitionError
from penstock.graph.operator import BatchKernel, Operator
from penstock.graph.trace import DataNode


@dataclass(frozen=True)
class Drawn(Operator, BatchKernel):
    """What random operators share: numbers of a shape and dtype, each from 32 random bits.

    Args:
        shape: of a sample.
        dtype: of its elements.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def random_bits(self) -> int:
        """One per element."""
        return math.prod(self.shape)

    def infer(self, *_like: Spec, **_arguments: Any) -> Spec:
        """The shape asked for."""
        return Spec(self.dtype, self.shape)


def fractions(bits: Any) -> Any:
    """Random bits as float32 in [0, 1), multiples of 2**-24: exact, so the same under NumPy and XLA."""
    return (bits >> np.uint32(8)).astype(np.float32) * np.float32(2**-24)


def drawn_shape(
    like: DataNode | None, shape: int | Sequence[int] | None, kind: str, option: str
) -> tuple[tuple[DataNode, ...], tuple[int, ...]]:
    """The inputs of a random operator and the shape of its samples.

    Args:
        like: the node whose shape is taken, if one is given.
        shape: the shape, if that is.
        kind: the operator's public name.
        option: the argument that a lone number is most likely meant for.

    Raises:
        DefinitionError: the shape is given twice, or cannot be known, or a number stands where a shape does.
    """
    if like is not None and shape is not None:
        raise DefinitionError(f"fn.{kind}: the shape is given twice", fix="shape= or a first input, not both")
    if like is not None and not like.spec.shape and like.value.node.kind == "constant":
        raise DefinitionError(
            f"fn.{kind}: the first input is a node whose shape the draws take, and a number has none",
            given="a number",
            fix=f"name what it is: fn.{kind}({option}=...)",
        )
    if isinstance(shape, DataNode) or (like is not None and not like.spec.dense):
        raise DefinitionError(
            f"fn.{kind}: the shape must be known before there is data", given=like.spec if like is not None else shape
        )
    if like is not None:
        return (like,), like.spec.sizes
    sizes = () if shape is None else tuple(np.atleast_1d(np.asarray(shape)).tolist())
    if not all(isinstance(size, int) and size > 0 for size in sizes):
        raise DefinitionError(f"fn.{kind}: a shape has positive whole extents", given=shape)
    return (), sizes
