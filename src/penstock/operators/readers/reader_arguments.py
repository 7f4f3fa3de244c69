"""Arguments of all readers: order, shard, error policy, and selection of samples."""

from typing import Annotated, Any, Literal, TypeVar

from typing_extensions import TypedDict

from penstock.errors import DefinitionError
from penstock.graph import DataLocation, DataNode, Default, PerformanceHint, Reader, apply_many
from penstock.graph.arguments.argument_groups import CommonArguments
from penstock.sources.combine.flat_labels import FlatLabelSource
from penstock.sources.combine.subset import make_subset, resample_by_weight
from penstock.sources.source import Source
from penstock.types import OnError


class ReaderOrderArguments(TypedDict, total=False):
    """Order in which a reader visits its samples, and its shard.

    The environment variable PENSTOCK_MAX_SAMPLE_SIZE, such as 10GB, limits the bytes that any reader reads for one
    sample; the default is 2 GiB. A larger file or record ends the run with a ResourceError before it is read.

    Args:
        random_shuffle: If True, each epoch visits the samples in another permutation of the data set.
        shuffle_after_epoch: Same as `random_shuffle` here. As in DALI, only `readers.webdataset` and `readers.mxnet`
            take both.
        shuffle_after_epoch_seed: Seed used with `shuffle_after_epoch`; None uses `seed`.
        seed: Seed of this reader; -1 uses the pipeline's, or 0 if it has none. Readers of equal length and seed visit
            their samples in the same order.
        shard_id: Shard to read, from 0 to `num_shards` - 1.
        num_shards: Number of shards, at most the number of samples.
        shard_mode: "global": a slice of every global batch. "contiguous": a contiguous part of the data set, as in
            DALI.
        stick_to_shard: If True, a reader keeps its shard in all epochs; implies shard_mode="contiguous".
        pad_last_batch: If True, the last sample fills the last batch of an epoch; otherwise samples of the next epoch
            do.
        on_error: Action for a sample that cannot be read or that fails in an operator: "raise", "skip" (mask its row;
            iterators only) or "replace" (use another sample). None uses the iterator's.
        initial_fill: DALI's hint; it has no effect, because a shuffle covers the whole data set.
        prefetch_queue_depth: DALI's hint; it has no effect.
        read_ahead: DALI's hint; it has no effect.
        dont_use_mmap: DALI's hint; it has no effect.
        lazy_init: DALI's hint; it has no effect.
        skip_cached_images: DALI's hint; it has no effect.
        tensor_init_bytes: DALI's hint; it has no effect.
    """

    random_shuffle: Annotated[bool, Default(False)]
    shuffle_after_epoch: Annotated[bool, Default(False)]
    shuffle_after_epoch_seed: Annotated[int | None, Default(None)]
    seed: Annotated[int, Default(-1)]
    shard_id: PerformanceHint[Annotated[int, Default(0)]]
    num_shards: PerformanceHint[Annotated[int, Default(1)]]
    shard_mode: Annotated[Literal["global", "contiguous"], Default("global")]
    stick_to_shard: Annotated[bool, Default(False)]
    pad_last_batch: Annotated[bool, Default(False)]
    on_error: PerformanceHint[OnError | None]
    initial_fill: PerformanceHint[Annotated[int, Default(1024)]]
    prefetch_queue_depth: PerformanceHint[Annotated[int, Default(1)]]
    read_ahead: PerformanceHint[Annotated[bool, Default(False)]]
    dont_use_mmap: PerformanceHint[Annotated[bool, Default(False)]]
    lazy_init: PerformanceHint[Annotated[bool, Default(False)]]
    skip_cached_images: PerformanceHint[Annotated[bool, Default(False)]]
    tensor_init_bytes: PerformanceHint[Annotated[int, Default(1048576)]]


class ReaderArguments(ReaderOrderArguments, total=False):
    """Arguments of a reader besides its data set: order, shard, and the samples to visit.

    Args:
        subset: Part of the data set to read: a slice, a range, an array of indices or a boolean array; or a function
            that takes the indices of all samples, int64, and returns such an array.
        weights: Weight of each sample (of the subset). Each position of an epoch then draws a sample with replacement
            with a probability proportional to its weight; the length of an epoch does not change.
    """

    subset: DataLocation[Any]
    weights: DataLocation[Any]


