"""preemphasis_filter: amplification of high frequencies."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np

from penstock.core import Array, Spec
from penstock.graph import Argument, DataNode, DType, Operator, SampleContext, SampleKernel, apply, operator
from penstock.numerics.casting import cast_saturating
from penstock.operators.audio.signals import Signals
from penstock.operators.elementwise.bfloat16_results import rounds_to_bfloat16
from penstock.types import FLOAT, as_dtype


@dataclass(frozen=True)
class Preemphasis(Operator, SampleKernel):
    """Filter ``y[t] = x[t] - coefficient * x[t - 1]``.

    Args:
        border: Value of ``x[-1]``: "clamp" is x[0], "reflect" is x[1], "zero" is 0.
        dtype: Element type of the result.
    """

    border: str
    dtype: np.dtype[Any]

    def infer(self, data: Spec, *, preemph_coeff: Any) -> Spec:
        """Return the shape of the input in the new dtype."""
        return Spec(self.dtype, data.shape, data.layout)

    def sample(self, context: SampleContext, data: Array, *, preemph_coeff: Any) -> Array:
        """Filter one signal."""
        values = data.astype(np.float32).reshape(-1)
        first = {"clamp": values[:1], "reflect": values[1:2], "zero": np.zeros(1, np.float32)}[self.border]
        # A signal of one sample has nothing to reflect, so it is clamped; an empty one stays empty.
        before = np.concatenate([first if first.size else values[:1], values[:-1]])[: len(values)]
        result = values - np.asarray(preemph_coeff, np.float32).reshape(()) * before
        return cast_saturating(np, result, self.dtype).reshape(data.shape)


@operator("preemphasis_filter")
@rounds_to_bfloat16
def preemphasis_filter(
    data: Signals,
    *,
    preemph_coeff: Annotated[float | DataNode, Argument(np.float32)] = 0.97,
    border: Literal["clamp", "reflect", "zero"] = "clamp",
    dtype: DType = FLOAT,
) -> DataNode:
    """Amplify the high frequencies of signals: ``y[t] = x[t] - preemph_coeff * x[t - 1]``.

    Args:
        data: Signals. As in DALI, the elements of several axes are one signal, in the order of the memory.
        preemph_coeff: Factor of the previous sample. A node sets it per signal.
        border: Value before the first sample: "clamp" repeats the first sample, "reflect" is the second, "zero" is 0.
        dtype: Element type of the result. Integers are rounded and saturate.

    Returns:
        Same shape and layout, of type `dtype`.

    Raises:
        DefinitionError: `data` has no axis, or `border` is unknown.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     signal = fn.readers.arrays(np.float32([[1, 2, 4]]))
        ...     pipeline.set_outputs(fn.preemphasis_filter(signal, preemph_coeff=0.5))
        >>> pipeline.run()[0].as_array().tolist()
        [[0.5, 1.5, 3.0]]
    """
    return apply(Preemphasis(border, as_dtype(dtype)), data, preemph_coeff=preemph_coeff)
