"""Evaluation: means over a whole data set that count each sample once."""

import math
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding

from penstock.errors import UsageError, short_repr
from penstock.graph import check_annotations
from penstock.iterate import DataIterator
from penstock.iterate.iterator import VALID
from penstock.train.history import FLATTEN
from penstock.train.replication import auto_context, on_auto_axes, put_on_devices, replicated_sharding
from penstock.train.tree_partition import PartitionedTree, static_fields_compared

Metric = Callable[[Any, Any], Any]


@check_annotations
def evaluate(metric: Metric, state: Any, iterator: Iterable[Mapping[str, Any]]) -> Any:
    """Return the means of metrics over an epoch, exact for any number of samples, devices and processes.

    Rows that pad the last batch (`LastBatchPolicy.PAD`; the mask is ``batch["valid"]``) do not count. The sums and
    counts of batches stay on the devices until the end, so the loop does not wait between batches. The state is not
    donated.

    Args:
        metric: Function that takes the state and a batch, and returns one number or boolean per row, an array of shape
            ``(rows,)``, or a pytree of such arrays. Readers of files give labels of shape ``(rows, 1)`` unless they are
            read with ``flat_labels=True``, and ``==`` would compare each of them with all predictions. Compiled once
            per function object, so pass the same one each time.
        state: Any pytree. Arrays that are on the devices of the batches are not copied.
        iterator: Iterator at the start of an epoch, or any batches, with a mask of one boolean per row if some rows do
            not count.

    Returns:
        Means as floats, in a tree like the output of `metric`. Booleans and integers are summed exactly; floats in
        float32 within a batch, in float64 over batches.

    Raises:
        UsageError: There are no samples; the iterator is endless, in the middle of an epoch, or leaves out or repeats
            samples; at the first batch, the metric does not return one number per row.

    Example:
        >>> import numpy as np
        >>> from penstock import train
        >>> data = train.batches(np.arange(61.0), batch_size=16)
        >>> evaluate(lambda scale, batch: {"mean": scale * batch["x"], "large": batch["x"] >= 30}, 2.0, data)
        {'large': 0.5081967213114754, 'mean': 60.0}
    """
    if isinstance(iterator, DataIterator):
        _check(iterator)
    parts, totals, counts = PartitionedTree.partition(jax.tree.map(on_auto_axes, state)), [], []
    program = _compiled(metric)
    # The loop keeps device arrays and reads them once at the end, so it does not wait between batches.
    for batch in iterator:
        batch = jax.tree.map(on_auto_axes, batch)  # noqa: PLW2901
        parts = _on_devices_of(parts, batch)
        with static_fields_compared(), auto_context(jax.tree.leaves(batch)[0].sharding):
            total, count = program(parts, batch)
        totals.append(total)
        counts.append(count)
    totals, counts = jax.device_get((totals, counts))
    count = sum(map(int, counts))
    if not count:
        raise UsageError("there are no samples to evaluate", given=f"{len(counts)} batches")
    return jax.tree.map(lambda *sums: _joined(sums) / count, *totals)


# By id, because a metric such as a data class need not be hashable.
_programs: dict[int, Any] = {}


def _compiled(metric: Metric) -> Any:
    """Return the compiled program of a metric. A weak reference, as a metric may keep a whole data set alive."""
    program = _programs.get(id(metric))
    if program is None:
        try:
            reference = weakref.ref(metric)
        except TypeError:
            raise UsageError(
                "a metric must support weak references",
                given=short_repr(metric),
                fix='"__weakref__" in its __slots__, @dataclass(slots=True, weakref_slot=True), or a function',
            ) from None
        weakref.finalize(metric, _programs.pop, id(metric)).atexit = False

        def totals(parts: PartitionedTree, batch: Mapping[str, Any]) -> tuple[Any, Any]:
            metric = reference()
            assert metric is not None  # it is traced while it is evaluated
            return _totals(metric, parts, batch)

        program = _programs[id(metric)] = jax.jit(totals)
    return program


def check_metric(metric: Metric, state: Any, spec: Mapping[str, jax.ShapeDtypeStruct]) -> None:
    """Check that a metric returns one number per row, without computing it.

    Args:
        metric: See `evaluate`.
        state: See `evaluate`.
        spec: The iterator's `element_spec`.
    """

    def shape(leaf: Any) -> Any:  # without its sharding: the state may lie on other devices until it is evaluated
        if not isinstance(leaf, jax.Array | jax.ShapeDtypeStruct):
            return leaf
        return jax.ShapeDtypeStruct(
            leaf.shape, leaf.dtype, weak_type=getattr(leaf, "weak_type", False)
        )  # typed keys have none

    with auto_context(jax.tree.leaves(spec)[0].sharding):
        parts = PartitionedTree.partition(state)
        jax.eval_shape(
            _compiled(metric), parts.replaced([shape(array) for array in parts.arrays]), jax.tree.map(shape, spec)
        )


