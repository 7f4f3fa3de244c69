"""`batches`: data that is in memory, in one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from penstock import fn
from penstock.errors import UsageError
from penstock.graph.arguments.argument_checks import check_annotations
from penstock.graph.arguments.argument_marks import Range
from penstock.iterate import DataIterator, data_iterator
from penstock.iterate.iterator_options import Shardings
from penstock.pipeline.pipeline import MAX_BATCH
from penstock.train.device_placement import batch_sharding
from penstock.types import LastBatchPolicy

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
    """Iterate over arrays that are in memory, in sharded batches.

    It is a `penstock.data_iterator` over `fn.readers.arrays`, and can do what that can: `len`, `state` and `restore`,
    `stats`. Each time it is iterated over is an epoch.

    Args:
        arrays: a dict of arrays with one row per sample; or one array, or a pair, which are called "x" and "y".
        batch_size: how many rows a batch has, over all devices.
        shuffle: whether each epoch has an order of its own. Without, the order is that of the rows, for an evaluation.
        seed: of the shuffle.
        sharding: how batches lie on the devices; None takes `batch_sharding()`, over all of them.
        last_batch_policy: what becomes of the batch that the data do not fill. None drops it from a shuffled epoch, and
            pads it otherwise, with an array "valid" that is False where a row was added.

    Returns:
        An iterator over epochs of dictionaries of global arrays. 64-bit values become 32-bit ones, as JAX has them.

    Raises:
        UsageError: a tuple of more than two arrays, or a batch size that the devices do not divide.
        DefinitionError: the arrays differ in length.

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
        return tuple(fn.readers.arrays(arrays, name="arrays", random_shuffle=shuffle).values())

    make = data_iterator(
        in_memory,
        output_map=list(arrays),
        reader_name="arrays",
        last_batch_policy=last_batch_policy,
        sharding=batch_sharding() if sharding is None else sharding,
    )
    return make(batch_size=batch_size, seed=seed)
