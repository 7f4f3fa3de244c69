"""`data_iterator`: a definition becomes a function that makes iterators."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any

import jax

from penstock.core.call_site import with_call_site
from penstock.engine.transfer.batch_layout import BatchLayout, PmapLayout
from penstock.errors import ArgumentTypeError, UsageError
from penstock.graph.arguments.argument_checks import check_annotations
from penstock.iterate.iterator import DataIterator
from penstock.iterate.iterator_options import AutoReset, Shardings, check_names, sharded_layout
from penstock.iterate.peekable import PeekableDataIterator
from penstock.pipeline.pipeline import Pipeline
from penstock.pipeline.pipeline_decorator import split_arguments, trace
from penstock.pipeline.pipeline_options import OPTION_NAMES
from penstock.types import LastBatchPolicy, OnError

Factory = Callable[..., DataIterator]

_SHARD_ARGUMENTS = ("shard_id", "num_shards")


@check_annotations
def data_iterator(
    pipeline_fn: Callable[..., Any] | None = None,
    output_map: Sequence[str] = (),
    size: int = -1,
    reader_name: str | None = None,
    auto_reset: AutoReset = False,
    last_batch_padded: bool = False,
    last_batch_policy: LastBatchPolicy = LastBatchPolicy.FILL,
    prepare_first_batch: bool = True,
    sharding: Shardings | None = None,
    devices: Sequence[jax.Device] | None = None,  # pyright: ignore[reportInvalidTypeForm]  # untyped in JAX
    pmap_compatible: bool | None = None,
    on_error: OnError = "raise",
    max_bad_samples: int | None = None,
    max_bad_rate: tuple[float, int] = (0.1, 1000),
    quarantine: str | PathLike[str] | None = None,
) -> Any:
    """Turn a definition into a function that makes iterators. To be used as a decorator, with or without a call.

    The function that comes out takes the definition's arguments and those of `Pipeline`, told apart by name. Its
    `batch_size` is global: the rows of all devices together. A definition that takes `shard_id` and `num_shards` is
    traced once for each block of rows that the devices cut the batch into, and is given these two; one that does not
    is traced once. Its batches are the same either way. `checkpoints=` takes what `checkpoints()` of an iterator
    returned, and goes on from there.

    Args:
        pipeline_fn: the definition: it calls operators and returns a node or a tuple of nodes.
        output_map: a name per output, in order; outputs without a name are left out.
        size: how many samples an epoch has, where no reader says so; -1 with `reader_name`, or for an endless iterator.
        reader_name: the reader whose length is the epoch.
        auto_reset: whether the iterator, at the end of an epoch, begins the next by itself: False, "no", True, "yes".
        last_batch_padded: DALI's, without effect: readers know whether they repeat their last sample.
        last_batch_policy: what becomes of the last batch, a `LastBatchPolicy`.
        prepare_first_batch: whether the first batch is made at once, so that errors in the data show here.
        sharding: how the outputs lie on the devices: a `NamedSharding` whose first axis spec splits the batch, or a
            dictionary with one per output. Arrays are global, ``(batch_size, ...)``.
        devices: local devices; arrays get the layout of `jax.pmap`, ``(devices, rows of a device, ...)``.
        pmap_compatible: without `sharding` and `devices`: whether arrays are ``(1, batch_size, ...)``.
        on_error: what is done about bad samples: "raise", "skip" or "replace", as `DataIterator` says.
        max_bad_samples: how many of them are tolerated; None for any number.
        max_bad_rate: which share of rows may have any, and of how many rows, those delivered last; of a batch, where it
            has more.
        quarantine: a file to which each bad sample is written, once, as a line of JSON.

    Returns:
        A function that makes a `DataIterator`.

    Raises:
        UsageError: both `sharding` and `devices` are given, or no names.

    Example:
        >>> import jax
        >>> from penstock import data_iterator, fn
        >>> mesh = jax.make_mesh((1,), ("batch",))
        >>> sharding = jax.NamedSharding(mesh, jax.P("batch"))
        >>> @data_iterator(output_map=["x"], reader_name="numbers", sharding=sharding)
        ... def numbers(values):
        ...     return fn.readers.arrays(values, name="numbers")
        >>> [batch["x"].tolist() for batch in numbers(values=[1, 2, 3], batch_size=2)]
        [[1, 2], [3, 1]]
    """
    return _decorator(DataIterator, **locals())


@check_annotations
def peekable_data_iterator(
    pipeline_fn: Callable[..., Any] | None = None,
    output_map: Sequence[str] = (),
    size: int = -1,
    reader_name: str | None = None,
    auto_reset: AutoReset = False,
    last_batch_padded: bool = False,
    last_batch_policy: LastBatchPolicy = LastBatchPolicy.FILL,
    prepare_first_batch: bool = True,
    sharding: Shardings | None = None,
    devices: Sequence[jax.Device] | None = None,  # pyright: ignore[reportInvalidTypeForm]  # untyped in JAX
    pmap_compatible: bool | None = None,
    on_error: OnError = "raise",
    max_bad_samples: int | None = None,
    max_bad_rate: tuple[float, int] = (0.1, 1000),
    quarantine: str | PathLike[str] | None = None,
) -> Any:
    """`data_iterator`, whose iterators let one look at the next batch: see `PeekableDataIterator`.

    Args:
        pipeline_fn: as for `data_iterator`, like all that follow.
        output_map: a name per output.
        size: how many samples an epoch has.
        reader_name: the reader whose length is the epoch.
        auto_reset: whether the next epoch begins by itself.
        last_batch_padded: DALI's, without effect.
        last_batch_policy: what becomes of the last batch; not a PARTIAL one of another shape.
        prepare_first_batch: whether the first batch is made at once.
        sharding: how the outputs lie on the devices.
        devices: local devices, for the layout of `jax.pmap`.
        pmap_compatible: whether arrays are ``(1, batch_size, ...)``.
        on_error: what is done about bad samples.
        max_bad_samples: how many of them are tolerated.
        max_bad_rate: which share of rows may have any, and of how many rows.
        quarantine: a file for them.

    Returns:
        A function that makes a `PeekableDataIterator`.

    Raises:
        UsageError: both `sharding` and `devices` are given, or no names.

    Example:
        >>> from penstock import fn, peekable_data_iterator
        >>> @peekable_data_iterator(output_map=["x"], reader_name="numbers")
        ... def numbers(values):
        ...     return fn.readers.arrays(values, name="numbers")
        >>> iterator = numbers(values=[1, 2, 3, 4], batch_size=2)
        >>> iterator.peek()["x"].tolist(), [batch["x"].tolist() for batch in iterator]
        ([1, 2], [[1, 2], [3, 4]])
    """
    return _decorator(PeekableDataIterator, **locals())


def _decorator(
    kind: type[DataIterator],
    pipeline_fn: Callable[..., Any] | None,
    devices: Sequence[Any] | None,
    sharding: Shardings | None,
    pmap_compatible: bool | None,
    **others: Any,
) -> Any:
    """The decorator whose iterators are of a kind, made with the arguments that the user gave."""
    stacked = devices is not None if pmap_compatible is None else pmap_compatible
    if sharding is not None and devices is not None:
        raise UsageError("only one of sharding and devices can be given", fix="sharding= gives global arrays")
    if devices is not None and not len(devices):
        raise UsageError("devices is empty", fix="jax.local_devices()")
    check_names(others["output_map"])
    layout: BatchLayout | None = None
    if sharding is not None:
        layout = sharded_layout(sharding, others["output_map"])
    elif devices is not None:
        layout = PmapLayout(devices, len(devices))

    options: dict[str, Any] = {**others, "sharding": layout, "pmap_compatible": stacked}

    def decorate(function: Callable[..., Any]) -> Factory:
        definition, defaults = getattr(function, "definition", function), getattr(function, "defaults", {})

        @with_call_site
        @functools.wraps(definition)
        def make(*args: Any, checkpoints: Sequence[str | bytes] | None = None, **kwargs: Any) -> DataIterator:
            traced, ours, theirs = split_arguments(definition, defaults, kwargs, OPTION_NAMES)
            if theirs.get("debug"):
                raise UsageError(
                    "an iterator needs a plan, and in debug mode there is none",
                    given="debug=True",
                    fix="pipeline_def(debug=True), and run() for each batch",
                )
            pipelines = _pipelines(traced, args, ours, theirs, layout, devices)
            if not checkpoints:
                return kind(pipelines, **options)
            iterator = kind(pipelines, **{**options, "prepare_first_batch": False})
            iterator.set_state(json.loads(checkpoints[0]))
            return iterator

        return make

    return decorate if pipeline_fn is None else decorate(pipeline_fn)


def _pipelines(
    definition: Callable[..., Any],
    args: Sequence[Any],
    ours: Mapping[str, Any],
    theirs: Mapping[str, Any],
    layout: BatchLayout | None,
    devices: Sequence[Any] | None,
) -> Pipeline | list[Pipeline]:
    """A pipeline for each block of rows that this process computes; one alone where one trace says it all."""
    name = definition.__name__
    if "batch_size" not in theirs:
        raise UsageError("batch_size is needed: the rows of all devices together", fix=f"{name}(batch_size=...)")
    signature = inspect.signature(definition)
    wanted = [argument for argument in _SHARD_ARGUMENTS if argument in signature.parameters]
    if layout is None:
        given = signature.bind_partial(*args, **ours).arguments
        alone = {"shard_id": 0, "num_shards": 1}
        needed = {
            n: alone[n] for n in wanted if n not in given and signature.parameters[n].default is inspect.Parameter.empty
        }
        return trace(definition, args, {**ours, **needed}, Pipeline(**theirs))
    taken = sorted({*_SHARD_ARGUMENTS, "device_id"} & {*ours, *theirs})
    if taken:
        raise ArgumentTypeError(f"{', '.join(taken)}: the devices decide that for {name}", fix="leave it out")
    rows = theirs["batch_size"]
    layout.check_rows(rows, "the batch")
    if not wanted and devices is None:
        pipeline = Pipeline(**theirs)
        pipeline.set_block(rows // layout.blocks, rows)
        return trace(definition, args, ours, pipeline)
    local = jax.local_devices()
    ids = [None] * len(layout.shards) if devices is None else [local.index(device) for device in devices]
    pipelines: list[Pipeline] = []
    shared: dict[Any, Any] = {}
    for shard, device_id in zip(layout.shards, ids, strict=True):
        block = {**theirs, "batch_size": rows // layout.blocks, "device_id": device_id}
        numbers = {"shard_id": shard, "num_shards": layout.blocks}
        numbers = {argument: numbers[argument] for argument in wanted}
        pipeline = Pipeline(**block)
        pipeline.set_block(rows // layout.blocks, rows, shared)
        pipelines.append(trace(definition, args, {**ours, **numbers}, pipeline))
    return pipelines
