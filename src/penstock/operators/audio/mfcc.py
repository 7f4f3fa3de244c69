"""mfcc: cepstral coefficients, the cosine transform of a mel spectrogram."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from penstock.core.columns import Array
from penstock.core.spec import Spec
from penstock.errors import DefinitionError
from penstock.graph.ir.operator import Operator, SampleContext, SampleKernel
from penstock.graph.layouts import axis_numbers
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.operators.argument_limits import Bands
from penstock.operators.audio.signal_checks import check_signal


@dataclass(frozen=True)
class Mfcc(Operator, SampleKernel):
    """The first coefficients of a discrete cosine transform along an axis.

    Args:
        axis: along which.
        count: how many.
        kind: 1 to 4, the type of the transform.
        normalize: whether it is orthonormal.
        lifter: the length of the sine by which coefficients are weighted; 0 for none.
    """

    axis: int
    count: int
    kind: int
    normalize: bool
    lifter: float

    def infer(self, data: Spec) -> Spec:
        """Coefficients in the place of bands."""
        extent = data.shape[self.axis]
        left = None if extent is None else min(self.count, extent)
        shape = (*data.shape[: self.axis], left, *data.shape[self.axis + 1 :])
        return Spec(np.dtype(np.float32), shape, data.layout)

    def sample(self, context: SampleContext, data: Array) -> Array:
        """The coefficients."""
        weights = _weights(self, data.shape[self.axis])
        return np.moveaxis(np.tensordot(weights, data.astype(np.float32), axes=(1, self.axis)), 0, self.axis)


@cache
def _weights(transform: Mfcc, extent: int) -> Array:
    """The matrix of the transform, float32 (coefficients, extent)."""
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
        first = {2: np.where(k == 0, np.sqrt(0.5), 1), 3: np.where(n == 0, np.sqrt(2), 1)}.get(transform.kind, 1)
        weights = weights * np.sqrt(2 / extent) * first
    if transform.lifter:
        weights = weights * (1 + transform.lifter / 2 * np.sin(np.pi * (k + 1) / transform.lifter))
    return weights.astype(np.float32)


@operator("mfcc")
def mfcc(
    data: DataNode,
    *,
    n_mfcc: Bands = 20,
    dct_type: int = 2,
    normalize: bool = False,
    axis: int = 0,
    lifter: float = 0.0,
) -> DataNode:
    """Take the first coefficients of the cosine transform of a mel spectrogram, in decibels.

    Args:
        data: spectrograms.
        n_mfcc: how many coefficients.
        dct_type: 1 to 4, the type of the transform.
        normalize: whether the transform is orthonormal; not for type 1.
        axis: along which.
        lifter: the length of the sine by which coefficients are weighted; 0 for none.

    Returns:
        float32, coefficients in the place of bands: `n_mfcc`, or as many as there are bands.

    Raises:
        DefinitionError: an axis that does not exist, a `dct_type` other than 1 to 4, no coefficients, or `normalize`
            with type 1.

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
    check_signal("mfcc", data.spec)
    if dct_type not in (1, 2, 3, 4) or n_mfcc < 1 or (normalize and dct_type == 1):
        raise DefinitionError(
            "fn.mfcc: arguments that do not go together",
            given=f"dct_type={dct_type}, n_mfcc={n_mfcc}, normalize={normalize}",
            expected="types 1 to 4, of which 1 is not normalised; at least one coefficient",
        )
    (number,) = axis_numbers([axis], None, data.spec, "mfcc")
    return apply(Mfcc(number, n_mfcc, dct_type, normalize, float(lifter)), data)
