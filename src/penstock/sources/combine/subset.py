"""Subsets of a data set, in any order."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core import Array, Column, Indices, short_digest
from penstock.core.user_callbacks import call_user
from penstock.errors import ArgumentTypeError, DefinitionError, SampleError, short_repr
from penstock.sources.order.sample_order import SampleSelection
from penstock.sources.order.weighted_sampling import WeightedSampling
from penstock.sources.source import Outcomes, Source
from penstock.sources.storage.byte_range import ByteRange
from penstock.sources.storage.file_folders import combined_folders_suffix, without_folders


class SubsetSource(Source):
    """A selection of samples from another source.

    Args:
        source: Underlying source.
        chosen: Positions in `source`, a range or int64 array, not empty. They are not checked.
        choice: The part of `chosen` that an epoch visits; all of it by default.
    """

    def __init__(self, source: Source, chosen: range | Indices, choice: SampleSelection | None = None) -> None:
        self.specs, self.selection = source.specs, choice
        self._source, self._chosen = source, chosen
        self.named_values, self.separate_names = source.named_values, source.separate_names
        self.cost, self.array_values = source.cost, source.array_values

    def __len__(self) -> int:
        return len(self._chosen)

    def read(self, indices: Indices, out: Sequence[Array | None]) -> tuple[Column, ...]:
        """Read samples, with one call to the underlying source so that it can batch its I/O."""
        inner = self._inner(indices)
        try:
            return self._source.read(inner, out)
        except SampleError as error:
            places: list[int] = np.flatnonzero(inner == error.index).tolist()
            raise with_index(error, int(indices[places[0]]) if places else None) from error

    def read_tolerant(self, indices: Indices, out: Sequence[Array | None]) -> Outcomes:
        """Read samples, and return errors instead of raising them."""
        columns, errors = self._source.read_tolerant(self._inner(indices), out)
        return columns, {row: with_index(error, int(indices[row])) for row, error in errors.items()}

    def byte_ranges(self, indices: Indices) -> Sequence[ByteRange]:
        """Return the byte ranges that the underlying source requests for these samples."""
        return self._source.byte_ranges(self._inner(indices))

    def describe(self, index: int) -> str:
        """Return the location of the sample in the underlying source."""
        return self._source.describe(int(self._chosen[index]))

    def source_info(self, index: int, value: int = 0) -> str:
        """Return the source info of the underlying sample."""
        return self._source.source_info(int(self._chosen[index]), value)

    def class_names(self, value: int) -> Mapping[int, str]:
        """Return the class names of the underlying data set."""
        return self._source.class_names(value)

    def path(self, index: int) -> str | None:
        """Return the path of the file that holds the sample."""
        return self._source.path(int(self._chosen[index]))

    def summary(self) -> str:
        """Describe the size of the subset and of the underlying source, and whether samples are drawn."""
        part = self._source.summary()
        if len(self) != len(self._source) or not isinstance(self._chosen, range):
            part = f"{len(self)} of {part}"
        return part if self.selection is None else f"{part}, drawn by weights"

    def identity(self) -> tuple[Any, ...]:
        """Return the underlying source, the indices and the draws."""
        return self._source, self._chosen, self.selection

    def fingerprint(self) -> str:
        """Return a text that identifies the underlying source, the indices and the draws."""
        chosen = str(self._chosen) if isinstance(self._chosen, range) else self._chosen
        source = self._source.fingerprint()
        digest = short_digest(f"{without_folders(source)}{self.selection}", chosen)
        return f"subset:{len(self)}:{digest}{combined_folders_suffix([source])}"

    def _inner(self, indices: Indices) -> Indices:
        if isinstance(self._chosen, range):
            return indices * self._chosen.step + self._chosen.start
        return self._chosen[indices]


def with_index(error: SampleError, index: int | None) -> SampleError:
    """Return the error of an underlying sample with its index in the subset."""
    if index is None:
        return error
    message = f"sample {index} of this part of the data: {error.args[0]}"
    return SampleError(message, index=index, source=error.source, path=error.path)


def make_subset(source: Source, selection: range | slice | Callable[[Indices], Any] | Any) -> Source:
    """Create a subset of a data set.

    Args:
        source: Data set.
        selection: Slice, as of a list; range; array or list of positions, or of one boolean per sample; or a function
            that takes the positions of all samples, int64, and returns such an array.

    Raises:
        ArgumentTypeError: `selection` has another type.
        DefinitionError: A position is out of range, the number of booleans is wrong, or no sample is left.
    """
    count = len(source)
    indices = _call_function(selection, count) if callable(selection) else selection
    if isinstance(indices, slice):
        indices = range(count)[indices]
    # A range stays a range: the subset of a large data set then needs no array of positions.
    if isinstance(indices, range):
        chosen, ends = indices, [indices[0], indices[-1]] if indices else []
    else:
        chosen = _numbers(indices, count)
        ends = [int(chosen.min()), int(chosen.max())] if chosen.size else []
    if not ends:
        raise DefinitionError(
            "subset leaves no sample", given=short_repr(selection), expected=f"some of {count} samples"
        )
    if min(ends) < 0 or max(ends) >= count:
        raise DefinitionError(
            "subset has numbers that the data set does not have",
            given=f"{min(ends)} to {max(ends)}",
            expected=f"0 to {count - 1}",
        )
    return source if isinstance(chosen, range) and chosen == range(count) else SubsetSource(source, chosen)


def resample_by_weight(source: Source, weights: Any) -> Source:
    """Create a source that draws a sample with replacement for each position.

    Args:
        source: Data set, without a selection.
        weights: Relative frequency of each sample; a list or array.

    Raises:
        ArgumentTypeError: The weights are not numbers.
        DefinitionError: There is not one weight per sample, one is negative or not finite, or all are 0.
    """
    values = check_weights(weights, len(source), "sample")
    return SubsetSource(source, range(len(source)), WeightedSampling.from_weights(values))


def check_weights(weights: Any, count: int, of: str) -> NDArray[np.float64]:
    """Convert weights to numbers.

    Args:
        weights: List or array.
        count: Required number of weights.
        of: Noun for messages, such as "sample".

    Raises:
        ArgumentTypeError: The weights are not numbers.
        DefinitionError: The number of weights is wrong, one is negative or not finite, or all are 0.
    """
    try:
        values = np.asarray(weights, np.float64)
    except Exception as error:  # a foreign array-like can raise any exception
        raise ArgumentTypeError("weights are numbers", given=short_repr(weights)) from error
    if values.shape != (count,):
        actual = f"{values.size} weights" if values.ndim == 1 else f"shape {values.shape}"
        raise DefinitionError(f"weights has a number for each {of}", given=actual, expected=count)
    bad = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
    if bad.size:
        raise DefinitionError(
            "weights are finite, and not negative", given=f"{values[bad[0]]} for {of} {bad[0]}", fix="0 leaves it out"
        )
    if not values.any():
        raise DefinitionError(f"all weights are 0, so no {of} is left", given=short_repr(weights))
    return values


def _call_function(function: Callable[[Indices], Any], count: int) -> Any:
    try:
        return call_user(function, np.arange(count))
    except Exception as error:
        raise DefinitionError(
            f"subset's function failed: {type(error).__name__}: {error}",
            given=short_repr(function),
            expected="a function of the numbers of all samples, an array of int64",
        ) from error


def _numbers(indices: Any, count: int) -> Indices:
    try:
        numbers: Array = np.asarray(indices)
    except Exception as error:  # a foreign array-like can raise any exception
        raise _no_subset(indices) from error
    if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iub"):
        raise _no_subset(indices)
    if numbers.dtype.kind != "b":
        return numbers.astype(np.int64)
    if len(numbers) != count:
        raise DefinitionError("subset has a truth value for each sample", given=len(numbers), expected=count)
    return np.flatnonzero(numbers)


def _no_subset(indices: Any) -> ArgumentTypeError:
    return ArgumentTypeError(
        "subset is a slice, a range, an array of numbers or of a truth value for each sample, or a function of the "
        "samples' numbers that returns one of these",
        given=short_repr(indices),
    )
