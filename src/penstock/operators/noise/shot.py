"""`fn.noise.shot`."""

import math
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from penstock.graph import Argument, DataNode, apply, operator
from penstock.numerics.casting import broadcast_rows, cast_saturating
from penstock.numerics.random_bits import expand_bits
from penstock.operators.noise.noise_operator import Noise, NoiseInput, polar
from penstock.operators.random.random_operator import fractions

# Up to this mean, the distribution is inverted term by term; above it, the expansion is accurate enough.
_MAX_SUMMED_MEAN = 10.0
# At that mean, more events have a probability below 2**-24, the resolution of the uniform numbers.
_MAX_TERMS = 34


@dataclass(frozen=True)
class Shot(Noise):
    """Shot noise: each element is replaced by a Poisson number of events, times the value of one event."""

    def noisy(self, xp: Any, keys: Any, values: Any, *_: Any, factor: Any) -> Any:
        """Replace the values, in float32."""
        rows, count = values.shape[0], math.prod(values.shape[1:])
        factor = broadcast_rows(xp, factor, 2)
        floats = values.astype(np.float32).reshape(rows, count)
        # With factor 0 there is no noise; the divisor 1 only avoids a division by zero.
        mean = xp.maximum(floats, np.float32(0)) / xp.where(factor > 0, factor, np.float32(1))
        noisy = poisson(xp, *expand_bits(xp, keys, count), mean) * factor
        return cast_saturating(xp, xp.where(factor > 0, noisy, floats).reshape(values.shape), values.dtype)


def poisson(xp: Any, left: Any, right: Any, mean: Any) -> Any:
    """Return numbers of the Poisson distribution.

    For small means, inverts the cumulative distribution term by term. For large means, transforms a normal number by
    the expansion in Giles, "Algorithm 955: approximation of the inverse Poisson cumulative distribution function" (ACM
    TOMS 42, 2016), with an error below 0.001 events.

    Args:
        xp: Array namespace.
        left: 32 random bits per number.
        right: 32 more random bits per number.
        mean: float32, at least 0.

    Returns:
        Integers as float32.
    """
    drawn, few = fractions(left), xp.minimum(mean, np.float32(_MAX_SUMMED_MEAN))
    term = xp.exp(-few)
    total, counted = term, xp.zeros_like(mean)
    for number in range(1, _MAX_TERMS):
        more = drawn >= total
        # Traced code cannot stop early: the device always sums all terms.
        if xp is np and not more.any():
            break
        counted = counted + more.astype(np.float32)
        term = term * few * np.float32(1 / number)
        total = total + term
    # Both branches are computed and `where` selects: means differ within an array.
    length, angle = polar(xp, left, right)
    w, root = length * xp.cos(angle), xp.sqrt(xp.maximum(mean, np.float32(_MAX_SUMMED_MEAN)))
    square = w * w
    # Terms of the expansion in powers of 1 / sqrt(mean), for a normal number w.
    shift = (np.float32(2) + square) * np.float32(1 / 6)
    first = (np.float32(-2) - square) * w * np.float32(1 / 72)
    second = np.float32(-8 / 405) + square * (np.float32(7 / 810) + square * np.float32(1 / 270))
    many = xp.floor(mean + (root * w + (shift + (first + second / root) / root)))
    return xp.where(mean <= np.float32(_MAX_SUMMED_MEAN), counted, xp.maximum(many, np.float32(0)))


@operator("noise.shot")
def shot(
    data: NoiseInput,
    *,
    factor: Annotated[float | DataNode, Argument(np.float32, low=0.0)] = 20.0,
    seed: int = -1,
) -> DataNode:
    """Add shot noise, as of a sensor that counts photons, independently for each element, sample and epoch.

    Each value is replaced by ``factor * poisson(value / factor)``.

    Args:
        data: Images or other numbers, any shape, any dtype except bool. Computed in float32; negative values count as
            0.
        factor: Value of one event, at least 0. Larger factors add more noise, 0 adds none. A number, or a node with one
            per sample.
        seed: Seed of this operator; -1 (default) derives one from the pipeline's seed.

    Returns:
        Values with the shape, dtype and layout of the input; integers are rounded and clipped.

    Raises:
        DefinitionError: If `factor` is negative or the input is not numeric.

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
    return apply(Shot(), data, seed=seed, factor=factor)
