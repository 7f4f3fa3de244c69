"""Streams over what users give: functions, iterables, generators."""

from __future__ import annotations

import logging
import threading
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any, Literal, Self, cast

import numpy as np

from penstock.errors import PenstockError, SourceError, SourceNotReadyError
from penstock.sources.external.array_conversion import SampleKind, copy_arrays, copy_column, to_column, to_sample
from penstock.sources.stream import BatchRequest, Columns, EndOfStreamError, Stream
from penstock.types import BatchInfo, SampleInfo

Cycle = Literal["no", "quiet", "raise"]

_log = logging.getLogger("penstock")

PATIENCE = 10.0
"""After so many seconds it is said that a source does not answer."""

_UNASKED = "if it is ready only later, say what it gives, dtype= and ndim=: then it is asked when a batch is needed"


@contextmanager
def _patiently(name: str) -> Generator[None]:
    """Say so, where a source does not answer: it may wait for data that come when the definition is there."""
    said = f"{name} was asked for its first sample {PATIENCE:g} s ago, and is waited for: {_UNASKED}"
    timer = threading.Timer(PATIENCE, _log.warning, [said])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class ExternalStream(Stream):
    """What comes from a user's source, checked.

    Args:
        kinds: per output, what is known of its samples.
        several: whether the source gives a tuple or list with an entry per output; else its one output.
        batch: whether it gives batches; else samples.
        name: what messages call it.
    """

    def __init__(self, kinds: Sequence[SampleKind], *, several: bool = False, batch: bool = True, name: str) -> None:
        super().__init__()
        self.kinds = tuple(kinds)
        self.batched = batch
        self.several = several
        self.name = name
        self._ended = False
        self._unready: SourceNotReadyError | None = None

    def infer_specs(self) -> None:
        """Find out what the samples are, from the first one if need be; then `specs` are known.

        Raises:
            SourceError: what it gives is wrong.
            UnreadyError: there is no first one, or the source fails.
        """
        if not all(kind.is_complete for kind in self.kinds):
            try:
                with _patiently(self.name):
                    first = self.probe()
                self.kinds = tuple(k.refined_by(column) for k, column in zip(self.kinds, first, strict=True))
                self._unready = None
            except EndOfStreamError:
                if self._unready is None:
                    self._unready = SourceNotReadyError(f"{self.name} gives nothing", fix=_UNASKED)
                raise self._unready from self._unready.__cause__  # an iterator ends where it has failed
            except SourceError as error:
                if error.__cause__ is None:  # it gave something, which is wrong
                    raise
                self._unready = SourceNotReadyError(error.args[0], fix=_UNASKED)
                raise self._unready from error.__cause__
        self.specs = tuple(kind.spec for kind in self.kinds)

    @abstractmethod
    def next(self, turn: BatchRequest) -> Columns:
        """What comes next; see `make`."""

    def produce(self, turn: BatchRequest) -> Columns:
        """The next batch. An end that another source's has hidden is passed over: it was that of the epoch before."""
        hidden = self.seek_obstacle is not None and turn.epoch > 0 and turn.iteration == 0 and not self._ended
        try:
            made = self.next(turn)
        except EndOfStreamError:
            self._ended = True
            if not hidden:
                raise
            made = self.next(turn)
        self._ended = False
        return made

    def _checked(self, columns: Columns, turn: BatchRequest | None = None) -> Columns:
        """The columns of a batch, if they are of the kinds that are known, and no more than asked for."""
        lengths = {len(column) for column in columns}
        if len(lengths) > 1 or 0 in lengths:
            raise SourceError(
                f"{self.name} gives batches with another number of samples for each output"
                if len(lengths) > 1
                else f"{self.name} gives an empty batch",
                given=", ".join(map(str, (len(column) for column in columns))),
                fix="raise StopIteration at the end of the data" if 0 in lengths else None,
            )
        for kind, column in zip(self.kinds, columns, strict=True):
            try:
                (kind if kind.is_complete else kind.refined_by(column)).check(column)
            except SourceError as error:
                raise SourceError(f"{self.name}: {error.args[0]}") from None
        rows = lengths.pop()
        if turn is not None and rows > turn.max_rows:
            raise SourceError(
                f"{self.name} gives more samples than a batch has",
                given=f"{rows} samples",
                expected=f"at most {turn.max_rows}",
                fix="a larger batch_size; or batch=False, if the source gives one sample at a time",
            )
        return tuple([column[: turn.rows] for column in columns]) if turn is not None and rows > turn.rows else columns

    def same_source(self, other: Stream) -> bool:
        """Whether it is the same: those over one source share a stream."""
        return self is other

    def __str__(self) -> str:
        return self.name

    def fingerprint(self) -> str:
        """What the samples are; the source is named in the definition."""
        return f"external:{','.join(str(spec) for spec in self.specs)}"