class LabeledReaderArguments(ReaderArguments, total=False):
    """Arguments of a reader that returns labels.

    Args:
        flat_labels: If True, labels are scalars, so that batches have labels of shape (N,), as metrics and losses need;
            by default (N, 1), as in DALI.
    """

    flat_labels: Annotated[bool, Default(False)]


def apply_labeled_reader(source: Source, arguments: LabeledReaderArguments, *, label: int | None = 1) -> list[DataNode]:
    """Record a reader of samples with labels; see `apply_reader`.

    Args:
        source: The data set.
        arguments: Order, shard, samples to visit, and shape of the labels.
        label: Index of the label in the values of a sample; None if samples have no label.

    Raises:
        DefinitionError: As `apply_reader`, or flat labels are requested of samples without a label or with several.
    """
    return apply_reader(FlatLabelSource(source, label) if arguments.get("flat_labels") else source, arguments)


def apply_reader(
    source: Source, arguments: ReaderArguments, *, common: CommonArguments | None = None
) -> list[DataNode]:
    """Record a reader, and return a node per value of its samples.

    Args:
        source: The data set.
        arguments: Order, shard, and the samples to visit.
        common: Arguments that every operator takes, by default those of the running call.

    Raises:
        DefinitionError: Arguments exclude each other, or there are more shards than samples.
    """
    subset, weights = arguments.get("subset"), arguments.get("weights")
    source = source if subset is None else make_subset(source, subset)
    # Weights come second: they are one per sample of the subset.
    return apply_whole_reader(
        source if weights is None else resample_by_weight(source, weights), arguments, common=common
    )


_Arguments = TypeVar("_Arguments", bound=ReaderArguments)


def shuffled_once(arguments: _Arguments) -> _Arguments:
    """Return the arguments without `random_shuffle` if `shuffle_after_epoch` is also set.

    DALI's readers of indexed records take both, and here both are the same permutation.
    """
    result = arguments.copy()
    if result.get("shuffle_after_epoch"):
        result["random_shuffle"] = False
    return result


def apply_whole_reader(
    source: Source, arguments: ReaderOrderArguments, *, common: CommonArguments | None = None
) -> list[DataNode]:
    """Record a reader of all samples of a source; see `apply_reader`."""
    shuffle = bool(arguments.get("random_shuffle", False))
    reshuffle = bool(arguments.get("shuffle_after_epoch", False))
    stick = bool(arguments.get("stick_to_shard", False))
    # DALI rejects both combinations, too. Its shuffle_after_epoch permutes the whole list, which is what random_shuffle
    # does here.
    if reshuffle and (shuffle or stick):
        raise DefinitionError(
            "shuffle_after_epoch excludes random_shuffle and stick_to_shard",
            fix="random_shuffle=True alone does the same",
        )
    shard, shards = arguments.get("shard_id", 0), arguments.get("num_shards", 1)
    if not 0 <= shard < shards:
        raise DefinitionError("shard_id must be from 0 to num_shards - 1", given=f"shard {shard} of {shards}")
    samples = source.epoch_length
    if shards > samples:
        raise DefinitionError("there are more shards than samples", given=f"{shards} shards for {samples} samples")
    # DALI's shards are contiguous. With one shard, both modes are the same.
    mode = arguments.get("shard_mode", "contiguous" if stick and shards > 1 else "global")
    if stick and shards > 1 and mode == "global":
        raise DefinitionError(
            'stick_to_shard needs contiguous shards: with shard_mode="global", a shard is a slice of every batch',
            given='stick_to_shard=True, shard_mode="global"',
            fix='shard_mode="contiguous", or leave stick_to_shard out',
        )
    # A selection draws from the whole data set, so that no shard has a part that only it visits.
    if mode == "contiguous" and shards > 1 and source.selection is not None:
        raise DefinitionError(
            "contiguous shards cannot be combined with weights or epoch_size",
            given='shard_mode="contiguous"',
            fix='shard_mode="global", where each shard is a slice of every batch',
        )
    # DALI has a second seed for this shuffle; without it, that of the operator counts.
    seed = arguments.get("shuffle_after_epoch_seed") if reshuffle else None
    reader = Reader(
        source=source,
        shuffle=shuffle or reshuffle,
        shard_id=shard,
        num_shards=shards,
        pad_last_batch=bool(arguments.get("pad_last_batch", False)),
        contiguous=mode == "contiguous",
        stick_to_shard=stick,
        on_error=arguments.get("on_error"),
    )
    return apply_many(reader, common=common, seed=arguments.get("seed", -1) if seed is None else seed)
