"""Base class of noise operators: a key per sample, expanded to random numbers per element."""

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from penstock.core import Spec
from penstock.graph import BatchContext, BatchKernel, DataNode, Input, Operator
from penstock.numerics.random_bits import expand_bits
from penstock.operators.random.random_operator import fractions

# Elements per block on the host: their random numbers stay in the cache.
_BLOCK_ELEMENTS = 1 << 16

NoiseInput = Annotated[DataNode, Input(("number",))]


@dataclass(frozen=True)
class Noise(Operator, BatchKernel):
    """Noise that depends only on the sample's key and the index of an element."""

    pixel_aligned: ClassVar[bool] = True

    @property
    def random_bits(self) -> int:
        """Two words: the key of a sample."""
        return 2

    def infer(self, values: Spec, **_arguments: Any) -> Spec:
        """Return the spec of the input."""
        return values

    def batch(self, context: BatchContext, values: Any, **arguments: Any) -> Any:
        """Add noise to a batch, on the host in blocks that fit into the cache."""
        if context.xp is not np:
            return self.noisy(context.xp, context.bits, values, **arguments)
        result = np.empty(values.shape, values.dtype) if context.out is None else context.out
        step = max(1, _BLOCK_ELEMENTS // max(math.prod(values.shape[1:]), 1))
        # Blocks do not change results: noise depends on the key of a row, not on its position.
        for start in range(0, context.rows, step):
            rows = slice(start, start + step)
            row_arguments = {name: argument[rows] for name, argument in arguments.items()}
            result[rows] = self.noisy(np, context.bits[rows], values[rows], **row_arguments)
        return result

    @abstractmethod
    def noisy(self, xp: Any, keys: Any, values: Any, *_: Any, **arguments: Any) -> Any:
        """Return the values with noise.

        Args:
            xp: Array namespace.
            keys: uint32 (rows, 2).
            values: Numbers (rows, ...).
            arguments: Arguments of the schema, one entry per row.
        """


def uniform_noise(xp: Any, keys: Any, shape: tuple[int, ...]) -> Any:
    """Return float32 numbers, uniform in [0, 1).

    Args:
        xp: Array namespace.
        keys: uint32 (rows, 2).
        shape: Shape of the result, (rows, ...).
    """
    return fractions(_expand_pairs(xp, keys, shape, lambda left, right: (left, right)))


def normal_noise(xp: Any, keys: Any, shape: tuple[int, ...]) -> Any:
    """Return float32 numbers of the standard normal distribution, by the Box-Muller transform (1958).

    Args:
        xp: Array namespace.
        keys: uint32 (rows, 2).
        shape: Shape of the result, (rows, ...).
    """

    def cartesian(left: Any, right: Any) -> tuple[Any, Any]:
        length, angle = polar(xp, left, right)
        return length * xp.cos(angle), length * xp.sin(angle)

    return _expand_pairs(xp, keys, shape, cartesian)


def polar(xp: Any, left: Any, right: Any) -> tuple[Any, Any]:
    """Return length and angle of a point with two normal coordinates, from two words of random bits."""
    # `fractions` includes 0, whose logarithm is infinite: shift by the smallest step, 2**-24.
    length = xp.sqrt(np.float32(-2) * xp.log(fractions(left) + np.float32(2**-24)))
    return length, fractions(right) * np.float32(2 * math.pi)


def _expand_pairs(xp: Any, keys: Any, shape: tuple[int, ...], pair: Callable[[Any, Any], tuple[Any, Any]]) -> Any:
    """Return numbers made from pairs of words, of which each pair gives two.

    The first numbers of all pairs fill the first half of the elements, the second ones the other half.
    """
    count = math.prod(shape[1:])
    both = pair(*expand_bits(xp, keys, -(-count // 2)))
    return xp.concatenate(both, axis=1)[:, :count].reshape(shape)
