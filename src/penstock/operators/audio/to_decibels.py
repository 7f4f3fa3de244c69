"""to_decibels: conversion of magnitudes or powers to decibels."""

from dataclasses import dataclass

import numpy as np

from penstock.core import Array, Spec
from penstock.errors import DefinitionError
from penstock.graph import DataNode, Operator, SampleContext, SampleKernel, apply, operator
from penstock.operators.audio.signals import Signals


@dataclass(frozen=True)
class ToDecibels(Operator, SampleKernel):
    """Logarithm ``multiplier * log10(value / reference)``, with a lower limit."""

    multiplier: float
    reference: float
    cutoff_db: float

    def infer(self, data: Spec) -> Spec:
        """Return the shape of the input in float32."""
        return Spec(np.dtype(np.float32), data.shape, data.layout)

    def sample(self, context: SampleContext, data: Array) -> Array:
        """Convert one sample."""
        values = data.astype(np.float32)
        # For a sample of zeros, any reference gives the cutoff; 1 avoids a division by 0.
        reference = np.float32(self.reference) or values.max(initial=np.float32(0)) or np.float32(1)
        # The limit applies before the logarithm, which would be -inf for 0. As in DALI, a cutoff below the range of
        # float32 is that of its smallest number.
        least = np.float32(10.0 ** (self.cutoff_db / self.multiplier)) or np.nextafter(np.float32(0), np.float32(1))
        return np.float32(self.multiplier) * np.log10(np.maximum(values / reference, least))


@operator("to_decibels")
def to_decibels(
    data: Signals,
    *,
    multiplier: float = 10.0,
    reference: float | None = None,
    cutoff_db: float = -200.0,
) -> DataNode:
    """Convert magnitudes or powers to decibels: ``multiplier * log10(value / reference)``.

    Args:
        data: Numbers that are not negative, any shape.
        multiplier: 10 for powers, 20 for magnitudes.
        reference: Value of 0 dB, not 0; None uses the largest value of each sample.
        cutoff_db: Lower limit of the result, in dB; at least that of the smallest float32, -448.5 for a multiplier
            of 10.

    Returns:
        float32, same shape and layout.

    Raises:
        DefinitionError: `multiplier` or `reference` is 0.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     pipeline.set_outputs(fn.to_decibels(fn.readers.arrays(np.float32([[1, 10, 100]]))))
        >>> pipeline.run()[0].as_array().round(3).tolist()
        [[-20.0, -10.0, 0.0]]
    """
    if not multiplier or reference == 0:
        raise DefinitionError("multiplier and reference must not be 0", given=f"{multiplier} and {reference}")
    return apply(ToDecibels(float(multiplier), float(reference or 0), float(cutoff_db)), data)
