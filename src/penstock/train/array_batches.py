"""Batches of arrays in memory."""

from collections.abc import Mapping
from typing import Annotated, Any

from penstock import fn
from penstock.errors import UsageError
from penstock.graph import Range, check_annotations
from penstock.iterate import DataIterator, data_iterator
from penstock.iterate.iterator_options import Shardings
from penstock.pipeline.pipeline import MAX_BATCH
from penstock.train.replication import batch_sharding
from penstock.types import LastBatchPolicy

# Names of the arrays of a tuple.
_NAMES = ("x", "y")


@check_annotations
def batches(
    arrays: Any,
    batch_size: Annotated[int, Range(1, MAX_BATCH)],
    *,
    shuffle: bool = False,
    seed: int = 0,
    sharding: Shardings | None = None,
    last_batch_policy: LastBatchPolicy | None = None,
) -> DataIterator:
    """Return an iterator over sharded batches of arrays in memory.

    It is a `penstock.data_iterator` over `fn.readers.arrays`, with `len`, `get_state`, `set_state` and `stats`. Each
    loop over it is an epoch.

    Args:
        arrays: Dict of arrays with one row per sample. One array or a pair is named "x" and "y".
        batch_size: Rows per batch, over all devices.
        shuffle: True for a new order in each epoch. Otherwise the order of the rows, for an evaluation.
        seed: Seed of the shuffle.
        sharding: Sharding of batches; by default `batch_sharding()`, over all devices.
        last_batch_policy: Treatment of an incomplete last batch. By default it is dropped from a shuffled epoch and
            padded otherwise, with an array "valid" that is False for added rows.

    Returns:
        An iterator over dictionaries of global arrays. 64-bit values become 32-bit, as in JAX.

    Raises:
        UsageError: A tuple has more than two arrays, or the devices do not divide the batch size.
        DefinitionError: The arrays differ in length.

    Example:
        >>> import numpy as np
        >>> for batch in batches((np.arange(20.0), np.arange(20) % 2), batch_size=16):
        ...     print(sorted(batch), batch["x"].shape, int(batch["valid"].sum()))
        ['valid', 'x', 'y'] (16,) 16
        ['valid', 'x', 'y'] (16,) 4
    """
    if not isinstance(arrays, Mapping):
        parts = arrays if isinstance(arrays, tuple) else (arrays,)
        if len(parts) > len(_NAMES):
            raise UsageError(
                "a tuple of one or two arrays gets the names x and y", given=f"{len(parts)} arrays", fix="a dict"
            )
        arrays = dict(zip(_NAMES, parts, strict=False))
    if last_batch_policy is None:
        last_batch_policy = LastBatchPolicy.DROP if shuffle else LastBatchPolicy.PAD

    def in_memory() -> Any:
        return fn.readers.arrays(arrays, name="arrays", random_shuffle=shuffle)

    make = data_iterator(
        in_memory,
        last_batch_policy=last_batch_policy,
        sharding=batch_sharding() if sharding is None else sharding,
    )
    # Input hosts do not have the arrays.
    return make(batch_size=batch_size, seed=seed, input_hosts=[])
