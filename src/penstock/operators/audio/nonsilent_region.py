"""nonsilent_region: where a signal is loud."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.core.columns import Array
from penstock.core.spec import Spec
from penstock.errors import DefinitionError
from penstock.graph.arguments.argument_marks import PerformanceHint
from penstock.graph.ir.operator import Operator, SampleContext, SampleKernel
from penstock.graph.tracing.apply import apply_many
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.operators.audio.signal_checks import check_signal


@dataclass(frozen=True)
class NonsilentRegion(Operator, SampleKernel):
    """From the first window that is loud to the last, by the mean square of a window's elements.

    Args:
        cutoff_db: how loud, compared with the reference.
        reference: the power that counts as 0 dB; 0 for the largest.
        length: of a window.
    """

    cutoff_db: float
    reference: float
    length: int

    def infer(self, data: Spec) -> tuple[Spec, Spec]:
        """Where the region begins, and how long it is."""
        check_signal("nonsilent_region", data, 1)
        number = Spec(np.dtype(np.int32), ())
        return number, number

    def sample(self, context: SampleContext, data: Array) -> tuple[Array, Array]:
        """Both numbers."""
        length = min(self.length, len(data))
        sums = np.cumsum(np.concatenate([np.zeros(1), data.astype(np.float64) ** 2]))
        starts = np.maximum(np.arange(1, len(data) + 1) - length, 0)
        power = (sums[1:] - sums[starts]) / max(length, 1)
        loud = np.flatnonzero(power >= (self.reference or power.max(initial=0)) * 10.0 ** (self.cutoff_db / 10))
        if not len(loud):
            return np.array(0, np.int32), np.array(0, np.int32)
        begin = max(int(loud[0]) - (length - 1), 0)
        return np.array(begin, np.int32), np.array(int(loud[-1]) - begin + 1, np.int32)


@operator("nonsilent_region")
def nonsilent_region(
    data: DataNode,
    *,
    cutoff_db: float = -60.0,
    window_length: int = 2048,
    reference_power: float = 0.0,
    reset_interval: PerformanceHint[int] = 8192,
) -> list[DataNode]:
    """Find the part of a signal without the silence before and after it.

    Args:
        data: signals of one axis.
        cutoff_db: how loud a window is that is not silent, compared with the reference.
        window_length: over how many elements power is averaged.
        reference_power: what counts as 0 dB; 0 takes the largest power of each sample.
        reset_interval: a hint of DALI's, without effect: sums are exact.

    Returns:
        Two int32: the first element of the region and the number of its elements, both 0 where no window is loud.

    Raises:
        DefinitionError: more than one axis, or an empty window.

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
    del reset_interval
    if window_length < 1:
        raise DefinitionError("fn.nonsilent_region: a window has elements", given=f"window_length={window_length}")
    kernel = NonsilentRegion(float(cutoff_db), float(reference_power), window_length)
    return apply_many(kernel, data)
