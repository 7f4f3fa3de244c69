"""Executable: a planned definition. Merges shards, probes sample 0, plans, and starts runs."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, cast

import jax
import numpy as np

from penstock.core.dataclass import dataclass
from penstock.core.stage_timers import StageTimers
from penstock.engine.host.cached_samples import CachedSamples, cache_definition, cache_stages, open_caches
from penstock.engine.host.chunk_executor import ChunkExecutor
from penstock.engine.host.run_context import RandomDraws, RunContext
from penstock.engine.host.sharded_reader import ShardedReader, check_same_specs
from penstock.engine.host.stream_feed import StreamFeeder
from penstock.engine.run import Run
from penstock.engine.sample_probe import resolve_shapes
from penstock.engine.transfer.batch_layout import BatchLayout
from penstock.errors import DefinitionError, StateError
from penstock.graph import Graph, Node, Reader, WholeBatchKernel
from penstock.graph.ir.sample_cache import cached_reader
from penstock.numerics.permutation import hash_words
from penstock.plan.paired_readers import pair_readers
from penstock.plan.placement import PlacementHint, TargetMachine
from penstock.plan.plan import Plan, make_plan
from penstock.plan.shard_merge import MergedProgram, ReaderFacts, merge_shards
from penstock.sources.external.feed_queue import FeedQueue
from penstock.sources.order.schedule import BatchStep, Schedule
from penstock.sources.storage.file_folders import combined_folders_suffix, without_folders
from penstock.sources.stream import Stream
from penstock.types import OnError


@dataclass(frozen=True)
class Executable:
    """Definition planned for the devices of a layout. Has no threads; `start` creates a run, which has."""

    program: MergedProgram
    plan: Plan
    layout: BatchLayout
    facts: Sequence[Sequence[ReaderFacts]] | None
    on_error: OnError = "raise"
    host_processes: int = 1

    @staticmethod
    def build(
        graphs: Sequence[Graph],
        layout: BatchLayout,
        placement: PlacementHint,
        host_processes: int = 1,
        *,
        dense_outputs: bool,
        mask: bool = False,
        facts: Sequence[Sequence[ReaderFacts]] | None = None,
        on_error: OnError = "raise",
    ) -> Executable:
        """Merge the graphs of all blocks, probe sample 0 if a shape depends on it, and plan.

        Args:
            graphs: A graph per block of rows that this process computes, or one for the whole batch.
            layout: Layout of batches on the devices.
            placement: The user's placement hint.
            host_processes: Number of processes on this host that compute parts of each batch.
            dense_outputs: True if outputs are delivered as arrays, so that none may be ragged.
            mask: True if a mask of the last batch is delivered.
            facts: Facts about the readers of all processes; see `penstock.plan.shard_merge.merge_shards`.
            on_error: Policy for bad samples of readers that do not have their own.

        Raises:
            PenstockError: The definition is wrong, or its first sample is bad.
        """
        # Checked first, because sample 0 may be expensive to compute.
        _check_whole_batches(graphs[0], layout)
        # A single graph is traced for the global batch and serves all blocks.
        shards = layout.shards if len(graphs) > 1 else (0,)
        program = merge_shards(graphs, shards, layout.blocks, facts)
        for readers in program.readers.values():
            check_same_specs(readers)
        program = resolve_shapes(program, dense_outputs=dense_outputs, on_error=on_error)
        target = TargetMachine(layout.platform, bool(jax.config.read("jax_enable_x64")), placement)
        policies = error_policies(graphs[0], on_error)
        if "replace" in policies and graphs[0].feeds:
            raise DefinitionError(
                f"{graphs[0].feeds[0]} is a stream, so no other sample can replace a bad one",
                given='on_error="replace"',
                fix='on_error="skip"',
                where=graphs[0].feeds[0].where,
            )
        # Skipping needs a mask among the plan's results.
        skips = "skip" in policies
        plan = make_plan(program.graph, target, dense_outputs=dense_outputs, mask=mask, skips=skips)
        return Executable(program, plan, layout, facts, on_error, host_processes)

    @property
    def obstacles(self) -> list[tuple[Node, str]]:
        """Feeds whose streams cannot seek, with the reason."""
        return [(node, stream.seek_obstacle) for node, stream in self._streams if stream.seek_obstacle is not None]

    @property
    def _streams(self) -> list[tuple[Node, Stream]]:
        """Each feed with its stream, that of its first block."""
        return [(node, self.program.streams[node.id][0]) for node in self.plan.graph.feeds]

    @property
    def replaced_workers(self) -> int:
        """Number of worker processes of users' sources that were replaced after they ended."""
        # Blocks may share a stream.
        streams = {stream for streams in self.program.streams.values() for stream in streams}
        return sum(stream.replaced_workers for stream in streams)

    def source_positions(self, schedule: Schedule) -> tuple[int | None, Callable[[Schedule], Any]]:
        """Return what the positions of states in sources depend on.

        An item of a list of batches is a batch. A list of samples continues from epoch to epoch, and epochs are rounded
        up to whole batches.

        Returns:
            The batch size, if states must name it; otherwise None. And a function whose results are equal for two
            schedules if positions are, too.
        """

        def keys(schedule: Schedule) -> list[object]:
            return [
                stream.position_key(schedule.batch_size // parts, schedule.rows_per_epoch // parts)
                for node, stream in self._streams
                for parts in (self.layout.blocks if node.id in self.program.local else 1,)
            ]

        counts = any(key is not None for key in keys(schedule))
        return schedule.batch_size if counts else None, keys

    def check_seeks(self, step: BatchStep, schedule: Schedule, *, fed_by_hand: bool = False) -> None:
        """Check that users' sources can return the batch of a step.

        Args:
            step: The step.
            schedule: The steps of the run.
            fed_by_hand: True to accept inputs that the user feeds: what is fed next is the next batch.

        Raises:
            StateError: A source can only continue from its current position, or returns whole batches, none of which
                begins at the step.
        """
        for node, why in self.obstacles:
            if fed_by_hand and isinstance(self.program.streams[node.id][0], FeedQueue):
                continue
            raise StateError(
                f"the source of {node} cannot go to another place: {why}",
                fix="a source that is told which sample or batch is meant, such as a function of types.SampleInfo; or "
                "one with a length and items by number, such as a list",
                where=node.where,
            )
        for node, stream in self._streams:
            if stream.batched and stream.seek_obstacle is None and step.row % schedule.stride:
                raise StateError(
                    f"the state was taken under another batch size, and no batch of {node} begins there",
                    given=f"row {step.row} of the epoch, batch_size={schedule.batch_size}",
                    expected=f"a multiple of {schedule.stride}, because the source returns whole batches",
                    fix="the batch_size that it had, or one that divides the row; or a source of samples, batch=False",
                    where=node.where,
                )

    def readings(self, order_seed: int, lead: Node | None, rows: int) -> dict[Node, ShardedReader]:
        """Create the sharded reader of each reader, for batches of `rows` rows.

        `order_seed` is the seed of all shuffles. The reader `lead` defines the epoch. Readers with the same order
        restart with it in each epoch, so that images and labels of two readers stay paired.
        """
        first = pair_readers(self.plan.graph.readers, self.program.readers)
        named = next((node for node in first if lead is not None and node.id == lead.id), None)

        facts = {node: self._facts_of(node, number) for number, node in enumerate(first)}
        lengths = {node: parts and [of_block.length for of_block in parts] for node, parts in facts.items()}

        def leads(node: Node) -> bool:
            if node is named or named is None or first[node] is not first[named]:
                return node is named
            # A local reader may have the leader's length in this process and another length in others.
            return lengths[node] in (None, lengths[named])

        return {
            node: ShardedReader(
                self.program.readers[node.id],
                self.layout.shards,
                self.layout.blocks if node.id in self.program.local else 1,
                seed=hash_words(*node.key(order_seed)),
                number=number,
                leads=leads(node),
                rows=rows,
                facts=facts[node],
            )
            for number, node in enumerate(self.plan.graph.readers)
        }

    def _facts_of(self, node: Node, number: int) -> list[ReaderFacts] | None:
        """Return the facts of all blocks for a local reader of a job with several processes; otherwise None."""
        if self.facts is None or node.id not in self.program.local:
            return None
        return [of_block[number] for of_block in self.facts]

    def structs(self, rows: int, *, mask: bool) -> list[jax.ShapeDtypeStruct]:
        """Return shape, dtype and sharding of each output of a batch and, if there is one, of its mask."""
        structs = [
            self.layout.shape_dtype_struct(
                number, (rows, *value.spec.fixed_shape), jax.dtypes.canonicalize_dtype(value.spec.dtype)
            )
            for number, value in enumerate(self.plan.graph.outputs)
        ]
        return [*structs, self.layout.shape_dtype_struct(None, (rows,), np.dtype(np.bool_))] if mask else structs

    @cached_property
    def token(self) -> str:
        """Random text of this executable, by which input hosts tell the iterators of equal definitions apart."""
        return secrets.token_hex(16)

    @cached_property
    def dataset(self) -> str:
        """Fingerprint of the data set, over all blocks."""
        texts: list[str] = []
        for number, node in enumerate(self.plan.graph.readers):
            readers = self.program.readers[node.id]
            # A local reader has other data in other processes, so all of them determine the fingerprint.
            if self.facts is not None and node.id in self.program.local:
                parts = dict.fromkeys(of_block[number].dataset for of_block in self.facts)
            else:
                parts = dict.fromkeys(reader.source.fingerprint() for reader in dict.fromkeys(readers))
            names = dict.fromkeys(map(without_folders, parts))
            digest = hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]
            text = next(iter(names)) if len(names) == 1 else f"parts:{digest}"
            texts.append(f"{text}{combined_folders_suffix(parts)}")
        for node in self.plan.graph.feeds:
            texts += dict.fromkeys(stream.fingerprint() for stream in self.program.streams[node.id])
        return "+".join(texts)

    @cached_property
    def caches(self) -> Mapping[Node, CachedSamples]:
        """Caches of samples, by reader. All runs share them.

        Raises:
            ResourceError: The files of a cache can neither be created nor read.
        """
        return {
            reader: open_caches(stage, cache_definition(stage), sources, self.host_processes)
            for stage in cache_stages(self.plan)
            for reader in [cached_reader(stage.nodes[0])]
            for sources in [[one.source for one in self.program.readers[reader.id]]]
        }

    def start(
        self,
        readings: Mapping[Node, ShardedReader],
        seed: int,
        pool: ChunkExecutor,
        depth: int,
        schedule: Schedule,
        meter: StageTimers,
        *,
        narrow: bool,
        draws: RandomDraws | None = None,
    ) -> Run:
        """Create a run.

        Args:
            readings: Readers returned by `readings`.
            seed: Seed of all random numbers but the shuffles'.
            pool: Computes host work.
            depth: Number of host batches to prepare ahead.
            schedule: Steps of the run.
            meter: Timers of the stages.
            narrow: True to deliver 64-bit values in the dtype that JAX gives them; False to keep their dtype.
            draws: Random numbers of the host; None derives them from `seed`.
        """
        streams = {node: self.program.streams[node.id] for node in self.plan.graph.feeds}
        layout, local = self.layout, self.program.local
        context = RunContext(
            readings,
            lead_reader(readings),
            seed,
            schedule,
            meter,
            self.on_error,
            feeder=StreamFeeder(streams, local, layout.shards, layout.blocks, schedule) if streams else None,
            executor=pool,
            prefetch_depth=depth,
            local_rows=layout.local_rows,
            draws=draws,
            caches=self.caches,
            host_processes=self.host_processes,
        )
        return Run(self.plan, layout, context, narrow=narrow)

    def explain(self, rows: int, workers: str = "") -> str:
        """Return a text: where each node runs, and why.

        Args:
            rows: Rows of a batch.
            workers: Description of the worker processes of the host, if there are any.
        """
        from penstock.plan.explain import explain  # noqa: PLC0415  # for texts alone

        blocks, devices, processes = self.layout.blocks, len(self.layout.all_devices), self.layout.processes
        batch = f"{rows} rows" + (f" in {blocks} blocks on {devices} devices" if devices > 1 else "")
        batch += f" of {processes} processes" if processes > 1 else ""
        caches = {reader: cache.summary() for reader, cache in self.caches.items()}
        text = explain(self.plan, self.program.readers, batch, self.program.local, caches)
        return f"{text}\n  host part: in {workers}" if workers else text


def error_policies(graph: Graph, on_error: OnError) -> tuple[OnError, ...]:
    """Return the default policy for bad samples, followed by the policy of each reader of a graph.

    Args:
        graph: The definition.
        on_error: The default.
    """
    readers = [cast(Reader, node.operator) for node in graph.readers]
    return (on_error, *[reader.on_error or on_error for reader in readers])


def _check_whole_batches(graph: Graph, layout: BatchLayout) -> None:
    """Check that no host operator needs rows that another process computes."""
    for node in graph.nodes:
        if isinstance(node.operator, WholeBatchKernel) and len(layout.shards) < layout.blocks:
            raise DefinitionError(
                f"{node} needs all samples of the batch on the host, but this process has only some of them",
                given=f"{len(layout.shards)} of {layout.blocks} blocks",
                fix="an operator that works sample by sample, or fn.jax_function, which sees the whole batch",
                where=node.where,
            )


def lead_reader(readings: Mapping[Node, ShardedReader]) -> ShardedReader | None:
    """Return the reader whose positions select random numbers: the one that defines the epoch, or the first."""
    named = [reading for reading in readings.values() if reading.is_leader]
    return next(iter(named or readings.values()), None)
