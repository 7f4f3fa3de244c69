"""From random bits to numbers, and the shapes of what is drawn."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from penstock.core.call_site import user_call_site
from penstock.core.columns import Array
from penstock.core.spec import Spec
from penstock.errors import DefinitionError
from penstock.graph.ir.operator import BatchContext, BatchKernel, Operator, SampleContext, SampleKernel
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import kind as operator_kind
from penstock.graph.tracing.trace import DataNode
from penstock.numerics.random_bits import expand_bits
from penstock.operators.first_sample import vector_length

_log = logging.getLogger("penstock")

Extents = int | Sequence[int] | DataNode
"""How a user gives the shape of a sample; a node holds one for each sample."""


@dataclass(frozen=True)
class RandomOperator(Operator, BatchKernel):
    """Base of random operators: numbers of a shape and dtype, each from 32 random bits, or from 64 where it is wide.

    Args:
        shape: of a sample.
        dtype: of its elements.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def words(self) -> int:
        """Number of draws per sample: one per element."""
        return math.prod(self.shape)

    @property
    def wide(self) -> bool:
        """Whether a draw takes 64 random bits, because elements have 64. Then the device computes with 64 bits, too."""
        return self.dtype.kind in "iuf" and self.dtype.itemsize == 8

    @property
    def random_bits(self) -> int:
        """One word per draw; for wide ones, the upper words of all draws come before the lower ones."""
        return self.words * (1 + self.wide)

    def infer(self, *_like: Spec, **_arguments: Any) -> Spec:
        """The shape asked for."""
        return Spec(self.dtype, self.shape)

    def fractions(self, bits: Any) -> Any:
        """One number in [0, 1) per draw: float32, or float64 with multiples of 2**-53 where draws are wide."""
        if not self.wide:
            return fractions(bits)
        high, low = bits[:, : self.words] >> np.uint32(5), bits[:, self.words :] >> np.uint32(6)
        return (high.astype(np.float64) * np.float64(2**26) + low.astype(np.float64)) * np.float64(2**-53)


def fractions(bits: Any) -> Any:
    """Random bits as float32 in [0, 1), multiples of 2**-24: exact, so the same under NumPy and XLA."""
    return (bits >> np.uint32(8)).astype(np.float32) * np.float32(2**-24)


@dataclass(frozen=True)
class RandomOperatorPerSample(Operator, SampleKernel):
    """Numbers in a shape of its own for each sample: that of the last input, or the one that it holds.

    Args:
        drawn: what is drawn, whatever its shape.
        rank: of a sample.
        by_value: whether the last input holds the shape.
    """

    drawn: RandomOperator
    rank: int
    by_value: bool

    @property
    def random_bits(self) -> int:
        """Two, which are the key of the sample's own."""
        return 2

    def infer(self, *inputs: Spec, **arguments: Any) -> Spec:
        """Any shape of that rank."""
        unknown: Any = (None,) * self.rank
        return replace(self.drawn, shape=unknown).infer(*inputs[:-1], **arguments)

    def sample(self, context: SampleContext, *inputs: Array, **arguments: Any) -> Array:
        """The draws of one sample."""
        shape = np.atleast_1d(inputs[-1]).tolist() if self.by_value else inputs[-1].shape
        if min(shape, default=0) < 0:
            raise ValueError(f"a shape has extents of at least 0, not {shape}")
        drawn = replace(self.drawn, shape=tuple(shape))
        key: Any = context.bits
        pairs = expand_bits(np, key[None], -(-drawn.random_bits // 2))
        bits = np.stack(pairs, axis=-1).reshape(1, -1)[:, : drawn.random_bits]
        return drawn.batch(BatchContext(np, 1, bits), *[value[None] for value in inputs[:-1]], **arguments)[0]


def draw(
    drawn: RandomOperator,
    *inputs: DataNode,
    like: DataNode | None,
    shape: Extents | None,
    option: str,
    seed: int,
    **arguments: Any,
) -> DataNode:
    """A node that draws random numbers.

    Args:
        drawn: what is drawn; its shape is set here.
        inputs: what it computes from, besides `like`.
        like: the node whose shape is taken, if one is given.
        shape: the shape, if that is; a node holds one for each sample.
        option: the argument that a lone number in the place of `like` is most likely meant for, as a warning says.
        seed: of this node alone, or -1.
        arguments: of the operator.

    Raises:
        DefinitionError: the shape is given twice, or is no vector of whole numbers.
    """
    kind = f"fn.{operator_kind.get('')}"
    if like is not None and shape is not None:
        raise DefinitionError(
            f"{kind}: the shape is given twice", fix="shape= or an input whose shape is taken, not both"
        )
    if like is not None and not like.spec.shape and like.value.node.kind == "constant":
        # as in DALI, where a program written so runs too, and draws with the default
        meant = "%s takes only the shape of its input, here that of one number; was %s= meant? (%s)"
        _log.warning(meant, kind, option, user_call_site())
    if like is not None and like.spec.dense:
        return apply(replace(drawn, shape=like.spec.fixed_shape), *inputs, like, seed=seed, **arguments)
    if like is not None:
        return apply(RandomOperatorPerSample(drawn, like.ndim, False), *inputs, like, seed=seed, **arguments)
    if isinstance(shape, DataNode):
        if shape.ndim > 1 or shape.dtype.kind not in "iu":
            raise DefinitionError(f"{kind}: a shape is a vector of whole numbers", given=shape.spec)
        rank = vector_length(shape, f"{kind}: a shape") if shape.ndim else 1
        return apply(RandomOperatorPerSample(drawn, rank, True), *inputs, shape, seed=seed, **arguments)
    sizes = () if shape is None else tuple(np.atleast_1d(np.asarray(shape, np.int64)).tolist())
    if not all(isinstance(size, int) and size > 0 for size in sizes):
        raise DefinitionError(f"{kind}: a shape has positive whole extents", given=shape)
    return apply(replace(drawn, shape=sizes), *inputs, seed=seed, **arguments)
