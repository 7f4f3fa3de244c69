"""permute_batch, batch_permutation: samples in another order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from penstock.core.columns import Array, Column
from penstock.core.spec import Spec
from penstock.errors import DefinitionError
from penstock.graph.ir.operator import BatchContext, Operator, WholeBatchKernel
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.operators.random.keys import Keys


@dataclass(frozen=True)
class PermuteBatch(Operator, WholeBatchKernel):
    """Other samples of the batch.

    Args:
        indices: per row the number of the sample that it gets; None where a second input holds it.
    """

    indices: tuple[int, ...] | None
    moves_rows: ClassVar[bool] = True

    def infer(self, data: Spec, *indices: Spec) -> Spec:
        """The input's."""
        for spec in indices:
            if spec.dtype.kind not in "iu" or spec.shape not in ((), (1,)):
                raise DefinitionError("fn.permute_batch: indices has a whole number for each sample", given=spec)
        return data

    def whole_batch(self, context: BatchContext, data: Column, *indices: Column) -> Column:
        """The samples that were asked for."""
        given = self.indices if self.indices is not None else np.asarray(indices[0]).reshape(-1).tolist()
        rows = len(data)
        if len(given) != rows:
            raise ValueError(f"indices has {len(given)} numbers for a batch of {rows}")
        outside = [index for index in given if not 0 <= index < rows]
        if outside:
            raise ValueError(f"indices are numbers of samples, from 0 to {rows - 1}, not {outside[0]}")
        if not isinstance(data, np.ndarray):
            return [data[index] for index in given]
        return np.take(data, np.asarray(given, np.intp), axis=0, out=context.out, mode="clip")  # which needs no buffer


@operator("permute_batch")
def permute_batch(data: DataNode, *, indices: Sequence[int] | DataNode) -> DataNode:
    """Give each sample the data of another sample of the batch.

    What a sample gets depends on the batch that it is in. `fn.batch_permutation` gives random indices.

    Args:
        data: any shape, any dtype.
        indices: for each sample of the batch the number of the one whose data it gets: a list, or a node with a number
            per sample.

    Returns:
        Same dtype and layout.

    Raises:
        DefinitionError: indices that are not whole numbers.
        SampleError: a number that is out of range, or a list of another length than the batch has.

    Example:
        >>> import penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=3)
        >>> with pipeline:
        ...     pipeline.set_outputs(fn.permute_batch(fn.readers.arrays([10, 20, 30]), indices=[2, 0, 0]))
        >>> pipeline.run()[0].as_array().tolist()
        [30, 10, 10]
    """
    if isinstance(indices, DataNode):
        return apply(PermuteBatch(None), data, indices)
    numbers = np.asarray(indices)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
        raise DefinitionError("fn.permute_batch: indices has a whole number for each sample", given=indices)
    return apply(PermuteBatch(tuple(numbers.tolist())), data)


@dataclass(frozen=True)
class BatchPermutation(Operator, WholeBatchKernel):
    """The numbers of the samples in a random order, made of two random words per row.

    Args:
        repeat: whether a number may occur more than once.
        move: whether no sample gets its own number.
    """

    repeat: bool
    move: bool

    def infer(self, bits: Spec) -> Spec:
        """A number per sample."""
        return Spec(np.dtype(np.int32), ())

    def whole_batch(self, context: BatchContext, bits: Column) -> Column:
        """The numbers. One cycle through all of them in random order leaves none in its place."""
        words: Array = np.asarray(bits).astype(np.uint64)
        keys, rows = words[:, 0] << np.uint64(32) | words[:, 1], len(words)
        own = np.arange(rows)
        if self.repeat:
            steps = (keys % np.uint64(max(rows - self.move, 1))).astype(np.int64)
            return ((own + 1 + steps) % rows if self.move else steps).astype(np.int32)
        order = np.argsort(keys, kind="stable")
        if not self.move:
            return order.astype(np.int32)
        result = np.empty(rows, np.int32)
        result[order] = np.roll(order, -1)
        return result


@operator("batch_permutation")
def batch_permutation(*, allow_repetitions: bool = False, no_fixed_points: bool = False, seed: int = -1) -> DataNode:
    """Draw the numbers of a batch's samples in a random order, for `fn.permute_batch`.

    Args:
        allow_repetitions: whether each number is drawn alone, so that some occur more than once and others never.
        no_fixed_points: whether no sample gets its own number (but in a batch of one).
        seed: a seed for this operator alone; -1 derives it from the pipeline's.

    Returns:
        int32, a number per sample.

    Example:
        >>> import penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=4, seed=1)
        >>> with pipeline:
        ...     pipeline.set_outputs(fn.batch_permutation())
        >>> sorted(pipeline.run()[0].as_array().tolist())
        [0, 1, 2, 3]
    """
    return apply(BatchPermutation(allow_repetitions, no_fixed_points), apply(Keys(), seed=seed, common={}))
