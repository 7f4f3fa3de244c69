"""`data_iterator`: decorator that turns a definition into a function that makes iterators."""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, ParamSpec, Protocol, TypedDict, TypeVar, Unpack, overload

import jax

from penstock.core import with_call_site
from penstock.core.cpu_limits import cpu_limits
from penstock.engine.executable import error_policies
from penstock.engine.input_hosts.host_address import addresses_of_environment
from penstock.engine.transfer.batch_layout import BatchLayout, PmapLayout
from penstock.errors import ArgumentTypeError, UsageError
from penstock.graph import check_annotations
from penstock.iterate.hosted_definition import HostedDefinition
from penstock.iterate.iterator import DataIterator
from penstock.iterate.iterator_options import (
    AutoReset,
    Shardings,
    check_all_named,
    check_names,
    sharded_layout,
    warn_of_unused_devices,
)
from penstock.iterate.peekable import PeekableDataIterator
from penstock.pipeline.pipeline import Pipeline
from penstock.pipeline.pipeline_decorator import definition_name, split_arguments, trace
from penstock.pipeline.pipeline_options import OPTION_NAMES, PipelineOptions
from penstock.types import LastBatchPolicy, OnError

P = ParamSpec("P")
I_co = TypeVar("I_co", bound=DataIterator, covariant=True)

# Arguments of a definition that reads its shard, with their values if nothing divides the batch.
_ONE_SHARD = {"shard_id": 0, "num_shards": 1}

# The options of a pipeline are arguments of the function that the decorator returns, as in DALI.
_check = functools.partial(
    check_annotations,
    elsewhere={
        name: f"pass {name} where the iterator is made: training("
        + ", ".join(f"{option}=..." for option in dict.fromkeys(("batch_size", name)))
        + ")"
        for name in OPTION_NAMES
    },
)


class PipelineOptionsOrCheckpoints(PipelineOptions, total=False):
    """Arguments that the function of an iterator takes besides those of the definition."""

    checkpoints: Sequence[str | bytes] | None


class IteratorFunction(Protocol[P, I_co]):
    """A function decorated with `data_iterator`; see `PipelineFunction` for what the overloads check."""

    __name__: str

    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> I_co: ...
    @overload
    def __call__(self, **options: Unpack[PipelineOptionsOrCheckpoints]) -> I_co: ...
    @overload
    def __call__(self, *args: Any, batch_size: int, **arguments: Any) -> I_co: ...
    @overload
    def __call__(self, *args: Any, num_threads: int | None, **arguments: Any) -> I_co: ...
    @overload
    def __call__(self, *args: Any, seed: int | None, **arguments: Any) -> I_co: ...
    @overload
    def __call__(self, *args: Any, checkpoints: Sequence[str | bytes] | None, **arguments: Any) -> I_co: ...


class IteratorDecorator(Protocol[I_co]):
    """Result of `data_iterator(...)` without a definition."""

    def __call__(self, pipeline_fn: Callable[P, Any], /) -> IteratorFunction[P, I_co]:
        """Decorate a definition, or a function decorated with `pipeline_def`."""
        ...


class IteratorOptions(TypedDict, total=False):
    """Arguments of `data_iterator` that are usually given by name."""

    reader_name: str | None
    auto_reset: AutoReset
    last_batch_padded: bool
    last_batch_policy: LastBatchPolicy
    prepare_first_batch: bool
    sharding: Shardings | None
    devices: Sequence[jax.Device] | None  # pyright: ignore[reportInvalidTypeForm]  # untyped in JAX
    pmap_compatible: bool | None
    on_error: OnError
    max_bad_samples: int | None
    max_bad_rate: tuple[float, int]
    quarantine: str | PathLike[str] | None
    enable_conditionals: bool


