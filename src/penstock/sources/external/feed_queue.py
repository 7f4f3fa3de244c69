"""The stream of data that are fed by hand."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from penstock.core.columns import Column
from penstock.errors import SourceError
from penstock.sources.external.array_conversion import SampleKind, copy_column, declared_layout, to_column
from penstock.sources.external.external_stream import InProcessStream
from penstock.sources.stream import BatchRequest, NothingFedError

_GUESSES: Sequence[tuple[np.dtype[Any], int, str]] = [
    (np.dtype(dtype), ndim, "")
    for dtype, ndim in (
        *(("uint8", 1), ("uint8", 3), ("float32", 1), ("float32", 3), ("int32", 1), ("int32", 0), ("float32", 0)),
        *(("uint8", 4), ("float32", 2), ("uint8", 2), ("float32", 4), ("int64", 1), ("bool", 0)),
    )
] + [
    (np.dtype(dtype), len(layout), layout)
    for layout in ("FHWC", "CHW", "FCHW", "DHWC", "CDHW", "HW", "FHW")
    for dtype in ("uint8", "float32")
]
"""What is fed most often: encoded files, images, points, labels; then, where letters count, sequences and volumes."""


class FeedQueue(InProcessStream):
    """What `Pipeline.feed_input` gives.

    Args:
        kinds: what is known of its samples.
        name: what messages call it.
        repeat_last: whether the last batch is given again where nothing waits.
    """

    def __init__(self, kinds: Sequence[SampleKind], *, name: str, repeat_last: bool) -> None:
        super().__init__(kinds, name=name, lends=False)
        self._repeat_last = repeat_last
        self._last: Column | None = None
        self._guess = 0
        self._queue: deque[Column] = deque()
        self.refill: Callable[[], Callable[[], None] | None] = lambda: None
        """Gives, if it is still there, what is called when nothing is left: it feeds more, or raises StopIteration."""

    @property
    def candidate_count(self) -> int:
        """How many kinds it may be of."""
        return len(self._guesses)

    @property
    def is_assumed(self) -> bool:
        """Whether its `specs` are a guess, or are said not to have the layout that it was fed."""
        known = self.kinds[0]
        return not known.is_complete or self.specs != (known.spec,)

    @property
    def has_batch(self) -> bool:
        """Whether a batch waits."""
        return bool(self._queue)

    @property
    def _guesses(self) -> list[SampleKind]:
        known = self.kinds[0]
        if known.is_complete or self._queue:
            return [known]
        guesses = [
            SampleKind(known.dtype or dtype, ndim if known.rank is None else known.rank, known.layout or layout)
            for dtype, ndim, layout in _GUESSES
            if not layout or (not known.layout and known.rank in (None, ndim))
        ]
        return list(dict.fromkeys(guesses))

    def assume_kind(self, number: int) -> None:
        """Let it be of one of these kinds, until something is fed."""
        self._guess = number

    def infer_specs(self) -> None:
        """What it is fed, or a guess."""
        if self._queue or self.kinds[0].is_complete:
            super().infer_specs()
        else:
            self.specs = (self._guesses[self._guess % self.candidate_count].spec,)

    def fix_kind(self) -> None:
        """Learn what it is fed.

        Raises:
            StarvedError: nothing was fed.
        """
        if not self._queue:
            raise self._starved()
        self.infer_specs()

    def _starved(self) -> NothingFedError:
        return NothingFedError(
            f"nothing was fed to {self.name}", fix=f"pipeline.feed_input({self.name!r}, ...) before each run"
        )

    @property
    def seek_obstacle(self) -> str | None:
        """It waits for what comes."""
        return "it is fed by hand"

    def feed(self, data: Any, layout: str | None) -> None:
        """Put a batch behind those that wait."""
        column = to_column(data)
        if not len(column):
            raise SourceError(f"{self.name} was fed an empty batch")
        known = self.kinds[0]
        layout = layout or declared_layout(column) or known.layout
        if layout != known.layout and (known.layout or self._last is not None):
            raise SourceError(
                f"{self.name} was fed a batch of another layout",
                given=layout,
                expected=known.layout or "none, as of the batches before",
                fix="one layout for all batches; layout= of fn.external_source says which",
            )
        kind = SampleKind(known.dtype, known.ndim, layout)
        kind.check(column)
        self._queue.append(copy_column(column))
        self.kinds = (kind,)

    def fetch(self, turn: BatchRequest, row: int | None) -> Any:
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
