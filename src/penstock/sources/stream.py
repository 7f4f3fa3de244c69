"""The contract of a source that gives whole batches, one after another, where nobody knows how many there are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from typing import NamedTuple

from penstock.core.columns import Column
from penstock.core.spec import Spec
from penstock.errors import UsageError

Columns = tuple[Column, ...]
"""The values of a batch: per value an array with a leading axis of rows, or a list with an array per row."""


class BatchRequest(NamedTuple):
    """Which batch a stream is asked for.

    Args:
        epoch: the number of the epoch, from 0.
        iteration: the number of the batch in the epoch.
        max_rows: how many rows a batch has at most.
        rows: how many this one shall have.
        rows_before: how many batches lie in the epochs before, where these are counted.
    """

    epoch: int
    iteration: int
    max_rows: int
    rows: int
    rows_before: int = 0

    @property
    def first(self) -> int:
        """How many samples of the epoch lie before the batch."""
        return self.iteration * self.max_rows


class EndOfStreamError(Exception):
    """The epoch of a stream has no more batches. Part of the contract, and not an error: nobody outside sees it."""


class NothingFedError(UsageError):
    """Nothing was fed to a stream that is fed by hand."""


class Stream(ABC):
    """Gives batches in turn. What was made ahead, and not delivered, is kept: a batch is made once.

    Batches are asked for in their order; `rewind` announces that another one will be next. Only the thread that asks
    for batches calls it.
    """

    specs: tuple[Spec, ...]
    prefetch_depth: int = 0
    """How many batches it wants to be told of before they are asked for."""

    def __init__(self) -> None:
        self._made: dict[BatchRequest, Columns | Exception] = {}
        self._waiting: deque[Columns | Exception] = deque()

    @property
    def seek_obstacle(self) -> str | None:
        """Why no other batch than the next one can be asked for; None where any can be."""
        return None

    @abstractmethod
    def produce(self, request: BatchRequest) -> Columns:
        """Make a batch. Where there is an `obstacle`, whatever comes next.

        Raises:
            EndOfStreamError: the epoch has ended.
        """

    @abstractmethod
    def probe(self) -> Columns:
        """The first sample, as columns of one row. It will be given again.

        Raises:
            EndOfStreamError: there is none.
        """

    @abstractmethod
    def same_source(self, other: Stream) -> bool:
        """Whether the other one, made for another shard, gives the same."""

    @abstractmethod
    def fingerprint(self) -> str:
        """A short text that tells this source from another one."""

    def batch(self, request: BatchRequest) -> Columns:
        """The batch of a request.

        Raises:
            EndOfStreamError: the epoch has ended.
        """
        made = self._made.get(request)
        if made is None:
            made = self._made[request] = self._waiting.popleft() if self._waiting else self._attempt(request)
        if isinstance(made, NothingFedError):
            del self._made[request]
        if isinstance(made, Exception):
            raise made
        return made

    def batch_copy(self, request: BatchRequest) -> Columns:
        """The batch of a request, in memory that stays as it is when the source is called again."""
        return self.batch(request)

    def prefetch(self, request: BatchRequest) -> None:  # noqa: B027  # most streams have nothing to begin
        """The batch of a request will be asked for, probably. For streams that can begin one without waiting for it."""

    def unread(self, request: BatchRequest) -> None:
        """Another stream has ended the epoch at this request: what cannot be made again is given next."""
        made = self._made.get(request)
        if self.seek_obstacle is not None and made is not None and not isinstance(made, Exception):
            self._waiting.appendleft(self._made.pop(request))

    def release(self, request: BatchRequest) -> None:
        """The batch of a request, and its failure, need not be kept any more."""
        self._made.pop(request, None)

    def clear_failure(self, request: BatchRequest) -> None:
        """The failure of a request was raised. Where the request is asked for again, the source is."""
        if isinstance(self._made.get(request), Exception):
            del self._made[request]

    def close(self) -> None:
        """Give up what was begun elsewhere. The stream may be used again."""
        self.rewind()

    def _attempt(self, request: BatchRequest) -> Columns | Exception:
        try:
            return self.produce(request)
        except Exception as error:  # noqa: BLE001  # whatever the user's code raises; it is raised in its request
            return error

    def rewind(self) -> None:
        """Go back behind what was delivered. What cannot be made again is given next."""
        if self.seek_obstacle is not None:
            kept = [made for made in self._made.values() if not isinstance(made, EndOfStreamError)]
            self._waiting.extendleft(reversed(kept))
        self._made.clear()