class InProcessStream(ExternalStream):
    """A source that is called here.

    Args:
        kinds: as for `ExternalStream`.
        lends: whether what it gives may change when it is called again, and is copied before, if it is still needed.
        **how: as for `ExternalStream`.
    """

    def __init__(self, kinds: Sequence[SampleKind], *, lends: bool = True, **how: Any) -> None:
        super().__init__(kinds, **how)
        self._source: Any = None
        self._lends = lends
        self._lent: BatchRequest | None = None
        """The turn whose batch is in memory of the source."""
        self._seen: deque[Any] = deque()
        """What was given before it was asked for: the first batch, or the first sample."""

    def with_source(self, make: Callable[[Any], Any]) -> Self:
        """The same with what `make` makes of the source, the user's own object."""
        made = copy(self)
        made._source = make(self._source)  # noqa: SLF001  # its own
        return made

    @abstractmethod
    def fetch(self, turn: BatchRequest, row: int | None) -> Any:
        """What the source gives for a batch, or for one row of it.

        Raises:
            StopIteration: nothing, the epoch has ended.
        """

    def probe(self) -> Columns:
        """The first sample."""
        if not self._seen:
            first = self._given(BatchRequest(0, 0, 1, 1), None if self.batched else 0)
            self._seen.append(copy_arrays(first) if self._lends else first)
        columns = self._checked(self._converted([self._seen[0]]))
        return tuple([column[:1] for column in columns])

    def next(self, turn: BatchRequest) -> Columns:
        """Call the source."""
        rows: Sequence[int | None] = (None,) if self.batched else range(turn.rows)
        self._take_over()
        columns = self._checked(self._converted([self._first(turn, row) for row in rows]), turn)
        self._lent = turn if self._lends else None
        return columns

    def batch_copy(self, turn: BatchRequest) -> Columns:
        """The batch of a turn, copied."""
        self.batch(turn)
        self._take_over()
        return self.batch(turn)

    def unread(self, turn: BatchRequest) -> None:
        """Give it next, if need be."""
        self._take_over()
        super().unread(turn)

    def rewind(self) -> None:
        """Go back behind what was delivered."""
        self._take_over()
        super().rewind()

    def _take_over(self) -> None:
        """Copy what the source lent, where it is still needed: the source will be called again."""
        lent, self._lent = self._lent, None
        made = None if lent is None else self._made.get(lent)
        if lent is not None and made is not None and not isinstance(made, Exception):
            self._made[lent] = tuple(map(copy_column, made))

    def fetch_rows(self, turn: BatchRequest, rows: range | None) -> Columns:
        """What the source gives for some rows of a batch of samples, or for a batch: not checked, and not copied."""
        return self._converted([self._given(turn, row) for row in rows or (None,)])

    def _first(self, turn: BatchRequest, row: int | None) -> Any:
        """What was seen already, where it is that which is asked for; else what the source gives."""
        if self._seen:
            seen = self._seen.popleft()
            if self.seek_obstacle is not None or (turn.epoch, turn.iteration, row or 0) == (0, 0, 0):
                return seen
        return self._given(turn, row)

    def _given(self, turn: BatchRequest, row: int | None) -> Any:
        try:
            return self.fetch(turn, row)
        except StopIteration:
            raise EndOfStreamError from None
        except PenstockError:
            raise
        except Exception as error:
            which = f"batch {turn.iteration}" if row is None else f"sample {turn.first + row}"
            said = f"{self.name} failed on {which} of epoch {turn.epoch}: {type(error).__name__}: {error}"
            raise SourceError(said) from error

    def _converted(self, given: list[Any]) -> Columns:
        """What was given, a batch or all samples of one, as a column per output."""
        parts = [self._outputs(each) for each in given] if self.several or self.batched else ()
        if not parts:
            return ([to_sample(each) for each in given],)
        if self.batched:
            return tuple([to_column(part) for part in parts[0]])
        return tuple([[to_sample(part[number]) for part in parts] for number in range(len(self.kinds))])

    def _outputs(self, given: Any) -> Sequence[Any]:
        if not self.several:
            return (given,)
        listed = isinstance(given, tuple | list) or (isinstance(given, np.ndarray) and given.ndim > 0)
        entries = list(cast(Sequence[Any], given)) if listed else None
        if entries is None or len(entries) != len(self.kinds):
            count = "none" if entries is None else f"{len(entries)} of them"
            raise SourceError(
                f"{self.name} gives a tuple or list with an entry per output",
                given=f"{count}, a {type(cast(Any, given)).__name__}",
                expected=f"{len(self.kinds)} entries, as num_outputs says",
            )
        return entries


