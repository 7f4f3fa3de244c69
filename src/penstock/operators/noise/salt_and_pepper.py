"""`fn.noise.salt_and_pepper`."""

import math
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from penstock.errors import DefinitionError
from penstock.graph import Argument, DataNode, apply, operator
from penstock.image.kernels.salt_pepper import sprinkle
from penstock.numerics.casting import broadcast_rows, cast_saturating
from penstock.numerics.random_bits import expand_bits
from penstock.operators.noise.noise_operator import Noise, NoiseInput, uniform_noise
from penstock.operators.number_arguments import OptionalNumber

Fraction = Annotated[float | DataNode, Argument(np.float32, low=0.0, high=1.0)]


@dataclass(frozen=True)
class SaltAndPepper(Noise):
    """Replacement of random elements, or pixels, by one of two values.

    Args:
        channels: Axis of the channels, which change together; None to change each element separately.
    """

    channels: int | None

    def noisy(
        self,
        xp: Any,
        keys: Any,
        values: Any,
        *_: Any,
        prob: Any,
        salt_vs_pepper: Any,
        salt_val: Any = None,
        pepper_val: Any = None,
    ) -> Any:
        """Replace elements by one uniform number each: below `prob * salt_vs_pepper` salt, below `prob` pepper."""
        shape = list(values.shape)
        if self.channels is not None:
            shape[1 + self.channels] = 1
        lowest, highest = _limits(values.dtype)
        salt = self._value(xp, values, salt_val, highest)
        pepper = self._value(xp, values, pepper_val, lowest)
        prob, share = (broadcast_rows(xp, value, values.ndim) for value in (prob, salt_vs_pepper))
        if xp is not np:
            drawn = uniform_noise(xp, keys, tuple(shape))
            return xp.where(drawn < prob, xp.where(drawn < prob * share, salt, pepper), values)
        # On the host a compiled loop writes only the elements that change. It moves bits, so it needs no loop per
        # dtype.
        result, bits = values.copy(), f"u{values.dtype.itemsize}"
        limits, grains = (
            np.stack(np.broadcast_arrays(*(np.ravel(value) for value in pair)), axis=1)
            for pair in ((prob, prob * share), (salt, pepper))
        )
        count, channels, inner = math.prod(shape[1:]), 1, 1
        if self.channels is not None:
            channels, inner = values.shape[1 + self.channels], math.prod(shape[2 + self.channels :])
        left, right = expand_bits(np, keys, -(-count // 2))
        flat = result.reshape(len(result), count * channels).view(bits)
        sprinkle(flat, left, right, limits, grains.view(bits), channels, max(inner, 1))
        return result

    def _value(self, xp: Any, values: Any, argument: Any, default: float) -> Any:
        """Return the replacement value of each row in the dtype of the values."""
        if argument is None:
            return xp.asarray(default, values.dtype)
        # DALI truncates fractional values for integer images (200.7 becomes 200); cast_saturating alone would round.
        whole = xp.trunc(argument) if values.dtype.kind in "iu" else argument
        return broadcast_rows(xp, cast_saturating(xp, whole, values.dtype), values.ndim)


def _limits(dtype: np.dtype[Any]) -> tuple[float, float]:
    """Return the default values of pepper and salt."""
    return (np.iinfo(dtype).min, np.iinfo(dtype).max) if dtype.kind in "iu" else (-1.0, 1.0)


@operator("noise.salt_and_pepper")
def salt_and_pepper(
    data: NoiseInput,
    *,
    prob: Fraction = 0.05,
    salt_vs_pepper: Fraction = 0.5,
    salt_val: OptionalNumber = None,
    pepper_val: OptionalNumber = None,
    per_channel: bool = False,
    seed: int = -1,
) -> DataNode:
    """Replace random pixels by white (salt) or black (pepper), independently for each sample and epoch.

    Args:
        data: Images or other numbers, any shape, any dtype except bool. Without a layout, the last axis is the
            channels.
        prob: Probability that a pixel changes, from 0 to 1; a number, or a node with one per sample.
        salt_vs_pepper: Fraction of the changed pixels that become salt, from 0 to 1; a number, or a node with one per
            sample.
        salt_val: Value of salt; a number, or a node with one per sample. By default the largest value of an integer
            dtype, 1 for floats. For integer dtypes it is truncated and clipped.
        pepper_val: Value of pepper, in the same forms. By default the smallest value of an integer dtype, -1 for
            floats.
        per_channel: If True, each channel of a pixel changes independently; by default all change together.
        seed: Seed of this operator; -1 (default) derives one from the pipeline's seed.

    Returns:
        Values with the shape, dtype and layout of the input.

    Raises:
        DefinitionError: If a probability is not from 0 to 1, the input is not numeric, or `per_channel` is used with a
            layout without channels.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1, seed=1)
        >>> with pipeline:
        ...     images = fn.readers.arrays(np.full((1, 60, 60, 3), 100, np.uint8), layout="HWC")
        ...     pipeline.set_outputs(fn.noise.salt_and_pepper(images, prob=0.1))
        >>> np.unique(pipeline.run()[0].as_array()).tolist()
        [0, 100, 255]
    """
    layout, ndim = data.spec.layout, len(data.spec.shape)
    channels = layout.index("C") if "C" in layout else ndim - 1 if not layout and ndim else None
    if per_channel and channels is None:
        raise DefinitionError(
            "per_channel requires a layout with channels", given=f"layout {layout!r}", expected="such as HWC"
        )
    return apply(
        SaltAndPepper(None if per_channel else channels),
        data,
        seed=seed,
        prob=prob,
        salt_vs_pepper=salt_vs_pepper,
        salt_val=salt_val,
        pepper_val=pepper_val,
    )
