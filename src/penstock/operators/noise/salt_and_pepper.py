"""noise.salt_and_pepper: make some elements the least or the greatest value."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from penstock.errors import DefinitionError
from penstock.graph.ir.argument_schema import Argument
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.image.kernels.salt_pepper import sprinkle
from penstock.numerics.casting import broadcast_rows, cast_saturating
from penstock.numerics.random_bits import expand_bits
from penstock.operators.noise.noise_operator import Noise, uniform_noise


@dataclass(frozen=True)
class SaltAndPepper(Noise):
    """Elements, or pixels with all their channels, of one of two values.

    Args:
        kind: the operator's name, for messages.
        channels: the axis along which elements share their fate; None where each has its own.
    """

    channels: int | None
    schema: ClassVar[Mapping[str, Argument]] = {
        "prob": Argument(np.float32, low=0.0, high=1.0),
        "salt_vs_pepper": Argument(np.float32, low=0.0, high=1.0),
        "salt_val": Argument(np.float32),
        "pepper_val": Argument(np.float32),
    }

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
        """By one number for each element or pixel: the least of them are salt, those that follow pepper.

        NumPy touches what changes, alone.
        """
        shape = list(values.shape)
        if self.channels is not None:
            shape[1 + self.channels] = 1
        least, most = _limits(values.dtype)
        salt = self._value(xp, values, salt_val, most)
        pepper = self._value(xp, values, pepper_val, least)
        prob, share = (broadcast_rows(xp, each, values.ndim) for each in (prob, salt_vs_pepper))
        if xp is not np:
            drawn = uniform_noise(xp, keys, tuple(shape))
            return xp.where(drawn < prob, xp.where(drawn < prob * share, salt, pepper), values)
        result, bits = values.copy(), f"u{values.dtype.itemsize}"
        limits, grains = (
            np.stack(np.broadcast_arrays(*(np.ravel(each) for each in pair)), axis=1)
            for pair in ((prob, prob * share), (salt, pepper))
        )
        count, channels, inner = math.prod(shape[1:]), 1, 1
        if self.channels is not None:
            channels, inner = values.shape[1 + self.channels], math.prod(shape[2 + self.channels :])
        left, right = expand_bits(np, keys, -(-count // 2))
        flat = result.reshape(len(result), count * channels).view(bits)
        sprinkle(flat, left, right, limits, grains.view(bits), channels, max(inner, 1))
        return result

    def _value(self, xp: Any, values: Any, given: Any, default: float) -> Any:
        """Per row, in the dtype of the values: fractions of integers are cut off, limits kept."""
        if given is None:
            return xp.asarray(default, values.dtype)
        whole = xp.trunc(given) if values.dtype.kind in "iu" else given
        return broadcast_rows(xp, cast_saturating(xp, whole, values.dtype), values.ndim)


def _limits(dtype: np.dtype[Any]) -> tuple[float, float]:
    """The values of pepper and salt where none are given."""
    return (np.iinfo(dtype).min, np.iinfo(dtype).max) if dtype.kind in "iu" else (-1.0, 1.0)


@operator("noise.salt_and_pepper")
def salt_and_pepper(
    data: DataNode,
    *,
    prob: float | DataNode = 0.05,
    salt_vs_pepper: float | DataNode = 0.5,
    salt_val: float | DataNode | None = None,
    pepper_val: float | DataNode | None = None,
    per_channel: bool = False,
    seed: int = -1,
) -> DataNode:
    """Make some pixels white, and some black. Every sample has other noise in every epoch.

    Args:
        data: images, or values of any shape; any dtype but booleans. Without a layout the last axis counts as channels.
        prob: the probability that a pixel changes, from 0 to 1; a number, or a node with one per sample.
        salt_vs_pepper: the part of those that become salt, from 0 to 1; likewise.
        salt_val: the value of salt; likewise. The greatest of the dtype by default, 1 for floats. For integers
            fractions are cut off, and what is beyond the limits of the dtype becomes the limit.
        pepper_val: the value of pepper; likewise. The least of the dtype by default, -1 for floats.
        per_channel: whether each channel of a pixel changes on its own, not all together.
        seed: a seed for this operator alone; -1 derives it from the pipeline's.

    Returns:
        Same shape, dtype and layout.

    Raises:
        DefinitionError: a probability outside of 0 to 1, or an input that holds no numbers; `per_channel` for a layout
            without channels.

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
            "fn.noise.salt_and_pepper: per_channel needs channels", given=f"layout {layout!r}", expected="such as HWC"
        )
    made = SaltAndPepper("noise.salt_and_pepper", None if per_channel else channels)
    given: dict[str, Any] = {"salt_val": salt_val, "pepper_val": pepper_val}
    wanted = {name: value for name, value in given.items() if value is not None}
    return apply(made, data, seed=seed, prob=prob, salt_vs_pepper=salt_vs_pepper, **wanted)
