"""Features of Example messages, independent of the file format that contains the messages."""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import numpy as np

from penstock.core import Array, Column, Indices, Spec
from penstock.errors import SampleError, SourceError
from penstock.sources.formats.tfrecord.example_message import (
    DTYPES,
    Located,
    decode_feature,
    default_value,
    locate_features,
)
from penstock.sources.formats.tfrecord.fast_examples import MIN_MESSAGES, read_examples
from penstock.sources.formats.tfrecord.feature_specs import Feature, FixedLenFeature, VarLenFeature, string
from penstock.sources.source import stack_dense

Features = tuple[tuple[str, Feature], ...]

# Number of messages to search for a feature that the first message lacks, and messages per read.
_PROBED, _AT_ONCE = 512, 64
_NOT_READ = "cannot be read as an Example"


class Messages(Protocol):
    """Numbered serialized messages."""

    def messages(self, indices: Indices, /) -> Iterable[tuple[int, Array]]:
        """Yield the index and the bytes of each message.

        Raises:
            SampleError: A message cannot be read.
        """
        ...

    def sample_error(self, index: int, problem: str, /) -> SampleError:
        """Return the error of a message."""
        ...


class Examples:
    """Decoder of the features of Example messages.

    Args:
        features: Names and features.

    Raises:
        DefinitionError: A default value does not fit its feature.
    """

    def __init__(self, features: Features) -> None:
        self.features = [(name, name.encode(), feature) for name, feature in features]
        self._wanted = {key: feature for _, key, feature in self.features}
        for _, feature in features:
            if feature.default_value is not None:
                default_value(feature)

    def open(self, messages: Messages, count: int, fix: str | None = None) -> None:
        """Find the features of varying length that none of `count` messages has, and check the first message.

        Args:
            messages: The messages.
            count: Number of messages.
            fix: Fix to suggest if the first message cannot be read.

        Raises:
            SourceError: The first message cannot be read.
        """
        absent = self._absent(messages, count)
        self.features = [(name, key, _scalar(f) if key in absent else f) for name, key, f in self.features]
        try:
            self.read(messages, np.zeros(1, np.int64), [None] * len(self.features))
        except SampleError as error:
            raise SourceError(f"the first record cannot be read: {error.args[0]}", fix=fix) from error

    @property
    def specs(self) -> tuple[Spec, ...]:
        """Specs of the features."""
        return tuple(_spec(feature) for _, _, feature in self.features)

    def _absent(self, messages: Messages, count: int) -> set[bytes]:
        """Return the features of varying length that no message in an even sample of the data set has."""
        absent = {key for key, feature in self._wanted.items() if isinstance(feature, VarLenFeature)}
        probed = np.unique(np.linspace(0, count - 1, _PROBED).astype(np.int64))
        for indices in (probed[:1], *np.split(probed[1:], range(_AT_ONCE, len(probed) - 1, _AT_ONCE))):
            if not absent:
                break
            try:
                absent -= self._named(messages, indices)
            except SampleError:  # `read` reports a damaged message, if it comes to it
                for row in range(len(indices)):
                    with contextlib.suppress(SampleError):
                        absent -= self._named(messages, indices[row : row + 1])
        return absent

    def _named(self, messages: Messages, indices: Indices) -> set[bytes]:
        """Return the wanted features that occur in any of these messages."""
        return {key for _, located, _ in self._located(messages, indices) for key in located}

    def _located(self, messages: Messages, indices: Indices) -> Iterator[tuple[int, dict[bytes, Located], Array]]:
        for index, message in messages.messages(indices):
            try:
                located = locate_features(message.data, self._wanted)
            except ValueError as error:
                raise messages.sample_error(index, f"{_NOT_READ}: {error}") from error
            yield index, located, message

    def read(self, messages: Messages, indices: Indices, out: Sequence[Array | None]) -> tuple[Column, ...]:
        """Decode the features of messages; dense ones into `out` if given.

        Raises:
            SampleError: A message cannot be read, or a feature is missing or has another type or shape.
        """
        if len(indices) >= MIN_MESSAGES:
            # What the parser of many messages does not know is read one by one, which also gives the errors.
            with contextlib.suppress(SampleError):
                contents = [message for _, message in messages.messages(indices)]
                if (values := read_examples(contents, self.features)) is not None:
                    return stack_dense(values, self.specs, out)
        columns: tuple[list[Array], ...] = tuple([] for _ in self.features)
        for index, located, message in self._located(messages, indices):
            view: memoryview = message.data
            for column, (name, key, feature) in zip(columns, self.features, strict=True):
                try:
                    column.append(decode_feature(feature, located.get(key), view, message))
                except ValueError as error:
                    raise messages.sample_error(index, f"{_NOT_READ}: feature {name!r}: {error}") from error
        return stack_dense(columns, self.specs, out)


def _scalar(feature: Feature) -> Feature:
    """Return the feature to read if no message has it: a scalar, the shape that DALI gives it."""
    default = feature.default_value
    return FixedLenFeature((), feature.dtype, 0 if default is None or np.ndim(default) else default)


def _spec(feature: Feature) -> Spec:
    if feature.dtype == string:
        return Spec(DTYPES[string], (None,))
    open_extent = (None,) if isinstance(feature, VarLenFeature) else ()
    return Spec(DTYPES[feature.dtype], (*open_extent, *feature.shape))
