"""Streams over user sources that are called in this process: what they have in common, and functions."""

import logging
import threading
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any, Self, cast

import numpy as np

from penstock.core.user_callbacks import call_user
from penstock.errors import PenstockError, SourceError, SourceNotReadyError
from penstock.sources.external.array_conversion import (
    SampleKind,
    copy_arrays,
    copy_column,
    to_column,
    to_lent_sample,
    to_sample,
)
from penstock.sources.stream import BatchRequest, Columns, EndOfStreamError, Stream
from penstock.types import BatchInfo, SampleInfo

_log = logging.getLogger("penstock")

# Seconds to wait for a source's first sample before a warning is logged.
PATIENCE = 10.0

_FIX_NOT_READY = "if its data is not ready yet, pass dtype= and ndim=; then it is not called before the first batch"


@contextmanager
def _warning_if_slow(name: str) -> Generator[None]:
    """Log a warning if a source is slow to return its first sample.

    It may wait for data that the program provides only after the definition, which would be a deadlock.
    """
    message = f"{name} was asked for its first sample {PATIENCE:g} s ago and has not returned: {_FIX_NOT_READY}"
    timer = threading.Timer(PATIENCE, _log.warning, [message])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class ExternalStream(Stream):
    """Stream over a user's source, which checks the batches.

    Args:
        kinds: Known properties of the samples, per output.
        several: True if the source returns a tuple or list with one entry per output, False if it returns its only
            output.
        batch: True if the source returns batches, False for samples.
        name: Name of the source in messages.
    """

    def __init__(self, kinds: Sequence[SampleKind], *, several: bool = False, batch: bool = True, name: str) -> None:
        super().__init__()
        self.kinds = tuple(kinds)
        self.batched = batch
        self.several = several
        self.name = name
        self._unready: SourceNotReadyError | None = None

    def infer_specs(self) -> None:
        """Determine `specs`, from the first sample if the kinds are incomplete.

        Raises:
            SourceError: The source returned something invalid.
            SourceNotReadyError: The source does not return a first sample, or fails.
        """
        if not all(kind.is_complete for kind in self.kinds):
            try:
                with _warning_if_slow(self.name):
                    first = self.probe()
                self.kinds = tuple(k.refined_by(column) for k, column in zip(self.kinds, first, strict=True))
                self._unready = None
            except EndOfStreamError:
                if self._unready is None:
                    self._unready = SourceNotReadyError(f"{self.name} returns no data", fix=_FIX_NOT_READY)
                # A generator that has raised an exception ends at the next call; the first error is the useful one.
                raise self._unready from self._unready.__cause__
            except SourceError as error:
                if error.__cause__ is None:  # not an exception of the source but an invalid result
                    raise
                self._unready = SourceNotReadyError(error.args[0], fix=_FIX_NOT_READY)
                raise self._unready from error.__cause__
        self.specs = tuple(kind.spec for kind in self.kinds)

    def _checked(self, columns: Columns, request: BatchRequest | None = None) -> Columns:
        """Return the columns of a batch, trimmed to the requested rows, after checking kinds and row counts."""
        lengths = {len(column) for column in columns}
        if len(lengths) > 1 or 0 in lengths:
            raise SourceError(
                f"{self.name} returned different numbers of samples for its outputs"
                if len(lengths) > 1
                else f"{self.name} returned an empty batch",
                given=", ".join(map(str, (len(column) for column in columns))),
                fix="raise StopIteration at the end of the data" if 0 in lengths else None,
            )
        for kind, column in zip(self.kinds, columns, strict=True):
            try:
                (kind if kind.is_complete else kind.refined_by(column)).check(column)
            except SourceError as error:
                raise SourceError(f"{self.name}: {error.args[0]}") from None
        rows = lengths.pop()
        if request is not None and rows > request.max_rows:
            raise SourceError(
                f"{self.name} returned more samples than fit into a batch",
                given=f"{rows} samples",
                expected=f"at most {request.max_rows}",
                fix="increase batch_size; or pass batch=False if the source returns one sample at a time",
            )
        if request is None or rows <= request.rows:
            return columns
        return tuple([column[: request.rows] for column in columns])

    def same_source(self, other: Stream) -> bool:
        """Return True for the same stream: pipelines that share a source share its stream."""
        return self is other

    def __str__(self) -> str:
        return self.name

    def fingerprint(self) -> str:
        """Return the specs of the samples. The source itself is part of the definition's fingerprint."""
        return f"external:{','.join(str(spec) for spec in self.specs)}"


