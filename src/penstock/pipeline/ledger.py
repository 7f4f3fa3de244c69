"""How many bad samples a run has met, and how many it bears."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from penstock.errors import SampleError, UsageError
from penstock.host.setting import BadRow
from penstock.pipeline.quarantine import Quarantine
from penstock.transfer.board import Board
from penstock.types import OnError


@dataclass(frozen=True)
class Limits:
    """How many bad samples are borne.

    Args:
        count: at most so many; None for any number.
        rate: at most this share, from 0 to 1, of the rows of a window.
        window: how many rows that window has, those that were delivered last.
    """

    count: int | None = None
    rate: float = 0.1
    window: int = 1000

    @staticmethod
    def of(policies: Sequence[OnError], error_limit: Any, error_rate: Any, quarantine: Any) -> Limits:
        """The limits that an iterator was given.

        Raises:
            UsageError: they cannot be, or nothing is borne.
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
                "error_limit is the number of bad samples that are borne",
                given=repr(error_limit),
                expected="a whole number from 0, or None for any number",
            )
        given: list[Any] = list(cast(Sequence[Any], error_rate)) if isinstance(error_rate, tuple | list) else []
        if [type(each) in kinds for each, kinds in zip(given, ((float, int), (int,)), strict=False)] != [True, True]:
            given = [-1, 0]
        rate, window = given
        if not 0 <= rate <= 1 or window < 1:
            raise UsageError(
                "error_rate is the share of bad samples that is borne, and of how many rows",
                given=repr(error_rate),
                expected="a number from 0 to 1 and a whole number from 1, such as (0.1, 1000)",
            )
        return Limits(error_limit, float(rate), window)


@dataclass
class _Found:
    """What one process has found.

    Args:
        total: how many bad samples.
        counts: how many by reader.
        recent: the batches of the window that have any: how many rows were delivered with it, and how many were bad.
        first: the first one: how many rows were delivered before its batch, its error's text, and what the error has.
    """

    total: int = 0
    counts: Counter[str] = field(default_factory=Counter[str])
    recent: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    first: tuple[int, str, dict[str, Any]] | None = None


class Ledger:
    """Counts the bad samples of the batches that are taken, over all processes of a job.

    Args:
        readers: the names of the readers.
        limits: how many bad samples are borne.
        quarantine: where they are written to.
        board: what the processes of the job show each other; None where this process is alone.
    """

    def __init__(
        self, readers: Iterable[str], limits: Limits, quarantine: Quarantine | None, board: Board | None
    ) -> None:
        self._limits, self._quarantine, self._board = limits, quarantine, board
        self._found = _Found(counts=Counter(dict.fromkeys(readers, 0)))
        self._rows = 0
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
        total = dict.fromkeys(self._found.counts, 0)
        for each in self._all():
            total |= {reader: total.get(reader, 0) + count for reader, count in each.counts.items()}
        return total

    def _note(self, failed: Sequence[BadRow], before: int) -> None:
        mine = self._found
        mine.total += len(failed)
        mine.counts.update(sample.reader for bad in failed for sample in bad.samples)
        mine.recent = [each for each in mine.recent if each[0] > self._rows - self._limits.window]
        mine.recent.append((self._rows, len(failed)))
        if mine.first is None:
            error = failed[0].error
            named = {"index": error.index, "source": error.source, "path": error.path}
            mine.first = before + failed[0].number, str(error.args[0]), named
        if self._quarantine is not None:
            self._quarantine.add(failed)
        if self._board is not None:
            self._board.show(f"found/{self._board.process}", json.dumps(vars(mine)))

    def _all(self) -> list[_Found]:
        """What the processes of the job have found."""
        if self._board is None:
            return [self._found]
        others = [_Found(**json.loads(text)) for text in self._board.read("found").values()]
        return [_Found(each.total, Counter(each.counts), each.recent, each.first) for each in others]

    def _check(self) -> None:
        limits, found = self._limits, self._all()
        total = sum(each.total for each in found)
        recent = sum(n for each in found for end, n in each.recent if end > self._rows - limits.window)
        if limits.count is not None and total > limits.count:
            what = f"{total} bad samples in {self._rows} rows, and error_limit={limits.count}"
        elif recent > limits.rate * limits.window:
            share = f"error_rate=({limits.rate:g}, {limits.window})"
            what = f"{recent} bad samples in the last {min(self._rows, limits.window)} rows, and {share}"
        else:
            return
        if self._quarantine is not None:
            self._quarantine.collect()
        counts = sum((each.counts for each in found), Counter[str]())
        _, text, first = min((each.first for each in found if each.first is not None), key=lambda first: first[:2])
        self._over = SampleError(
            f"{what}\n  the first: {text}",
            given=", ".join(f"{count} of {reader}" for reader, count in sorted(counts.items()) if count),
            fix="mend the data set or leave them out; or a higher limit",
            **first,
        )
        raise self._over