def _totals(metric: Metric, parts: PartitionedTree, batch: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the sum of each value of a metric over the valid rows, by byte for integers, and the number of rows."""
    rows = len(jax.tree.leaves({name: value for name, value in batch.items() if name != VALID} or batch)[0])
    valid = batch.get(VALID, jnp.ones(rows, bool))
    if valid.shape != (rows,) or valid.dtype != bool:
        raise UsageError(
            "the mask of a batch has one boolean per row",
            given=f"{VALID}, {valid.dtype}{list(valid.shape)}",
            expected=f"bool[{rows}]",
            fix="flatten the mask, and multiply weights into the metric; for batches in the layout of jax.pmap, "
            "evaluate the state of one device (train.unreplicate_from_pmap) on an iterator with sharding=",
        )
    values = jax.tree.map(jnp.asarray, metric(parts.combine(), batch))
    _check_values(metric, values, rows)

    def total(value: jax.Array) -> jax.Array:
        if value.dtype == bool:
            value = value.astype(jnp.uint8)
        whole = jnp.issubdtype(value.dtype, jnp.integer)
        value = value if whole else value.astype(jnp.float32)
        # not a product with the mask: the metric of a padded row may be infinite, and 0 * inf is NaN
        value = jnp.where(valid, value, jnp.zeros((), value.dtype))
        return _byte_sums(value) if whole else value.sum()

    return jax.tree.map(total, values), valid.sum()


def _byte_sums(value: jax.Array) -> jax.Array:
    """Return the sum of each byte of integers, the lowest first; the highest byte has the sign."""
    # A sum of the integers themselves overflows 32 bits: 512 images of 38 million squared errors each are enough.
    # Sums of bytes are exact up to 8 million rows, and JAX has no 64 bits by default.
    last = value.dtype.itemsize - 1
    shifted = [value >> jnp.asarray(8 * number, value.dtype) for number in range(last)]
    parts = [part & jnp.asarray(255, value.dtype) for part in shifted]
    parts.append(value >> jnp.asarray(8 * last, value.dtype))
    return jnp.stack([part.astype(jnp.int32).sum(dtype=jnp.int32) for part in parts])


def _joined(sums: Sequence[Any]) -> float:
    """Return the sum over batches of what `_totals` returned for one value of the metric."""
    if sums[0].ndim == 0:
        return math.fsum(map(float, sums))
    return sum(int(part) << 8 * number for total in sums for number, part in enumerate(total))


def _check_values(metric: Metric, values: Any, rows: int) -> None:
    """Check that a metric returned one number per row, while it is traced."""
    name = getattr(metric, "__name__", type(metric).__name__)
    leaves = jax.tree_util.tree_leaves_with_path(values)
    if not leaves:
        raise UsageError("the metric returned no values", given=name, expected=f"an array of shape ({rows},)")
    several = f"{FLATTEN}; otherwise reduce the other axes, for example with .mean(axis=1)"
    for path, value in leaves:
        if value.shape != (rows,):
            raise UsageError(
                "a metric returns one number per row",
                given=f"{name}{jax.tree_util.keystr(path)} of shape {value.shape}",
                expected=f"shape ({rows},)",
                fix=several if value.ndim > 1 else "leave the mean over rows to evaluate",
            )


def _check(iterator: DataIterator) -> None:
    """Check that the iterator will visit every sample once."""
    fix = "an iterator of its own, with last_batch_policy=LastBatchPolicy.PAD"
    # A silent mean over the wrong samples would look like a result.
    if iterator.is_endless:
        raise UsageError("an endless iterator cannot be evaluated on", fix=fix)
    if iterator.size < 0:
        raise UsageError(
            "an external source ends the epoch, so it is unknown whether the iterator leaves out samples: a source of "
            "samples drops an incomplete last batch, and an iterable continues where another loop has left it",
            fix=f"a reader, such as fn.readers.items for a data set in Python, in {fix}; if the source gives whole "
            "batches, (batch for batch in iterator), which counts all rows that it gives",
        )
    if not (iterator.at_start or iterator.at_end):
        raise UsageError(
            "the iterator is in the middle of an epoch",
            given=f"{iterator.batches_delivered} of {len(iterator)} batches were taken",
            fix=f"iterator.next_epoch() after an evaluation that failed; beside a training, {fix}",
        )
    if not iterator.visits_each_sample_once:
        raise UsageError(
            "the iterator leaves out or repeats samples: to fill the last batch, because it reads some of the shards, "
            "or because size is not the data's own end",
            fix=fix,
        )


def _on_devices_of(parts: PartitionedTree, batch: Any) -> PartitionedTree:
    """Return the state on the devices of a batch. Arrays that are there already are not copied."""
    arrays = jax.tree.leaves(batch)
    if not isinstance(batch, Mapping) or not isinstance(next(iter(arrays), None), jax.Array):
        raise UsageError("a batch is a dictionary of arrays of JAX", given=short_repr(cast(Any, batch)))
    sharding = arrays[0].sharding
    if not isinstance(sharding, NamedSharding):
        return parts  # a batch on one device is not committed to it and follows the state
    whole = replicated_sharding(sharding.mesh)

    def moved(array: Any) -> Any:
        there = isinstance(array, jax.Array) and array.sharding.device_set == sharding.device_set
        return array if there else put_on_devices(array, whole, fresh=False)

    return parts.replaced([moved(array) for array in parts.arrays])