class FunctionStream(InProcessStream):
    """A function that is called for each batch or sample.

    Args:
        function: takes nothing, or which batch or sample is meant.
        informed: whether it takes an argument.
        batch_info: whether that is a `BatchInfo`, and not the batch's number.
        kinds: as for `InProcessStream`, like all others.
        **how: likewise.
    """

    def __init__(
        self, function: Callable[..., Any], *, informed: bool, batch_info: bool, kinds: Sequence[SampleKind], **how: Any
    ) -> None:
        super().__init__(kinds, **how)
        self._source, self._informed, self._batch_info = function, informed, batch_info

    @property
    def seek_obstacle(self) -> str | None:
        """A function that is not told which batch is meant goes on where it stands."""
        return None if self._informed else "it is called without an argument, so only its next batch can be asked for"

    def fetch(self, turn: BatchRequest, row: int | None) -> Any:
        """Call it."""
        if not self._informed:
            return self._source()
        if row is not None:
            return self._source(SampleInfo(turn.first + row, row, turn.iteration, turn.epoch))
        return self._source(BatchInfo(turn.iteration, turn.epoch) if self._batch_info else turn.iteration)


class IterableStream(InProcessStream):
    """An iterable, or a generator function.

    Args:
        source: it.
        cycle: whether it begins again at its end: "no", "quiet" at once, "raise" with the next epoch.
        generates: whether it is a generator function.
        kinds: as for `InProcessStream`, like all others.
        **how: likewise.
    """

    def __init__(self, source: Any, cycle: Cycle, *, generates: bool, kinds: Sequence[SampleKind], **how: Any) -> None:
        super().__init__(kinds, **how)
        self._source, self._cycle, self._generates = source, cycle, generates
        self._iterator: Iterator[Any] | None = None

    @property
    def seek_obstacle(self) -> str | None:
        """It only goes on."""
        return "it is an iterator, which only goes on"

    def probe(self) -> Columns:
        """The first sample. Where there is none, it begins again when it is asked again."""
        try:
            return super().probe()
        finally:
            if not self._seen:
                self._iterator = None

    def fetch(self, turn: BatchRequest, row: int | None) -> Any:
        """Its next item."""
        del turn, row
        if self._iterator is None:
            self._iterator = self._begun()
        try:
            return next(self._iterator)
        except StopIteration:
            self._iterator = None if self._cycle == "raise" else self._iterator
            if self._cycle != "quiet":
                raise
        self._iterator = self._begun()
        return next(self._iterator)

    def _begun(self) -> Iterator[Any]:
        return self._source() if self._generates else iter(self._source)


class SequenceStream(InProcessStream):
    """A list or another sequence of batches, or of samples: any of them can be asked for.

    Args:
        items: has a length, and items by number.
        cycle: as for `IterableStream`.
        kinds: as for `InProcessStream`, like all others.
        **how: likewise.
    """

    def __init__(self, items: Any, cycle: Cycle, *, kinds: Sequence[SampleKind], **how: Any) -> None:
        super().__init__(kinds, **how)
        self._source, self._cycle = items, cycle

    def fetch(self, turn: BatchRequest, row: int | None) -> Any:
        """The item of a turn."""
        each, length = 1 if row is None else turn.max_rows, len(self._source)
        before = turn.rows_before * each
        if self._cycle == "raise" and before > length * turn.epoch:
            before = 0  # it ended the epochs before
        number = before + turn.iteration * each + (row or 0)
        ended = number >= length and (self._cycle == "no" or not (before or self._cycle == "quiet"))
        if not length or ended or (self._cycle == "no" and turn.epoch and not before):
            raise StopIteration
        return self._source[number % length]
