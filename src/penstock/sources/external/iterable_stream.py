"""Streams over user sources that are iterated or indexed: iterables, generators, sequences."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from penstock.errors import SourceError
from penstock.sources.external.array_conversion import SampleKind
from penstock.sources.external.external_stream import InProcessStream
from penstock.sources.stream import BatchRequest, Columns

Cycle = Literal["no", "quiet", "raise"]


class IterableStream(InProcessStream):
    """Stream over an iterable or a generator function.

    Args:
        source: The iterable or generator function.
        cycle: Behavior at the end: "no" ends, "quiet" restarts at once, "raise" restarts with the next epoch.
        generates: True for a generator function.
        kinds: As for `InProcessStream`.
        **how: As for `InProcessStream`.
    """

    seek_obstacle = "it is an iterator, which can only continue"

    def __init__(self, source: Any, cycle: Cycle, *, generates: bool, kinds: Sequence[SampleKind], **how: Any) -> None:
        super().__init__(kinds, **how)
        self._source, self._cycle, self._generates = source, cycle, generates
        self._iterator: Iterator[Any] | None = None
        # The error that the iterator raised last, if it has not returned an item since.
        self._failure = ""

    def probe(self) -> Columns:
        """Return the first sample. If there is none, the next attempt starts a new iterator."""
        try:
            return super().probe()
        finally:
            if not self._probed:
                self._iterator, self._failure = None, ""

    def fetch(self, request: BatchRequest, row: int | None) -> Any:
        """Return the next item.

        Raises:
            SourceError: The iterator ends right after an error, as every generator does: this is not the end of the
                data.
        """
        if self._iterator is None:
            self._iterator = self._new_iterator()
        try:
            return self._next_item(self._iterator)
        except StopIteration:
            if self._failure:
                raise SourceError(
                    f"{self.name} ended right after its error, before the end of its data: generators cannot continue",
                    given=self._failure,
                    fix="make a new iterator; to try again at the same batch, use a function of the batch number",
                ) from None
            self._iterator = None if self._cycle == "raise" else self._iterator
            if self._cycle != "quiet":
                raise
        self._iterator = self._new_iterator()
        return self._next_item(self._iterator)

    def _next_item(self, iterator: Iterator[Any]) -> Any:
        try:
            item = next(iterator)
        except StopIteration:
            raise
        except BaseException as error:  # also the user's interrupt
            self._failure = f"{type(error).__name__}: {error}".removesuffix(": ")
            raise
        self._failure = ""
        return item

    def _new_iterator(self) -> Iterator[Any]:
        return self._source() if self._generates else iter(self._source)


class SequenceStream(InProcessStream):
    """Stream over a list or another sequence of batches or samples, with random access.

    Args:
        items: Sequence with a length and items by index.
        cycle: As for `IterableStream`.
        kinds: As for `InProcessStream`.
        **how: As for `InProcessStream`.
    """

    continues = True

    def __init__(self, items: Any, cycle: Cycle, *, kinds: Sequence[SampleKind], **how: Any) -> None:
        super().__init__(kinds, **how)
        self._source, self._cycle = items, cycle

    def fetch(self, request: BatchRequest, row: int | None) -> Any:
        """Return the item of a request."""
        length = len(self._source)
        items_per_batch = 1 if row is None else request.max_rows
        before = request.batches_before if row is None else request.rows_before
        first = request.iteration if row is None else request.first + row
        if self._cycle == "raise" and before:
            per_epoch = before // request.epoch
            before = request.epoch % self._epochs_begun(items_per_batch, per_epoch) * per_epoch
        number = before + first
        ended = number >= length and self._cycle != "quiet"
        if not length or ended or (self._cycle == "no" and request.epoch and not before):
            raise StopIteration
        return self._source[number % length]

    def position_key(self, max_rows: int, rows_per_epoch: int) -> object:
        """Return the batch size, or for samples the rows of an epoch and the epochs before a restart."""
        if self.batched or not rows_per_epoch:
            return super().position_key(max_rows, rows_per_epoch)
        return rows_per_epoch, self._cycle == "raise" and self._epochs_begun(max_rows, rows_per_epoch)

    def _epochs_begun(self, items_per_batch: int, per_epoch: int) -> int:
        """Return the number of epochs before the sequence restarts.

        Like an iterator, it restarts in place of an epoch whose first batch it does not fill.
        """
        return max((len(self._source) - min(items_per_batch, per_epoch)) // per_epoch + 1, 1)