class InProcessStream(ExternalStream):
    """Stream over a source that is called in this process.

    Args:
        kinds: As for `ExternalStream`.
        lends: True if the source may overwrite its arrays in the next call, so that samples, and batches that are still
            in use, must be copied before.
        **how: As for `ExternalStream`.
    """

    def __init__(self, kinds: Sequence[SampleKind], *, lends: bool = True, **how: Any) -> None:
        super().__init__(kinds, **how)
        self._source: Any = None
        self._lends = lends
        # The request whose batch is still in the source's memory.
        self._lent_request: BatchRequest | None = None
        # The first batch or samples, which `probe` and `probe_later` have taken before they were requested.
        self._probed: deque[Any] = deque()
        # Valid samples of a batch that failed, if the source cannot return them again.
        self._incomplete: list[list[Any]] = []

    def with_source(self, make: Callable[[Any], Any]) -> Self:
        """Return a copy of the stream whose source is replaced by `make(source)`."""
        stream = copy(self)
        stream._source = make(self._source)  # noqa: SLF001  # its own
        return stream

    @abstractmethod
    def fetch(self, request: BatchRequest, row: int | None) -> Any:
        """Return the source's value for a batch, or for one row of it.

        Raises:
            StopIteration: The epoch has ended.
        """

    def probe(self) -> Columns:
        """Return the first sample."""
        if not self._probed:
            first = self._fetched(BatchRequest(0, 0, 1, 1), None if self.batched else 0)
            self._probed.append(copy_arrays(first) if self._lends else first)
        columns = self._checked(self._converted([self._probed[0]]))
        return tuple([column[:1] for column in columns])

    def probe_later(self, number: int) -> Columns:
        """Return a sample after the first; of a source of batches, one of the first batch."""
        self.probe()
        value, row = self._probed[0], number
        if not self.batched:
            row = 0
            if self.seek_obstacle is None:
                value = self._fetched(BatchRequest(0, 0, number + 1, number + 1), number)
            else:
                while len(self._probed) <= number:
                    self._probed.append(copy_arrays(self._fetched(BatchRequest(0, 0, 1, 1), len(self._probed))))
                value = self._probed[number]
        columns = self._checked(self._converted([value]))
        if row >= len(columns[0]):
            raise EndOfStreamError
        return tuple([column[row : row + 1] for column in columns])

    def produce(self, request: BatchRequest) -> Columns:
        """Call the source."""
        self._copy_lent_batch()
        if self.batched:
            columns = self._checked(self._converted([self._probed_or_fetched(request, None)]), request)
        else:
            samples = self._samples(request)
            try:
                columns = self._checked(_columns(samples), request)
            except SourceError:
                if self.seek_obstacle is not None:
                    self._incomplete = [sample for sample in samples if self._is_valid(sample)]
                raise
        self._lent_request = request if self._lends and self.batched else None
        return columns

    def batch_copy(self, request: BatchRequest) -> Columns:
        """Return a copy of a batch."""
        self.batch(request)
        self._copy_lent_batch()
        return self.batch(request)

    def unread(self, request: BatchRequest) -> None:
        """Return the batch again at the next request if the source cannot seek."""
        self._copy_lent_batch()
        super().unread(request)

    def rewind(self) -> None:
        """Forget produced batches, except those that the source cannot produce again."""
        self._copy_lent_batch()
        super().rewind()

    def _copy_lent_batch(self) -> None:
        """Copy a batch that is still in the source's memory and in use, before the source is called again."""
        request, self._lent_request = self._lent_request, None
        columns = None if request is None else self._produced.get(request)
        if request is not None and columns is not None and not isinstance(columns, Exception):
            self._produced[request] = tuple(map(copy_column, columns))

    def fetch_rows(self, request: BatchRequest, rows: range | None) -> Columns:
        """Return some rows of a batch of samples, or a whole batch, unchecked."""
        return self._converted(self._fetched(request, row) for row in rows or (None,))

    def run(self, call: tuple[BatchRequest, range | None], buffers: object) -> tuple[Columns, None]:
        """Return what `fetch_rows` returns: the task of a worker process."""
        del buffers
        return self.fetch_rows(*call), None

    def _samples(self, request: BatchRequest) -> list[list[Any]]:
        """Return the samples of a batch. A source that can only continue is not called twice for a sample."""
        samples, self._incomplete = self._incomplete, []
        try:
            for row in range(len(samples), request.rows):
                samples.append(self._converted_sample(self._probed_or_fetched(request, row)))
        except EndOfStreamError:
            raise
        except BaseException:  # also the user's interrupt
            if self.seek_obstacle is not None:
                self._incomplete = samples
            raise
        return samples

    def _is_valid(self, sample: list[Any]) -> bool:
        """Return True if a sample passes the check of a batch."""
        try:
            self._checked(_columns([sample]))
        except SourceError:
            return False
        return True

    def _probed_or_fetched(self, request: BatchRequest, row: int | None) -> Any:
        """Return the probed value if it is the requested one; otherwise call the source."""
        if self._probed:
            value = self._probed.popleft()
            if self.seek_obstacle is not None or (request.epoch, request.first, row or 0) == (0, 0, 0):
                return value
        return self._fetched(request, row)

    def _fetched(self, request: BatchRequest, row: int | None) -> Any:
        try:
            return call_user(self.fetch, request, row)
        except StopIteration:
            raise EndOfStreamError from None
        except PenstockError:
            raise
        except Exception as error:
            which = f"batch {request.iteration}" if row is None else f"sample {request.first + row}"
            message = f"{self.name} failed on {which} of epoch {request.epoch}: {type(error).__name__}: {error}"
            raise SourceError(message) from error

    def _converted(self, values: Iterable[Any]) -> Columns:
        """Convert returned values, one batch or all samples of one, to one column per output.

        Args:
            values: Values of the source, which is called for one after the other.
        """
        if self.batched:
            (batch,) = values
            return tuple([to_column(part) for part in self._outputs(batch)])
        return _columns(map(self._converted_sample, values))

    def _converted_sample(self, value: Any) -> list[Any]:
        # The next call may overwrite the arrays of a sample.
        convert = to_lent_sample if self._lends else to_sample
        return [convert(part) for part in self._outputs(value)]

    def _outputs(self, value: Any) -> Sequence[Any]:
        if not self.several:
            return (value,)
        listed = isinstance(value, tuple | list) or (isinstance(value, np.ndarray) and value.ndim > 0)
        entries = list(cast(Sequence[Any], value)) if listed else None
        if entries is None or len(entries) != len(self.kinds):
            count = "none" if entries is None else f"{len(entries)} of them"
            raise SourceError(
                f"{self.name} must return a tuple or list with one entry per output",
                given=f"{count}, a {type(cast(Any, value)).__name__}",
                expected=f"{len(self.kinds)} entries (num_outputs)",
            )
        return entries


def _columns(samples: Iterable[list[Any]]) -> Columns:
    return tuple(map(list, zip(*samples, strict=True)))


class FunctionStream(InProcessStream):
    """Stream over a function that is called for each batch or sample.

    Args:
        function: Takes no argument, or the batch or sample to return.
        informed: True if it takes an argument.
        batch_info: True to pass a `BatchInfo`, False for the batch number.
        kinds: As for `InProcessStream`.
        **how: As for `InProcessStream`.
    """

    def __init__(
        self, function: Callable[..., Any], *, informed: bool, batch_info: bool, kinds: Sequence[SampleKind], **how: Any
    ) -> None:
        super().__init__(kinds, **how)
        self._source, self._informed, self._batch_info = function, informed, batch_info
        if not informed:
            self.seek_obstacle = "it is called without an argument, so it can only return its next batch"

    def fetch(self, request: BatchRequest, row: int | None) -> Any:
        """Call the function."""
        if not self._informed:
            return self._source()
        if row is not None:
            return self._source(SampleInfo(request.first + row, row, request.iteration, request.epoch))
        return self._source(BatchInfo(request.iteration, request.epoch) if self._batch_info else request.iteration)
