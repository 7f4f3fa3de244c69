"""`DataIterator`: batches of pipelines as dictionaries of global arrays, epoch by epoch."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from os import PathLike
from typing import Any, Self

import jax

from penstock.core.stage_timers import StageTimers
from penstock.engine.executable import Executable, error_policies
from penstock.engine.failures.bad_row import BadRow
from penstock.engine.failures.error_budget import ErrorBudget, ErrorLimits
from penstock.engine.host.sharded_reader import ShardedReader
from penstock.engine.run import Run
from penstock.engine.transfer.batch_layout import BatchLayout
from penstock.errors import ArgumentTypeError, SampleError, SourceError, UsageError
from penstock.graph.arguments.argument_checks import check_annotations
from penstock.graph.identity.fingerprint import canonical_definition
from penstock.graph.ir.node import Graph, Node
from penstock.iterate import dry_run
from penstock.iterate.epoch_schedule import (
    check_epoch,
    check_feeds,
    check_seeks,
    epoch_is_exact,
    epoch_size,
    schedule_of,
)
from penstock.iterate.iterator_options import VALID as VALID
from penstock.iterate.iterator_options import (
    AutoReset,
    Shardings,
    as_pipelines,
    make_layout,
    parse_auto_reset,
    select_outputs,
    without_mask,
)
from penstock.iterate.iterator_state import StateIdentity, encode_array, operator_arrays
from penstock.iterate.process_agreement import agree_on_definition, agree_on_shapes, join_iterator, make_error_budget
from penstock.pipeline.pipeline import Pipeline
from penstock.sources.order.schedule import BatchStep
from penstock.sources.stream import EndOfStreamError
from penstock.types import LastBatchPolicy, OnError, as_on_error

Batch = dict[str, jax.Array]
_log = logging.getLogger("penstock")


class DataIterator:
    """Iterates over pipelines; a batch is a dictionary of `jax.Array`s.

    Several pipelines, one per block of rows, are one run over one global batch: pipeline k of n computes rows
    ``[k * B, (k + 1) * B)``. Their graphs must agree up to shard and device; the seed of the first orders all.

    Args:
        pipelines: a pipeline or a list of them, all with the same batch size B.
        output_map: a name per output, in order; outputs without a name are left out.
        size: how many samples an epoch has, where no reader says so; -1 with `reader_name`, or for an endless iterator.
        reader_name: the reader whose length is the epoch.
        auto_reset: whether the iterator, at the end of an epoch, begins the next by itself: False, "no", True, "yes".
        last_batch_padded: DALI's, without effect: readers know whether they repeat their last sample.
        last_batch_policy: what becomes of the last batch, a `LastBatchPolicy`.
        prepare_first_batch: whether the first batch is made at once, so that errors in the data show here.
        sharding: how the outputs lie on the devices: a `NamedSharding` whose first axis spec splits the batch, or a
            dictionary with one per output. Arrays are global, ``(rows of all devices, ...)``. Without it, one pipeline
            gives arrays on the default device, and several give ``(n, B, ...)``, the layout of `jax.pmap`.
        pmap_compatible: whether one pipeline without sharding gives ``(1, B, ...)``.
        on_error: policy for samples that cannot be read or on which an operator fails: "raise"; "replace" by another
            sample; or "skip": the row is zeros, and False in the additional mask ``valid``. A reader's own option wins.
        max_bad_samples: how many bad samples are tolerated; None for any number.
        max_bad_rate: the tolerated share of rows with bad samples, and the number of last rows, at least a batch.
        quarantine: a file to which each bad sample is written, once, as a line of JSON; one for all processes of a job.

    Attributes:
        batch_size: how many rows a batch has, over all devices.
        size: how many samples an epoch delivers; -1 for an endless iterator.
        output_map: the names.

    Raises:
        UsageError: arguments that do not go together.
        SampleError: a bad sample in the first batch, with `prepare_first_batch`. Later also too many bad samples.

    Example:
        >>> import penstock
        >>> from penstock import DataIterator, fn
        >>> pipeline = penstock.Pipeline(batch_size=2)
        >>> with pipeline:
        ...     pipeline.set_outputs(fn.readers.arrays([1, 2, 3, 4], name="numbers"))
        >>> iterator = DataIterator(pipeline, ["x"], reader_name="numbers")
        >>> [batch["x"].tolist() for batch in iterator]
        [[1, 2], [3, 4]]
    """

    @check_annotations
    def __init__(
        self,
        pipelines: Pipeline | Sequence[Pipeline],
        output_map: Sequence[str],
        size: int = -1,
        reader_name: str | None = None,
        auto_reset: AutoReset = False,
        last_batch_padded: bool = False,
        last_batch_policy: LastBatchPolicy = LastBatchPolicy.FILL,
        prepare_first_batch: bool = True,
        sharding: Shardings | BatchLayout | None = None,
        pmap_compatible: bool | None = None,
        on_error: OnError = "raise",
        max_bad_samples: int | None = None,
        max_bad_rate: tuple[float, int] = (0.1, 1000),
        quarantine: str | PathLike[str] | None = None,
    ) -> None:
        group = as_pipelines(pipelines)
        said = error_policies(group[0].graph, as_on_error(on_error))
        limits = ErrorLimits.of(said, max_bad_samples, max_bad_rate, quarantine)
        skips = "skip" in said
        if skips:
            output_map = without_mask(output_map)
        graphs = [select_outputs(pipeline.graph, output_map) for pipeline in group]
        self.output_map = list(output_map)
        self._auto_reset = parse_auto_reset(auto_reset)
        check_epoch(size, reader_name, last_batch_policy, padded=last_batch_padded, graph=graphs[0])
        layout = make_layout(group, self.output_map, sharding, pmap_compatible)
        # a list with one pipeline is one of one block, where this process computes no other
        per_block = len(group) > 1 or (len(layout.shards) == 1 and not isinstance(pipelines, Pipeline))
        self.batch_size = group[0].max_batch_size * (layout.blocks if per_block else 1)
        layout.check_rows(self.batch_size, "the batch")
        mask = last_batch_policy is LastBatchPolicy.PAD
        if mask and VALID in self.output_map:
            raise UsageError(f"the name {VALID!r} is taken by the mask of LastBatchPolicy.PAD", fix="another name")
        dry = dry_run.active_dry_run()
        placement = group[0].placement if dry is None else dry.placement or group[0].placement
        self._part = join_iterator(layout)
        choices = {
            "batch_size": self.batch_size,
            "output_map": self.output_map,
            "size": size,
            "reader_name": reader_name,
            "last_batch_policy": last_batch_policy.name,
            "placement": placement,
            "on_error": [*said, limits.count, limits.rate, limits.window],
        }
        self._seed, facts = agree_on_definition(graphs, layout, group[0], choices, per_block=per_block)
        self._order_seed = group[0].order_seed
        self._planned = Executable.build(
            graphs, layout, placement, dense_outputs=True, mask=mask, facts=facts, on_error=on_error
        )
        agree_on_shapes(self._planned.plan, layout)
        layout.check_outputs([value.spec for value in self._planned.plan.graph.outputs], output_map, self.batch_size)
        self._names = [*self.output_map, VALID] if mask or skips else self.output_map
        self._policies = said
        self._reader_name = reader_name
        self._read: tuple[int, dict[Node, ShardedReader]] | None = None  # by the order's seed used last
        self._pipeline = group[0]
        # what classes derived from DALI's read, as they count batches; `batch_size` is of all devices, so they are one
        self._pipes, self._num_gpus, self._last_batch_policy = list(group), 1, last_batch_policy
        self._meter = StageTimers()
        schedule = schedule_of(self._readings(self._order_seed), self.batch_size, size, last_batch_policy, layout)
        alone = reader_name is None and layout.processes <= 1  # with others, all must end after the same batch
        self._schedule = replace(schedule, length_unknown=alone and bool(self._planned.plan.graph.feeds))
        check_feeds(self._planned, self._schedule)
        self.size = epoch_size(self._readings(self._order_seed), self._schedule)
        self._size = schedule.length or -1  # as programs take it from DALI: without what fills the last batch
        self._run = self._make_run()
        self._next = self._schedule.first()
        self._held: list[jax.Array] | None = None  # the batch at `_next`, where it was made before it is taken
        self._stream_ended = False  # whether a stream has said that there is no batch at `_next`
        self._failed: Sequence[BadRow] = ()  # its bad rows
        self._ledger = None
        if set(said) != {"raise"}:
            readers = self._readings(self._order_seed)
            self._ledger = make_error_budget(self._part, readers, limits, quarantine, self.batch_size)
        room = 0 if self._ledger is None else self._ledger.room
        definition = canonical_definition(graphs[0])
        self._origin = StateIdentity(definition, self._planned.dataset, len(graphs[0].readers), room)
        self._lock = threading.RLock()  # so that several threads may take batches
        if len({pipeline.order_seed for pipeline in group}) > 1:
            _log.info("the pipelines' seeds differ; the first one's, %d, orders all", self._order_seed)
        if dry is not None:
            dry.listener(self.explain())
        elif prepare_first_batch:
            self._prepare_first(graphs[0])

    def _readings(self, order_seed: int) -> dict[Node, ShardedReader]:
        if self._read is None or self._read[0] != order_seed:
            self._read = order_seed, self._planned.readings(order_seed, self._reader_name, self.batch_size)
        return self._read[1]

    def _make_run(self) -> Run:
        pool, depth = self._pipeline.pool(), self._pipeline.prefetch_queue_depth
        readings = self._readings(self._order_seed)
        return self._planned.start(readings, self._seed, pool, depth, self._schedule, self._meter, narrow=True)

    def _count(self, ledger: ErrorBudget) -> None:
        """Count the bad rows of the batch that is being taken."""
        try:
            ledger.add(self._failed, self._next.rows)
        except SampleError:
            self.close()
            raise

    def _form(self, arrays: Sequence[Any]) -> Any:
        """A batch, from what there is for each of its outputs."""
        return dict(zip(self._names, arrays, strict=True))

    def _here(self) -> list[jax.Array]:
        """The arrays of the batch at which the iterator stands."""
        if dry_run.active_dry_run() is not None:
            raise dry_run.FirstBatchError
        if self._held is None:
            if self._stream_ended:
                raise EndOfStreamError
            try:
                self._held, self._failed = self._run.next_batch(self._next)
            except EndOfStreamError:
                self._stream_ended = True
                raise
        return self._held

    def _prepare_first(self, graph: Graph) -> None:
        try:
            self._here()
        except EndOfStreamError:
            where = graph.feeds[0].where
            raise SourceError("there are no data: the source ends before the first batch", where=where) from None

    def _go_to(self, step: BatchStep) -> None:
        self._next, self._held, self._failed, self._stream_ended = step, None, (), False

    @property
    def element_spec(self) -> Any:
        """Shape, dtype and sharding of each array of a batch, as `jax.ShapeDtypeStruct`s in the form of a batch.

        Known without reading data. `jax.eval_shape` and `jax.jit(...).lower` take it in place of a batch.
        """
        return self._form(self._planned.structs(self.batch_size, mask=len(self._names) > len(self.output_map)))

    def __iter__(self) -> Self:
        with self._lock:
            if self.at_end:
                self.reset()
        return self

    def __next__(self) -> Batch:
        with self._lock:
            try:
                if self.at_end:
                    raise EndOfStreamError
                with nullcontext() if self._part is None else self._part.taking():
                    batch = self._form(self._here())
                    if self._ledger is not None:
                        self._count(self._ledger)
            except EndOfStreamError:
                if self._auto_reset:
                    self.reset()
                raise StopIteration from None
            self._go_to(self._schedule.position_after(self._next))
            return batch

    def next(self) -> Batch:
        """Return the next batch.

        Raises:
            StopIteration: the epoch has ended.
            SampleError: a sample of the batch is bad. The iterator does not advance.
        """
        return self.__next__()

    def __len__(self) -> int:
        """How many batches an epoch has."""
        if self._schedule.batches_per_epoch is None:
            raise ArgumentTypeError("an endless iterator has no length", fix="give reader_name or size")
        return self._schedule.batches_per_epoch

    @property
    def _size_no_pad(self) -> int:
        return self._pipeline.reader_meta(self._reader_name)["epoch_size"]

    @property
    def _shards_num(self) -> int:  # those that are not in a batch
        shards = self._pipeline.reader_meta(self._reader_name)["number_of_shards"]
        return max(1, shards * self._pipeline.max_batch_size // self.batch_size)

    @property
    def batches_delivered(self) -> int:
        """How many batches of its epoch the iterator has delivered; of all epochs, if it is endless."""
        return self._schedule.batches_before(self._next)

    @property
    def visits_each_sample_once(self) -> bool:
        """Whether an epoch has every sample of the reader named by `reader_name` once.

        Rows that ``valid`` masks do not count, and so neither do skipped samples. False if bad samples are replaced, if
        `size` sets the length of an epoch, if only some of the shards are read, and if shards have data sets of their
        own that differ in length, since the shortest ends the epoch.
        """
        return "replace" not in self._policies and epoch_is_exact(self._readings(self._order_seed), self._schedule)

    @property
    def at_start(self) -> bool:
        """Whether the iterator stands at the beginning of an epoch."""
        return not self._next.row

    @property
    def at_end(self) -> bool:
        """Whether the iterator stands at the end of an epoch, where the next one has not begun."""
        return self._stream_ended or self._schedule.is_epoch_end(self._next)

    def reset(self) -> None:
        """Begin the next epoch, when this one has ended. In the middle of an epoch it does nothing but say so."""
        with self._lock:
            if not self.at_end:
                _log.warning("reset() in the middle of an epoch does nothing; the epoch goes on")
                return
            self.next_epoch()

    def next_epoch(self) -> None:
        """Begin the next epoch, wherever this one stands; does nothing at the beginning of one."""
        with self._lock:
            if self._next.row or self._stream_ended:
                self._go_to(self._schedule.next_epoch(self._next))

    def get_state(self) -> dict[str, Any]:
        """Where the iterator stands, as plain JSON of at most 1 KB. `set_state` goes there from anywhere.

        Where operators carry a state, the entry ``operators`` has it as a pytree of arrays; `checkpoints` makes JSON
        of that, too. Where bad samples are skipped or replaced, the entry ``bad`` has their counts, and what
        `max_bad_rate` needs of the last rows, so that limits hold over interruptions.
        """
        with self._lock:
            kept = self._run.carried(self._schedule.batch_at_or_after(self._next))
            bad = None if self._ledger is None else self._ledger.state()
            readings = self._readings(self._order_seed).values()
            return self._origin.state(self._next, self._schedule, self._seed, self._order_seed, readings, kept, bad)

    @check_annotations
    def set_state(self, state: Any, *, new_definition: bool = False) -> None:
        """Go to where another iterator over the same definition and data stood, whatever its devices and threads.

        It may have had another batch size. With `LastBatchPolicy.DROP` and PARTIAL, a batch of this iterator must begin
        there.

        Args:
            state: what its `state` returned.
            new_definition: whether this definition may be another one than the state's, and goes on at the same place
                of the same data. What operators carry from batch to batch is taken over if it fits, else begun anew.

        Raises:
            StateError: it belongs to another definition or data set, or stands where no batch of this iterator begins.
        """
        with self._lock:
            step, *seeds = self._origin.step(
                state, self._schedule, lambda seed: self._readings(seed).values(), new_definition=new_definition
            )
            if step != self._next:
                check_seeks(self._planned)
            if self._ledger is not None:
                self._ledger.restore(state.get("bad"))
            if seeds != [self._seed, self._order_seed]:
                self._run.close()
                self._seed, self._order_seed = seeds
                self._run = self._make_run()
            self._run.resume(self._schedule.batch_at_or_after(step), operator_arrays(state), anew=new_definition)
            self._go_to(step)

    def checkpoints(self) -> list[str]:
        """The state as a list with one JSON text, for programs that keep DALI's checkpoints."""
        return [json.dumps(self.get_state(), default=encode_array)]

    def stats(self) -> dict[str, Any]:
        """What the stages have done so far: calls, samples and seconds, by stage.

        Where bad samples are skipped or replaced, the entry ``bad samples`` has how many there were in the batches that
        were taken, by reader, in all processes of the job.
        """
        stages: dict[str, Any] = dict(self._meter.snapshot())
        return stages if self._ledger is None else stages | {"bad samples": self._ledger.counts()}

    def explain(self) -> str:
        """What runs where, and why, as text."""
        return self._planned.explain(self.batch_size)

    def __reduce__(self) -> Any:
        """Say how to have an iterator in another process: it holds threads and arrays, which cannot be copied."""
        raise ArgumentTypeError(
            "an iterator is neither pickled nor copied",
            fix="make one in the other process from the same definition; pass iterator.get_state() to its set_state()",
            where=self._planned.plan.graph.outputs[0].node.where,
        )

    def close(self) -> None:
        """End the threads. Dropping the iterator does the same; asking for another batch starts them again."""
        self._run.close()
