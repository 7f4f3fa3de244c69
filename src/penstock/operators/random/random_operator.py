"""Base of random operators: conversion of random bits to numbers, and shapes of the draws."""

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import numpy as np
from typing_extensions import TypedDict

from penstock.core import Array, Spec, user_call_site
from penstock.errors import DefinitionError
from penstock.graph import (
    BatchContext,
    BatchKernel,
    DataNode,
    Default,
    Operator,
    Range,
    SampleContext,
    SampleKernel,
    apply,
)
from penstock.graph.tracing.registry import running_operator
from penstock.numerics.casting import broadcast_rows
from penstock.operators.first_sample import vector_length
from penstock.types import as_dtype

_log = logging.getLogger("penstock")


class DrawArguments(TypedDict, total=False):
    """Arguments of all random operators.

    Args:
        shape: Shape of a sample; None draws one number. A node sets the shape per sample.
        seed: Seed of this operator; -1 derives one from the pipeline's seed.
    """

    shape: Annotated[int | Sequence[int] | DataNode | None, Range(0), Default(None)]
    seed: Annotated[int, Default(-1)]


@dataclass(frozen=True)
class RandomOperator(Operator, BatchKernel):
    """Base of random operators. Each number uses 32 random bits, or 64 for 64-bit dtypes.

    Args:
        shape: Shape of a sample.
        dtype: Element type.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def words(self) -> int:
        """Number of draws per sample, by default one per element."""
        return math.prod(self.shape)

    @property
    def wide(self) -> bool:
        """True if a draw uses 64 random bits because elements have 64. Devices then also compute in 64 bits."""
        return self.dtype.kind in "iuf" and self.dtype.itemsize == 8

    @property
    def random_bits(self) -> int:
        """Number of 32-bit words. For wide draws, the upper words of all draws precede the lower ones."""
        return self.words * (1 + self.wide)

    def infer(self, *_like: Spec, **_arguments: Any) -> Spec:
        """Return the spec of the draws."""
        return Spec(self.dtype, self.shape)

    def fractions(self, bits: Any) -> Any:
        """Return one number in [0, 1) per draw: float32, or float64 multiples of 2**-53 for wide draws."""
        if not self.wide:
            return fractions(bits)
        # A float64 has 53 significant bits: 27 from the upper word and 26 from the lower.
        high, low = bits[:, : self.words] >> np.uint32(5), bits[:, self.words :] >> np.uint32(6)
        return (high.astype(np.float64) * np.float64(2**26) + low.astype(np.float64)) * np.float64(2**-53)


def fractions(bits: Any) -> Any:
    """Convert random bits to float32 multiples of 2**-24 in [0, 1)."""
    # A float32 has 24 significant bits, so no step rounds, and NumPy and XLA agree.
    return (bits >> np.uint32(8)).astype(np.float32) * np.float32(2**-24)


def number_dtype(dtype: Any) -> np.dtype[Any]:
    """Return the dtype of random numbers.

    Raises:
        DefinitionError: The dtype is bool, to which almost all numbers of a distribution would convert as True.
    """
    result = as_dtype(dtype)
    if result.kind == "b":
        raise DefinitionError(
            "random numbers are not booleans",
            given="dtype=types.BOOL",
            expected="an integer or float type",
            fix="fn.random.coin_flip(probability=..., dtype=types.BOOL)",
        )
    return result


def parameter_rows(xp: Any, dtype: np.dtype[Any], *parameters: Any) -> list[Any]:
    """Return parameters of a distribution, rounded to float32 as in DALI, to broadcast against (rows, draws)."""
    return [broadcast_rows(xp, xp.asarray(value, np.float32).astype(dtype), 2) for value in parameters]


@dataclass(frozen=True)
class RandomOperatorPerSample(Operator, SampleKernel):
    """Random numbers whose shape differs per sample. The last input has that shape or contains it.

    Args:
        base: Operator that draws the numbers; its shape is replaced for each sample.
        rank: Number of axes of a sample.
        by_value: True if the last input contains the shape, False if it has the shape.
    """

    draws_on_demand: ClassVar[bool] = True
    base: RandomOperator
    rank: int
    by_value: bool

    @property
    def random_bits(self) -> int:
        """At least two words: the number of draws is unknown before the shape is."""
        return 2

    def infer(self, *inputs: Spec, **arguments: Any) -> Spec:
        """Return a spec of unknown extents."""
        unknown: Any = (None,) * self.rank
        return replace(self.base, shape=unknown).infer(*inputs[:-1], **arguments)

    def sample(self, context: SampleContext, *inputs: Array, **arguments: Any) -> Array:
        """Draw the numbers of one sample."""
        shape = np.atleast_1d(inputs[-1]).tolist() if self.by_value else inputs[-1].shape
        if min(shape, default=0) < 0:
            raise ValueError(f"extents must not be negative, got {shape}")
        resized = replace(self.base, shape=tuple(shape))
        # The words that `resized` itself would get: the numbers do not depend on the shapes of the other samples.
        bits = context.bits(resized.random_bits)[None]
        return resized.batch(BatchContext(np, 1, bits), *[value[None] for value in inputs[:-1]], **arguments)[0]


def draw(
    base: RandomOperator,
    *inputs: DataNode,
    like: DataNode | None,
    option: str,
    arguments: DrawArguments,
    **parameters: Any,
) -> DataNode:
    """Return a node that draws random numbers.

    Args:
        base: The operator; its shape is set here.
        inputs: Inputs of the operator, without `like`.
        like: A node with the shape of the draws, or None.
        option: Argument that a user most likely meant who passes a single number as `like`. A warning names it.
        arguments: Shape and seed.
        parameters: Other arguments of the operator.

    Raises:
        DefinitionError: Both `like` and `shape` are set, or the shape is not a vector of integers.
    """
    shape, seed = arguments.get("shape"), arguments.get("seed", -1)
    if like is not None and shape is not None:
        raise DefinitionError("shape and shape_like cannot be combined", fix="leave one of them out")
    if like is not None and not like.spec.shape and like.value.node.kind == "constant":
        # In DALI, such a program also runs, with the default of the option. So this is a warning, not an error.
        message = "%s uses only the shape of its input, here a single number; did you mean %s=? (%s)"
        _log.warning(message, running_operator(), option, user_call_site())
    if like is not None and like.spec.dense:
        return apply(replace(base, shape=like.spec.fixed_shape), *inputs, like, seed=seed, **parameters)
    if like is not None:
        return apply(RandomOperatorPerSample(base, like.ndim, False), *inputs, like, seed=seed, **parameters)
    if isinstance(shape, DataNode):
        if shape.ndim > 1 or shape.dtype.kind not in "iu":
            raise DefinitionError("shape must be a vector of integers", given=shape.spec)
        rank = vector_length(shape, "shape") if shape.ndim else 1
        return apply(RandomOperatorPerSample(base, rank, True), *inputs, shape, seed=seed, **parameters)
    sizes = () if shape is None else tuple(np.atleast_1d(np.asarray(shape, np.int64)).tolist())
    if 0 in sizes:
        # No bits are drawn for no numbers, but the nodes after this one must draw as if there were some.
        extents: Any = np.array(sizes, np.int64)
        return apply(RandomOperatorPerSample(base, len(sizes), True), *inputs, extents, seed=seed, **parameters)
    return apply(replace(base, shape=sizes), *inputs, seed=seed, **parameters)
