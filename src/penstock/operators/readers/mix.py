"""readers.mix: concatenation and weighted mixtures of readers."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Unpack, cast

from penstock.errors import ArgumentTypeError, DefinitionError, short_repr
from penstock.graph import DataNode, Node, Range, Reader, operator, parameters
from penstock.operators.readers.reader_arguments import ReaderOrderArguments, apply_whole_reader
from penstock.sources.combine.concatenation import ConcatMember, ConcatSource
from penstock.sources.combine.subset import check_weights
from penstock.sources.order.interleaving import InterleavedSelection, Interleaving

# Positions in the stream are 64-bit integers.
EpochSize = Annotated[int, Range(1, (1 << 62) - 1)]


@operator("readers.mix")
def mix(
    *readers: DataNode | Sequence[DataNode] | Mapping[str, DataNode],
    weights: Any = None,
    epoch_size: EpochSize | None = None,
    **loader: Unpack[ReaderOrderArguments],
) -> Any:
    """Read several data sets as one: concatenated, or mixed with weights.

    The readers define the data sets; order, shards and name are arguments of this operator. Samples of all readers must
    have the same number of values, with equal dtypes, ranks and layouts.

    Without `weights`, the data sets are concatenated. An epoch visits every sample once, also when it is shuffled. A
    reader that is passed twice is read twice.

    With `weights`, the data sets are interleaved. Each has its exact share of any stretch of the stream, across the
    ends of epochs: of two data sets, any L consecutive samples deviate from ``share * L`` by less than one sample. Each
    data set visits all of its samples, in its own order, before it repeats one, and continues in the next epoch where
    it stopped. The position of every sample is computed, so the stream can resume anywhere.

    Args:
        readers: Outputs of each reader: a node, or a list, tuple or dictionary of nodes. They may be a part of its
            outputs.
        weights: Relative share of each reader; 0 leaves one out.
        epoch_size: Number of samples per epoch. The default is the total of the data sets, without those of weight 0.
            With another number, the next epoch continues with the samples that follow.
        **loader: See `ReaderOrderArguments`.

    Returns:
        Nodes, in the form of the outputs of the first reader.

    Raises:
        ArgumentTypeError: An argument is not the output of a reader, or a weight is not a number.
        DefinitionError: No readers; values computed from those of a reader; readers with an order or shard, or with
            other values than the first; weights that are negative, nan, infinite, all 0, or not one per reader; an
            epoch without samples.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=8)
        >>> with pipeline:
        ...     numbers = fn.readers.mix(
        ...         fn.readers.arrays(np.arange(6)), fn.readers.arrays(np.arange(100, 102)), weights=[0.75, 0.25])
        ...     pipeline.set_outputs(numbers)
        >>> pipeline.run()[0].as_array().tolist()
        [0, 1, 100, 2, 3, 4, 101, 5]
    """
    if not readers:
        raise DefinitionError("there is nothing to read", fix="fn.readers.mix(reader, another)")
    names = list(readers[0]) if isinstance(readers[0], Mapping) else None
    members = [_member(number, outputs, names) for number, outputs in enumerate(readers)]
    nodes = apply_whole_reader(ConcatSource(members, _mixture(members, weights, epoch_size)), loader)
    if names is not None:
        return dict(zip(names, nodes, strict=True))
    return nodes if isinstance(readers[0], Sequence) else nodes[0]


def _mixture(members: Sequence[ConcatMember], weights: Any, epoch_size: int | None) -> InterleavedSelection | None:
    """Return the interleaving of the data sets; None if they are concatenated and visited once."""
    sources = [member.source for member in members]
    if weights is None:
        if any(source.selection is not None for source in sources):
            raise DefinitionError(
                "readers that have weights or an epoch_size cannot be concatenated, because an epoch would not visit "
                "every sample once",
                fix=f"weights={[1] * len(members)}",
            )
        if epoch_size is None:
            return None
        # Epochs of another length over concatenated data sets are an interleaving of one data set, which continues
        # across epochs.
        return InterleavedSelection((sum(map(len, sources)),), (None,), Interleaving.from_weights([1]), epoch_size)
    values = check_weights(weights, len(members), "reader")
    # A reader of weight 0 is never visited, so an epoch need not be long enough for it.
    size = sum(source.epoch_length for source, weight in zip(sources, values, strict=True) if weight)
    try:
        interleaving = Interleaving.from_weights(list(weights))
    except ValueError as error:  # the text of True and of a tensor is not a number
        raise ArgumentTypeError(
            "weights are numbers", given=short_repr(weights), fix=f"weights={values.tolist()}"
        ) from error
    selections = tuple(source.selection for source in sources)
    return InterleavedSelection(tuple(map(len, sources)), selections, interleaving, epoch_size or size)


def _member(number: int, values: Any, names: Sequence[str] | None) -> ConcatMember:
    """Return a member of the mixture, from the outputs of its reader."""
    own_names = list(cast(Mapping[str, Any], values)) if isinstance(values, Mapping) else None
    # Outputs are matched by name, so that the order of the dictionaries may differ.
    if (names and set(names)) != (own_names and set(own_names)):
        raise DefinitionError(
            "all readers must have the same output names, or none",
            given=f"{own_names or 'no names'} of reader {number}",
            expected=names or "no names",
        )
    outputs: list[Any] = [values[name] for name in names] if names is not None else _as_list(values)
    # All outputs of a member must come from one node, the reader, because one source is read for them.
    nodes = {output.value.node for output in outputs if isinstance(output, DataNode)}
    if not outputs or len(nodes) != 1 or not all(isinstance(output, DataNode) for output in outputs):
        raise ArgumentTypeError(
            "each argument must be the outputs of one reader",
            given=f"{short_repr(cast(Any, values))}, argument {number}",
            fix="fn.readers.mix(fn.readers.file(...), fn.readers.webdataset(...)), or *readers for a list",
        )
    (node,) = nodes
    reader = node.operator
    if not isinstance(reader, Reader):
        raise DefinitionError(
            "readers must be outputs of readers, not values computed from them",
            given=f"{node}, created at {node.where}",
            fix="mix the readers first, then compute from the mixture",
        )
    _check_order_defaults(node, reader)
    return ConcatMember(reader.source, tuple(output.value.index for output in outputs), str(node))


def _check_order_defaults(node: Node, reader: Reader) -> None:
    """Check that a reader has the default order, shard and error policy.

    Raises:
        DefinitionError: It has others, which the mixture would ignore.
    """
    defaults = parameters(Reader(reader.source))
    # Fields of the operator by the names of the user's arguments.
    names = {"shuffle": "random_shuffle", "pad_last": "pad_last_batch", "contiguous": "shard_mode"}
    other = [names.get(name, name) for name, value in parameters(reader).items() if value != defaults[name]]
    other += ["seed"] if node.seed is not None else []
    if other:
        raise DefinitionError(
            "order, shard and on_error of a mixture are arguments of fn.readers.mix, not of its readers",
            given=f"{', '.join(other)} of {node}, created at {node.where}",
            fix="give them to fn.readers.mix",
        )


def _as_list(value: Any) -> list[Any]:
    return list(cast(Sequence[Any], value)) if isinstance(value, tuple | list) else [value]
