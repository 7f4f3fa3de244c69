"""random.keys: one key per sample for `jax.random`."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.core import Spec
from penstock.graph import BatchContext, BatchKernel, DataNode, Operator, apply, operator


@dataclass(frozen=True)
class Keys(Operator, BatchKernel):
    """Random bits of a sample, unchanged."""

    @property
    def random_bits(self) -> int:
        """Two 32-bit words, the size of a threefry2x32 key."""
        return 2

    def infer(self) -> Spec:
        """Return the spec of the key data."""
        return Spec(np.dtype(np.uint32), (2,))

    def batch(self, context: BatchContext) -> Any:
        """Return the bits."""
        return context.bits


@operator("random.keys")
def keys(*, seed: int = -1) -> DataNode:
    """Draw a key per sample, from which a `jax_function` draws random numbers.

    A key depends on the seed, the epoch and the position of the sample in the epoch, not on threads, devices or
    processes.

    Args:
        seed: Seed of this operator; -1 derives one from the pipeline's seed.

    Returns:
        Data of a JAX key for `jax.random.wrap_key_data`, uint32 of shape (2,).

    Example:
        >>> import jax, penstock
        >>> from penstock import fn
        >>> @fn.jax_function
        ... @jax.vmap
        ... def noise(key):
        ...     return jax.random.normal(jax.random.wrap_key_data(key, impl="threefry2x32"), (3,))
        >>> pipeline = penstock.Pipeline(batch_size=2, seed=1)
        >>> with pipeline:
        ...     pipeline.set_outputs(noise(fn.random.keys()))
        >>> pipeline.run()[0].as_array().shape
        (2, 3)
    """
    return apply(Keys(), seed=seed)
