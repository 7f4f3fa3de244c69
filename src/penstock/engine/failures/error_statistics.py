"""What is known of the bad samples of a run: a few numbers, which states and the processes of a job pass on."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from penstock.errors import StateError

BUCKETS = 16
"""Into how many runs of rows a window is cut, so that what is known of it is a few numbers."""

_KEPT = 4 * BUCKETS
"""How many buckets are kept: processes that have taken fewer rows look at earlier windows."""

_LATEST = 8
"""How many batches with bad samples are known one by one."""

_TEXT = 80
"""How many bytes of JSON a text in a state may take."""

MOST = 1 << 62
"""Numbers in states are at most this."""


@dataclass(frozen=True)
class FirstBadSample:
    """The first bad sample.

    Args:
        row: how many rows were delivered before it.
        text: its error's.
        index, source, path: what the error has.
    """

    row: int
    text: str
    index: int | None
    source: str | None
    path: str | None


Batch = tuple[int, int, Counter[str], Counter[int]]
"""Rows delivered with a batch, its number of bad samples, these by reader, and its rows that have any by bucket."""


@dataclass
class ErrorStatistics:
    """Bad samples.

    Args:
        total: how many bad samples rows had: one that is replaced by another bad one has two.
        counts: how many samples were bad, by reader.
        recent: how many rows had any, by the bucket that they lie in.
        first: the first of them.
        latest: the last batches that had any: how many rows were delivered with it, and for that batch alone total,
            counts and recent.
    """

    total: int = 0
    counts: Counter[str] = field(default_factory=Counter[str])
    recent: Counter[int] = field(default_factory=Counter[int])
    first: FirstBadSample | None = None
    latest: list[Batch] = field(default_factory=list[Batch])

    def add(self, rows: int, number: int, counts: Counter[str], recent: Counter[int], first: FirstBadSample) -> None:
        """Take note of a batch.

        Args:
            rows: how many were delivered with it.
            number: how many bad samples its rows have.
            counts: how many samples are bad, by reader.
            recent: how many rows have any, by bucket.
            first: the first of them.
        """
        self.total += number
        self.counts.update(counts)
        self.recent.update(recent)
        for old in [bucket for bucket in self.recent if bucket <= max(recent) - _KEPT]:
            del self.recent[old]
        self.first = self.first or first
        self.latest = [*self.latest[1 - _LATEST :], (rows, number, counts, recent)]

    def until(self, rows: int) -> ErrorStatistics:
        """What was known when `rows` rows had been delivered."""
        if self.first is not None and self.first.row >= rows:
            return ErrorStatistics()
        known = ErrorStatistics(self.total, self.counts.copy(), self.recent.copy(), self.first)
        for end, number, counts, recent in self.latest:
            if end > rows:
                known.total -= number
                known.counts.subtract(counts)
                known.recent.subtract(recent)
        return known

    def text(self) -> str:
        """As text for other processes."""
        first = None if self.first is None else vars(self.first)
        latest = [(rows, number, counts, [*recent.items()]) for rows, number, counts, recent in self.latest]
        return json.dumps([self.total, self.counts, [*self.recent.items()], first, latest])

    @staticmethod
    def of(text: str) -> ErrorStatistics:
        """What `text` gave."""
        total, counts, recent, first, latest = json.loads(text)
        latest: list[Any] = [(rows, number, Counter(some), Counter(dict(rest))) for rows, number, some, rest in latest]
        return ErrorStatistics(
            total, Counter(counts), Counter(dict(recent)), None if first is None else FirstBadSample(**first), latest
        )


def merge_statistics(found: Sequence[ErrorStatistics]) -> ErrorStatistics:
    """What several processes know."""
    firsts = [each.first for each in found if each.first is not None]
    return ErrorStatistics(
        sum(each.total for each in found),
        sum((each.counts for each in found), Counter[str]()),
        sum((each.recent for each in found), Counter[int]()),
        min(firsts, key=lambda first: (first.row, first.text), default=None),
    )


def to_state(found: ErrorStatistics, readers: Iterable[str], rows: int, bucket: int, span: int) -> dict[str, Any]:
    """Plain JSON; `room` says how much at most.

    Args:
        found: what is known.
        readers: their names, in order.
        rows: how many rows were delivered.
        bucket: the one in which they end.
        span: how many rows a window has.
    """
    first = found.first
    return {
        "rows": rows,
        "total": found.total,
        "counts": [found.counts[reader] for reader in readers],
        "span": span,
        "recent": [found.recent[bucket - age] for age in range(BUCKETS + 1)],
        "first": first
        and [first.row, _cut(first.text), first.index, *(_whole(text) for text in (first.source, first.path))],
    }


def max_state_size(readers: int, span: int) -> int:
    """How many bytes `to_state` takes at most, for 10**12 rows.

    Args:
        readers: how many there are.
        span: how many rows a window has.
    """
    text = "x" * (_TEXT - 2)
    counts, recent = Counter({str(reader): 10**12 for reader in range(readers)}), -(-span // BUCKETS)
    found = ErrorStatistics(10**12, counts, Counter(dict.fromkeys(range(BUCKETS + 1), recent)))
    found.first = FirstBadSample(10**12, text, 10**12, text, text)
    return len(json.dumps(to_state(found, counts, 10**12, BUCKETS, span)))


def from_state(state: Any, readers: Sequence[str], span: int, size: int) -> tuple[ErrorStatistics, int]:
    """What is known, and how many rows were delivered; the opposite of `to_state`.

    Args:
        state: what that gave.
        readers: the names of the readers, in order; counts of another number of them are left out.
        span: how many rows a window has; what is known of a window of another length is left out, and what states have
            under "window", where a batch counted in the bucket of its last row.
        size: how many rows a bucket has.

    Raises:
        StateError: `state` is something else.
    """
    try:
        entries = cast(Mapping[str, Any], state)
        rows, total = (_number(entries[name]) for name in ("rows", "total"))
        known_span = _number(entries.get("span", 0))
        counts, recent = ([_number(each) for each in entries[name]] for name in ("counts", "recent"))
        first = None if entries["first"] is None else _first(*entries["first"])
        if len(recent) != BUCKETS + 1:
            raise ValueError(f"{len(recent)} numbers")
    except (KeyError, TypeError, ValueError) as error:
        raise StateError(
            "the entry 'bad' of a state says how many bad samples were met",
            given=f"{type(error).__name__}: {error}",
            fix="pass on what get_state() returned as it was",
        ) from None
    bucket = rows // size
    known = Counter({bucket - age: n for age, n in enumerate(recent) if n}) if known_span == span else Counter[int]()
    by_reader = Counter(dict(zip(readers, counts, strict=True))) if len(counts) == len(readers) else Counter[str]()
    return ErrorStatistics(total, by_reader, known, first), rows


def _first(row: Any, text: Any, index: Any, source: Any, path: Any) -> FirstBadSample:
    if not isinstance(text, str) or not all(each is None or isinstance(each, str) for each in (source, path)):
        raise TypeError(f"{text!r:.60}, {source!r:.60}, {path!r:.60}")
    return FirstBadSample(_number(row), text, None if index is None else _number(index), source, path)


def _number(given: Any) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given <= MOST:
        raise ValueError(f"{given!r:.60}")
    return given


def _cut(text: str) -> str:
    """As much of a text as there is room for."""
    line = text.splitlines()[0] if text else text
    while len(json.dumps(line)) > _TEXT:
        line = line[: len(line) * _TEXT // (_TEXT + 8) - 1]
    return line


def _whole(text: str | None) -> str | None:
    """A text, if there is room for it: a part of a path is none."""
    return text if text is None or len(json.dumps(text)) <= _TEXT else None
