"""The contract of a data set with random access, and the registry of those that are open."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from penstock.core.columns import Array, Column, Indices
from penstock.core.spec import Spec
from penstock.errors import SampleError
from penstock.sources.order.sample_order import SampleSelection
from penstock.sources.storage.byte_range import ByteRange, ReadCost


class Source(ABC):
    """An indexed data set: a length, and samples by index. Immutable once open, and read from any thread.

    Subclasses set `specs`, one per value of a sample, and pass the suite `penstock.testing.check_source`.
    """

    specs: tuple[Spec, ...]

    selection: SampleSelection | None = None
    """Which samples an epoch visits; None: each of them once. A fingerprint tells it, too."""

    in_memory: Sequence[Array] = ()
    """All that `read` gives, where that is nothing but rows of arrays in memory: per value the array of all samples."""

    named_values: int = 1
    """How many of a sample's values, from the first on, are what `info` names."""

    separate_names: bool = False
    """Whether each of these has a name of its own."""

    @abstractmethod
    def __len__(self) -> int:
        """The number of samples, at least 1."""

    @abstractmethod
    def read(self, indices: Indices, out: Sequence[Array | None]) -> tuple[Column, ...]:
        """The samples at `indices`, one column per value.

        Args:
            indices: int64, each in [0, len).
            out: per value, an array `(len(indices), *shape)` into which a dense column may be written, or None.

        Returns:
            Per value a dense array where its spec is dense (`out`'s own where that was used), else a list.

        Raises:
            SampleError: a sample that cannot be read; it names index and path.
        """

    @property
    def cost(self) -> ReadCost:
        """What reading costs."""
        return ReadCost.FILE

    def byte_ranges(self, indices: Indices) -> Sequence[ByteRange]:
        """Byte ranges that `read` requests for these samples, so that they can be fetched ahead.

        It waits for nothing.
        """
        del indices
        return ()

    def read_tolerant(
        self, indices: Indices, out: Sequence[Array | None]
    ) -> tuple[tuple[Column, ...], dict[int, SampleError]]:
        """What `read` gives, also where samples cannot be read.

        A source for which reading again costs much has its own: this one reads sample by sample once one is bad.

        Args:
            indices: as for `read`.
            out: as for `read`.

        Returns:
            The columns, and per row that cannot be read its error; what columns hold in such a row is undefined.
        """
        try:
            return self.read(indices, out), {}
        except SampleError:
            return self._one_by_one(indices)

    def _one_by_one(self, indices: Indices) -> tuple[tuple[Column, ...], dict[int, SampleError]]:
        rows = len(indices)
        columns: list[Column] = [
            np.zeros((rows, *spec.fixed_shape), spec.dtype) if spec.dense else [np.empty(0, spec.dtype)] * rows
            for spec in self.specs
        ]
        errors: dict[int, SampleError] = {}
        for row in range(rows):
            try:
                samples = self.read(indices[row : row + 1], [None] * len(columns))
            except SampleError as error:
                errors[row] = error
                continue
            for column, sample in zip(columns, samples, strict=True):
                column[row] = sample[0]
        return tuple(columns), errors

    @abstractmethod
    def describe(self, index: int) -> str:
        """Where sample `index` lies, for messages: a path, a key."""

    def source_info(self, index: int, value: int = 0) -> str:
        """Where a value of sample `index` comes from, as `fn.get_property` gives it: its name in the data set."""
        del value
        return self.describe(index)

    def path(self, index: int) -> str | None:
        """The file that holds sample `index`, where it is one on its own or a database's."""
        del index
        return None

    @property
    def epoch_length(self) -> int:
        """How many samples an epoch visits."""
        return len(self) if self.selection is None else self.selection.length

    def summary(self) -> str:
        """A few words for plans: how many samples there are, and of what."""
        return f"{len(self)} samples{' of an object store' if self.cost is ReadCost.STORE else ''}"

    def reads_same_samples(self, other: Source) -> bool:
        """Whether the other one, opened for another shard, reads the same samples in the same order."""
        return self is other

    @abstractmethod
    def fingerprint(self) -> str:
        """A short text that tells this data set from another; the same wherever the data set is mounted."""


T = TypeVar("T")
