"""Statistics of bad samples: a few numbers, which saved states contain and the processes of a job exchange."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, cast

from penstock.core.dataclass import dataclass
from penstock.errors import StateError

# Buckets per window of rows. Counts per bucket approximate a sliding window with a few numbers.
BUCKETS = 16

# Buckets to keep: processes that have received fewer rows look at earlier windows.
_MAX_BUCKETS = 4 * BUCKETS

# Last batches with bad samples to keep separately, so that `until` can subtract them.
_MAX_BATCHES = 8

# Size limit in bytes of JSON for a text in a state, so that the state stays below 1 KB.
_MAX_TEXT_BYTES = 80

# Largest number accepted in a state; a larger one is damage.
MOST = 1 << 62


@dataclass(frozen=True)
class FirstBadSample:
    """The first bad sample of a run.

    Args:
        row: Number of rows delivered before it.
        text: Message of its error.
        index: Index in the data set.
        source: The data set's name for the sample.
        path: File that contains the sample.
    """

    row: int
    text: str
    index: int | None
    source: str | None
    path: str | None


# Rows delivered up to and including a batch, its number of bad samples, these by reader, and its bad rows by bucket.
Batch = tuple[int, int, Counter[str], Counter[int]]


@dataclass
class ErrorStatistics:
    """Statistics of bad samples.

    Args:
        total: Number of bad samples. A row whose replacement is also bad has two.
        counts: Number of bad samples by reader.
        recent: Number of rows with bad samples by bucket.
        first: The first bad sample.
        latest: The last batches with bad samples.
    """

    total: int = 0
    counts: Counter[str] = field(default_factory=Counter[str])
    recent: Counter[int] = field(default_factory=Counter[int])
    first: FirstBadSample | None = None
    latest: list[Batch] = field(default_factory=list[Batch])

    def add(self, rows: int, number: int, counts: Counter[str], recent: Counter[int], first: FirstBadSample) -> None:
        """Add a batch.

        Args:
            rows: Number of rows delivered up to and including the batch.
            number: Number of bad samples in the batch.
            counts: Number of bad samples by reader.
            recent: Number of rows with bad samples by bucket.
            first: The first bad sample of the batch.
        """
        self.total += number
        self.counts.update(counts)
        self.recent.update(recent)
        # Rows are delivered in order, so old buckets can only become irrelevant.
        for old in [bucket for bucket in self.recent if bucket <= max(recent) - _MAX_BUCKETS]:
            del self.recent[old]
        self.first = self.first or first
        self.latest = [*self.latest[1 - _MAX_BATCHES :], (rows, number, counts, recent)]

    def until(self, rows: int) -> ErrorStatistics:
        """Return the statistics at the time when `rows` rows had been delivered."""
        if self.first is not None and self.first.row >= rows:
            return ErrorStatistics()
        earlier = ErrorStatistics(self.total, self.counts.copy(), self.recent.copy(), self.first)
        for end, number, counts, recent in self.latest:
            if end > rows:
                earlier.total -= number
                earlier.counts.subtract(counts)
                earlier.recent.subtract(recent)
        return earlier

    def text(self) -> str:
        """Serialize to text for other processes."""
        first = None if self.first is None else vars(self.first)
        latest = [(rows, number, counts, [*recent.items()]) for rows, number, counts, recent in self.latest]
        return json.dumps([self.total, self.counts, [*self.recent.items()], first, latest])

    @staticmethod
    def of(text: str) -> ErrorStatistics:
        """Parse the result of `text`."""
        total, counts, recent, first, latest = json.loads(text)
        latest: list[Any] = [(rows, number, Counter(some), Counter(dict(rest))) for rows, number, some, rest in latest]
        return ErrorStatistics(
            total, Counter(counts), Counter(dict(recent)), None if first is None else FirstBadSample(**first), latest
        )


def merge_statistics(statistics: Sequence[ErrorStatistics]) -> ErrorStatistics:
    """Combine the statistics of several processes."""
    firsts = [item.first for item in statistics if item.first is not None]
    return ErrorStatistics(
        sum(item.total for item in statistics),
        sum((item.counts for item in statistics), Counter[str]()),
        sum((item.recent for item in statistics), Counter[int]()),
        min(firsts, key=lambda first: (first.row, first.text), default=None),
    )


def to_state(statistics: ErrorStatistics, readers: Iterable[str], rows: int, bucket: int, span: int) -> dict[str, Any]:
    """Convert to plain JSON of at most `max_state_size` bytes.

    Args:
        statistics: The statistics.
        readers: Names of the readers, in order.
        rows: Number of rows delivered.
        bucket: Bucket of the last of these rows.
        span: Number of rows in a window.
    """
    first = statistics.first
    return {
        "rows": rows,
        "total": statistics.total,
        "counts": [statistics.counts[reader] for reader in readers],
        "span": span,
        "recent": [statistics.recent[bucket - age] for age in range(BUCKETS + 1)],
        "first": first
        and [first.row, _truncate(first.text), first.index, *(_if_short(text) for text in (first.source, first.path))],
    }


def max_state_size(readers: int, span: int) -> int:
    """Return the maximum size in bytes of `to_state`, for up to 10**12 rows.

    Args:
        readers: Number of readers.
        span: Number of rows in a window.
    """
    # Two characters of each text are its quotes in JSON.
    text = "x" * (_MAX_TEXT_BYTES - 2)
    counts, recent = Counter({str(reader): 10**12 for reader in range(readers)}), -(-span // BUCKETS)
    statistics = ErrorStatistics(10**12, counts, Counter(dict.fromkeys(range(BUCKETS + 1), recent)))
    statistics.first = FirstBadSample(10**12, text, 10**12, text, text)
    return len(json.dumps(to_state(statistics, counts, 10**12, BUCKETS, span)))


def from_state(state: Any, readers: Sequence[str], span: int, size: int) -> tuple[ErrorStatistics, int]:
    """Parse the result of `to_state`. Returns the statistics and the number of rows delivered.

    Args:
        state: The result of `to_state`.
        readers: Names of the readers, in order. Counts for a different number of readers are ignored.
        span: Number of rows in a window. Counts for a window of another length are ignored, and so is the entry
            "window" of older states, which counted a batch in the bucket of its last row.
        size: Number of rows in a bucket.

    Raises:
        StateError: `state` is not a result of `to_state`.
    """
    try:
        entries = cast(Mapping[str, Any], state)
        rows, total = (_number(entries[name]) for name in ("rows", "total"))
        known_span = _number(entries.get("span", 0))
        counts, recent = ([_number(number) for number in entries[name]] for name in ("counts", "recent"))
        first = None if entries["first"] is None else _first(*entries["first"])
        if len(recent) != BUCKETS + 1:
            raise ValueError(f"{len(recent)} numbers")
    except (KeyError, TypeError, ValueError) as error:
        raise StateError(
            "the entry 'bad' of the state is not a count of bad samples",
            given=f"{type(error).__name__}: {error}",
            fix="pass the result of get_state() unchanged",
        ) from None
    # A changed batch size or window changes the buckets. The totals still hold; the recent rows are counted afresh.
    bucket = rows // size
    recent_rows = (
        Counter({bucket - age: n for age, n in enumerate(recent) if n}) if known_span == span else Counter[int]()
    )
    by_reader = Counter(dict(zip(readers, counts, strict=True))) if len(counts) == len(readers) else Counter[str]()
    return ErrorStatistics(total, by_reader, recent_rows, first), rows


def _first(row: Any, text: Any, index: Any, source: Any, path: Any) -> FirstBadSample:
    if not isinstance(text, str) or not all(name is None or isinstance(name, str) for name in (source, path)):
        raise TypeError(f"{text!r:.60}, {source!r:.60}, {path!r:.60}")
    return FirstBadSample(_number(row), text, None if index is None else _number(index), source, path)


def _number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST:
        raise ValueError(f"{value!r:.60}")
    return value


def _truncate(text: str) -> str:
    """Return the beginning of a text, within the size limit."""
    line = text.splitlines()[0] if text else text
    while len(json.dumps(line)) > _MAX_TEXT_BYTES:
        line = line[: len(line) * _MAX_TEXT_BYTES // (_MAX_TEXT_BYTES + 8) - 1]
    return line


def _if_short(text: str | None) -> str | None:
    """Return a text if it is within the size limit, otherwise None: part of a path would be misleading."""
    return text if text is None or len(json.dumps(text)) <= _MAX_TEXT_BYTES else None
