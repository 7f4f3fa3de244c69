"""power_spectrum: magnitudes of the Fourier transform along an axis."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from penstock.core import Array, Spec
from penstock.graph import DataNode, Operator, Range, SampleContext, SampleKernel, apply, axis_numbers, operator
from penstock.operators.argument_limits import Length
from penstock.operators.audio.signals import Signals


@dataclass(frozen=True)
class PowerSpectrum(Operator, SampleKernel):
    """Magnitudes of a Fourier transform along an axis, or their squares."""

    nfft: int | None
    axis: int
    power: int

    def infer(self, data: Spec) -> Spec:
        """Return the spec with frequencies in place of samples."""
        length = self.nfft if self.nfft is not None else data.shape[self.axis]
        count = None if length is None else length // 2 + 1
        shape = (*data.shape[: self.axis], count, *data.shape[self.axis + 1 :])
        return Spec(np.dtype(np.float32), shape, data.layout)

    def sample(self, context: SampleContext, data: Array) -> Array:
        """Compute the spectrum of one signal."""
        # NumPy 2 computes float32 transforms in float32; real input has ``n // 2 + 1`` distinct frequencies.
        spectrum = np.fft.rfft(data.astype(np.float32), n=self.nfft, axis=self.axis)
        values = np.abs(spectrum) if self.power == 1 else spectrum.real**2 + spectrum.imag**2
        return values.astype(np.float32)


@operator("power_spectrum")
def power_spectrum(
    data: Signals, *, nfft: Length | None = None, axis: int = -1, power: Annotated[int, Range(1, 2)] = 2
) -> DataNode:
    """Compute the power spectrum of signals.

    Args:
        data: Signals along one of the axes.
        nfft: Length of the Fourier transform; None is the length of the signal. Signals are cut or padded with zeros.
        axis: Axis of the signals; a negative number counts from the end.
        power: 1 for magnitudes, 2 for their squares.

    Returns:
        float32, with ``nfft // 2 + 1`` frequencies along the axis.

    Raises:
        DefinitionError: The axis does not exist, `power` is not 1 or 2, or `nfft` is less than 1.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     pipeline.set_outputs(fn.power_spectrum(fn.readers.arrays(np.float32([[1, -1, 1, -1]]))))
        >>> pipeline.run()[0].as_array().tolist()
        [[0.0, 0.0, 16.0]]
    """
    (number,) = axis_numbers([axis], None, data.spec)
    return apply(PowerSpectrum(nfft, number, power), data)
