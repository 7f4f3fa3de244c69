"""Executor of an iterator's host part, and the description of the iterator for input hosts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, fields, is_dataclass
from types import FunctionType
from typing import Any, cast

from penstock.engine.executable import Executable
from penstock.engine.host.chunk_executor import ChunkExecutor
from penstock.errors import ArgumentTypeError, DefinitionError, UsageError
from penstock.graph import StreamInput, parameters
from penstock.iterate import dry_run
from penstock.iterate.hosted_definition import PIPELINE_ATTRIBUTES, program_identity
from penstock.pipeline.pipeline import Pipeline
from penstock.plan.stage_grouping import flat_stages


def host_executor(iterator: Any) -> ChunkExecutor:
    """Return a new executor of the host part of an iterator.

    Args:
        iterator: A `DataIterator` with its plan and schedule.

    Raises:
        UsageError: The iterator has input hosts, and cannot be described to them.
        DefinitionError, ArgumentTypeError: They cannot compute its definition.
    """
    # This function belongs to the iterator, as its methods do.
    pipeline: Pipeline = iterator._pipeline  # noqa: SLF001
    # A dry run computes no batch, and its hosts may not be there.
    if not pipeline.input_hosts or dry_run.active_dry_run() is not None:
        return pipeline.pool()
    from penstock.engine.input_hosts.host_address import HostCredentials  # noqa: PLC0415  # for input hosts alone
    from penstock.engine.input_hosts.remote_executor import RemoteExecutor  # noqa: PLC0415  # as above

    executable: Executable = iterator._executable  # noqa: SLF001
    _check_hostable(executable)
    return RemoteExecutor(
        pipeline.input_hosts,
        describe(iterator),
        program_identity(executable),
        executable.token,
        pipeline.num_threads,
        HostCredentials.of_environment(),
    )


def describe(iterator: Any) -> dict[str, Any]:
    """Return a description of an iterator's host part as plain JSON.

    A host that calls the same definition with it computes the same rows: it has the arguments, the blocks of rows, the
    kind of devices for which to plan, the schedule and the seeds.

    Raises:
        UsageError: An argument is not plain data, or the pipeline is not a call of a definition.
    """
    executable: Executable = iterator._executable  # noqa: SLF001  # as above
    layout, plan, schedule = executable.layout, executable.plan, iterator._schedule  # noqa: SLF001
    pipelines: list[Pipeline] = iterator._pipes  # noqa: SLF001
    lead, readers = iterator._lead, [node.id for node in plan.graph.readers]  # noqa: SLF001
    facts = executable.facts
    return {
        "calls": [_call(pipeline) for pipeline in pipelines],
        "outputs": iterator.output_map,
        "schedule": {
            "batch_size": schedule.batch_size,
            "length": schedule.length,
            "stride": schedule.stride,
            "strides": schedule.strides,
            "policy": schedule.policy.name,
            "padded": schedule.padded,
        },
        "lead": None if lead is None else readers.index(lead.id),
        "on_error": executable.on_error,
        "placement": pipelines[0].placement,
        "platform": layout.platform,
        "blocks": layout.blocks,
        "shards": layout.shards,
        "facts": None if facts is None else [[asdict(reader) for reader in block] for block in facts],
        "seeds": [iterator._seed, iterator._order_seed],  # noqa: SLF001
    }


def _call(pipeline: Pipeline) -> dict[str, Any]:
    if pipeline.call is None:
        raise UsageError(
            "input hosts call the definition of an iterator, and this pipeline was not made by calling one",
            given=pipeline.name,
            fix="@data_iterator, or @pipeline_def; or leave input_hosts out",
        )
    block = pipeline._definition.trace  # noqa: SLF001  # the block of rows is part of the call
    attributes = {name: getattr(pipeline, name) for name in (*PIPELINE_ATTRIBUTES, "device_id", "seed_is_given")}
    return {**pipeline.call.as_json(), "rows": block.rows, "batch": block.batch, "pipeline": attributes}


def _check_hostable(executable: Executable) -> None:
    """Check that a batch of a definition is a function of its step alone."""
    from penstock.sources.external.processes.task_pickling import uses_own_generator  # noqa: PLC0415  # for input hosts alone

    for stage in flat_stages(executable.plan.stages):
        for node in stage.nodes:
            if isinstance(node.operator, StreamInput):
                raise DefinitionError(
                    f"{node} gets its batches in this process, one after another, so input hosts cannot compute them",
                    fix="a reader, such as fn.readers.items for objects with a length; or input_hosts=[]",
                    where=node.where,
                )
            values = [*parameters(node.operator).values(), *node.arguments.values()]
            if any(uses_own_generator(function) for function in _functions(values)):
                raise ArgumentTypeError(
                    f"a function of {node} uses a random generator of its own, whose numbers depend on earlier calls",
                    fix="a parameter `rng` of the function, which is seeded for each sample; or input_hosts=[]",
                    where=node.where,
                )


def _functions(values: Iterable[Any], depth: int = 8) -> Iterator[FunctionType]:
    """Yield the functions of the user in arguments of an operator."""
    for value in values:
        inner: Iterable[Any] = ()
        if isinstance(value, FunctionType):
            yield value
            inner = (getattr(value, "__wrapped__", None),)
        elif isinstance(value, tuple | list):
            inner = cast(Iterable[Any], value)
        elif is_dataclass(value) and not isinstance(value, type):
            inner = [getattr(value, field.name) for field in fields(value)]
        elif callable(value):
            inner = [getattr(value, name, None) for name in ("func", "__func__", "__wrapped__")]
        if depth:
            yield from _functions(inner, depth - 1)
