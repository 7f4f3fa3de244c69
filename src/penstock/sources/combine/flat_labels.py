"""Data sets whose labels are scalars instead of vectors of one element."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from penstock.core import Array, Column, Indices
from penstock.errors import DefinitionError
from penstock.sources.source import Outcomes, Source
from penstock.sources.storage.byte_range import ByteRange


class FlatLabelSource(Source):
    """A data set with one label per sample, of shape () instead of (1,).

    Args:
        source: Underlying data set.
        label: Index of the label in the values of a sample; None if samples have no label.

    Raises:
        DefinitionError: Samples have no label, or several.
    """

    def __init__(self, source: Source, label: int | None) -> None:
        if label is None:
            raise DefinitionError(
                "flat_labels=True needs labels, and this reader returns none", fix="leave flat_labels out"
            )
        if source.specs[label].shape != (1,):
            raise DefinitionError(
                "flat_labels=True needs one label per sample",
                given=f"labels {source.specs[label]}",
                fix="leave flat_labels out",
            )
        self.specs = tuple(
            replace(spec, shape=()) if value == label else spec for value, spec in enumerate(source.specs)
        )
        self.cost, self.selection = source.cost, source.selection
        self.named_values, self.separate_names = source.named_values, source.separate_names
        self.in_memory = [
            values.reshape(-1) if value == label else values for value, values in enumerate(source.in_memory)
        ]
        self._source, self._label = source, label

    def __len__(self) -> int:
        return len(self._source)

    def read(self, indices: Indices, out: Sequence[Array | None]) -> tuple[Column, ...]:
        """Read samples."""
        return self._flatten(self._source.read(indices, self._without_label(out)), out)

    def read_tolerant(self, indices: Indices, out: Sequence[Array | None]) -> Outcomes:
        """Read samples, and return errors instead of raising them."""
        columns, errors = self._source.read_tolerant(indices, self._without_label(out))
        return self._flatten(columns, out), errors

    def byte_ranges(self, indices: Indices) -> Sequence[ByteRange]:
        """Return the byte ranges that the underlying data set requests."""
        return self._source.byte_ranges(indices)

    def describe(self, index: int) -> str:
        """Return the location of the sample."""
        return self._source.describe(index)

    def source_info(self, index: int, value: int = 0) -> str:
        """Return the source info of a value."""
        return self._source.source_info(index, value)

    def class_names(self, value: int) -> Mapping[int, str]:
        """Return the class names of the underlying data set."""
        return self._source.class_names(value)

    def path(self, index: int) -> str | None:
        """Return the path of the file that holds the sample."""
        return self._source.path(index)

    def summary(self) -> str:
        """Describe the underlying data set."""
        return self._source.summary()

    def identity(self) -> tuple[Any, ...]:
        """Return the underlying data set and the index of the label."""
        return self._source, self._label

    def fingerprint(self) -> str:
        """Return the text that identifies the underlying data set: the samples are the same."""
        return self._source.fingerprint()

    def _without_label(self, out: Sequence[Array | None]) -> list[Array | None]:
        """Return the memory of the columns; the underlying data set allocates that of the labels itself."""
        return [None if value == self._label else slot for value, slot in enumerate(out)]

    def _flatten(self, columns: Sequence[Column], out: Sequence[Array | None]) -> tuple[Column, ...]:
        """Return the columns with scalar labels."""
        labels, slot = np.asarray(columns[self._label])[:, 0], out[self._label]
        if slot is not None:
            slot[...] = labels
            labels = slot
        return *columns[: self._label], labels, *columns[self._label + 1 :]
