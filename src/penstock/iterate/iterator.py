"""`DataIterator`: batches of pipelines as dictionaries of global arrays, epoch by epoch."""

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import lru_cache, partial
from os import PathLike
from typing import Annotated, Any, Self, cast

import jax

from penstock.core.stage_timers import StageTimers
from penstock.core.tracebacks import hide_internal_frames
from penstock.engine.executable import Executable, error_policies
from penstock.engine.failures.error_budget import ErrorLimits
from penstock.engine.host.sharded_reader import ShardedReader
from penstock.engine.run import Run
from penstock.engine.transfer.batch_layout import BatchLayout
from penstock.errors import ArgumentTypeError, SourceError, UsageError
from penstock.graph import Graph, Node, Range, Reader, check_annotations
from penstock.graph.identity.fingerprint import canonical_definition
from penstock.iterate import dry_run
from penstock.iterate.epoch_schedule import (
    check_feeds,
    choose_epoch,
    epoch_is_exact,
    epoch_size,
    iterator_schedule,
    may_end_early,
    no_length,
)
from penstock.iterate.host_description import host_executor
from penstock.iterate.interactive_iterator import InteractiveIterator
from penstock.iterate.iterator_options import VALID as VALID
from penstock.iterate.iterator_options import (
    AutoReset,
    Shardings,
    as_pipelines,
    make_layout,
    output_names,
    select_outputs,
    shared_checkpoint,
)
from penstock.iterate.iterator_statistics import IteratorStatistics
from penstock.iterate.process_agreement import agree_on_definition, agree_on_shapes, join_iterator, make_error_budget
from penstock.pipeline.pipeline import Pipeline
from penstock.pipeline.run_cursor import RunCursor
from penstock.pipeline.run_state import StateIdentity, encode_checkpoint, operator_arrays
from penstock.sources.order.schedule import Schedule
from penstock.sources.stream import EndOfStreamError
from penstock.types import LastBatchPolicy, OnError

Batch = dict[str, jax.Array]
_log = logging.getLogger("penstock")


