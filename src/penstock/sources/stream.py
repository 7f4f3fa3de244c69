"""Contract of sources without random access, which produce batches in order and have no known length."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from typing import NamedTuple

from penstock.core import Column, Spec
from penstock.errors import UsageError

Columns = tuple[Column, ...]
"""Values of a batch: per value an array with a leading axis of rows, or a list with one array per row."""


class BatchRequest(NamedTuple):
    """Request for one batch of a stream.

    Args:
        epoch: Number of the epoch, from 0.
        first: Number of samples of the epoch before the batch. A state of another batch size can make it any number.
        max_rows: Rows of a full batch.
        rows: Rows of this batch.
        batches_before: Number of batches in earlier epochs, if these are counted.
        rows_before: Number of rows in earlier epochs, if these are counted.
    """

    epoch: int
    first: int
    max_rows: int
    rows: int
    batches_before: int = 0
    rows_before: int = 0

    @property
    def iteration(self) -> int:
        """Number of the batch in the epoch, from 0."""
        return self.first // self.max_rows


class EndOfStreamError(Exception):
    """Signal that the epoch of a stream has no more batches. Internal; users never see it."""


class NothingFedError(UsageError, RuntimeError):
    """Error for a stream that is fed by hand and has no batch queued. DALI raises RuntimeError."""


class Stream(ABC):
    """A source that produces batches in order, each of them once.

    Batches that were produced ahead and not delivered are kept. Requests come in order; `rewind` announces that another
    batch will be next. All methods are called by the thread that requests batches.
    """

    specs: tuple[Spec, ...]
    prefetch_depth: int = 0
    """Number of batches to announce through `prefetch` before they are requested."""
    seek_obstacle: str | None = None
    """Reason for which only the next batch can be requested; None if any batch can."""
    batched: bool = False
    """True if the source returns whole batches, so that a batch begins at a multiple of the batch size."""
    continues: bool = False
    """True if an epoch continues where the previous one has ended."""
    replaced_workers: int = 0
    """Number of worker processes of the source that were replaced after they ended by themselves."""

    def __init__(self) -> None:
        # Results until they are released, in the order in which the source gave them.
        self._produced: dict[BatchRequest, Columns | Exception] = {}
        # Results that come before the next one of the source.
        self._waiting: deque[Columns | Exception] = deque()
        self._released_end = False  # True if the last released result is the end of an epoch

    @abstractmethod
    def produce(self, request: BatchRequest) -> Columns:
        """Produce a batch: the requested one, or the next one if there is a `seek_obstacle`.

        Raises:
            EndOfStreamError: The epoch has ended.
        """

    @abstractmethod
    def probe(self) -> Columns:
        """Return the first sample as columns of one row, without consuming it.

        Raises:
            EndOfStreamError: There is none.
        """

    def probe_later(self, number: int) -> Columns:
        """Return a sample after the first as columns of one row, without consuming it.

        Args:
            number: Number of the sample, from 1.

        Raises:
            EndOfStreamError: There is none, or it would have to be consumed.
        """
        raise EndOfStreamError

    def position_key(self, max_rows: int, rows_per_epoch: int) -> object:
        """Return what a position in the source depends on, besides the epoch and the row in it; None if on nothing.

        A state may be restored under another batch size if both give the same key.

        Args:
            max_rows: Rows of a full batch.
            rows_per_epoch: Rows of an epoch, with those that fill up its last batch; 0 if epochs are not counted.
        """
        # An item of a list of batches is a batch.
        return max_rows if self.continues and self.batched else None

    @abstractmethod
    def same_source(self, other: Stream) -> bool:
        """Return True if another stream, made for another shard, produces the same batches."""

    @abstractmethod
    def fingerprint(self) -> str:
        """Return a short text that identifies the source."""

    def sample_name(self, number: int, epoch: int, row: int) -> str:
        """Return the name of a sample in messages.

        Args:
            number: Number of the sample in its batch.
            epoch: Number of the epoch.
            row: Number of samples of the epoch before the batch.
        """
        return f"sample {number} of the batch at row {row} of epoch {epoch} that {self} gave"

    def batch(self, request: BatchRequest) -> Columns:
        """Return the requested batch.

        Raises:
            EndOfStreamError: The epoch has ended.
        """
        batch = self._produced.get(request)
        if batch is None:
            # If another source, or `size`, ended the previous epoch, the end of this source is still pending. It
            # belongs to that epoch, so it is skipped; but a rewind must return to it.
            pending = self.seek_obstacle is not None and request.epoch > 0 and not request.first and not self._ended
            batch = self._next_result(request)
            if pending and isinstance(batch, EndOfStreamError):
                self._produced[_skipped_end(request)] = batch
                batch = self._next_result(request)
            self._produced[request] = batch
        # The user may feed the batch after this error, so the request must be able to succeed later.
        if isinstance(batch, NothingFedError):
            del self._produced[request]
        if isinstance(batch, EndOfStreamError):
            raise EndOfStreamError
        if isinstance(batch, Exception):
            raise batch
        return batch

    def batch_copy(self, request: BatchRequest) -> Columns:
        """Return the requested batch in memory that later calls to the source do not overwrite."""
        return self.batch(request)

    def prefetch(self, request: BatchRequest) -> None:  # noqa: B027  # most streams have nothing to begin
        """Begin a batch that will probably be requested, for streams that can do so without blocking."""

    def unread(self, request: BatchRequest) -> None:
        """Put a batch back since another stream has ended the epoch. If it cannot be produced again, it comes next."""
        batch = self._produced.get(request)
        if self.seek_obstacle is not None and batch is not None and not isinstance(batch, Exception):
            self._waiting.appendleft(self._produced.pop(request))

    def release(self, request: BatchRequest) -> None:
        """Drop a batch, its error, or the end of the epoch."""
        self._produced.pop(_skipped_end(request), None)
        if (result := self._produced.pop(request, None)) is not None:
            self._released_end = isinstance(result, EndOfStreamError)

    def clear_failure(self, request: BatchRequest) -> None:
        """Drop an error that was raised, so that a repeated request calls the source again."""
        if isinstance(self._produced.get(request), Exception):
            del self._produced[request]

    def close(self) -> None:
        """Cancel work on other threads or processes. The stream may be used again."""
        self.rewind()

    @property
    def _ended(self) -> bool:
        """True if the last result is the end of an epoch."""
        last = next(reversed(self._produced.values()), None)
        return self._released_end if last is None else isinstance(last, EndOfStreamError)

    def _next_result(self, request: BatchRequest) -> Columns | Exception:
        if self._waiting:
            return self._waiting.popleft()
        try:
            return self.produce(request)
        except EndOfStreamError:
            # A new one, here and where it is raised: the traceback of an error that is kept holds the frames of all
            # callers, and their data.
            return EndOfStreamError()
        except Exception as error:  # noqa: BLE001  # an error of the user's code, to be raised when the batch is requested
            return error

    def rewind(self) -> None:
        """Return to the state after the last released result. Results that cannot be produced again come next."""
        if self.seek_obstacle is not None:
            self._waiting.extendleft(reversed(self._produced.values()))
        self._produced.clear()


def _skipped_end(request: BatchRequest) -> BatchRequest:
    """Return the key of an end that was skipped before the first batch of an epoch."""
    return request._replace(first=-1)
