"""random.choice: random elements of a list, or integers below a limit, with optional probabilities."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Unpack

import numpy as np

from penstock.core import Spec
from penstock.errors import DefinitionError
from penstock.graph import BatchContext, DataNode, Range, operator
from penstock.operators.random.random_operator import DrawArguments, RandomOperator, draw, fractions

# Probabilities are converted to integer multiples of 1 / _UNIT: cumulative sums of integers, unlike those of floats,
# are the same in NumPy and XLA.
_UNIT = np.float32(1 << 20)


@dataclass(frozen=True)
class Choice(RandomOperator):
    """Random entries of the input along its first axis, or random integers below the input if it is a number."""

    def infer(self, *inputs: Spec, **_arguments: Any) -> Spec:
        """Return the shape of the draws followed by the shape of an entry."""
        options = inputs[0]
        if not options.shape:
            if options.dtype.kind not in "iu":
                raise DefinitionError("the number of values must be an integer", given=options)
            return Spec(options.dtype, self.shape)
        # Choices along one axis take the place of the first axis, so the layout still fits.
        layout = {0: options.layout[1:], 1: options.layout}.get(len(self.shape), "")
        return Spec(options.dtype, (*self.shape, *options.shape[1:]), layout)

    def batch(self, context: BatchContext, options: Any, *_like: Any, p: Any = None) -> Any:
        """Draw the choices."""
        xp, rows, draws = context.xp, context.rows, fractions(context.bits[:, : self.words])
        if xp is np and p is not None and options.ndim == 1 and (other := options != np.shape(p)[-1]).any():
            raise ValueError(f"p has {np.shape(p)[-1]} entries for {options[other][0]} values")
        if xp is np and (options.shape[1] if options.ndim > 1 else np.min(options, initial=1)) < 1:
            raise ValueError("the list of values to choose from is empty")
        # Narrow types could not hold all indexes.
        element = self.dtype if options.ndim == 1 and self.dtype.itemsize >= 4 else np.dtype(np.int32)
        count = options.astype(element)[:, None] if options.ndim == 1 else np.int32(options.shape[1])
        if p is None and options.ndim == 1 and self.wide:
            high, low = context.bits[:, : self.words], context.bits[:, self.words :]
            numbers = _scale_fraction(count.astype(np.uint64), high, low).astype(element)
        elif p is None:
            numbers = (draws * xp.asarray(count).astype(np.float32)).astype(element)
        else:
            weights = xp.round(xp.asarray(p, np.float32) * _UNIT).astype(np.int32)
            limits = xp.broadcast_to(xp.cumsum(weights, axis=-1, dtype=np.int32), (rows, weights.shape[-1]))
            # Scaled by the actual total, which rounding may have moved away from _UNIT.
            target = draws * limits[:, -1:].astype(np.float32)
            reached = target[:, :, None] >= limits[:, None, :-1].astype(np.float32)
            numbers = reached.sum(axis=-1, dtype=element)
        # The product with a draw just below 1 may round up to `count`.
        numbers = xp.minimum(numbers, xp.asarray(count - element.type(1)))
        if options.ndim == 1:
            return numbers.astype(self.dtype).reshape(rows, *self.shape)
        entry = tuple(options.shape[2:])
        flat = options.reshape(rows, options.shape[1], math.prod(entry))
        return xp.take_along_axis(flat, numbers[:, :, None], axis=1).reshape(rows, *self.shape, *entry)


def _scale_fraction(count: Any, high: Any, low: Any) -> Any:
    """Return ``floor(count * draw)`` for a draw with 64 fractional bits: the upper half of a 128-bit product."""
    # NumPy has no 128-bit integers, so the product is added up from 32-bit halves.
    half, lower = np.uint64(32), np.uint64(2**32 - 1)
    high, low = high.astype(np.uint64), low.astype(np.uint64)
    upper = (count >> half) * high
    left = (count >> half) * low
    right = (count & lower) * high + ((count & lower) * low >> half)
    return upper + (left >> half) + (right >> half) + ((left & lower) + (right & lower) >> half)


@operator("random.choice")
def choice(
    a: DataNode,
    shape_like: DataNode | None = None,
    *,
    p: Annotated[Sequence[float] | DataNode | None, Range(0)] = None,
    **arguments: Unpack[DrawArguments],
) -> DataNode:
    """Choose from several values, with replacement.

    Samples are independent and change with the epoch. A sample's draws do not depend on threads, devices, processes or
    shards.

    Args:
        a: Values to choose from, along the first axis; or a number n for the integers from 0 to n - 1.
        shape_like: A node or array. Each sample of the result has the shape of its sample; the values are ignored.
        p: Probability of each value, with a sum of 1; None uses equal probabilities. A node sets it per sample.
        shape: Shape of the choices of a sample; None chooses once. A node sets the shape per sample.
        **arguments: See `DrawArguments`.

    Returns:
        The chosen values, in the dtype of `a`. Axes of a value follow those of `shape`.

    Raises:
        DefinitionError: The probabilities do not sum to 1, or their number differs from the number of values.

    Example:
        >>> import penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=2)
        >>> with pipeline:
        ...     pipeline.set_outputs(fn.random.choice([10, 20, 30], p=[0, 0, 1]))
        >>> pipeline.run()[0].as_array().tolist()
        [30, 30]
    """
    if p is not None and not isinstance(p, DataNode):
        if abs(np.sum(p) - 1) > 1e-3:
            raise DefinitionError("p must sum to 1", given=p)
        if a.ndim and a.spec.shape[0] not in (None, len(p)):
            raise DefinitionError("p must have one entry per value", given=len(p), expected=a.spec.shape[0])
    options = {} if p is None else {"p": p}
    return draw(Choice((), a.dtype), a, like=shape_like, option="a", arguments=arguments, **options)
