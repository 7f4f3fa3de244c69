"""spectrogram: short-time Fourier transform of a signal."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from penstock.core import Array, Spec
from penstock.errors import DefinitionError
from penstock.graph import DataNode, NotEmpty, Operator, Range, SampleContext, SampleKernel, apply, operator
from penstock.operators.argument_limits import Length
from penstock.operators.audio.signals import Signals


@dataclass(frozen=True)
class Spectrogram(Operator, SampleKernel):
    """Short-time Fourier transform.

    Args:
        window: Weights of the samples of a window.
        step: Distance between windows, in samples.
        nfft: Length of the transform.
        power: 1 for magnitudes, 2 for their squares.
        centered: True if windows are centered on multiples of the step, which requires padding.
        reflect: True to pad with a reflection of the signal, False to pad with zeros.
        layout: "ft" or "tf".
    """

    window: tuple[float, ...]
    step: int
    nfft: int
    power: int
    centered: bool
    reflect: bool
    layout: str

    def infer(self, data: Spec) -> Spec:
        """Return the spec of frequencies and windows."""
        if sum(extent not in (1, None) for extent in data.shape) > 1:
            raise DefinitionError(
                "a signal has one axis, besides axes of extent 1",
                given=data,
                fix="fn.decoders.audio(x, downmix=True), which returns one axis",
            )
        # A reflection needs a second sample.
        length, size = None if None in data.shape else math.prod(data.fixed_shape), len(self.window)
        if length is not None and length < (2 if self.centered and self.reflect else 1):
            raise DefinitionError("the signal is too short", given=data)
        windows = None if length is None else self._windows(length)
        if windows is not None and windows < 1:
            raise DefinitionError(
                "the signal is shorter than a window", given=f"{length} elements", expected=f"at least {size}"
            )
        shape = (self.nfft // 2 + 1, windows)
        return Spec(np.dtype(np.float32), shape if self.layout == "ft" else shape[::-1], self.layout)

    def _windows(self, length: int) -> int:
        return length // self.step + 1 if self.centered else (length - len(self.window)) // self.step + 1

    def sample(self, context: SampleContext, data: Array) -> Array:
        """Compute the spectrogram of one signal."""
        if sum(extent != 1 for extent in data.shape) > 1:
            raise ValueError(f"a signal has one axis, besides axes of extent 1, not shape {data.shape}")
        data = data.reshape(-1)
        size, count = len(self.window), self._windows(len(data))
        if count < 1 or not len(data):
            raise ValueError(f"a signal of {len(data)} elements is shorter than a window of {size}")
        # The padding at the end covers the last window; excess windows are not part of `count`.
        half = size // 2 if self.centered else 0
        padded = np.pad(data.astype(np.float32), (half, size), mode="constant")
        if half and self.reflect:
            padded = np.pad(data.astype(np.float32), (half, size), mode="reflect" if len(data) > 1 else "edge")
        # A view without copies; the product with the window copies once.
        frames = np.lib.stride_tricks.sliding_window_view(padded, size)[: (count - 1) * self.step + 1 : self.step]
        spectra = np.fft.rfft(frames * np.array(self.window, np.float32), n=self.nfft)
        values = np.abs(spectra) if self.power == 1 else spectra.real**2 + spectra.imag**2
        values = values.astype(np.float32)
        return np.ascontiguousarray(values.T) if self.layout == "ft" else values


def hann(length: int) -> tuple[float, ...]:
    """Return a Hann window, sampled at the centers of its elements as in DALI."""
    positions = (np.arange(length) + 0.5) / length
    return tuple((0.5 * (1 - np.cos(2 * np.pi * positions))).tolist())


@operator("spectrogram")
def spectrogram(
    data: Signals,
    *,
    nfft: Length | None = None,
    window_length: Annotated[float, Range(1, 1 << 24)] = 512,
    window_step: Annotated[float, Range(1)] = 256,
    window_fn: Annotated[Sequence[float], NotEmpty()] | None = None,
    power: Annotated[int, Range(1, 2)] = 2,
    center_windows: bool = True,
    reflect_padding: bool = True,
    layout: Literal["ft", "tf"] = "ft",
) -> DataNode:
    """Compute spectrograms of signals by a short-time Fourier transform.

    Args:
        data: Signals of one axis, besides axes of extent 1.
        nfft: Length of the Fourier transform; None is the length of a window. Shorter windows are padded with zeros.
        window_length: Samples per window. Fractions are truncated.
        window_step: Samples between the starts of two windows. Fractions are truncated.
        window_fn: Weights of the samples of a window, `window_length` of them; None is a Hann window.
        power: 1 for magnitudes, 2 for their squares.
        center_windows: If True, windows are centered on multiples of the step, and the signal is padded. If False, all
            windows are within the signal.
        reflect_padding: If True, the signal is padded with its reflection, otherwise with zeros.
        layout: "ft" for frequencies along the first axis, "tf" for time along the first axis.

    Returns:
        float32, with ``nfft // 2 + 1`` frequencies per window.

    Raises:
        DefinitionError: `data` has several axes of an extent other than 1, the transform is shorter than the window, or
            `power` or `layout` is unknown.
        SampleError: A signal is shorter than a window.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     wave = fn.readers.arrays(np.sin(np.arange(64, dtype=np.float32) * np.pi / 4)[None])
        ...     pipeline.set_outputs(fn.spectrogram(wave, window_length=16, window_step=8))
        >>> spectra = pipeline.run()[0].as_array()
        >>> spectra.shape, int(spectra[0, :, 4].argmax())
        ((1, 9, 9), 2)
    """
    window_length, window_step = int(window_length), int(window_step)
    window = hann(window_length) if window_fn is None else tuple(map(float, window_fn))
    length = len(window) if nfft is None else nfft
    if len(window) != window_length:
        raise DefinitionError(
            "window_fn must have one weight per sample of the window",
            given=f"{len(window)} for window_length={window_length}",
            fix=f"window_length={len(window)}",
        )
    if length < len(window):
        raise DefinitionError(
            "the transform must not be shorter than the window", given=f"nfft={length}", expected=len(window)
        )
    kernel = Spectrogram(window, window_step, length, power, center_windows, reflect_padding, layout)
    return apply(kernel, data)
