"""What all readers share: the order in which they read, and for which shard."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

from penstock.errors import DefinitionError, short_repr
from penstock.graph.arguments.argument_marks import DataLocation, Default, PerformanceHint
from penstock.graph.ir.operator import Reader
from penstock.graph.tracing.apply import apply_many
from penstock.graph.tracing.trace import DataNode
from penstock.sources.combine.subset import make_subset, resample_by_weight
from penstock.sources.source import Source
from penstock.types import OnError, as_on_error


class ReaderOrderArguments(TypedDict, total=False):
    """In which order a reader visits its samples, and for which shard.

    random_shuffle: visit the samples of each epoch in an order of its own: a permutation of the whole data set, another
    in every epoch. shuffle_after_epoch: the same here. seed, shuffle_after_epoch_seed: a seed for this reader alone;
    readers of the same length follow one order unless their seeds differ. Without it the pipeline's counts, and 0 where
    that has none. shard_id, num_shards: which slice of every
    global batch this reader reads. shard_mode: "global" for such slices; "contiguous" for a static part of the data set
    per shard, as DALI has it. stick_to_shard: stay with one contiguous part from epoch to epoch; it asks for
    "contiguous". pad_last_batch: fill the last batch of an epoch with the last sample, so that the next epoch begins
    with a batch; without it, other samples follow. on_error: what is done about a sample that cannot be read, or on
    which an operator fails that computes from this reader: "raise", "skip" (its row is masked, for iterators only) or
    "replace" (another sample takes its place); without it, what the iterator says.

    The environment variable PENSTOCK_MAX_SAMPLE_SIZE, such as 10GB, is the most bytes that any reader reads for one
    sample, 2 GiB unless it is set. A larger file or record ends the run with a ResourceError before it is read.

    Hints that can only change speed, and do nothing here: initial_fill (the shuffle is always over everything),
    prefetch_queue_depth, read_ahead, dont_use_mmap, lazy_init, skip_cached_images, tensor_init_bytes.
    """

    random_shuffle: Annotated[bool, Default(False)]
    shuffle_after_epoch: Annotated[bool, Default(False)]
    shuffle_after_epoch_seed: Annotated[int | None, Default(None)]
    seed: Annotated[int, Default(-1)]
    shard_id: PerformanceHint[int]
    num_shards: PerformanceHint[int]
    shard_mode: Annotated[str, Default("global")]
    stick_to_shard: Annotated[bool, Default(False)]
    pad_last_batch: Annotated[bool, Default(False)]
    on_error: PerformanceHint[OnError | None]
    initial_fill: PerformanceHint[int]
    prefetch_queue_depth: PerformanceHint[int]
    read_ahead: PerformanceHint[bool]
    dont_use_mmap: PerformanceHint[bool]
    lazy_init: PerformanceHint[bool]
    skip_cached_images: PerformanceHint[bool]
    tensor_init_bytes: PerformanceHint[int]


class ReaderArguments(ReaderOrderArguments, total=False):
    """What every reader takes besides its data set: what `ReaderOrderArguments` describes, and which samples it visits.

    subset: a part of the data set, which is all that the reader has: a slice, a range, an array of numbers or of a
    truth value for each sample; or a function that takes the numbers of all samples, an int64 array, and returns such
    an array. weights: a number for each sample (of the subset), and each position of an epoch has a sample of its own
    draw, with replacement, as often as its weight says; an epoch has as many draws as there are samples.
    """

    subset: DataLocation[Any]
    weights: DataLocation[Any]


def apply_reader(source: Source, arguments: ReaderArguments) -> list[DataNode]:
    """The nodes of a reader's values.

    Raises:
        DefinitionError: arguments that do not go together, more shards than samples.
    """
    part, weights = arguments.get("subset"), arguments.get("weights")
    source = source if part is None else make_subset(source, part)
    return apply_whole_reader(source if weights is None else resample_by_weight(source, weights), arguments)


def apply_whole_reader(source: Source, arguments: ReaderOrderArguments) -> list[DataNode]:
    """The nodes of the values of a data set that is read as it is.

    Raises:
        DefinitionError: arguments that do not go together, more shards than samples.
    """
    shuffle = bool(arguments.get("random_shuffle", False))
    reshuffle = bool(arguments.get("shuffle_after_epoch", False))
    stick = bool(arguments.get("stick_to_shard", False))
    if reshuffle and (shuffle or stick):
        raise DefinitionError(
            "shuffle_after_epoch excludes random_shuffle and stick_to_shard",
            fix="random_shuffle=True alone does the same",
        )
    shard, shards = arguments.get("shard_id", 0), arguments.get("num_shards", 1)
    if not 0 <= shard < shards:
        raise DefinitionError("shard_id lies between 0 and num_shards - 1", given=f"shard {shard} of {shards}")
    samples = source.epoch_length
    if shards > samples:
        raise DefinitionError("there are more shards than samples", given=f"{shards} shards for {samples} samples")
    mode = arguments.get("shard_mode", "contiguous" if stick and shards > 1 else "global")
    if mode not in ("global", "contiguous"):
        raise DefinitionError("no such shard_mode", given=short_repr(mode), expected='"global" or "contiguous"')
    if stick and shards > 1 and mode == "global":
        raise DefinitionError(
            "stick_to_shard keeps a static part of the data set, and a global shard is a slice of every batch",
            given='stick_to_shard=True, shard_mode="global"',
            fix='shard_mode="contiguous", or leave stick_to_shard out',
        )
    if mode == "contiguous" and shards > 1 and source.selection is not None:
        raise DefinitionError(
            "static parts are of data sets that are visited whole, and here weights or epoch_size say what is visited",
            given='shard_mode="contiguous"',
            fix='shard_mode="global": a slice of every batch for each shard',
        )
    seed = arguments.get("shuffle_after_epoch_seed") if reshuffle else None
    reader = Reader(
        source=source,
        shuffle=shuffle or reshuffle,
        shard_id=shard,
        num_shards=shards,
        pad_last_batch=bool(arguments.get("pad_last_batch", False)),
        contiguous=mode == "contiguous",
        stick_to_shard=stick,
        on_error=_checked(arguments.get("on_error")),
    )
    return apply_many(reader, seed=arguments.get("seed", -1) if seed is None else seed)


def _checked(on_error: Any) -> OnError | None:
    return None if on_error is None else as_on_error(on_error)
