"""Error budget: counts the bad samples of a run and ends it if there are too many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from penstock.core.dataclass import dataclass
from penstock.engine.failures.bad_row import BadRow
from penstock.engine.failures.error_statistics import (
    BUCKETS,
    MOST,
    ErrorStatistics,
    FirstBadSample,
    from_state,
    max_state_size,
    merge_statistics,
    to_state,
)
from penstock.engine.failures.quarantine import Quarantine
from penstock.engine.jobs.key_value_store import KeyValueStore
from penstock.errors import SampleError, UsageError, short_repr
from penstock.types import OnError


@dataclass(frozen=True)
class ErrorLimits:
    """Limits of tolerated bad samples.

    Args:
        count: Maximum number; None for no limit.
        rate: Maximum share, from 0 to 1, of rows with bad samples in a window.
        window: Number of rows in the window of the last delivered rows. The window has at least the rows of a batch,
            and is up to a sixteenth longer, because it consists of whole buckets.
    """

    count: int | None = None
    rate: float = 0.1
    window: int = 1000

    @staticmethod
    def of(
        policies: Sequence[OnError], max_bad_samples: int | None, max_bad_rate: tuple[Any, Any], quarantine: Any
    ) -> ErrorLimits:
        """Check the arguments of an iterator and return its limits.

        Raises:
            UsageError: The rate is out of range, or a limit is given although no bad sample is tolerated.
        """
        if set(policies) == {"raise"} and (max_bad_samples is not None or quarantine is not None):
            raise UsageError(
                "max_bad_samples and quarantine have no effect if the first bad sample ends the run",
                given='on_error="raise"',
                fix='on_error="replace" or "skip"',
            )
        rate, window = max_bad_rate
        # bool is a subclass of int, so types are compared exactly: (True, 1000) is not a rate.
        numbers = type(rate) in (float, int) and type(window) is int
        if not numbers or not 0 <= rate <= 1 or not 1 <= window <= MOST:
            raise UsageError(
                "max_bad_rate must be a share of rows with bad samples, and a number of rows",
                given=short_repr(max_bad_rate),
                expected="a number from 0 to 1 and an integer of at least 1, such as (0.1, 1000)",
            )
        return ErrorLimits(max_bad_samples, float(rate), window)


class ErrorBudget:
    """Counts the bad samples of delivered batches, over all processes of a job.

    Args:
        readers: Labels of the readers.
        limits: Limits of tolerated bad samples.
        quarantine: Quarantine file; None to write none.
        store: Key-value store of the job; None for a single process.
        batch_size: Maximum number of rows of a batch.
    """

    def __init__(
        self,
        readers: Iterable[str],
        limits: ErrorLimits,
        quarantine: Quarantine | None,
        store: KeyValueStore | None,
        batch_size: int,
    ) -> None:
        self._readers, self._limits = tuple(readers), limits
        self._quarantine, self._store = quarantine, store
        self._span = max(limits.window, batch_size)
        self._bucket_rows = -(-self._span // BUCKETS)
        self._rows = 0
        self._before = ErrorStatistics()  # of the whole job, from the restored state
        self._own = ErrorStatistics()  # of this process, since then
        self._restored = 0
        self._over: SampleError | None = None

    def add(self, failed: Sequence[BadRow], rows: int) -> None:
        """Add a batch.

        Args:
            failed: Rows of this process that failed.
            rows: Number of rows of the batch.

        Raises:
            SampleError: There are more bad samples than the limits allow, in this or an earlier batch.
            ResourceError: The quarantine file cannot be written. The batch does not count, so it can be added again.
        """
        # The limit stays exceeded: an iterator that is used again after the error must not continue.
        if self._over is not None:
            raise self._over
        if self._quarantine is not None:
            if failed:
                self._quarantine.add(failed)
            else:
                # Process 0 writes the file, so it must also collect entries after batches in which nothing failed here.
                self._quarantine.collect(now=False)
        before, self._rows = self._rows, self._rows + rows
        if not failed:
            return
        self._note(failed, before)
        self._over = self._excess()
        if self._over is not None:
            # The batch is not delivered. A state must not count it, because a resumed run computes it again.
            self._rows = before
            if self._quarantine is not None:
                self._quarantine.collect()
            raise self._over

    def counts(self) -> dict[str, int]:
        """Return the number of bad samples so far, by reader."""
        if self._quarantine is not None:
            self._quarantine.collect()
        return dict.fromkeys(self._readers, 0) | dict(merge_statistics(self._all()).counts)

    @property
    def room(self) -> int:
        """Maximum size of `state` in bytes of JSON."""
        return max_state_size(len(self._readers), self._span)

    def state(self) -> dict[str, Any]:
        """Return the statistics of the delivered batches as plain JSON.

        In a job they include what other processes have published, except batches that this process has not delivered
        yet.
        """
        merged = merge_statistics([statistics.until(self._rows) for statistics in self._all()])
        # Batches of other processes that this one has not delivered are left out: a restored run computes them again.
        return to_state(merged, self._readers, self._rows, self._rows // self._bucket_rows, self._span)

    def restore(self, state: Any) -> None:
        """Continue from a state; from zero if it is None.

        Raises:
            StateError: `state` is not a result of `state`.
        """
        restored = ErrorStatistics(), 0
        if state is not None:
            restored = from_state(state, self._readers, self._span, self._bucket_rows)
        self._before, self._rows = restored
        self._own, self._over = ErrorStatistics(), None
        self._restored += 1

    def _note(self, failed: Sequence[BadRow], before: int) -> None:
        error = failed[0].error
        first = FirstBadSample(before + failed[0].number, str(error.args[0]), error.index, error.source, error.path)
        counts = Counter(sample.reader for bad in failed for sample in bad.samples)
        # A row counts once in the rate, even if its replacements were bad as well.
        recent = Counter((before + number) // self._bucket_rows for number in {bad.number for bad in failed})
        self._own.add(self._rows, len(failed), counts, recent, first)
        if self._store is not None:
            # The counter in the key separates the statistics of different restores: what other processes published
            # before the state was restored would be counted twice.
            self._store.put(f"found-{self._restored}/{self._store.process}", self._own.text())

    def _all(self) -> list[ErrorStatistics]:
        """Return the restored statistics, and those of each process of the job."""
        if self._store is None:
            return [self._before, self._own]
        return [self._before, *map(ErrorStatistics.of, self._store.read(f"found-{self._restored}").values())]

    def _excess(self) -> SampleError | None:
        """Return the error if there are more bad samples than the limits allow; otherwise None."""
        limits, everywhere = self._limits, self._all()
        merged = merge_statistics(everywhere)
        if limits.count is not None and merged.total > limits.count:
            message = f"{merged.total} bad samples in {self._rows} rows, and max_bad_samples={limits.count}"
        else:
            recent = self._too_many(everywhere)
            if recent is None:
                return None
            bad, rows = recent
            message = (
                f"{bad} of the last {rows} rows have bad samples, and max_bad_rate=({limits.rate:g}, {limits.window})"
            )
        first = merged.first
        assert first is not None  # there are bad samples
        return SampleError(
            f"{message}\n  the first: {first.text}",
            given=", ".join(f"{count} of {reader}" for reader, count in sorted(merged.counts.items()) if count),
            fix="repair these samples or exclude them; or raise the limit",
            index=first.index,
            source=first.source,
            path=first.path,
        )

    def _too_many(self, everywhere: Sequence[ErrorStatistics]) -> tuple[int, int] | None:
        """Return the number of bad rows and of rows in the first window that exceeds the limit; None if none does.

        Other processes may have delivered later batches. Windows that end with those are checked, too, because these
        processes did not know of the rows that failed here.
        """
        later = {rows for statistics in everywhere for rows, *_ in statistics.latest if rows > self._rows}
        for end in (self._rows, *sorted(later)):
            oldest = max(0, (end - self._span) // self._bucket_rows)
            rows = end - oldest * self._bucket_rows
            recent = merge_statistics([statistics.until(end) for statistics in everywhere]).recent
            bad = sum(number for bucket, number in recent.items() if oldest <= bucket <= end // self._bucket_rows)
            if bad > self._limits.rate * max(rows, self._span):
                return bad, rows
        return None
