"""Contract of data sets with random access."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, cast

import numpy as np

from penstock.core import Array, Column, Indices, Spec
from penstock.errors import SampleError
from penstock.sources.order.sample_order import SampleSelection
from penstock.sources.storage.byte_range import ByteRange, ReadCost
from penstock.sources.storage.file_stamps import SampleState, file_state
from penstock.sources.storage.object_store import is_remote

# Columns, and the error of each row that cannot be read.
Outcomes = tuple[tuple[Column, ...], dict[int, SampleError]]


class Source(ABC):
    """An indexed data set with a length. Immutable once open; any thread may read it.

    Subclasses set `specs`, one per value of a sample, and pass the suite `penstock.testing.check_source`.
    """

    specs: tuple[Spec, ...]

    cost: ReadCost = ReadCost.FILE
    """Cost of reading a sample, beyond its bytes."""

    selection: SampleSelection | None = None
    """The samples that an epoch visits; None for each of them once. Part of the fingerprint."""

    in_memory: Sequence[Array] = ()
    """Per value the array of all samples, if `read` does nothing but gather rows of arrays in memory."""

    named_values: int = 1
    """Number of leading values to which `source_info` applies."""

    array_values: frozenset[int] = frozenset()
    """Values of variable length that are arrays of numbers, although bytes and text have the same dtype."""

    separate_names: bool = False
    """True if `source_info` differs from value to value."""

    per_process: ClassVar[Mapping[str, Callable[[], Any]]] = MappingProxyType({})
    """Attributes that a worker process does not get, such as locks and open files, and what makes them anew there."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in self.per_process}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        for name, make in self.per_process.items():
            setattr(self, name, make())

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of samples, at least 1."""

    @abstractmethod
    def read(self, indices: Indices, out: Sequence[Array | None]) -> tuple[Column, ...]:
        """Read samples.

        Args:
            indices: int64, each in [0, len).
            out: Per value an array `(len(indices), *shape)` into which a dense column may be written, or None.

        Returns:
            Per value a column: an array if the spec is dense (the one of `out` if it was used), otherwise a list.

        Raises:
            SampleError: A sample cannot be read. Names the index and the path.
        """

    def byte_ranges(self, indices: Indices) -> Sequence[ByteRange]:
        """Return the byte ranges that `read` requests for these samples, so that they can be prefetched.

        Must not block.
        """
        return ()

    def read_tolerant(self, indices: Indices, out: Sequence[Array | None]) -> Outcomes:
        """Read samples, and return errors instead of raising them.

        Override it if reading twice is expensive: after an error, this one reads all samples again, one by one.

        Args:
            indices: Same as for `read`.
            out: Same as for `read`.

        Returns:
            The columns, and the error of each row that cannot be read. The values of such a row are undefined.
        """
        try:
            return self.read(indices, out), {}
        except SampleError:
            return self._one_by_one(indices)

    def _one_by_one(self, indices: Indices) -> Outcomes:
        none = [None] * len(self.specs)
        blank = [np.zeros(spec.fixed_shape if spec.dense else 0, spec.dtype) for spec in self.specs]
        samples: list[Sequence[Array]] = []
        errors: dict[int, SampleError] = {}
        for row in range(len(indices)):
            try:
                samples.append([column[0] for column in self.read(indices[row : row + 1], none)])
            except SampleError as error:
                errors[row] = error
                samples.append(blank)
        columns = list(map(list, zip(*samples, strict=True)))
        return stack_dense(columns, self.specs, none), errors

    @abstractmethod
    def describe(self, index: int) -> str:
        """Return the location of a sample, for messages: a path, a key."""

    def source_info(self, index: int, value: int = 0) -> str:
        """Return the source info of a value, for `fn.get_property`: its name in the data set."""
        return self.describe(index)

    def class_names(self, value: int) -> Mapping[int, str]:
        """Return the names of the classes that a value numbers, as far as the data set has them.

        Args:
            value: Position of the value among those of a sample.
        """
        del value
        return {}

    def path(self, index: int) -> str | None:
        """Return the path of the file or database that holds a sample, if there is one."""
        return None

    def sample_state(self, index: int) -> SampleState:
        """Return a value that changes when the file or the files of a sample are written, at the cost of a `stat` each.

        Returns:
            None if nothing tells whether a sample has changed; a constant for samples that are not in files.
        """
        path = self.path(index)
        if path is not None and not is_remote(path):
            return file_state([(path, "")])
        extents = self.byte_ranges(np.array([index]))
        if not extents:
            return None if path is not None else (0, 0)
        return file_state(dict.fromkeys((extent.path, extent.etag) for extent in extents))

    def sample_error(self, index: int, problem: str) -> SampleError:
        """Return the error for a sample that cannot be read."""
        return SampleError.of(index, self.describe(index), problem, self.path(index))

    @property
    def epoch_length(self) -> int:
        """Number of samples that an epoch visits."""
        return len(self) if self.selection is None else self.selection.length

    def summary(self) -> str:
        """Describe the data set in a few words, for `explain()`."""
        return f"{len(self)} samples{' of an object store' if self.cost is ReadCost.STORE else ''}"

    def identity(self) -> tuple[Any, ...]:
        """Return the values that determine the samples: sources, arrays, tuples, and values that `==` compares.

        By default, a source only reads the same samples as itself.
        """
        return (id(self),)

    def reads_same_samples(self, other: Source) -> bool:
        """Return True if another source, opened for another shard, reads the same samples in the same order."""
        return self is other or (type(self) is type(other) and _equal(self.identity(), other.identity()))

    @abstractmethod
    def fingerprint(self) -> str:
        """Return a short text that identifies the data set, independent of where it is mounted."""


def _equal(mine: Any, theirs: Any) -> bool:
    """Compare parts of the identities of two sources."""
    if mine is theirs:
        return True
    if isinstance(mine, Source):
        return mine.reads_same_samples(theirs)
    if any(isinstance(values, np.ndarray) for values in (mine, theirs)):
        return np.array_equal(mine, theirs)
    if isinstance(mine, tuple):
        parts = cast(tuple[Any, ...], mine)
        return len(parts) == len(theirs) and all(map(_equal, parts, theirs))
    return mine == theirs


def stack_dense(columns: Sequence[Column], specs: Sequence[Spec], out: Sequence[Array | None]) -> tuple[Column, ...]:
    """Stack the samples of each dense column to an array, that of `out` if there is one. Other columns stay lists."""
    result: list[Column] = []
    for column, spec, slot in zip(columns, specs, out, strict=True):
        if not spec.dense:
            result.append(column)
        elif isinstance(column, list):
            result.append(np.stack(column, out=slot))
        elif slot is None:
            result.append(column)
        else:
            np.copyto(slot, column)
            result.append(slot)
    return tuple(result)
