"""How many bad samples a run has met, and how many it tolerates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

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
    """How many bad samples are tolerated.

    Args:
        count: the most; None for any number.
        rate: at most this share, from 0 to 1, of the rows of a window has bad samples.
        window: how many rows that window has, those that were delivered last: at least a batch, and up to a sixteenth
            more.
    """

    count: int | None = None
    rate: float = 0.1
    window: int = 1000

    @staticmethod
    def of(policies: Sequence[OnError], max_bad_samples: Any, max_bad_rate: Any, quarantine: Any) -> ErrorLimits:
        """The limits that an iterator was given.

        Raises:
            UsageError: a limit is out of range, or limits are given where nothing is tolerated.
        """
        if set(policies) == {"raise"} and (max_bad_samples is not None or quarantine is not None):
            raise UsageError(
                "max_bad_samples and quarantine are for bad samples that do not end the run",
                given='on_error="raise"',
                fix='on_error="replace" or "skip"',
            )
        whole = max_bad_samples is None or (isinstance(max_bad_samples, int) and not isinstance(max_bad_samples, bool))
        if not whole or (max_bad_samples is not None and max_bad_samples < 0):
            raise UsageError(
                "max_bad_samples is the number of bad samples that are tolerated",
                given=short_repr(max_bad_samples),
                expected="a whole number from 0, or None for any number",
            )
        given: list[Any] = list(cast(Any, max_bad_rate)) if isinstance(max_bad_rate, tuple | list) else []
        kinds = ((float, int), (int,))
        if len(given) != len(kinds) or not all(type(one) in of for one, of in zip(given, kinds, strict=True)):
            given = [-1, 0]
        rate, window = given
        if not 0 <= rate <= 1 or not 1 <= window <= MOST:
            raise UsageError(
                "max_bad_rate is the share of bad samples that is tolerated, and of how many rows",
                given=short_repr(cast(Any, max_bad_rate)),
                expected="a number from 0 to 1 and a whole number from 1, such as (0.1, 1000)",
            )
        return ErrorLimits(max_bad_samples, float(rate), window)


class ErrorBudget:
    """Counts the bad samples of the batches that are taken, over all processes of a job.

    Args:
        readers: the names of the readers.
        limits: how many bad samples are tolerated.
        quarantine: where they are written to.
        board: what the processes of the job show each other; None where this process is alone.
        batch_size: how many rows a batch has, at most.
    """

    def __init__(
        self,
        readers: Iterable[str],
        limits: ErrorLimits,
        quarantine: Quarantine | None,
        board: KeyValueStore | None,
        batch_size: int,
    ) -> None:
        self._readers, self._limits = tuple(readers), limits
        self._quarantine, self._board = quarantine, board
        self._span = max(limits.window, batch_size)
        self._bucket_rows = -(-self._span // BUCKETS)
        self._rows = 0
        self._before = ErrorStatistics()  # of the job, when its state was restored
        self._found = ErrorStatistics()  # of this process, since
        self._restored = 0
        self._over: SampleError | None = None

    def add(self, failed: Sequence[BadRow], rows: int) -> None:
        """Take note of a batch.

        Args:
            failed: the rows of this process that failed.
            rows: how many rows the batch has.

        Raises:
            SampleError: there are more bad samples than the limits allow, now or since an earlier batch.
        """
        if self._over is not None:
            raise self._over
        before, self._rows = self._rows, self._rows + rows
        if failed:
            self._note(failed, before)
            self._check()
        elif self._quarantine is not None:
            self._quarantine.collect(now=False)

    def counts(self) -> dict[str, int]:
        """How many bad samples were met so far, by reader."""
        if self._quarantine is not None:
            self._quarantine.collect()
        return dict.fromkeys(self._readers, 0) | dict(merge_statistics(self._all()).counts)

    @property
    def room(self) -> int:
        """How many bytes of JSON `state` takes at most."""
        return max_state_size(len(self._readers), self._span)

    def state(self) -> dict[str, Any]:
        """What is known of the batches that were taken, as plain JSON.

        In a job, what other processes have met counts as far as they have told; what they have met in batches that this
        process has not taken yet does not.
        """
        found = merge_statistics([each.until(self._rows) for each in self._all()])
        return to_state(found, self._readers, self._rows, self._rows // self._bucket_rows, self._span)

    def restore(self, state: Any) -> None:
        """Go on from a state, or anew, where that is None.

        Raises:
            StateError: it is no state.
        """
        known = ErrorStatistics(), 0
        if state is not None:
            known = from_state(state, self._readers, self._span, self._bucket_rows)
        self._before, self._rows = known
        self._found, self._over = ErrorStatistics(), None
        self._restored += 1

    def _note(self, failed: Sequence[BadRow], before: int) -> None:
        error = failed[0].error
        first = FirstBadSample(before + failed[0].number, str(error.args[0]), error.index, error.source, error.path)
        counts = Counter(sample.reader for bad in failed for sample in bad.samples)
        recent = Counter((before + number) // self._bucket_rows for number in {bad.number for bad in failed})
        self._found.add(self._rows, len(failed), counts, recent, first)
        if self._quarantine is not None:
            self._quarantine.add(failed)
        if self._board is not None:
            self._board.put(f"found-{self._restored}/{self._board.process}", self._found.text())

    def _all(self) -> list[ErrorStatistics]:
        """What is known: from before, and what each process of the job has found."""
        if self._board is None:
            return [self._before, self._found]
        return [self._before, *map(ErrorStatistics.of, self._board.read(f"found-{self._restored}").values())]

    def _check(self) -> None:
        limits, everywhere = self._limits, self._all()
        found = merge_statistics(everywhere)
        if limits.count is not None and found.total > limits.count:
            what = f"{found.total} bad samples in {self._rows} rows, and max_bad_samples={limits.count}"
        else:
            recent = self._too_many(everywhere)
            if recent is None:
                return
            bad, rows = recent
            what = (
                f"{bad} of the last {rows} rows have bad samples, and max_bad_rate=({limits.rate:g}, {limits.window})"
            )
        if self._quarantine is not None:
            self._quarantine.collect()
        first = found.first
        assert first is not None  # there are bad samples
        self._over = SampleError(
            f"{what}\n  the first: {first.text}",
            given=", ".join(f"{count} of {reader}" for reader, count in sorted(found.counts.items()) if count),
            fix="mend the data set or leave them out; or a higher limit",
            index=first.index,
            source=first.source,
            path=first.path,
        )
        raise self._over

    def _too_many(self, everywhere: Sequence[ErrorStatistics]) -> tuple[int, int] | None:
        """The number of bad rows in the first window that has more than the limit, and the window's length, if any.

        Other processes may have taken later batches. The windows that end with those count, too: what this process has
        just found may be missing there.
        """
        later = {rows for found in everywhere for rows, *_ in found.latest if rows > self._rows}
        for end in (self._rows, *sorted(later)):
            oldest = max(0, (end - self._span) // self._bucket_rows)
            rows = end - oldest * self._bucket_rows
            recent = merge_statistics([found.until(end) for found in everywhere]).recent
            bad = sum(number for bucket, number in recent.items() if oldest <= bucket <= end // self._bucket_rows)
            if bad > self._limits.rate * max(rows, self._span):
                return bad, rows
        return None
