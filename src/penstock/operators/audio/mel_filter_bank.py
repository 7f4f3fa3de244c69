"""mel_filter_bank: conversion of spectrograms to mel bands."""

from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np

from penstock.core import Array, Spec
from penstock.errors import DefinitionError
from penstock.graph import DataNode, Operator, SampleContext, SampleKernel, apply, operator
from penstock.operators.argument_limits import Bands
from penstock.operators.audio.signals import Signals

# Slaney's mel scale ("Auditory Toolbox", 1998): linear up to 1000 Hz with 200 / 3 Hz per mel, and logarithmic above,
# where 27 mels are a factor of 6.4.
_KNEE, _LINEAR, _STEP = 1000.0, 200 / 3, np.log(6.4) / 27


@dataclass(frozen=True)
class MelFilterBank(Operator, SampleKernel):
    """Sums of frequencies with triangular weights.

    Args:
        axis: Axis of the frequencies.
        nfilter: Number of bands.
        sample_rate: Sampling rate of the signal, in Hz.
        low, high: Limits of the bands, in Hz.
        htk: True for the mel scale of the HTK book (Young et al.), False for Slaney's.
        normalize: True if each triangle has an area of 1.
    """

    axis: int
    nfilter: int
    sample_rate: float
    low: float
    high: float
    htk: bool
    normalize: bool

    def infer(self, data: Spec) -> Spec:
        """Return the spec with bands in place of frequencies."""
        shape = (*data.shape[: self.axis], self.nfilter, *data.shape[self.axis + 1 :])
        return Spec(np.dtype(np.float32), shape, data.layout)

    def sample(self, context: SampleContext, data: Array) -> Array:
        """Compute the bands of one spectrogram."""
        weights = _weights(self, data.shape[self.axis])
        return np.moveaxis(np.tensordot(weights, data.astype(np.float32), axes=(1, self.axis)), 0, self.axis)


@cache
def _weights(bank: MelFilterBank, count: int) -> Array:
    """Return the weight of each of `count` frequencies in each band, float32 (bands, count)."""
    # Each triangle begins at the center of the previous band and ends at that of the next.
    limits = _to_mel(np.array([bank.low, bank.high]), bank.htk)
    first, last = float(limits[0]), float(limits[1])
    steps: Array = np.linspace(first, last, bank.nfilter + 2)
    ends = _from_mel(steps, bank.htk)
    low, center, high = ends[:-2, None], ends[1:-1, None], ends[2:, None]
    # The last of `count` frequencies of a spectrum is half the sampling rate.
    frequencies = np.arange(count) * (bank.sample_rate / 2 / max(count - 1, 1))
    up, down = (frequencies - low) / (center - low), (high - frequencies) / (high - center)
    weights = np.maximum(0, np.minimum(up, down))
    return (weights * (2 / (high - low)) if bank.normalize else weights).astype(np.float32)


def _to_mel(frequency: Array, htk: bool) -> Array:
    if htk:
        return 1127 * np.log1p(frequency / 700)
    # `np.where` computes both branches, so the logarithm gets no number below the knee.
    above = _KNEE / _LINEAR + np.log(np.maximum(frequency, _KNEE) / _KNEE) / _STEP
    return np.where(frequency < _KNEE, frequency / _LINEAR, above)


def _from_mel(mel: Array, htk: bool) -> Array:
    if htk:
        return 700 * np.expm1(mel / 1127)
    knee = _KNEE / _LINEAR
    return np.where(mel < knee, mel * _LINEAR, _KNEE * np.exp((np.maximum(mel, knee) - knee) * _STEP))


@operator("mel_filter_bank")
def mel_filter_bank(
    data: Signals,
    *,
    nfilter: Bands = 128,
    sample_rate: float = 44100.0,
    freq_low: float = 0.0,
    freq_high: float = 0.0,
    normalize: bool = True,
    mel_formula: Literal["slaney", "htk"] = "slaney",
) -> DataNode:
    """Convert spectrograms to mel spectrograms: triangular bands of equal width on the mel scale.

    Args:
        data: Spectrograms. Frequencies are along the axis f of the layout, or the second to last axis without one.
        nfilter: Number of bands.
        sample_rate: Sampling rate of the signal, in Hz.
        freq_low: Lower limit of the first band, in Hz.
        freq_high: Upper limit of the last band, in Hz; 0 is half the sampling rate.
        normalize: If True, the weights of each band are divided by half its width in Hz, so that their area is 1.
        mel_formula: "slaney" (linear up to 1000 Hz) or "htk".

    Returns:
        float32, with bands in place of frequencies.

    Raises:
        DefinitionError: The limits are out of order or above half the sampling rate, or the formula is unknown.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     spectra = fn.readers.arrays(np.ones((1, 9, 4), np.float32), layout="ft")
        ...     pipeline.set_outputs(fn.mel_filter_bank(spectra, nfilter=3, sample_rate=16000))
        >>> pipeline.run()[0].as_array().shape
        (1, 3, 4)
    """
    high = freq_high or sample_rate / 2
    if not 0 <= freq_low < high <= sample_rate / 2:
        raise DefinitionError(
            "freq_low or freq_high is out of range",
            given=f"{freq_low} to {high} Hz at a rate of {sample_rate}",
            expected="0 <= freq_low < freq_high <= sample_rate / 2",
        )
    axis = data.layout.index("f") if "f" in data.layout else max(data.ndim - 2, 0)
    kernel = MelFilterBank(axis, nfilter, float(sample_rate), float(freq_low), high, mel_formula == "htk", normalize)
    return apply(kernel, data)
