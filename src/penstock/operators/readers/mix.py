"""readers.mix: several readers as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack, cast

from penstock.errors import ArgumentTypeError, DefinitionError, short_repr
from penstock.graph.ir.node import Node
from penstock.graph.ir.operator import Reader, parameters
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.operators.readers.reader_arguments import ReaderOrderArguments, apply_whole_reader
from penstock.sources.combine.concatenation import ConcatMember, ConcatSource
from penstock.sources.combine.subset import check_weights
from penstock.sources.order.interleaving import InterleavedSelection, Interleaving


@operator("readers.mix")
def mix(
    *readers: DataNode | Sequence[DataNode] | Mapping[str, DataNode],
    weights: Any = None,
    epoch_size: int | None = None,
    **loader: Unpack[ReaderOrderArguments],
) -> Any:
    """Read several data sets as one: one behind the other, or mixed in shares.

    The readers say what is read; order, shards and name are given here. Their samples have the same values: as many,
    with the same dtype, number of axes and layout.

    Without `weights`, the data sets lie one behind the other, and an epoch has every sample once, also when it is
    shuffled. A reader that is given twice is read twice.

    With `weights`, the data sets take turns, each in its exact share of any stretch of the stream, across the ends of
    epochs: of two, any L samples in a row have fewer than one sample more or less than ``share * L``. Each data set
    visits all of its samples, in an order of its own, before it visits one again, and goes on in the next epoch where
    it was. The place of every sample is computed, so the stream can be continued anywhere.

    Args:
        readers: what each reader returned, a node, or a list, tuple or dictionary of nodes; some will do.
        weights: a list with the share of each reader, compared with the others; 0 leaves one out.
        epoch_size: how many samples an epoch has. By default as many as the data sets have together, without those of
            weight 0. With another number the next epoch goes on with the samples that follow.
        **loader: See `ReaderOrderArguments`.

    Returns:
        Nodes, in the form of the first reader's.

    Raises:
        ArgumentTypeError: what is no reader's output; a weight that is no number.
        DefinitionError: no readers; values that are computed from a reader's; readers with an order or shard of their
            own, or with other values than the first one; weights that are negative, nan, infinite, all 0, or not one
            for each reader; an epoch without samples.

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
        raise DefinitionError("fn.readers.mix has nothing to read", fix="fn.readers.mix(reader, another)")
    names = list(readers[0]) if isinstance(readers[0], Mapping) else None
    parts = [_part(number, given, names) for number, given in enumerate(readers)]
    nodes = apply_whole_reader(ConcatSource(parts, _mixture(parts, weights, epoch_size)), loader)
    if names is not None:
        return dict(zip(names, nodes, strict=True))
    return nodes if isinstance(readers[0], Sequence) else nodes[0]


def _mixture(parts: Sequence[ConcatMember], weights: Any, epoch_size: int | None) -> InterleavedSelection | None:
    """How data sets are mixed; None where they lie one behind the other."""
    sources = [part.source for part in parts]
    if epoch_size is not None and not 0 < epoch_size < 1 << 62:
        raise DefinitionError(
            "epoch_size is a number of samples", given=f"epoch_size={epoch_size}", expected="at least 1"
        )
    if weights is None:
        joined = [each for each in sources if each.selection is not None]
        if joined:
            raise DefinitionError(
                "readers with weights or an epoch_size of their own are mixed by weights: one behind the other, an "
                "epoch has every sample once",
                fix=f"weights={[1] * len(parts)}",
            )
        if epoch_size is None:
            return None
        return InterleavedSelection((sum(map(len, sources)),), (None,), Interleaving.from_weights([1]), epoch_size)
    values = check_weights(weights, len(parts), "reader")
    size = sum(source.epoch_length for source, weight in zip(sources, values, strict=True) if weight)
    turns = Interleaving.from_weights(list(weights))
    choices = tuple(source.selection for source in sources)
    return InterleavedSelection(tuple(map(len, sources)), choices, turns, epoch_size or size)


def _part(number: int, given: Any, names: Sequence[str] | None) -> ConcatMember:
    """A data set, from the outputs of its reader."""
    named = list(cast(Mapping[str, Any], given)) if isinstance(given, Mapping) else None
    if (names and set(names)) != (named and set(named)):
        raise DefinitionError(
            "fn.readers.mix: the readers name their outputs alike, or none does",
            given=f"{named or 'no names'} of reader {number}",
            expected=names or "no names",
        )
    outputs: list[Any] = [given[name] for name in names] if names is not None else _listed(given)
    nodes = {output.value.node for output in outputs if isinstance(output, DataNode)}
    if not outputs or len(nodes) != 1 or not all(isinstance(output, DataNode) for output in outputs):
        raise ArgumentTypeError(
            "fn.readers.mix takes for each data set the outputs of one reader",
            given=f"{short_repr(cast(Any, given))}, number {number}",
            fix="fn.readers.mix(fn.readers.file(...), fn.readers.webdataset(...)), and *readers for a list of them",
        )
    (node,) = nodes
    reader = node.operator
    if not isinstance(reader, Reader):
        raise DefinitionError(
            "fn.readers.mix takes what readers return, before anything is computed from it",
            given=f"{node}, made at {node.where}",
            fix="mix the readers, and compute from what that gives",
        )
    _check_plain(node, reader)
    return ConcatMember(reader.source, tuple(output.value.index for output in outputs), str(node))


def _check_plain(node: Node, reader: Reader) -> None:
    """Check that a reader says nothing of its order.

    Raises:
        DefinitionError: it does.
    """
    plain = parameters(Reader(reader.source))
    names = {"shuffle": "random_shuffle", "pad_last": "pad_last_batch", "contiguous": "shard_mode"}
    other = [names.get(name, name) for name, value in parameters(reader).items() if value != plain[name]]
    other += ["seed"] if node.seed is not None else []
    if other:
        raise DefinitionError(
            "the order of a mixture, its shard and what is done about bad samples are given to fn.readers.mix",
            given=f"{', '.join(other)} of {node}, made at {node.where}",
            fix="give them to fn.readers.mix",
        )


def _listed(given: Any) -> list[Any]:
    return list(cast(Sequence[Any], given)) if isinstance(given, tuple | list) else [given]
