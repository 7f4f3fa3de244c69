"""Figure of an iterator's next batch, with what the definition and the readers say about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import PurePath
from typing import Any

import numpy as np

from penstock.core import with_call_site
from penstock.core.dataclass import dataclass
from penstock.engine.host.sharded_reader import SampleIndices, ShardedReader
from penstock.errors import ContextError, DefinitionError, UsageError
from penstock.graph import Node, Value
from penstock.graph.ir.reader_lineage import reader_value_of, upstream_readers
from penstock.sources.order.schedule import BatchStep
from penstock.sources.stream import EndOfStreamError

# Longer paths would run into the title of the next image.
_MAX_PATH = 32


@with_call_site
def show_next(self: Any, n: int = 16, **options: Any) -> Any:
    """Draw the samples of the next batch, with their paths and indices, without taking the batch.

    The iterator keeps the batch and returns it next, so drawing costs no batch and changes no state. Images that
    `fn.crop_mirror_normalize` has normalized by constants are drawn as they were before.

    Args:
        self: The iterator.
        n: Largest number of samples; at most a batch is drawn.
        **options: Options of `penstock.show`.

    Returns:
        A `matplotlib.figure.Figure`.

    Raises:
        ContextError: The epoch has ended.
        UsageError: Some rows of the batch are in other processes.
        SampleError: A sample of the batch is bad.

    Example:
        >>> import numpy as np
        >>> from penstock import data_iterator, fn
        >>> @data_iterator
        ... def images(data):
        ...     return {"images": fn.readers.arrays(data, layout="HWC")}
        >>> iterator = images(data=np.zeros((4, 8, 8, 3), np.uint8), batch_size=2)
        >>> [axes.get_title() for axes in iterator.show().axes], iterator.at_start
        (['sample 0', 'sample 1'], True)
    """
    from penstock.pictures import DescribedBatch, describe_output, show  # noqa: PLC0415  # for figures alone

    with self._lock:
        step, executable = self._cursor.step, self._executable
        if executable.layout.processes > 1:
            raise UsageError(
                "this process has only some rows of the batch", fix="penstock.show(array.addressable_data(0))"
            )
        try:
            if self.at_end:
                raise EndOfStreamError
            arrays = self._peek()
        except EndOfStreamError:
            problem = "the epoch has ended, so there is no next batch to show"
            raise ContextError(problem, fix="iterator.reset() first") from None
        batch = dict(zip(self._names, arrays, strict=True))
        outputs = dict(zip(self.output_map, executable.plan.graph.outputs, strict=True))
        infos = {name: describe_output(value) for name, value in outputs.items()}
        # The readers of separate blocks of rows may number other classes.
        if executable.program.local:
            infos = {name: replace(info, class_names={}) for name, info in infos.items()}
        readings = {node.id: reading for node, reading in self._readings(self._order_seed).items()}
        samples = _ShownSamples(readings, outputs, step, n, may_be_replaced="replace" in self._policies)
    return show(DescribedBatch(batch, infos, samples.origins, samples.related), n=n, **options)


@dataclass(frozen=True)
class _ShownSamples:
    """Samples of the next batch that a figure shows.

    Args:
        readings: The reader of each node, by its id.
        outputs: Outputs by name.
        step: The batch.
        n: Largest number of samples.
        may_be_replaced: True if other samples may take the place of bad ones.
    """

    readings: Mapping[int, ShardedReader]
    outputs: Mapping[str, Value]
    step: BatchStep
    n: int
    may_be_replaced: bool

    def origins(self, name: str) -> list[str]:
        """Return index and path of each sample of an output; nothing if no single reader determines them."""
        try:
            source = reader_value_of(self.outputs[name]) if name in self.outputs else None
        except DefinitionError:  # the branches of a condition read from different readers
            return []
        # A bad sample may have been replaced by one that the order does not tell.
        if source is None or source.node.id not in self.readings or self.may_be_replaced:
            return []
        texts: list[str] = []
        for sample in self._samples(source.node):
            index = int(sample.indices[0])
            path = sample.source.path(index)
            # Files have a path of their own; the path of a database is the same for all samples.
            info = "" if path is None else sample.source.source_info(index, source.index)
            texts.append("\n".join(filter(None, [f"sample {index}", _shorten(info)])))
        return texts

    def related(self, image: str, other: str) -> bool:
        """Return False if other readers than those of the images read an output, in an order that is not theirs."""
        if image not in self.outputs or other not in self.outputs:
            return True
        first, second = (upstream_readers(self.outputs[name].node) for name in (image, other))
        if not first or not second or {node.id for node in first} & {node.id for node in second}:
            return True
        # The order of streams is unknown, so what the definition returns together counts as pairs.
        if not {node.id for node in (*first, *second)} <= self.readings.keys():
            return True
        return any(self._order(one) == self._order(two) for one in first for two in second)

    def _order(self, node: Node) -> tuple[int, list[int]]:
        """Return the length of a reader and the indices of the rows, which readers of pairs have in common."""
        return self.readings[node.id].length, [int(sample.indices[0]) for sample in self._samples(node)]

    def _samples(self, node: Node) -> Iterator[SampleIndices]:
        """Yield the index of each sample that a reader reads."""
        for row in range(min(self.n, self.step.rows)):
            yield from self.readings[node.id].samples(self.step, np.array([row]))


def _shorten(path: str) -> str:
    """Return a path, or its end if it is long."""
    return path if len(path) <= _MAX_PATH else f"…{str(PurePath(path))[1 - _MAX_PATH :]}"