@overload
def data_iterator(
    pipeline_fn: Callable[P, Any],
    output_map: Sequence[str] = (),
    size: int | None = None,
    **options: Unpack[IteratorOptions],
) -> IteratorFunction[P, DataIterator]: ...
@overload
def data_iterator(
    pipeline_fn: None = None,
    output_map: Sequence[str] = (),
    size: int | None = None,
    **options: Unpack[IteratorOptions],
) -> IteratorDecorator[DataIterator]: ...
@_check
def data_iterator(
    pipeline_fn: Callable[..., Any] | None = None,
    output_map: Sequence[str] = (),
    size: int | None = None,
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
    enable_conditionals: bool = False,
) -> Any:
    """Turn a definition into a function that makes iterators. Use it as a decorator, with or without arguments.

    The resulting function takes the definition's arguments and, by name, those of `Pipeline`. Its `batch_size` is
    global: the rows of all devices together. Its `num_threads` is None by default: one thread for each CPU that the
    process may use, by its affinity and the quota of its control group; cheap batches use fewer of them. Its
    `input_hosts` is None by default: the addresses in the environment variable PENSTOCK_INPUT_HOSTS, which commas
    separate, or this machine without it; [] means this machine in any case. PENSTOCK_INPUT_HOSTS_TOKEN is the token of
    the hosts, and PENSTOCK_INPUT_HOSTS_CA a file with the certificates of their authorities. A definition
    that takes `shard_id` and `num_shards` is traced once for each block of rows into which the devices divide the
    batch, with the numbers of the block; any other definition is traced once. The batches are the same either way. To
    resume, pass the result of `iterator.checkpoints()` as `checkpoints=`.

    Args:
        pipeline_fn: The definition: it calls operators and returns a dict of nodes, or a node or a tuple of nodes.
        output_map: Names of all outputs of a definition that does not return a dict, in order. Of a dict, the keys of
            the outputs to return; all by default.
        size: Samples per epoch, independent of the readers; -1 for an endless iterator. None means the length of a
            reader; or, without readers, the end of an external source.
        reader_name: Reader whose length is the epoch. It can be left out if the definition has one reader.
        auto_reset: True or "yes" begins the next epoch at the end of one; False or "no" requires `reset`.
        last_batch_padded: Ignored; an option of DALI. Readers know whether they repeat their last sample.
        last_batch_policy: Policy for a last batch that the epoch does not fill.
        prepare_first_batch: If True, the first batch is computed at once, so that errors in the data show early.
        sharding: Layout of the outputs on devices: a `NamedSharding` whose first axis spec splits the batch, or a dict
            with one per output. Arrays are global, ``(batch_size, ...)``. None puts the arrays on one device; if
            there are several and none is chosen by `device_id`, the logger "penstock" says so once.
        devices: Local devices; arrays get the layout of `jax.pmap`, ``(devices, rows of a device, ...)``.
        pmap_compatible: If True, and without `sharding` and `devices`, arrays are ``(1, batch_size, ...)``.
        on_error: Policy for bad samples: "raise", "skip" or "replace"; see `DataIterator`.
        max_bad_samples: Number of tolerated bad samples; None means any.
        max_bad_rate: Tolerated share of rows with bad samples, and the number of recent rows, at least a batch, over
            which it is measured.
        quarantine: File to which each bad sample is written once, as a line of JSON.
        enable_conditionals: If True, `if`, `and`, `or` and `not` choose for each sample, in the definition and in your
            functions that it calls.

    Returns:
        A function that makes a `DataIterator`.

    Raises:
        UsageError: Both `sharding` and `devices` are given. The function raises it if an output lacks a name, or if
            nothing or any of several readers may determine the epoch.

    Example:
        >>> import jax
        >>> from penstock import data_iterator, fn
        >>> mesh = jax.make_mesh((1,), ("batch",))
        >>> sharding = jax.NamedSharding(mesh, jax.P("batch"))
        >>> @data_iterator(sharding=sharding)
        ... def numbers(values):
        ...     return {"x": fn.readers.arrays(values)}
        >>> [batch["x"].tolist() for batch in numbers(values=[1, 2, 3], batch_size=2)]
        [[1, 2], [3, 1]]
    """
    # `locals()` passes exactly the parameters, so no other variable may be assigned in this function.
    return _decorator(DataIterator, **locals())