class DataIterator(InteractiveIterator):
    """Iterator over the batches of pipelines, as dictionaries of `jax.Array`s.

    Several pipelines, one per block of rows, form one run over one global batch: pipeline k of n computes rows
    ``[k * B, (k + 1) * B)``. Their graphs must agree up to shard and device; the seed of the first orders all.

    Args:
        pipelines: A pipeline or a list of them, all with the same batch size B.
        output_map: Names of the outputs, in order; outputs without a name are left out. Of a definition that returns a
            dict, names of the outputs to return; all by default.
        size: Samples per epoch if no reader determines it; -1 with `reader_name`, or for an endless iterator; None
            for the length of the only reader.
        reader_name: Reader whose length is the epoch.
        auto_reset: True or "yes" begins the next epoch at the end of one; False or "no" requires `reset`.
        last_batch_padded: Ignored; an option of DALI. Readers know whether they repeat their last sample.
        last_batch_policy: Policy for a last batch that the epoch does not fill.
        prepare_first_batch: If True, the first batch is computed at once, so that errors in the data show early.
        sharding: Layout of the outputs on devices: a `NamedSharding` whose first axis spec splits the batch, or a dict
            with one per output. Arrays are global, ``(rows of all devices, ...)``. None puts the arrays of one pipeline
            on the default device, and gives those of several the layout of `jax.pmap`, ``(n, B, ...)``.
        pmap_compatible: If True, one pipeline without a sharding returns ``(1, B, ...)``.
        on_error: Policy for samples that cannot be read or on which an operator fails: "raise"; "replace" by another
            sample; or "skip": the row is zeros, and False in the additional mask ``valid``. A reader's own option wins.
        max_bad_samples: Number of tolerated bad samples; None means any.
        max_bad_rate: Tolerated share of rows with bad samples, and the number of recent rows, at least a batch, over
            which it is measured.
        quarantine: File to which each bad sample is written once, as a line of JSON; one for all processes of a job.

    Attributes:
        batch_size: Rows of a batch, over all devices.
        size: Samples that an epoch delivers; -1 for an endless iterator, and if an external source ends the epoch.
        output_map: Names of the outputs.

    Raises:
        UsageError: Arguments contradict each other.
        SampleError: The first batch has a bad sample, with `prepare_first_batch`; later also too many bad samples.

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
        output_map: Sequence[str] = (),
        size: int | None = -1,
        reader_name: str | None = None,
        auto_reset: AutoReset = False,
        last_batch_padded: bool = False,
        last_batch_policy: LastBatchPolicy = LastBatchPolicy.FILL,
        prepare_first_batch: bool = True,
        sharding: Shardings | BatchLayout | None = None,
        pmap_compatible: bool | None = None,
        on_error: OnError = "raise",
        max_bad_samples: Annotated[int, Range(0)] | None = None,
        max_bad_rate: tuple[float, int] = (0.1, 1000),
        quarantine: str | PathLike[str] | None = None,
    ) -> None:
        group = as_pipelines(pipelines)
        policies = error_policies(group[0].graph, on_error)
        limits = ErrorLimits.of(policies, max_bad_samples, max_bad_rate, quarantine)
        skips = "skip" in policies
        self.output_map = output_names(group[0].graph, output_map, skips=skips)
        graphs = [select_outputs(pipeline.graph, self.output_map) for pipeline in group]
        self._auto_reset = auto_reset in (True, "yes")
        size, lead = choose_epoch(size, reader_name, last_batch_policy, padded=last_batch_padded, graph=graphs[0])
        layout = make_layout(group, self.output_map, sharding, pmap_compatible)
        # A list with one pipeline has one block, unless other processes compute further blocks.
        per_block = len(group) > 1 or (len(layout.shards) == 1 and not isinstance(pipelines, Pipeline))
        self.batch_size = group[0].max_batch_size * (layout.blocks if per_block else 1)
        layout.check_rows(self.batch_size, "the batch")
        mask = last_batch_policy is LastBatchPolicy.PAD
        if mask and VALID in self.output_map:
            raise UsageError(f"the name {VALID!r} is taken by the mask of LastBatchPolicy.PAD", fix="another name")
        dry = dry_run.active_dry_run()
        placement = group[0].placement if dry is None else dry.placement or group[0].placement
        self._membership = join_iterator(layout)
        choices = {
            "batch_size": self.batch_size,
            "output_map": self.output_map,
            "size": size,
            "reader_name": None if lead is None else lead.name,
            "last_batch_policy": last_batch_policy.name,
            "placement": placement,
            "on_error": [*policies, limits.count, limits.rate, limits.window],
        }
        # With different definitions, the collectives of the processes would wait for each other forever.
        self._seed, facts, neighbors = agree_on_definition(graphs, layout, group[0], choices, per_block=per_block)
        self._executable = Executable.build(
            graphs, layout, placement, neighbors, dense_outputs=True, mask=mask, facts=facts, on_error=on_error
        )
        plan = self._executable.plan
        # Planning probes samples, and each process may read its own, so shapes can differ although definitions agree.
        agree_on_shapes(plan, layout)
        layout.check_outputs([value.spec for value in plan.graph.outputs], self.output_map, self.batch_size)
        self._names = [*self.output_map, VALID] if mask or skips else self.output_map
        self._policies, self._reader_name, self._lead = policies, reader_name, lead
        self._reader_meta = {} if lead is None else cast(Reader, lead.operator).meta
        # Cached for the order seed that was used last: a state may bring another one.
        readings_of = partial(self._executable.readings, lead=lead, rows=self.batch_size)
        self._readings: Callable[[int], dict[Node, ShardedReader]] = lru_cache(maxsize=1)(readings_of)
        self._pipeline, self._order_seed = group[0], group[0].order_seed
        # Classes derived from DALI's iterators read these names to count batches. `batch_size` includes all devices,
        # so there is one "GPU".
        self._pipes, self._num_gpus, self._last_batch_policy = list(group), 1, last_batch_policy
        self._meter = StageTimers()
        readings = self._readings(self._order_seed)
        schedule = iterator_schedule(readings, self.batch_size, size, last_batch_policy, layout)
        self._check_schedule(schedule)
        self._schedule = schedule = replace(schedule, length_unknown=lead is None and may_end_early(self._executable))
        check_feeds(self._executable, schedule)
        self.size = epoch_size(readings, schedule)
        # In DALI `_size` does not include the samples that fill up the last batch.
        self._size = schedule.length or -1
        budget = None
        if set(policies) != {"raise"}:
            budget = make_error_budget(self._membership, readings, limits, quarantine, self.batch_size)
        self._cursor: RunCursor[jax.Array] = RunCursor(self._make_run(), schedule, Run.next_batch, budget)
        room = 0 if budget is None else budget.room
        sources = () if self._executable.program.local else tuple(r.readers[0].source for r in readings.values())
        identity = canonical_definition(graphs[0]), self._executable.dataset, len(readings), room, sources
        self._identity = StateIdentity(*identity, *self._executable.source_positions(schedule))
        # Reentrant, because `__next__` calls `reset` and `reset` calls `next_epoch`, which lock it too.
        self._lock = threading.RLock()  # several threads may take batches
        if len({pipeline.order_seed for pipeline in group}) > 1:
            _log.info("the pipelines' seeds differ; the first one's, %d, orders all", self._order_seed)
        if dry is not None:
            dry.iterator_made(self)
        elif (restored := shared_checkpoint(group)) is not None:
            self.set_state(restored)  # without a first batch, in which a bad sample would prevent resuming
        elif prepare_first_batch:
            self._prepare_first(graphs[0])

    def _check_schedule(self, schedule: Schedule) -> None:
        """Refuse a schedule that a derived class does not support."""

    def _make_run(self) -> Run:
        readings, pool = self._readings(self._order_seed), host_executor(self)
        depth = self._pipeline.prefetch_queue_depth
        return self._executable.start(readings, self._seed, pool, depth, self._schedule, self._meter, narrow=True)

    def _form(self, arrays: Sequence[Any]) -> Any:
        """Return the batch that consists of these arrays, one per output."""
        return dict(zip(self._names, arrays, strict=True))

    def _peek(self) -> list[jax.Array]:
        """Return the arrays of the next batch without taking it."""
        if (dry := dry_run.active_dry_run()) is not None:
            dry.batch_requested(self)
        return self._cursor.peek()

    def _prepare_first(self, graph: Graph) -> None:
        try:
            self._peek()
        except EndOfStreamError:
            where = graph.feeds[0].where
            raise SourceError("there are no data: the source ends before the first batch", where=where) from None

    @property
    def element_spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        """Shape, dtype and sharding of each array of a batch: a batch of `jax.ShapeDtypeStruct`s.

        Reads no data. Pass it in place of a batch to `jax.eval_shape` and `jax.jit(...).lower`.
        """
        return self._form(self._structs())

    def __iter__(self) -> Self:
        with self._lock:
            if self.ends_here():
                self.reset()
        return self

    def __next__(self) -> Batch:
        with self._lock:
            try:
                if self.at_end:
                    raise EndOfStreamError
                # A single process has no members whose end it must notice.
                with nullcontext() if self._membership is None else self._membership.taking():
                    self._peek()
                    # `_peek` completes the future of a peekable iterator, which `next` would leave without arrays.
                    return self._form(self._cursor.next())
            except EndOfStreamError:
                self._warn_if_empty()
                # StopIteration ends this loop also with auto_reset; the next loop starts the new epoch.
                if self._auto_reset:
                    self.reset()
                raise StopIteration from None
            except Exception as error:
                hide_internal_frames(error)
                raise

    def next(self) -> Batch:
        """Return the next batch.

        Raises:
            StopIteration: The epoch has ended.
            SampleError: A sample of the batch is bad. The iterator does not advance.
        """
        return self.__next__()

    def __len__(self) -> int:
        """Return the number of batches in an epoch."""
        if self._schedule.batches_per_epoch is None:
            raise no_length(self._schedule)
        return self._schedule.batches_per_epoch

    @property
    def _size_no_pad(self) -> int:
        return self._reader_meta["epoch_size"]

    # In DALI a batch belongs to one shard. Here it may contain several, which then do not count.
    @property
    def _shards_num(self) -> int:
        return max(1, self._reader_meta["number_of_shards"] * self._pipeline.max_batch_size // self.batch_size)

    @property
    def batches_delivered(self) -> int:
        """Number of batches delivered in this epoch; over all epochs for an endless iterator."""
        return self._schedule.batches_before(self._cursor.step)

    @property
    def visits_each_sample_once(self) -> bool:
        """True if an epoch has every sample of the reader that determines it once.

        Rows that ``valid`` masks do not count, which includes skipped samples. False if bad samples are replaced, if
        `size` sets the length of an epoch, if only some of the shards are read, and if shards have separate data sets
        that differ in length, since the shortest ends the epoch.
        """
        return "replace" not in self._policies and epoch_is_exact(self._readings(self._order_seed), self._schedule)

    @property
    def at_start(self) -> bool:
        """True at the beginning of an epoch."""
        return not self._cursor.step.row

    @property
    def at_end(self) -> bool:
        """True at the end of an epoch, before the next one begins."""
        return self._cursor.at_end

    def reset(self) -> None:
        """Begin the next epoch if this one has ended; otherwise log a warning and do nothing."""
        with self._lock:
            if self.at_end:
                self.next_epoch()
            else:
                _log.warning("reset() in the middle of an epoch does nothing; the epoch continues")

    def next_epoch(self) -> None:
        """Begin the next epoch, even in the middle of one. Does nothing at the beginning of an epoch."""
        with self._lock:
            self._cursor.end_epoch()

    def get_state(self) -> dict[str, Any]:
        """Return the position of the iterator as plain JSON of at most 1 KB, for `set_state`.

        If operators have a state, the entry ``operators`` holds it as a pytree of arrays, which `checkpoints` encodes
        as JSON. If bad samples are skipped or replaced, the entry ``bad`` holds their counts and the recent rows that
        `max_bad_rate` needs, so that the limits apply across interruptions.
        """
        with self._lock:
            cursor, step = self._cursor, self._cursor.step
            operators = cursor.run.carried(self._schedule.batch_at_or_after(step))
            bad = None if cursor.budget is None else cursor.budget.state()
            readings, ended = self._readings(self._order_seed).values(), cursor.stream_ended
            seeds = self._seed, self._order_seed
            return self._identity.state(step, self._schedule, *seeds, readings, operators, bad, ended=ended)

    @check_annotations
    def set_state(self, state: Any, *, new_definition: bool = False) -> None:
        """Move to the position of another iterator over the same definition and data, on any devices and threads.

        The other iterator may have had another batch size. With `LastBatchPolicy.DROP` and PARTIAL, a batch of this
        iterator must begin at the position.

        Args:
            state: Result of `get_state`.
            new_definition: If True, the definition may differ from that of the state; the data continue at the same
                position. The state of operators is restored if it fits, otherwise reset.

        Raises:
            StateError: The state belongs to another definition or data set, or no batch of this iterator begins there.
        """
        with self._lock:
            step, *seeds = self._identity.step(
                state, self._schedule, lambda seed: self._readings(seed).values(), new_definition=new_definition
            )
            cursor = self._cursor
            # A state of the current position needs no seek, so it is valid even for a source that cannot seek.
            if step != cursor.step:
                self._executable.check_seeks(step, self._schedule)
            start, operators = self._schedule.batch_at_or_after(step), operator_arrays(state)
            # Before any change, so that the iterator stays where it is if the state is refused.
            cursor.run.check_state(start, operators, allow_reset=new_definition)
            if cursor.budget is not None:
                cursor.budget.restore(state.get("bad"))
            # The batches that are prepared ahead were computed with the other seeds, so the run is replaced.
            if seeds != [self._seed, self._order_seed]:
                cursor.run.close()
                self._seed, self._order_seed = seeds
                cursor.run = self._make_run()
            cursor.run.resume(start, operators, allow_reset=new_definition)
            # A batch that was peeked belongs to the old position, so the cursor forgets it even if the step is equal.
            self._move(step, ended=state.get("ended", False))

    # PyTorch's names, for programs and libraries that call them.
    state_dict, load_state_dict = get_state, set_state

    def checkpoints(self) -> list[bytes]:
        """Return the state as JSON, once per pipeline: DALI's form, for ``Pipeline(checkpoint=...)``."""
        return [encode_checkpoint(self.get_state())] * len(self._pipes)

    def stats(self) -> IteratorStatistics:
        """Return the calls, samples, wall and CPU time of each stage so far: a mapping that prints as a table.

        If bad samples are tolerated, ``bad samples`` has their number per reader, over all processes of the job.
        """
        budget = self._cursor.budget
        counts = None if budget is None else budget.counts()
        replaced = self._executable.replaced_workers
        return IteratorStatistics(self._meter.snapshot(), counts, self._cursor.run.workers, replaced)

    def explain(self) -> str:
        """Return a text that says where each node runs, and why."""
        return self._executable.explain(self.batch_size, self._cursor.run.workers)

    def __reduce__(self) -> Any:
        """Refuse to be pickled or copied: an iterator holds threads and arrays."""
        raise ArgumentTypeError(
            "an iterator cannot be pickled or copied",
            fix="make one in the other process from the same definition; pass iterator.get_state() to its set_state()",
            where=self._executable.plan.graph.outputs[0].node.where,
        )
