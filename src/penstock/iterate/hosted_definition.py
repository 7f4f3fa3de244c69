"""Definitions that an input host has, and how it builds their programs for a trainer."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import jax

from penstock.core.dataclass import dataclass
from penstock.core.digests import short_digest
from penstock.core.stage_timers import StageTimers
from penstock.engine.executable import Executable, lead_reader
from penstock.engine.host.host_program import HostProgram
from penstock.engine.host.run_context import RunContext
from penstock.engine.host.worker_threads import ThreadExecutor
from penstock.engine.input_hosts import json_messages as messages
from penstock.engine.input_hosts.json_messages import MessageError
from penstock.engine.transfer.batch_layout import BatchLayout, Compute
from penstock.errors import ArgumentTypeError, DefinitionError, InternalError, UsageError, did_you_mean
from penstock.graph import Graph
from penstock.graph.conditionals import definition_with_conditionals
from penstock.graph.identity.fingerprint import fingerprint
from penstock.iterate.code_version import code_digest
from penstock.iterate.function_values import function_values
from penstock.iterate.iterator_options import select_outputs
from penstock.pipeline.definition_call import decode_argument
from penstock.pipeline.pipeline import Pipeline
from penstock.pipeline.pipeline_decorator import definition_name, trace
from penstock.pipeline.pipeline_options import MAX_BATCH
from penstock.plan.shard_merge import ReaderFacts
from penstock.sources.order.schedule import Schedule
from penstock.sources.sample_digest import file_digests
from penstock.types import LastBatchPolicy, OnError

_MAX_BLOCKS = 1 << 16
_FIELDS = (
    "calls",
    "outputs",
    "schedule",
    "lead",
    "on_error",
    "placement",
    "platform",
    "blocks",
    "shards",
    "facts",
    "seeds",
)

# Attributes of a trainer's pipeline that a definition may read from `Pipeline.current()`, with their ranges.
PIPELINE_ATTRIBUTES = {
    "max_batch_size": (1, MAX_BATCH),
    "num_threads": (1, 4096),
    "seed": (0, 2**64),
    "prefetch_queue_depth": (0, 1000),
    "read_threads": (0, 4096),
    "py_num_workers": (0, 4096),
}


@dataclass(frozen=True)
class HostedDefinition:
    """A definition of a program.

    Args:
        function: The definition, as it is written.
    """

    function: Callable[..., Any]

    @staticmethod
    def of(value: Any) -> HostedDefinition | None:
        """Return the definition of a function decorated with `data_iterator` or `pipeline_def`; otherwise None."""
        hosted = getattr(value, "hosted", None)
        if isinstance(hosted, HostedDefinition):
            return hosted
        if inspect.isfunction(value) and isinstance(getattr(value, "defaults", None), dict):
            return HostedDefinition(cast(Any, value).definition)
        return None

    @property
    def name(self) -> str:
        """Name of the definition."""
        return definition_name(self.function)


class TrainerLayout(BatchLayout):
    """Blocks of rows of a trainer's batch, whose devices this process does not have.

    Args:
        platform: JAX's name for the kind of the devices.
        blocks: Number of blocks in the batch.
        shards: Numbers of the blocks that the trainer's process computes.
    """

    def __init__(self, platform: str, blocks: int, shards: Sequence[int]) -> None:
        self._platform = platform
        self.blocks, self.shards, self.devices = blocks, tuple(shards), ()

    @property
    def platform(self) -> str:
        """JAX's name for the kind of the trainer's devices."""
        return self._platform

    def put_batch(self, columns: Mapping[int | None, Any]) -> dict[int | None, jax.Array]:
        """Raise an error: a host has no devices."""
        raise InternalError("an input host has no devices")

    def shape_dtype_struct(self, number: int | None, shape: tuple[int, ...], dtype: Any) -> jax.ShapeDtypeStruct:
        """Raise an error: a host has no devices."""
        raise InternalError("an input host has no devices")

    def compile(self, compute: Compute, numbers: Sequence[int]) -> Compute:
        """Raise an error: a host has no devices."""
        raise InternalError("an input host has no devices")


def program_identity(executable: Executable) -> dict[str, str]:
    """Return the fingerprints of a program, by name: what a trainer and its hosts must have in common."""
    plan = executable.plan
    return {
        "definition": fingerprint(plan.graph),
        "code of the functions": code_digest(plan.graph),
        **{f"the values that {name} uses": digest for name, digest in function_values(plan.graph).items()},
        "data": executable.dataset,
        **_files(executable),
        "dtypes and shapes": short_digest(" ".join(str(value.spec) for value in plan.results)),
        "jax_enable_x64": str(bool(jax.config.read("jax_enable_x64"))),
    }


def _files(executable: Executable) -> dict[str, str]:
    """Return digests of a few files of each reader. A file that one side cannot read is not compared."""
    result: dict[str, str] = {}
    for node in executable.plan.graph.readers:
        sources = {one.source.fingerprint(): one.source for one in executable.program.readers[node.id]}
        for number, source in enumerate(sources.values()):
            block = f" in block {number}" if len(sources) > 1 else ""
            for index, digest in file_digests(source).items():
                result[f"the file of sample {index} of {node}{block}"] = digest
    return result


@dataclass(frozen=True)
class ProgramFactory:
    """Builds the programs that trainers describe.

    Args:
        definitions: The definitions of this host, by name.
        paths: Beginnings of paths of trainers and of this host, which replace them.
        executor: Threads of the programs.
    """

    definitions: Mapping[str, HostedDefinition]
    paths: Sequence[tuple[str, str]]
    executor: ThreadExecutor

    def build(self, description: Mapping[str, Any]) -> tuple[HostProgram, dict[str, str]]:
        """Build a program. Returns it with its fingerprints.

        Args:
            description: The result of `penstock.iterate.host_description.describe`.

        Raises:
            MessageError: The description has another form.
            PenstockError: This host does not have the definition, or cannot compute it.
        """
        entries = messages.fields(description, _FIELDS)
        layout = _layout(entries)
        schedule = _schedule(entries["schedule"])
        on_error, placement = entries["on_error"], entries["placement"]
        if on_error not in ("raise", "skip", "replace") or placement not in ("auto", "host", "device"):
            raise MessageError("an unknown on_error or placement")
        seeds = [
            messages.integer(seed, -(2**64), 2**64, "a seed")
            for seed in messages.sequence(entries["seeds"], 2, "seeds")
        ]
        if len(seeds) != 2:
            raise MessageError("seeds must have 2 entries")
        names = [
            messages.text(name, 1024, "an output") for name in messages.sequence(entries["outputs"], 1024, "outputs")
        ]
        graphs = [select_outputs(graph, names) for graph in self._graphs(entries["calls"])]
        if len(graphs) not in (1, len(layout.shards)):
            raise MessageError("calls must have one entry, or one per shard")
        executable = Executable.build(
            graphs,
            layout,
            placement,
            dense_outputs=True,
            mask=schedule.policy is LastBatchPolicy.PAD,
            facts=_facts(entries["facts"], len(graphs[0].readers)),
            on_error=cast(OnError, on_error),
        )
        readers = executable.plan.graph.readers
        if executable.plan.graph.feeds:
            node = executable.plan.graph.feeds[0]
            raise DefinitionError(f"{node} gets its batches in one process", where=node.where)
        if len(schedule.strides) != len(readers):
            raise UsageError("the definition has another number of readers on the input host")
        lead = None if entries["lead"] is None else messages.integer(entries["lead"], 0, len(readers) - 1, "lead")
        readings = executable.readings(seeds[1], None if lead is None else readers[lead], schedule.batch_size)
        context = RunContext(
            readings,
            lead_reader(readings),
            seeds[0],
            schedule,
            StageTimers(),
            executable.on_error,
            executor=self.executor,
            local_rows=layout.local_rows,
            caches=executable.caches,
        )
        return HostProgram(executable.plan, context), program_identity(executable)

    def _graphs(self, calls: Any) -> list[Graph]:
        """Trace the definition, once for each call."""
        graphs: list[Graph] = []
        shared: dict[Any, Any] = {}  # so that the traces list a remote data set once
        for call in messages.sequence(calls, _MAX_BLOCKS, "calls"):
            entries = messages.fields(call, ("name", "args", "kwargs", "conditionals", "rows", "batch", "pipeline"))
            hosted = self._definition(messages.text(entries["name"], 1024, "name"))
            rows, batch = (messages.integer(entries[name], 1, MAX_BATCH, name) for name in ("rows", "batch"))
            if not isinstance(entries["kwargs"], dict):
                raise MessageError("kwargs must be an object")
            try:
                args = [
                    decode_argument(value, self._path) for value in messages.sequence(entries["args"], 1024, "args")
                ]
                kwargs = {name: decode_argument(value, self._path) for name, value in entries["kwargs"].items()}
            except TypeError as error:
                raise MessageError(str(error)) from None
            function = hosted.function
            if messages.flag(entries["conditionals"], "conditionals"):
                function = definition_with_conditionals(function)
            pipeline = _pipeline(entries["pipeline"])
            pipeline.set_block(rows, batch, shared)
            graphs.append(trace(function, args, kwargs, pipeline).graph)
        if not graphs:
            raise MessageError("calls must have an entry")
        return graphs

    def _definition(self, name: str) -> HostedDefinition:
        if name not in self.definitions:
            raise ArgumentTypeError(
                "the input host serves another definition",
                given=name,
                expected=", ".join(self.definitions),
                fix=did_you_mean(name, self.definitions) + ", or input_hosts=[] for this iterator",
            )
        return self.definitions[name]

    def _path(self, text: str) -> str:
        for old, new in self.paths:
            if text == old or text.startswith(old if old.endswith("/") else f"{old}/"):
                return new + text[len(old) :]
        return text


def _pipeline(message: Any) -> Pipeline:
    """Return a pipeline with the attributes of the trainer's, which a definition may read."""
    entries = messages.fields(message, (*PIPELINE_ATTRIBUTES, "device_id", "seed_is_given"))
    values = {
        name: messages.integer(entries[name], low, high, name) for name, (low, high) in PIPELINE_ATTRIBUTES.items()
    }
    pipeline = Pipeline(batch_size=values["max_batch_size"])
    for name, value in values.items():
        setattr(pipeline, name, value)
    pipeline.seed_is_given = messages.flag(entries["seed_is_given"], "seed_is_given")
    device = entries["device_id"]
    pipeline.device_id = None if device is None else messages.integer(device, 0, 2**31, "device_id")
    return pipeline


