"""noise.shot: the noise of counted photons."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from penstock.graph.ir.argument_schema import Argument
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.numerics.casting import broadcast_rows, cast_saturating
from penstock.numerics.random_bits import expand_bits
from penstock.operators.noise.noise_operator import Noise, polar
from penstock.operators.random.random_operator import fractions

_FEW = 10.0
"""Up to this mean, events are counted one by one."""
_MOST = 34
"""More events than this are less likely than 2**-24 there."""


@dataclass(frozen=True)
class Shot(Noise):
    """Each element the number of events, of which it says how many are expected, times the value of one."""

    schema: ClassVar[Mapping[str, Argument]] = {"factor": Argument(np.float32, low=0.0)}

    def noisy(self, xp: Any, keys: Any, values: Any, *_: Any, factor: Any) -> Any:
        """In float32."""
        rows, count = values.shape[0], math.prod(values.shape[1:])
        factor = broadcast_rows(xp, factor, 2)
        floats = values.astype(np.float32).reshape(rows, count)
        mean = xp.maximum(floats, np.float32(0)) / xp.where(factor > 0, factor, np.float32(1))
        noisy = poisson(xp, *expand_bits(xp, keys, count), mean) * factor
        return cast_saturating(xp, xp.where(factor > 0, noisy, floats).reshape(values.shape), values.dtype)


def poisson(xp: Any, left: Any, right: Any, mean: Any) -> Any:
    """Numbers of the Poisson distribution.

    Where few events are expected, it is the number of terms whose sum a uniform number exceeds. Elsewhere a normal
    number is turned into one, by the expansion for many events of Giles, "Algorithm 955: approximation of the inverse
    Poisson cumulative distribution function" (ACM TOMS 42, 2016), off by less than 0.001 events.

    Args:
        xp: the array namespace.
        left: 32 random bits for each.
        right: another 32.
        mean: float32, at least 0.

    Returns:
        Whole numbers, in float32.
    """
    drawn, few = fractions(left), xp.minimum(mean, np.float32(_FEW))
    term = xp.exp(-few)
    total, counted = term, xp.zeros_like(mean)
    for number in range(1, _MOST):
        more = drawn >= total
        if xp is np and not more.any():
            break
        counted = counted + more.astype(np.float32)
        term = term * few * np.float32(1 / number)
        total = total + term
    length, angle = polar(xp, left, right)
    w, root = length * xp.cos(angle), xp.sqrt(xp.maximum(mean, np.float32(_FEW)))
    square = w * w
    shift = (np.float32(2) + square) * np.float32(1 / 6)
    first = (np.float32(-2) - square) * w * np.float32(1 / 72)
    second = np.float32(-8 / 405) + square * (np.float32(7 / 810) + square * np.float32(1 / 270))
    many = xp.floor(mean + (root * w + (shift + (first + second / root) / root)))
    return xp.where(mean <= np.float32(_FEW), counted, xp.maximum(many, np.float32(0)))


@operator("noise.shot")
def shot(
    data: DataNode,
    *,
    factor: float | DataNode = 20.0,
    seed: int = -1,
) -> DataNode:
    """Add the noise of a sensor that counts photons. Every sample has other noise in every epoch.

    A value says how many events are expected, `value / factor`. It is replaced by how many happen, a number of the
    Poisson distribution, times `factor`.

    Args:
        data: images, or values of any shape; any dtype but booleans, computed in float32. Negative values count as 0.
        factor: what one event adds, at least 0: the larger, the more noise, and 0 for none; a number, or a node with
            one per sample.
        seed: a seed for this operator alone; -1 derives it from the pipeline's.

    Returns:
        Same shape, dtype and layout; integers are rounded and clipped.

    Raises:
        DefinitionError: a negative factor, or an input that holds no numbers.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1, seed=1)
        >>> with pipeline:
        ...     images = fn.readers.arrays(np.full((1, 60, 60, 3), 100, np.uint8), layout="HWC")
        ...     pipeline.set_outputs(fn.noise.shot(images, factor=4))
        >>> noisy = pipeline.run()[0].as_array()
        >>> bool(abs(noisy.mean() - 100) < 1), bool(abs(noisy.std() - 20) < 1), np.unique(noisy % 4).tolist()
        (True, True, [0])
    """
    return apply(Shot("noise.shot"), data, seed=seed, factor=factor)