@overload
def peekable_data_iterator(
    pipeline_fn: Callable[P, Any],
    output_map: Sequence[str] = (),
    size: int | None = None,
    **options: Unpack[IteratorOptions],
) -> IteratorFunction[P, PeekableDataIterator]: ...
@overload
def peekable_data_iterator(
    pipeline_fn: None = None,
    output_map: Sequence[str] = (),
    size: int | None = None,
    **options: Unpack[IteratorOptions],
) -> IteratorDecorator[PeekableDataIterator]: ...
@_check
def peekable_data_iterator(
    pipeline_fn: Callable[..., Any] | None = None,
    output_map: Sequence[str] = (),
    size: int | None = None,
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
    enable_conditionals: bool = False,
) -> Any:
    """Turn a definition into a function that makes iterators with `peek`; see `PeekableDataIterator`.

    Args:
        pipeline_fn: The definition; this and the other arguments are those of `data_iterator`.
        output_map: Names of the outputs.
        size: Samples per epoch; -1 for an endless iterator.
        reader_name: Reader whose length is the epoch.
        auto_reset: True begins the next epoch at the end of one.
        last_batch_padded: Ignored; an option of DALI.
        last_batch_policy: Policy for the last batch; PARTIAL is refused if it makes the last batch shorter.
        prepare_first_batch: If True, the first batch is computed at once.
        sharding: Layout of the outputs on devices.
        devices: Local devices, for the layout of `jax.pmap`.
        pmap_compatible: If True, arrays are ``(1, batch_size, ...)``.
        on_error: Policy for bad samples.
        max_bad_samples: Number of tolerated bad samples.
        max_bad_rate: Tolerated share of rows with bad samples, and the number of rows.
        quarantine: File to which bad samples are written.
        enable_conditionals: If True, `if`, `and`, `or` and `not` choose for each sample.

    Returns:
        A function that makes a `PeekableDataIterator`.

    Raises:
        UsageError: As for `data_iterator`.

    Example:
        >>> from penstock import fn, peekable_data_iterator
        >>> @peekable_data_iterator
        ... def numbers(values):
        ...     return {"x": fn.readers.arrays(values)}
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
    enable_conditionals: bool,
    **others: Any,
) -> Any:
    """Return the decorator of a kind of iterators, or the decorated definition if there is one."""
    # Programs that pass devices use `jax.pmap`, which needs an axis of devices.
    stacked = devices is not None if pmap_compatible is None else pmap_compatible
    if sharding is not None and devices is not None:
        raise UsageError("only one of sharding and devices can be given", fix="sharding= gives global arrays")
    if devices is not None and not len(devices):
        raise UsageError("devices is empty", fix="jax.local_devices()")
    # A definition that returns a dict names its outputs itself, which is known after the trace.
    names: Sequence[str] = others["output_map"]
    if names:
        check_names(names)
    layout: BatchLayout | None = None
    if sharding is not None:
        layout = sharded_layout(sharding, names or (list(sharding) if isinstance(sharding, Mapping) else [""]))
    elif devices is not None:
        layout = PmapLayout(devices, len(devices))

    # Without names, the layout has the blocks of rows but not the outputs, so the iterator makes its own.
    options = {**others, "sharding": layout if names or sharding is None else sharding, "pmap_compatible": stacked}

    decorator = "data_iterator" if kind is DataIterator else "peekable_data_iterator"
    moved = {name: f"@{decorator}({name}=...)" for name in ("output_map", "size", *IteratorOptions.__annotations__)}
    del moved["enable_conditionals"]  # a call may pass it

    def decorate(function: Callable[..., Any]) -> Callable[..., DataIterator]:
        # A function decorated with `pipeline_def` is accepted, too: it brings its definition and options along.
        definition, defaults = getattr(function, "definition", function), {**getattr(function, "defaults", {})}
        defaults["enable_conditionals"] = enable_conditionals or defaults.get("enable_conditionals", False)

        @with_call_site
        @functools.wraps(definition)
        def make(*args: Any, checkpoints: Sequence[str | bytes] | None = None, **kwargs: Any) -> DataIterator:
            traced, arguments, pipeline_options = split_arguments(definition, defaults, kwargs, OPTION_NAMES, moved)
            if pipeline_options.get("debug"):
                raise UsageError(
                    "an iterator needs a plan, and debug mode has none",
                    given="debug=True",
                    fix="pipeline_def(debug=True), and run() for each batch",
                )
            if layout is None and "device_id" not in pipeline_options:
                warn_of_unused_devices()
            _choose_workers(pipeline_options)
            if checkpoints:
                pipeline_options["checkpoint"] = checkpoints[0]  # a list, as in DALI, of equal states
            pipelines = _pipelines(traced, args, arguments, pipeline_options, layout, devices)
            _check_all_named(function, pipelines, names, others["on_error"])
            return kind(pipelines, **options)

        make.__name__ = definition_name(definition)
        # Input hosts call the definition for the blocks of a trainer's devices, not for their own.
        vars(make)["hosted"] = HostedDefinition(definition)
        return make

    return decorate if pipeline_fn is None else decorate(pipeline_fn)


def _choose_workers(options: dict[str, Any]) -> None:
    """Set the options of a pipeline that say what computes its host part, unless the user has set them."""
    # More threads than CPUs only compete for them; `ChunkScheduler` uses fewer where fewer are faster.
    if options.get("num_threads") is None:
        options["num_threads"] = cpu_limits().usable
    if options.get("input_hosts") is None:
        options["input_hosts"] = addresses_of_environment()


def _check_all_named(
    function: Callable[..., Any], pipelines: Pipeline | Sequence[Pipeline], names: Sequence[str], on_error: OnError
) -> None:
    """Check that every output has a name, if the user gave names; DALI's decorators leave out those without one."""
    graph = (pipelines if isinstance(pipelines, Pipeline) else pipelines[0]).graph
    if names and not getattr(function, "may_leave_outputs_out", False):
        check_all_named(graph, names, skips="skip" in error_policies(graph, on_error))


