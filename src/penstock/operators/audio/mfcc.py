"""mfcc: mel-frequency cepstral coefficients, the cosine transform of a mel spectrogram."""

from dataclasses import dataclass
from functools import cache
from typing import Annotated

import numpy as np

from penstock.core import Array, Spec
from penstock.errors import DefinitionError
from penstock.graph import DataNode, Operator, Range, SampleContext, SampleKernel, apply, axis_numbers, operator
from penstock.operators.argument_limits import Bands
from penstock.operators.audio.signals import Signals


@dataclass(frozen=True)
class Mfcc(Operator, SampleKernel):
    """First coefficients of a discrete cosine transform along an axis.

    Args:
        axis: Axis of the bands.
        count: Number of coefficients.
        kind: Type of the transform, 1 to 4.
        normalize: True for an orthonormal transform.
        lifter: Liftering coefficient, the half period of the sine that weights coefficients; 0 for no weights.
    """

    axis: int
    count: int
    kind: int
    normalize: bool
    lifter: float

    def infer(self, data: Spec) -> Spec:
        """Return the spec with coefficients in place of bands."""
        extent = data.shape[self.axis]
        count = None if extent is None else min(self.count, extent)
        shape = (*data.shape[: self.axis], count, *data.shape[self.axis + 1 :])
        return Spec(np.dtype(np.float32), shape, data.layout)

    def sample(self, context: SampleContext, data: Array) -> Array:
        """Compute the coefficients of one spectrogram."""
        weights = _weights(self, data.shape[self.axis])
        return np.moveaxis(np.tensordot(weights, data.astype(np.float32), axes=(1, self.axis)), 0, self.axis)


@cache
def _weights(transform: Mfcc, extent: int) -> Array:
    """Return the matrix of the transform, float32 (coefficients, extent)."""
    # The unnormalized transforms are half of those that SciPy and FFTW define, as in DALI.
    k, n = np.arange(min(transform.count, extent))[:, None], np.arange(extent)[None]
    if transform.kind == 1:
        weights = np.cos(np.pi / max(extent - 1, 1) * k * n) * np.where((n == 0) | (n == extent - 1), 0.5, 1)
    elif transform.kind == 2:
        weights = np.cos(np.pi / extent * (n + 0.5) * k)
    elif transform.kind == 3:
        weights = np.cos(np.pi / extent * n * (k + 0.5)) * np.where(n == 0, 0.5, 1)
    else:
        weights = np.cos(np.pi / extent * (n + 0.5) * (k + 0.5))
    if transform.normalize:
        # Types 2 and 3 need a factor of sqrt(1/2) for the constant term; type 3 already has 1/2. Type 4 has none.
        first = {2: np.where(k == 0, np.sqrt(0.5), 1), 3: np.where(n == 0, np.sqrt(2), 1)}.get(transform.kind, 1)
        weights = weights * np.sqrt(2 / extent) * first
    if transform.lifter:
        # Sinusoidal liftering, with coefficients counted from 1 as in DALI.
        weights = weights * (1 + transform.lifter / 2 * np.sin(np.pi * (k + 1) / transform.lifter))
    return weights.astype(np.float32)


@operator("mfcc")
def mfcc(
    data: Signals,
    *,
    n_mfcc: Bands = 20,
    dct_type: Annotated[int, Range(1, 4)] = 2,
    normalize: bool = False,
    axis: int = 0,
    lifter: float = 0.0,
) -> DataNode:
    """Compute mel-frequency cepstral coefficients: the cosine transform of mel spectrograms in decibels.

    Args:
        data: Mel spectrograms in decibels, as from `fn.to_decibels(fn.mel_filter_bank(...))`.
        n_mfcc: Number of coefficients, at most the number of bands.
        dct_type: Type of the discrete cosine transform, 1 to 4.
        normalize: If True, the transform is orthonormal. Not supported for type 1.
        axis: Axis of the bands; a negative number counts from the end.
        lifter: Liftering coefficient, the half period of the sine that weights coefficients; 0 disables the weights.

    Returns:
        float32, with coefficients in place of bands: the lesser of `n_mfcc` and the number of bands.

    Raises:
        DefinitionError: The axis does not exist, `dct_type` is not 1 to 4, `n_mfcc` is less than 1, or `normalize` is
            used with type 1.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     bands = fn.readers.arrays(np.ones((1, 16, 3), np.float32))
        ...     pipeline.set_outputs(fn.mfcc(bands, n_mfcc=4))
        >>> pipeline.run()[0].as_array()[0, 0].tolist()
        [16.0, 16.0, 16.0]
    """
    if normalize and dct_type == 1:
        raise DefinitionError("a transform of type 1 cannot be normalized", fix="normalize=False, or another dct_type")
    (number,) = axis_numbers([axis], None, data.spec)
    return apply(Mfcc(number, n_mfcc, dct_type, normalize, float(lifter)), data)
