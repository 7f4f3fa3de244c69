"""Concatenation and mixing of data sets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.core import Array, Column, Indices, Spec, bounds_or_none, short_digest
from penstock.errors import DefinitionError, SampleError
from penstock.sources.combine.subset import with_index
from penstock.sources.order.interleaving import InterleavedSelection
from penstock.sources.order.part_offsets import PartOffsets
from penstock.sources.source import Outcomes, Source
from penstock.sources.storage.byte_range import ByteRange, ReadCost
from penstock.sources.storage.file_folders import combined_folders_suffix, without_folders

# The summary in plans names only the first data sets of a mix.
_MAX_NAMED_PARTS = 4


@dataclass(frozen=True, eq=False)
class ConcatMember:
    """Member of a concatenation: a data set and the values that are used.

    Args:
        source: Data set.
        values: Positions of the values that are used.
        name: Name in plans and messages.
    """

    source: Source
    values: tuple[int, ...]
    name: str

    @property
    def specs(self) -> tuple[Spec, ...]:
        """Specs of the values that are used."""
        return tuple(self.source.specs[value] for value in self.values)


class ConcatSource(Source):
    """Concatenation of several data sets.

    Args:
        parts: Members, in order.
        choice: Interleaving of the members. By default an epoch has each sample once.

    Raises:
        DefinitionError: The members differ in their number of values, or in dtype, number of axes or layout of one.
    """

    def __init__(self, parts: Sequence[ConcatMember], choice: InterleavedSelection | None = None) -> None:
        self._parts, self.selection = tuple(parts), choice
        self._offsets = PartOffsets(len(part.source) for part in parts)
        self.specs = tuple(_common(parts, value) for value in range(_values(parts)))
        named = [place for part in parts for place, value in enumerate(part.values) if value < part.source.named_values]
        self.named_values = 1 + max(named, default=0)
        self.separate_names = any(part.source.separate_names for part in parts)
        costs = {part.source.cost for part in parts}
        self.cost = next(cost for cost in (ReadCost.STORE, ReadCost.FILE, ReadCost.MEMORY) if cost in costs)

    def __len__(self) -> int:
        return len(self._offsets)

    def read(self, indices: Indices, out: Sequence[Array | None]) -> tuple[Column, ...]:
        """Read samples, with one call per data set so that it can batch its I/O."""
        return self._gathered(indices, out, tolerant=False)[0]

    def read_tolerant(self, indices: Indices, out: Sequence[Array | None]) -> Outcomes:
        """Read samples, and return errors instead of raising them."""
        return self._gathered(indices, out, tolerant=True)

    def _gathered(self, indices: Indices, out: Sequence[Array | None], *, tolerant: bool) -> Outcomes:
        rows = len(indices)
        # Members are read into separate arrays and copied, because their rows are scattered over the batch.
        columns: list[Column] = [
            (slot if slot is not None else np.empty((rows, *spec.fixed_shape), spec.dtype))
            if spec.dense
            else [np.empty(0, spec.dtype)] * rows
            for spec, slot in zip(self.specs, out, strict=True)
        ]
        errors: dict[int, SampleError] = {}
        for owner, places, inner in self._offsets.split(indices):
            part, start = self._parts[owner], int(self._offsets.starts[owner])
            none: list[Array | None] = [None] * len(part.source.specs)
            try:
                if tolerant:
                    values, failed = part.source.read_tolerant(inner, none)
                else:
                    values, failed = part.source.read(inner, none), {}
            except SampleError as error:
                raise with_index(error, None if error.index is None else error.index + start) from error
            # Members number rows and samples from 0; errors must name those of the concatenation.
            for row, error in failed.items():
                errors[int(places[row])] = with_index(error, int(indices[places[row]]))
            for column, value in zip(columns, part.values, strict=True):
                _place(column, places.tolist(), values[value])
        return tuple(columns), errors

    def byte_ranges(self, indices: Indices) -> list[ByteRange]:
        """Return the byte ranges that the data sets request for these samples."""
        parts = self._offsets.split(indices)
        return [extent for owner, _, inner in parts for extent in self._parts[owner].source.byte_ranges(inner)]

    def describe(self, index: int) -> str:
        """Return the location of the sample in its data set."""
        part, inner = self._find(index)
        return part.source.describe(inner)

    def source_info(self, index: int, value: int = 0) -> str:
        """Return the source info of the sample in its data set."""
        part, inner = self._find(index)
        return part.source.source_info(inner, part.values[value])

    def class_names(self, value: int) -> Mapping[int, str]:
        """Return the class names, if all data sets have the same."""
        first, *others = (part.source.class_names(part.values[value]) for part in self._parts)
        return first if all(names == first for names in others) else {}

    def path(self, index: int) -> str | None:
        """Return the path of the file that holds the sample."""
        part, inner = self._find(index)
        return part.source.path(inner)

    def summary(self) -> str:
        """Describe the length of an epoch, and the data sets with their shares."""
        texts = [f"{part.name} ({part.source.summary()})" for part in self._parts]
        if isinstance(self.selection, InterleavedSelection):
            shares = self.selection.interleaving.shares
            texts = [f"{float(share):.4g} of {text}" for share, text in zip(shares, texts, strict=True)]
        more = f" and {len(texts) - _MAX_NAMED_PARTS} more" if len(texts) > _MAX_NAMED_PARTS else ""
        return f"{self.epoch_length} samples: {' + '.join(texts[:_MAX_NAMED_PARTS])}{more}"

    def identity(self) -> tuple[Any, ...]:
        """Return the data sets, the values that are used, and the interleaving."""
        return self.selection, *((part.source, part.values) for part in self._parts)

    def fingerprint(self) -> str:
        """Return a text that identifies the data sets and how they are combined."""
        sources = [part.source.fingerprint() for part in self._parts]
        texts = [f"{without_folders(text)}{part.values}" for text, part in zip(sources, self._parts, strict=True)]
        digest = short_digest("\0".join([*texts, str(self.selection)]))
        return f"mix:{len(self)}:{digest}{combined_folders_suffix(sources)}"

    def _find(self, index: int) -> tuple[ConcatMember, int]:
        owner, inner = self._offsets.locate(index)
        return self._parts[owner], inner


def _place(column: Column, places: list[int], samples: Column) -> None:
    """Write samples to their rows of a column."""
    if isinstance(column, np.ndarray):
        column[places] = samples
        return
    for place, sample in zip(places, samples, strict=True):
        column[place] = sample


def _values(parts: Sequence[ConcatMember]) -> int:
    """Count the values of a sample, and check that it is the same for all members."""
    first, *others = parts
    for part in others:
        if len(part.values) != len(first.values):
            raise DefinitionError(
                "the samples of the readers differ in their number of values",
                given=f"{len(part.values)} of {part.name}",
                expected=f"{len(first.values)}, as of {first.name}",
                fix="give those outputs of each reader that the others have, too",
            )
    return len(first.values)


def _common(parts: Sequence[ConcatMember], value: int) -> Spec:
    """Return the spec that a value has in all members, with the largest bounds."""
    specs = [part.specs[value] for part in parts]
    first = specs[0]
    for spec, part in zip(specs, parts, strict=True):
        same = spec.dtype == first.dtype and len(spec.shape) == len(first.shape) and spec.layout == first.layout
        if not same:
            raise DefinitionError(
                f"value {value} of the samples is of another kind in another reader",
                given=f"{spec} of {part.name}",
                expected=f"{first}, as of {parts[0].name}",
                fix="readers whose values have one dtype, number of axes and layout",
            )
    if all(spec == first for spec in specs):
        return first
    shape = tuple(
        size if all(spec.shape[axis] == size for spec in specs) else None for axis, size in enumerate(first.shape)
    )
    most = [spec.max_shape for spec in specs]
    bounds = bounds_or_none(None if None in sizes else max(sizes) for sizes in zip(*most, strict=True))  # pyright: ignore[reportArgumentType]  # None is left out above
    return Spec(first.dtype, shape, first.layout, bounds=() if None not in shape else bounds)
