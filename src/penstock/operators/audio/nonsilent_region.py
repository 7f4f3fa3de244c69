"""nonsilent_region: detection of leading and trailing silence."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from penstock.core import Array, Spec
from penstock.errors import DefinitionError
from penstock.graph import (
    POSITIVE,
    DataNode,
    Operator,
    PerformanceHint,
    Range,
    SampleContext,
    SampleKernel,
    apply_many,
    operator,
)
from penstock.operators.audio.signals import Signal


@dataclass(frozen=True)
class NonsilentRegion(Operator, SampleKernel):
    """Region from the first loud window to the last, by the mean power of each window.

    Args:
        cutoff_db: Threshold of a loud window, relative to the reference.
        reference: Power of 0 dB; 0 uses the largest of the signal.
        length: Length of a window, in samples of the signal.
    """

    cutoff_db: float
    reference: float
    length: int

    def infer(self, data: Spec) -> tuple[Spec, Spec]:
        """Return the specs of the begin and the length."""
        number = Spec(np.dtype(np.int32), ())
        return number, number

    def sample(self, context: SampleContext, data: Array) -> tuple[Array, Array]:
        """Return the begin and the length of the region of one signal."""
        length = min(self.length, len(data))
        # Differences of cumulative sums are the sums of all windows. In float64, they need no resets, unlike DALI's
        # moving average. Windows at the start are shorter, but divided by the full length, as in DALI.
        sums = np.cumsum(np.concatenate([np.zeros(1), data.astype(np.float64) ** 2]))
        starts = np.maximum(np.arange(1, len(data) + 1) - length, 0)
        power = (sums[1:] - sums[starts]) / max(length, 1)
        loud = np.flatnonzero(power >= (self.reference or power.max(initial=0)) * 10.0 ** (self.cutoff_db / 10))
        if not len(loud):
            return np.array(0, np.int32), np.array(0, np.int32)
        # `loud` has the last sample of each window; the region begins with the first sample of the first one.
        begin = max(int(loud[0]) - (length - 1), 0)
        return np.array(begin, np.int32), np.array(int(loud[-1]) - begin + 1, np.int32)


@operator("nonsilent_region")
def nonsilent_region(
    data: Signal,
    *,
    cutoff_db: float = -60.0,
    window_length: Annotated[int, Range(1)] = 2048,
    reference_power: Annotated[float, POSITIVE] | None = None,
    reset_interval: PerformanceHint[Annotated[int, Range(-1)]] = 8192,
) -> list[DataNode]:
    """Find the region between leading and trailing silence.

    Args:
        data: Signals of one axis.
        cutoff_db: Threshold in dB relative to `reference_power`. Windows below it are silent.
        window_length: Number of samples of the signal that power is averaged over.
        reference_power: Power of 0 dB; None uses the largest of each signal.
        reset_interval: DALI's hint about the precision of sums; -1 for none. It has no effect, since sums are in
            float64.

    Returns:
        Begin and length of the region, two int32. Both are 0 if all windows are silent.

    Raises:
        DefinitionError: `data` has more than one axis, `window_length` is less than 1, or `reference_power` is not
            positive.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     signal = fn.readers.arrays(np.float32([[0, 0, 0, 5, -5, 0, 0]]))
        ...     pipeline.set_outputs(*fn.nonsilent_region(signal, window_length=1))
        >>> [output.as_array().tolist() for output in pipeline.run()]
        [[3], [2]]
    """
    if not reset_interval:
        raise DefinitionError("reset_interval must not be 0", expected="a number of samples, or -1 for none")
    kernel = NonsilentRegion(float(cutoff_db), float(reference_power or 0.0), window_length)
    return apply_many(kernel, data)
