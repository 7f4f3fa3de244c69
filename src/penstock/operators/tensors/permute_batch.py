"""permute_batch, batch_permutation: reordering of the samples of a batch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from penstock.core import Array, Column, Spec
from penstock.errors import DefinitionError
from penstock.graph import BatchContext, DataNode, NotEmpty, Operator, WholeBatchKernel, apply, operator
from penstock.operators.random.keys import Keys


@dataclass(frozen=True)
class PermuteBatch(Operator, WholeBatchKernel):
    """Selection of a sample of the batch for each row.

    Args:
        indices: Number of the sample for each row; None if a second input contains it.
    """

    indices: tuple[int, ...] | None
    moves_rows: ClassVar[bool] = True

    def infer(self, data: Spec, *indices: Spec) -> Spec:
        """Return the spec of the data."""
        for spec in indices:
            if spec.dtype.kind not in "iu" or spec.shape not in ((), (1,)):
                raise DefinitionError("indices must be one integer per sample", given=spec)
        return data

    def whole_batch(self, context: BatchContext, data: Column, *indices: Column) -> Column:
        """Return the selected samples."""
        selected = self.indices if self.indices is not None else np.asarray(indices[0]).reshape(-1).tolist()
        rows = len(data)
        if len(selected) != rows:
            raise ValueError(f"indices has {len(selected)} numbers for a batch of {rows}")
        outside = [index for index in selected if not 0 <= index < rows]
        if outside:
            raise ValueError(f"indices must be from 0 to {rows - 1}, got {outside[0]}")
        if not isinstance(data, np.ndarray):
            # Copies, as for arrays: users may write into a result, which is not to change another sample or an input.
            return [data[index].copy() for index in selected]
        # With the default mode="raise", NumPy would buffer the output.
        return np.take(data, np.asarray(selected, np.intp), axis=0, out=context.out, mode="clip")


@operator("permute_batch")
def permute_batch(data: DataNode, *, indices: Annotated[Sequence[int] | DataNode, NotEmpty()]) -> DataNode:
    """Replace each sample by a sample of the same batch.

    The result depends on how samples are combined into batches. `fn.batch_permutation` draws random indices.

    Args:
        data: Any shape, any dtype.
        indices: For each sample, the number of its replacement in the batch: a list with the length of the batch, or a
            node with one integer per sample.

    Returns:
        Same dtype and layout.

    Raises:
        DefinitionError: `indices` are not integers.
        SampleError: An index is out of range, or the length of the list is not the size of the batch.

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
    return apply(PermuteBatch(tuple(indices)), data)


@dataclass(frozen=True)
class BatchPermutation(Operator, WholeBatchKernel):
    """Random permutation of the numbers of the rows, from two random words per row.

    Args:
        repeat: True if numbers are drawn independently and can occur more than once.
        move: True if no row gets its own number.
    """

    repeat: bool
    move: bool

    def infer(self, bits: Spec) -> Spec:
        """Return the spec of one number per sample."""
        return Spec(np.dtype(np.int32), ())

    def whole_batch(self, context: BatchContext, bits: Column) -> Column:
        """Return the numbers."""
        words: Array = np.asarray(bits).astype(np.uint64)
        keys, rows = words[:, 0] << np.uint64(32) | words[:, 1], len(words)
        own = np.arange(rows)
        if self.repeat:
            # With `move`, a random step of 1 to rows - 1 never leads back to the row's own number.
            steps = (keys % np.uint64(max(rows - self.move, 1))).astype(np.int64)
            return ((own + 1 + steps) % rows if self.move else steps).astype(np.int32)
        # A stable sort has one result even if keys are equal.
        order = np.argsort(keys, kind="stable")
        if not self.move:
            return order.astype(np.int32)
        # Each row gets its successor in a cycle through all rows in random order, so none keeps its own number.
        result = np.empty(rows, np.int32)
        result[order] = np.roll(order, -1)
        return result


@operator("batch_permutation")
def batch_permutation(*, allow_repetitions: bool = False, no_fixed_points: bool = False, seed: int = -1) -> DataNode:
    """Draw a random permutation of the batch for `fn.permute_batch`.

    Args:
        allow_repetitions: If True, numbers are drawn independently, so some can occur more than once and others never.
        no_fixed_points: If True, no sample gets its own number, except in a batch of one.
        seed: Seed of this operator; -1 derives one from the pipeline's seed.

    Returns:
        int32, one number per sample.

    Example:
        >>> import penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=4, seed=1)
        >>> with pipeline:
        ...     pipeline.set_outputs(fn.batch_permutation())
        >>> sorted(pipeline.run()[0].as_array().tolist())
        [0, 1, 2, 3]
    """
    # The name and placement of the call belong to the permutation, not to the keys.
    return apply(BatchPermutation(allow_repetitions, no_fixed_points), apply(Keys(), seed=seed, common={}))
