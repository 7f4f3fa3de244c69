"""`evaluate`: means over a whole data set, each sample counted once."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding

from penstock.errors import UsageError, shown
from penstock.graph.accepts import checked
from penstock.iterate import DataIterator
from penstock.iterate.iterator import VALID
from penstock.train.placement import auto_context, on_auto_axes, place, replicated_sharding
from penstock.train.trees import Split

Metric = Callable[[Any, Any], Any]


@checked
def evaluate(metric: Metric, state: Any, iterator: Iterable[Mapping[str, Any]]) -> Any:
    """The means of metrics over an epoch, exact for any number of samples, devices and processes.

    Rows that were added to fill the last batch (`LastBatchPolicy.PAD`; the mask is ``batch["valid"]``) do not count.
    Each batch gives a sum and a count, which stay on the devices until the end: nothing is waited for between batches,
    and the state is not used up.

    Args:
        metric: takes the state and a batch, and returns a value per row, ``(rows, ...)``: numbers or booleans, or a
            pytree of such. Compiled once per function, so give the same one each time.
        state: any pytree. What lies on the batches' devices is taken as it is.
        iterator: an iterator at the beginning of an epoch; or any batches with a mask, or without, if all rows count.

    Returns:
        For each value its mean, a float, in a tree like that of `metric`. Booleans and integers are summed exactly, in
        32 bits; floats in float32 within a batch, in float64 over batches.

    Raises:
        UsageError: there are no samples; the iterator is endless, in the middle of an epoch, or leaves out or repeats
            samples; the metric does not return a value per row.

    Example:
        >>> from penstock import train
        >>> data = train.batches(np.arange(61.0), batch_size=16)
        >>> evaluate(lambda scale, batch: {"mean": scale * batch["x"], "large": batch["x"] >= 30}, 2.0, data)
        {'large': 0.5081967213114754, 'mean': 60.0}
    """
    if isinstance(iterator, DataIterator):
        _check(iterator)
    parts, totals, counts = Split.of(jax.tree.map(on_auto_axes, state)), [], []
    program = _compiled(metric)
    for given in iterator:
        batch = jax.tree.map(on_auto_axes, given)
        parts = _beside(parts, batch)
        with auto_context(jax.tree.leaves(batch)[0].sharding):
            total, count = program(parts, batch)
        totals.append(total)
        counts.append(count)
    totals, counts = jax.device_get((totals, counts))
    if not any(map(np.any, jax.tree.leaves(counts))):
        raise UsageError("there are no samples to evaluate", given=f"{len(counts)} batches")
    total = jax.tree.map(lambda *values: math.fsum(map(float, values)), *totals)
    count = jax.tree.map(lambda *values: sum(map(int, values)), *counts)
    return jax.tree.map(lambda total, count: total / count, total, count)


_programs: weakref.WeakKeyDictionary[Metric, Any] = weakref.WeakKeyDictionary()


def _compiled(metric: Metric) -> Any:
    """The program for a metric; forgotten with it, since a metric may hold on to a whole data set."""
    program = _programs.get(metric)
    if program is None:
        reference = weakref.ref(metric)

        def totals(parts: Split, batch: Mapping[str, Any]) -> tuple[Any, Any]:
            metric = reference()
            assert metric is not None  # it is traced while it is evaluated
            return _totals(metric, parts, batch)

        program = _programs[metric] = jax.jit(totals)
    return program


def _totals(metric: Metric, parts: Split, batch: Mapping[str, Any]) -> tuple[Any, Any]:
    """Per value of a metric its sum over the rows that count, and how many numbers that is."""
    rows = len(jax.tree.leaves(batch)[0])
    valid = batch.get(VALID, jnp.ones(rows, bool))
    if valid.ndim != 1:
        raise UsageError(
            "the batches have the layout of jax.pmap",
            given=f"a mask of shape {valid.shape}",
            fix="evaluate the state of one device (train.unstack) on an iterator with sharding=",
        )
    values = jax.tree.map(jnp.asarray, metric(parts.tree(), batch))
    for value in jax.tree.leaves(values):
        if value.shape[:1] != (rows,):
            raise UsageError(
                "a metric returns a value per row",
                given=f"an array of shape {value.shape}",
                expected=f"({rows}, ...)",
                fix="leave the mean over rows to evaluate",
            )

    def total(value: jax.Array) -> jax.Array:
        whole = jnp.issubdtype(value.dtype, jnp.integer) or value.dtype == bool
        value = value.astype(jnp.int32 if whole else jnp.float32).reshape(rows, -1)
        # not a product: what the metric made of an added row may be infinite
        return jnp.where(valid[:, None], value, jnp.zeros((), value.dtype)).sum()

    counts = jax.tree.map(lambda value: valid.sum() * (value.size // rows), values)
    return jax.tree.map(total, values), counts


def _check(iterator: DataIterator) -> None:
    """Check that what is left of the iterator's epoch is every sample once."""
    fix = "an iterator of its own, with reader_name and last_batch_policy=LastBatchPolicy.PAD"
    if iterator.size < 0:
        raise UsageError("an endless iterator cannot be evaluated on", fix=fix)
    if not (iterator.at_start or iterator.at_end):
        raise UsageError(
            "the iterator is in the middle of an epoch",
            given=f"{iterator.delivered} of {len(iterator)} batches were taken",
            fix=fix,
        )
    if not iterator.exact:
        raise UsageError(
            "the iterator leaves out or repeats samples: to fill the last batch, because it reads some of the shards, "
            "or because size is not the data's own end",
            fix=fix,
        )


def _beside(parts: Split, batch: Any) -> Split:
    """The state on the devices of a batch; what is there already stays as it is."""
    arrays = jax.tree.leaves(batch)
    if not isinstance(batch, Mapping) or not isinstance(next(iter(arrays), None), jax.Array):
        raise UsageError("a batch is a dictionary of arrays of JAX", given=shown(cast(Any, batch)))
    sharding = arrays[0].sharding
    if not isinstance(sharding, NamedSharding):
        return parts  # on one device and not bound to it: it goes where the state is
    whole = replicated_sharding(sharding.mesh)

    def moved(array: Any) -> Any:
        there = isinstance(array, jax.Array) and array.sharding.device_set == sharding.device_set
        return array if there else place(array, whole, fresh=False)

    return parts.replaced([moved(array) for array in parts.arrays])
