"""Streams over what users give: functions, iterables, generators, and data that are fed by hand."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, cast

import numpy as np

from penstock.data.given import Kind, as_column, as_sample, copied
from penstock.data.source import Column
from penstock.data.stream import Columns, EndOfStreamError, StarvedError, Stream, Turn
from penstock.errors import PenstockError, SourceError
from penstock.types import BatchInfo, SampleInfo

Cycle = Literal["no", "quiet", "raise"]


class ExternalStream(Stream):
    """What a user's source gives, checked and brought to columns.

    Args:
        kinds: per output, what is known of its samples.
        several: whether the source gives a tuple or list with an entry per output; else its one output.
        batch: whether it gives batches; else samples.
        name: what messages call it.
        lends: whether what it gives may change afterwards, and is copied at once.
    """

    def __init__(
        self, kinds: Sequence[Kind], *, several: bool = False, batch: bool = True, name: str, lends: bool = True
    ) -> None:
        super().__init__()
        self._lends = lends
        self.kinds = tuple(kinds)
        self.batched = batch
        self._several = several
        self.name = name
        self._seen: deque[Any] = deque()
        """What was given before it was asked for: the first batch, or the first sample."""

    @abstractmethod
    def give(self, turn: Turn, row: int | None) -> Any:
        """What the source gives for a batch, or for one row of it.

        Raises:
            StopIteration: nothing, the epoch has ended.
        """

    def learn(self) -> None:
        """Find out what the samples are, from the first one if need be; then `specs` are known.

        Raises:
            SourceError: there is no first one, or the source fails.
        """
        if not all(kind.known for kind in self.kinds):
            try:
                self.kinds = tuple(k.seen(column) for k, column in zip(self.kinds, self.probe(), strict=True))
            except EndOfStreamError:
                raise SourceError(f"{self.name} gives nothing", fix="say what it gives: dtype=, ndim=") from None
        self.specs = tuple(kind.spec for kind in self.kinds)

    def probe(self) -> Columns:
        """The first sample."""
        if not self._seen:
            self._seen.append(self._given(Turn(0, 0, 1, 1), None if self.batched else 0))
        columns = self._columns([self._seen[0]])
        return tuple([column[:1] for column in columns])

    def make(self, turn: Turn) -> Columns:
        """The next batch."""
        if self.batched:
            return self._columns([self._first(turn, None)], turn)
        return self._columns([self._first(turn, row) for row in range(turn.rows)], turn)

    def _first(self, turn: Turn, row: int | None) -> Any:
        """What was seen already, where it is that which is asked for; else what the source gives."""
        if self._seen:
            seen = self._seen.popleft()
            if self.obstacle is not None or (turn.epoch, turn.iteration, row or 0) == (0, 0, 0):
                return seen
        return self._given(turn, row)

    def _given(self, turn: Turn, row: int | None) -> Any:
        try:
            return self.give(turn, row)
        except StopIteration:
            raise EndOfStreamError from None
        except PenstockError:
            raise
        except Exception as error:
            which = f"batch {turn.iteration}" if row is None else f"sample {turn.first + row}"
            said = f"{self.name} failed on {which} of epoch {turn.epoch}: {type(error).__name__}: {error}"
            raise SourceError(said) from error

    def _columns(self, given: list[Any], turn: Turn | None = None) -> Columns:
        """What was given, a batch or all samples of one, as a column per output."""
        parts = [self._outputs(each) for each in given] if self._several or self.batched else ()
        if not parts:
            columns: list[Column] = [[as_sample(each) for each in given]]
        elif self.batched:
            columns = [as_column(part) for part in parts[0]]
        else:
            columns = [[as_sample(part[number]) for part in parts] for number in range(len(self.kinds))]
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
                (kind if kind.known else kind.seen(column)).check(column)
            except SourceError as error:
                raise SourceError(f"{self.name}: {error.args[0]}") from None
        rows = lengths.pop()
        if turn is not None and rows > turn.most:
            raise SourceError(
                f"{self.name} gives more samples than a batch has",
                given=f"{rows} samples",
                expected=f"at most {turn.most}",
                fix="a larger batch_size; or batch=False, if the source gives one sample at a time",
            )
        if turn is not None and rows > turn.rows:
            columns = [column[: turn.rows] for column in columns]
        return tuple(map(copied, columns) if self._lends else columns)

    def _outputs(self, given: Any) -> Sequence[Any]:
        if not self._several:
            return (given,)
        entries = list(cast(Sequence[Any], given)) if isinstance(given, tuple | list) else None
        if entries is None or len(entries) != len(self.kinds):
            count = "none" if entries is None else f"{len(entries)} of them"
            raise SourceError(
                f"{self.name} gives a tuple or list with an entry per output",
                given=f"{count}, a {type(cast(Any, given)).__name__}",
                expected=f"{len(self.kinds)} entries, as num_outputs says",
            )
        return entries

    def like(self, other: Stream) -> bool:
        """Whether it is the same: those over one source share a stream."""
        return self is other

    def __str__(self) -> str:
        return self.name

    def fingerprint(self) -> str:
        """What the samples are; the source is named in the definition."""
        return f"external:{','.join(str(spec) for spec in self.specs)}"


class Called(ExternalStream):
    """A function that is called for each batch or sample.

    Args:
        function: takes nothing, or which batch or sample is meant.
        informed: whether it takes an argument.
        batch_info: whether that is a `BatchInfo`, and not the batch's number.
        kinds: as for `ExternalStream`, like all others.
        **how: likewise.
    """

    def __init__(
        self, function: Callable[..., Any], *, informed: bool, batch_info: bool, kinds: Sequence[Kind], **how: Any
    ) -> None:
        super().__init__(kinds, **how)
        self._function, self._informed, self._batch_info = function, informed, batch_info

    @property
    def obstacle(self) -> str | None:
        """A function that is not told which batch is meant goes on where it stands."""
        return None if self._informed else "it is called without an argument, so only its next batch can be asked for"

    def give(self, turn: Turn, row: int | None) -> Any:
        """Call it."""
        if not self._informed:
            return self._function()
        if row is not None:
            return self._function(SampleInfo(turn.first + row, row, turn.iteration, turn.epoch))
        return self._function(BatchInfo(turn.iteration, turn.epoch) if self._batch_info else turn.iteration)


class Iterated(ExternalStream):
    """An iterable, or a generator function.

    Args:
        begin: gives an iterator.
        cycle: whether it begins again at its end: "no", "quiet" at once, "raise" with the next epoch.
        kinds: as for `ExternalStream`, like all others.
        **how: likewise.
    """

    def __init__(self, begin: Callable[[], Iterator[Any]], cycle: Cycle, *, kinds: Sequence[Kind], **how: Any) -> None:
        super().__init__(kinds, **how)
        self._begin, self._cycle = begin, cycle
        self._iterator = begin()
        self._ended = False

    @property
    def obstacle(self) -> str | None:
        """It only goes on."""
        return "it is an iterator, which only goes on"

    def give(self, turn: Turn, row: int | None) -> Any:
        """Its next item."""
        del row
        if self._ended and self._cycle == "raise":
            self._restart()
        try:
            return next(self._iterator)
        except StopIteration:
            begins_epoch = turn.iteration == 0 and turn.epoch > 0 and not self._ended
            self._ended = True
            if self._cycle != "quiet" and not (self._cycle == "raise" and begins_epoch):
                raise
        self._restart()
        return next(self._iterator)

    def _restart(self) -> None:
        self._iterator, self._ended = self._begin(), False


class Listed(ExternalStream):
    """A list or another sequence of batches, or of samples: any of them can be asked for.

    Args:
        items: has a length, and items by number.
        cycle: as for `Iterated`.
        kinds: as for `ExternalStream`, like all others.
        **how: likewise.
    """

    def __init__(self, items: Any, cycle: Cycle, *, kinds: Sequence[Kind], **how: Any) -> None:
        super().__init__(kinds, **how)
        self._items, self._cycle = items, cycle

    def give(self, turn: Turn, row: int | None) -> Any:
        """The item of a turn."""
        iteration, length = turn.before + turn.iteration, len(self._items)
        number = iteration if row is None else iteration * turn.most + row
        ended = number >= length and (self._cycle == "no" or not (turn.before or self._cycle == "quiet"))
        if not length or ended or (self._cycle == "no" and turn.epoch and not turn.before):
            raise StopIteration
        return self._items[number % length]


_GUESSES: Sequence[tuple[np.dtype[Any], int]] = [
    (np.dtype(dtype), ndim)
    for dtype, ndim in (
        *(("uint8", 1), ("uint8", 3), ("float32", 1), ("float32", 3), ("int32", 1), ("int32", 0), ("float32", 0)),
        *(("uint8", 4), ("float32", 2), ("uint8", 2), ("float32", 4), ("int64", 1), ("bool", 0)),
    )
]
"""What is fed most often: encoded files, images, points, labels."""


class Fed(ExternalStream):
    """What `Pipeline.feed_input` gives.

    Args:
        kinds: what is known of its samples.
        name: what messages call it.
        repeat_last: whether the last batch is given again where nothing waits.
    """

    def __init__(self, kinds: Sequence[Kind], *, name: str, repeat_last: bool) -> None:
        super().__init__(kinds, name=name, lends=False)
        self._repeat_last = repeat_last
        self._last: Column | None = None
        self._guess = 0
        self._queue: deque[Column] = deque()
        self.refill: Callable[[], Callable[[], None] | None] = lambda: None
        """Gives, if it is still there, what is called when nothing is left: it feeds more, or raises StopIteration."""

    @property
    def guesses(self) -> int:
        """How many kinds it may be of."""
        return len(self._guesses)

    @property
    def guessed(self) -> bool:
        """Whether its `specs` are a guess."""
        return not self.kinds[0].known

    @property
    def waits(self) -> bool:
        """Whether a batch waits."""
        return bool(self._queue)

    @property
    def _guesses(self) -> list[Kind]:
        known = self.kinds[0]
        if known.known or self._queue:
            return [known]
        guesses = [
            Kind(known.dtype or dtype, ndim if known.rank is None else known.rank, known.layout)
            for dtype, ndim in _GUESSES
        ]
        return list(dict.fromkeys(guesses))

    def guess(self, number: int) -> None:
        """Let it be of one of these kinds, until something is fed."""
        self._guess = number

    def learn(self) -> None:
        """What it is fed, or a guess."""
        if self._queue or not self.guessed:
            super().learn()
        else:
            self.specs = (self._guesses[self._guess % self.guesses].spec,)

    def settle(self) -> None:
        """Learn what it is fed.

        Raises:
            StarvedError: nothing was fed.
        """
        if not self._queue:
            raise self._starved()
        self.learn()

    def _starved(self) -> StarvedError:
        return StarvedError(
            f"nothing was fed to {self.name}", fix=f"pipeline.feed_input({self.name!r}, ...) before each run"
        )

    @property
    def obstacle(self) -> str | None:
        """It waits for what comes."""
        return "it is fed by hand"

    def feed(self, data: Any, layout: str | None) -> None:
        """Put a batch behind those that wait."""
        column = as_column(data)
        if not len(column):
            raise SourceError(f"{self.name} was fed an empty batch")
        self.kinds[0].check(column)
        self._queue.append(copied(column))
        if layout:
            self.kinds = (Kind(self.kinds[0].dtype, self.kinds[0].ndim, layout),)

    def give(self, turn: Turn, row: int | None) -> Any:
        """The next batch that was fed."""
        del turn, row
        if not self._queue and (refill := self.refill()) is not None:
            refill()
        if not self._queue and self._repeat_last and self._last is not None:
            return self._last
        if not self._queue:
            raise self._starved()
        self._last = self._queue.popleft()
        return self._last


def begin_of(source: Any, *, generates: bool) -> Callable[[], Iterator[Any]]:
    """What begins an iterator over a source: an iterable, or a function that makes a generator."""
    return cast(Callable[[], Iterator[Any]], source) if generates else lambda: iter(cast(Iterable[Any], source))
