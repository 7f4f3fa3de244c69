"""random.keys: a key per sample for JAX's random numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.core.spec import Spec
from penstock.graph.ir.operator import BatchContext, BatchKernel, Operator
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode


@dataclass(frozen=True)
class Keys(Operator, BatchKernel):
    """The random bits themselves."""

    @property
    def random_bits(self) -> int:
        """Two make a key."""
        return 2

    def infer(self) -> Spec:
        """Two times 32."""
        return Spec(np.dtype(np.uint32), (2,))

    def batch(self, context: BatchContext) -> Any:
        """The bits."""
        return context.bits


@operator("random.keys")
def keys(*, seed: int = -1) -> DataNode:
    """Draw a key for each sample, from which a `jax_function` makes random numbers.

    A sample's key depends on the seed, the epoch and the sample's place in it: not on threads, devices or processes.

    Args:
        seed: a seed for this operator alone; -1 derives it from the pipeline's.

    Returns:
        The data of a JAX key, uint32 of shape (2,), for `jax.random.wrap_key_data`.

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