def _pipelines(
    definition: Callable[..., Any],
    args: Sequence[Any],
    arguments: Mapping[str, Any],
    options: Mapping[str, Any],
    layout: BatchLayout | None,
    devices: Sequence[Any] | None,
) -> Pipeline | list[Pipeline]:
    """Return a pipeline for each block of rows of this process, or one pipeline if a single trace is enough."""
    name, signature = definition_name(definition), inspect.signature(definition)
    if "batch_size" not in options:
        if "batch_size" in signature.parameters:
            raise UsageError(
                f"{name} takes batch_size itself, so the iterator does not get it",
                fix=f"rename that parameter of {name}, and pass batch_size to the iterator",
            )
        raise UsageError("batch_size is needed: the rows of all devices together", fix=f"{name}(batch_size=...)")
    shard_arguments = [argument for argument in _ONE_SHARD if argument in signature.parameters]
    if layout is None:
        bound = signature.bind_partial(*args, **arguments).arguments
        # Without devices nothing divides the batch, so a default that the user declared stays.
        defaults = {argument: signature.parameters[argument].default for argument in shard_arguments}
        required = [argument for argument in shard_arguments if defaults[argument] is inspect.Parameter.empty]
        numbers = {argument: _ONE_SHARD[argument] for argument in required if argument not in bound}
        return trace(definition, args, {**arguments, **numbers}, Pipeline(**options))
    fixed = sorted({*_ONE_SHARD, "device_id"} & {*arguments, *options})
    if fixed:
        raise ArgumentTypeError(f"{', '.join(fixed)}: the devices decide that for {name}", fix="leave it out")
    rows = options["batch_size"]
    layout.check_rows(rows, "the batch")
    # Nothing in this definition depends on the shard, so one trace describes all blocks.
    if not shard_arguments and devices is None:
        pipeline = Pipeline(**options)
        pipeline.set_block(rows // layout.blocks, rows)
        return trace(definition, args, arguments, pipeline)
    local = jax.local_devices()
    ids = [None] * len(layout.shards) if devices is None else [local.index(device) for device in devices]
    pipelines: list[Pipeline] = []
    # The traces of all blocks share the sources that user code calls, so that each source is called once per batch.
    shared: dict[Any, Any] = {}
    for shard, device_id in zip(layout.shards, ids, strict=True):
        block: dict[str, Any] = {**options, "batch_size": rows // layout.blocks, "device_id": device_id}
        pipeline = Pipeline(**block)
        pipeline.set_block(rows // layout.blocks, rows, shared)
        numbers = {"shard_id": shard, "num_shards": layout.blocks}
        numbers = {argument: numbers[argument] for argument in shard_arguments}
        pipelines.append(trace(definition, args, {**arguments, **numbers}, pipeline))
    return pipelines
