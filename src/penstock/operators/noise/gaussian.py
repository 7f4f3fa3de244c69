"""`fn.noise.gaussian`."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.graph import DataNode, apply, operator
from penstock.numerics.casting import broadcast_rows, cast_saturating
from penstock.operators.noise.noise_operator import Noise, NoiseInput, normal_noise
from penstock.operators.number_arguments import Number


@dataclass(frozen=True)
class Gaussian(Noise):
    """Additive Gaussian noise."""

    def noisy(self, xp: Any, keys: Any, values: Any, *_: Any, mean: Any, stddev: Any) -> Any:
        """Add noise in float32."""
        mean, stddev = (broadcast_rows(xp, value, values.ndim) for value in (mean, stddev))
        noise = normal_noise(xp, keys, values.shape) * stddev + mean
        return cast_saturating(xp, values.astype(np.float32) + noise, values.dtype)


@operator("noise.gaussian")
def gaussian(data: NoiseInput, *, mean: Number = 0.0, stddev: Number = 1.0, seed: int = -1) -> DataNode:
    """Add Gaussian noise, independent for each element, sample and epoch.

    Args:
        data: Images or other numbers, any shape, any dtype except bool. Computed in float32.
        mean: Mean of the noise, in units of the values; a number, or a node with one per sample.
        stddev: Standard deviation of the noise; a number, or a node with one per sample.
        seed: Seed of this operator; -1 (default) derives one from the pipeline's seed.

    Returns:
        Values with the shape, dtype and layout of the input; integers are rounded and clipped.

    Raises:
        DefinitionError: If the input is not numeric.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1, seed=1)
        >>> with pipeline:
        ...     images = fn.readers.arrays(np.full((1, 60, 60, 3), 100, np.uint8), layout="HWC")
        ...     pipeline.set_outputs(fn.noise.gaussian(images, stddev=20))
        >>> noisy = pipeline.run()[0].as_array()
        >>> bool(abs(noisy.mean() - 100) < 1), bool(abs(noisy.std() - 20) < 1)
        (True, True)
    """
    return apply(Gaussian(), data, seed=seed, mean=mean, stddev=stddev)
