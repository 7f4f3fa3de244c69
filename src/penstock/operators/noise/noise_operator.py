"""What operators that add noise share: a key for each sample, and from it random numbers for each of its elements."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from penstock.core.spec import Spec
from penstock.errors import DefinitionError
from penstock.graph.ir.operator import BatchContext, BatchKernel, Operator
from penstock.numerics.random_bits import expand_bits
from penstock.operators.random.random_operator import fractions

_ELEMENTS = 1 << 16
"""How many elements the host computes at once: their random numbers stay in the cache."""


@dataclass(frozen=True)
class Noise(Operator, BatchKernel):
    """Noise whose numbers depend on the sample's key and the place of an element in it.

    Args:
        kind: the operator's name, for messages.
    """

    kind: str
    pixel_aligned: ClassVar[bool] = True

    @property
    def random_bits(self) -> int:
        """Two, which are the key of a sample."""
        return 2

    def infer(self, values: Spec, **_arguments: Any) -> Spec:
        """The input's."""
        if values.dtype.kind not in "iuf":
            raise DefinitionError(f"fn.{self.kind} takes numbers", given=values)
        return values

    def batch(self, context: BatchContext, values: Any, **arguments: Any) -> Any:
        """With NumPy, over as many rows at once as stay in the cache."""
        if context.xp is not np:
            return self.noisy(context.xp, context.bits, values, **arguments)
        result = np.empty(values.shape, values.dtype) if context.out is None else context.out
        step = max(1, _ELEMENTS // max(math.prod(values.shape[1:]), 1))
        for start in range(0, context.rows, step):
            rows = slice(start, start + step)
            some = {name: argument[rows] for name, argument in arguments.items()}
            result[rows] = self.noisy(np, context.bits[rows], values[rows], **some)
        return result

    @abstractmethod
    def noisy(self, xp: Any, keys: Any, values: Any, *_: Any, **arguments: Any) -> Any:
        """The values with noise.

        Args:
            xp: the array namespace.
            keys: uint32 (rows, 2).
            values: (rows, ...), numbers.
            arguments: those of the schema.
        """


def uniform_noise(xp: Any, keys: Any, shape: tuple[int, ...]) -> Any:
    """Numbers uniform in [0, 1), float32.

    Args:
        xp: the array namespace.
        keys: uint32 (rows, 2).
        shape: (rows, ...).
    """
    return fractions(_halves(xp, keys, shape, lambda left, right: (left, right)))


def normal_noise(xp: Any, keys: Any, shape: tuple[int, ...]) -> Any:
    """Numbers of mean 0 and standard deviation 1, float32, by the transform of Box and Muller (1958).

    Args:
        xp: the array namespace.
        keys: uint32 (rows, 2).
        shape: (rows, ...).
    """

    def turn(left: Any, right: Any) -> tuple[Any, Any]:
        length, angle = polar(xp, left, right)
        return length * xp.cos(angle), length * xp.sin(angle)

    return _halves(xp, keys, shape, turn)


def polar(xp: Any, left: Any, right: Any) -> tuple[Any, Any]:
    """Length and angle of a point whose two coordinates are normal, from two words of random bits."""
    length = xp.sqrt(np.float32(-2) * xp.log(fractions(left) + np.float32(2**-24)))
    return length, fractions(right) * np.float32(2 * math.pi)


def _halves(xp: Any, keys: Any, shape: tuple[int, ...], pair: Callable[[Any, Any], tuple[Any, Any]]) -> Any:
    """Numbers of which two come from a pair of words: the first for one half of the elements, then for the other."""
    count = math.prod(shape[1:])
    both = pair(*expand_bits(xp, keys, -(-count // 2)))
    return xp.concatenate(both, axis=1)[:, :count].reshape(shape)
