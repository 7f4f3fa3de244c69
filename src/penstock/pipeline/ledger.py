"""How many bad samples a run has met, and how many it tolerates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from penstock.errors import SampleError, UsageError, shown
from penstock.host.setting import BadRow
from penstock.pipeline.found import BUCKETS, MOST, First, Found, of_state, room, to_state, together
from penstock.pipeline.quarantine import Quarantine
from penstock.transfer.board import Board
from penstock.types import OnError


@dataclass(frozen=True)
class Limits:
    """How many bad samples are tolerated.

    Args:
        count: the most; None for any number.
        rate: at most this share, from 0 to 1, of the rows of a window.
        window: how many rows that window has, those that were delivered last; up to a sixteenth more.
    """

    count: int | None = None
    rate: float = 0.1
    window: int = 1000

    @staticmethod
    def of(policies: Sequence[OnError], error_limit: Any, error_rate: Any, quarantine: Any) -> Limits:
        """The limits that an iterator was given.

        Raises:
            UsageError: a limit is out of range, or limits are given where nothing is tolerated.
        """
        if set(policies) == {"raise"} and (error_limit is not None or quarantine is not None):
            raise UsageError(
                "error_limit and quarantine are for bad samples that do not end the run",
                given='on_error="raise"',
                fix='on_error="replace" or "skip"',
            )
        whole = error_limit is None or (isinstance(error_limit, int) and not isinstance(error_limit, bool))
        if not whole or (error_limit is not None and error_limit < 0):
            raise UsageError(
                "error_limit is the number of bad samples that are tolerated",
                given=shown(error_limit),
                expected="a whole number from 0, or None for any number",
            )
        given: list[Any] = list(cast(Sequence[Any], error_rate)) if isinstance(error_rate, tuple | list) else []
        kinds = ((float, int), (int,))
        if len(given) != len(kinds) or not all(type(one) in of for one, of in zip(given, kinds, strict=True)):
            given = [-1, 0]
        rate, window = given
        if not 0 <= rate <= 1 or not 1 <= window <= MOST:
            raise UsageError(
                "error_rate is the share of bad samples that is tolerated, and of how many rows",
                given=shown(error_rate),
                expected="a number from 0 to 1 and a whole number from 1, such as (0.1, 1000)",
            )
        return Limits(error_limit, float(rate), window)


class Ledger:
    """Counts the bad samples of the batches that are taken, over all processes of a job.

    Args:
        readers: the names of the readers.
        limits: how many bad samples are tolerated.
        quarantine: where they are written to.
        board: what the processes of the job show each other; None where this process is alone.
    """

    def __init__(
        self, readers: Iterable[str], limits: Limits, quarantine: Quarantine | None, board: Board | None
    ) -> None:
        self._readers, self._limits = tuple(readers), limits
        self._quarantine, self._board = quarantine, board
        self._bucket_rows = -(-limits.window // BUCKETS)
        self._rows = 0
        self._before = Found()  # of the job, when its state was restored
        self._found = Found()  # of this process, since
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
        return dict.fromkeys(self._readers, 0) | dict(together(self._all()).counts)

    @property
    def room(self) -> int:
        """How many bytes of JSON `state` takes at most."""
        return room(len(self._readers), self._limits.window)

    def state(self) -> dict[str, Any]:
        """What is known of the batches that were taken, as plain JSON.

        In a job, what other processes have met counts as far as they have told; what they have met in batches that this
        process has not taken yet does not.
        """
        bucket = self._rows // self._bucket_rows
        found = together([each.until(self._rows, bucket) for each in self._all()])
        return to_state(found, self._readers, self._rows, bucket, self._limits.window)

    def restore(self, state: Any) -> None:
        """Go on from a state, or anew, where that is None.

        Raises:
            StateError: it is no state.
        """
        known = Found(), 0
        if state is not None:
            known = of_state(state, self._readers, self._limits.window, self._bucket_rows)
        self._before, self._rows = known
        self._found, self._over = Found(), None
        self._restored += 1

    def _note(self, failed: Sequence[BadRow], before: int) -> None:
        error = failed[0].error
        first = First(before + failed[0].number, str(error.args[0]), error.index, error.source, error.path)
        counts = Counter(sample.reader for bad in failed for sample in bad.samples)
        self._found.add(self._rows, self._rows // self._bucket_rows, len(failed), counts, first)
        if self._quarantine is not None:
            self._quarantine.add(failed)
        if self._board is not None:
            self._board.show(f"found-{self._restored}/{self._board.process}", self._found.text())

    def _all(self) -> list[Found]:
        """What is known: from before, and what each process of the job has found."""
        if self._board is None:
            return [self._before, self._found]
        return [self._before, *map(Found.of, self._board.read(f"found-{self._restored}").values())]

    def _check(self) -> None:
        limits, found = self._limits, together(self._all())
        oldest = (self._rows - limits.window) // self._bucket_rows
        recent = sum(number for bucket, number in found.recent.items() if bucket >= oldest)
        if limits.count is not None and found.total > limits.count:
            what = f"{found.total} bad samples in {self._rows} rows, and error_limit={limits.count}"
        elif recent > limits.rate * limits.window:
            share = f"error_rate=({limits.rate:g}, {limits.window})"
            what = f"{recent} bad samples in the last {min(self._rows, limits.window)} rows, and {share}"
        else:
            return
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
