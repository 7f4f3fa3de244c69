"""random.choice: one of several values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.core.spec import Spec
from penstock.errors import DefinitionError
from penstock.graph.ir.operator import BatchContext
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.operators.random.random_operator import Extents, RandomOperator, draw, fractions

_UNIT = np.float32(1 << 20)
"""Into how many parts a probability of 1 is cut: whole numbers add up alike everywhere."""


@dataclass(frozen=True)
class Choice(RandomOperator):
    """For each element an entry of the input along its first axis, or a whole number less than the input."""

    def infer(self, *inputs: Spec, **_arguments: Any) -> Spec:
        """The shape asked for, followed by that of an entry."""
        options = inputs[0]
        if not options.shape:
            if options.dtype.kind not in "iu":
                raise DefinitionError("fn.random.choice: how many there are is a whole number", given=options)
            return Spec(options.dtype, self.shape)
        layout = {0: options.layout[1:], 1: options.layout}.get(len(self.shape), "")
        return Spec(options.dtype, (*self.shape, *options.shape[1:]), layout)

    def batch(self, context: BatchContext, options: Any, *_like: Any, p: Any = None) -> Any:
        """The choices."""
        xp, rows, draws = context.xp, context.rows, fractions(context.bits[:, : self.words])
        if xp is np and (options.shape[1] if options.ndim > 1 else np.min(options, initial=1)) < 1:
            raise ValueError("there is nothing to choose from")
        element = self.dtype if options.ndim == 1 and self.dtype.itemsize >= 4 else np.dtype(np.int32)
        count = options.astype(element)[:, None] if options.ndim == 1 else np.int32(options.shape[1])
        if p is None and options.ndim == 1 and self.wide:
            high, low = context.bits[:, : self.words], context.bits[:, self.words :]
            numbers = _share(count.astype(np.uint64), high, low).astype(element)
        elif p is None:
            numbers = (draws * xp.asarray(count).astype(np.float32)).astype(element)
        else:
            weights = xp.round(xp.asarray(p, np.float32) * _UNIT).astype(np.int32)
            limits = xp.broadcast_to(xp.cumsum(weights, axis=-1, dtype=np.int32), (rows, weights.shape[-1]))
            wanted = draws * limits[:, -1:].astype(np.float32)
            reached = wanted[:, :, None] >= limits[:, None, :-1].astype(np.float32)
            numbers = reached.sum(axis=-1, dtype=element)
        numbers = xp.minimum(numbers, xp.asarray(count - element.type(1)))
        if options.ndim == 1:
            return numbers.astype(self.dtype).reshape(rows, *self.shape)
        entry = tuple(options.shape[2:])
        flat = options.reshape(rows, options.shape[1], math.prod(entry))
        return xp.take_along_axis(flat, numbers[:, :, None], axis=1).reshape(rows, *self.shape, *entry)


def _share(count: Any, high: Any, low: Any) -> Any:
    """``floor(count * draw)`` for draws of 64 bits after the point: the upper half of the product of two uint64."""
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
    p: Sequence[float] | DataNode | None = None,
    shape: Extents | None = None,
    seed: int = -1,
) -> DataNode:
    """Choose from several values, with replacement. Every sample has its own choice, in every epoch others.

    Args:
        a: the values, along the first axis; or a number, which stands for the whole numbers that are less.
        shape_like: a node, or an array, whose shape the choices of a sample take.
        p: the probability of each value; equal ones if it is not given. A node gives each sample its own.
        shape: the shape of a sample's choices; none makes one. A node gives each sample its own.
        seed: a seed for this operator alone; -1 derives it from the pipeline's.

    Returns:
        The values chosen, in the type of `a`; their own axes follow those of `shape`.

    Raises:
        DefinitionError: probabilities that do not add up to 1, or of another number than there are values.

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
        weights = np.asarray(p, np.float64)
        if weights.ndim != 1 or not (weights >= 0).all() or abs(weights.sum() - 1) > 1e-3:
            raise DefinitionError("fn.random.choice: p has probabilities that add up to 1", given=p)
        if a.ndim and a.spec.shape[0] not in (None, len(weights)):
            raise DefinitionError(
                "fn.random.choice: p has a probability for each value",
                given=f"{len(weights)} for {a.spec}",
                expected=f"{a.spec.shape[0]}",
            )
    arguments = {} if p is None else {"p": p}
    return draw(Choice((), a.dtype), a, like=shape_like, shape=shape, option="a", seed=seed, **arguments)
