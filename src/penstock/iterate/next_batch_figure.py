"""Figure of an iterator's next batch, with what the definition and the readers say about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any

import numpy as np

from penstock.core import with_call_site
from penstock.errors import ContextError, DefinitionError, UsageError
from penstock.graph.ir.reader_lineage import reader_value_of
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
        outputs = executable.plan.graph.outputs
        infos = {name: describe_output(value) for name, value in zip(self.output_map, outputs, strict=True)}
        # The readers of separate blocks of rows may number other classes.
        if executable.program.local:
            infos = {name: replace(info, class_names={}) for name, info in infos.items()}
        origins = _origins(self, outputs, step, n)
    return show(DescribedBatch(batch, infos, origins), n=n, **options)


def _origins(iterator: Any, outputs: Sequence[Any], step: Any, n: int) -> list[str]:
    """Return index and path of each sample of a batch; nothing if no single reader determines them."""
    try:
        source = reader_value_of(outputs[0])
    except DefinitionError:  # the branches of a condition read from different readers
        return []
    readings = iterator._readings(iterator._order_seed)  # noqa: SLF001  # this function is a method of the iterator
    reading = next((reading for node, reading in readings.items() if source and node.id == source.node.id), None)
    # A bad sample may have been replaced by one that the order does not tell.
    if source is None or reading is None or "replace" in iterator._policies:  # noqa: SLF001  # as above
        return []
    texts: list[str] = []
    for row in range(min(n, step.rows)):
        (sample,) = reading.samples(step, np.array([row]))
        index = int(sample.indices[0])
        path = sample.source.path(index)
        # Files have a path of their own; the path of a database is the same for all samples.
        info = "" if path is None else sample.source.source_info(index, source.index)
        texts.append("\n".join(filter(None, [f"sample {index}", _shorten(info)])))
    return texts


def _shorten(path: str) -> str:
    """Return a path, or its end if it is long."""
    return path if len(path) <= _MAX_PATH else f"…{str(PurePath(path))[1 - _MAX_PATH :]}"