def _layout(entries: Mapping[str, Any]) -> TrainerLayout:
    blocks = messages.integer(entries["blocks"], 1, _MAX_BLOCKS, "blocks")
    shards = [
        messages.integer(shard, 0, blocks - 1, "a shard")
        for shard in messages.sequence(entries["shards"], blocks, "shards")
    ]
    if not shards or sorted(set(shards)) != shards:
        raise MessageError("shards must be ascending")
    return TrainerLayout(messages.text(entries["platform"], 32, "platform"), blocks, shards)


def _schedule(message: Any) -> Schedule:
    entries = messages.fields(message, ("batch_size", "length", "stride", "strides", "policy", "padded"))
    policy = messages.text(entries["policy"], 16, "policy")
    if policy not in LastBatchPolicy.__members__:
        raise MessageError("an unknown policy")
    length = entries["length"]
    return Schedule(
        messages.integer(entries["batch_size"], 1, MAX_BATCH, "batch_size"),
        None if length is None else messages.integer(length, 0, 2**62, "length"),
        messages.integer(entries["stride"], 1, 2**62, "stride"),
        tuple(
            [
                messages.integer(one, 1, 2**62, "a stride")
                for one in messages.sequence(entries["strides"], 1024, "strides")
            ]
        ),
        LastBatchPolicy[policy],
        tuple([messages.flag(one, "padded") for one in messages.sequence(entries["padded"], 1024, "padded")]),
    )


def _facts(message: Any, readers: int) -> list[list[ReaderFacts]] | None:
    if message is None:
        return None
    return [
        [_reader_facts(item) for item in messages.sequence(block, readers, "facts")]
        for block in messages.sequence(message, _MAX_BLOCKS, "facts")
    ]


def _reader_facts(message: Any) -> ReaderFacts:
    entries = messages.fields(message, tuple(ReaderFacts.__dataclass_fields__))
    texts = [messages.text(entries[name], 1 << 16, name) for name in ("order", "dataset", "first")]
    numbers = [messages.integer(entries[name], 0, 2**62, name) for name in ("shard_id", "num_shards", "length")]
    return ReaderFacts(texts[0], texts[1], texts[2], numbers[0], numbers[1], numbers[2])
