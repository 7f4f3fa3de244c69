"""Queue of batches that are fed by hand."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from penstock.core import Column
from penstock.errors import SourceError
from penstock.sources.external.array_conversion import SampleKind, copy_column, declared_layout, to_column
from penstock.sources.external.external_stream import InProcessStream
from penstock.sources.stream import BatchRequest, NothingFedError

# Kinds to try for inputs of unknown kind, in the order of how often they are fed: encoded files, images, points,
# labels; then, for operators that need a layout, sequences and volumes.
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


class FeedQueue(InProcessStream):
    """Batches passed to `Pipeline.feed_input`.

    Args:
        kinds: Known properties of the samples.
        name: Name of the input in messages.
        repeat_last: True to return the last batch again if the queue is empty.
    """

    seek_obstacle = "it is fed by hand"

    def __init__(self, kinds: Sequence[SampleKind], *, name: str, repeat_last: bool) -> None:
        super().__init__(kinds, name=name, lends=False)
        self._repeat_last = repeat_last
        self._last: Column | None = None
        self._guess = 0
        # A subclass may queue anything that its `fetch` makes into a batch.
        self._queue: deque[Any] = deque()
        # A weak reference to a callback that is called if the queue is empty. It feeds more or raises StopIteration.
        self.refill: Callable[[], Callable[[], None] | None] = lambda: None

    @property
    def candidate_count(self) -> int:
        """Number of kinds that the input may have."""
        return len(self._guesses)

    @property
    def is_assumed(self) -> bool:
        """True if `specs` is a guess, or lacks the layout of the fed batches."""
        known = self.kinds[0]
        return not known.is_complete or self.specs != (known.spec,)

    @property
    def has_batch(self) -> bool:
        """True if a batch is in the queue."""
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
        # Known properties replace those of several guesses, which leaves duplicates.
        return list(dict.fromkeys(guesses))

    def assume_kind(self, number: int) -> None:
        """Assume the kind with this number until a batch is fed."""
        self._guess = number

    def infer_specs(self) -> None:
        """Use the specs of the fed batches, or of the assumed kind."""
        if self._queue or self.kinds[0].is_complete:
            super().infer_specs()
        else:
            self.specs = (self._guesses[self._guess % self.candidate_count].spec,)

    def fix_kind(self) -> None:
        """Adopt the kind of the fed batches.

        Raises:
            NothingFedError: The queue is empty.
        """
        if not self._queue:
            raise self._starved()
        self.infer_specs()

    def _starved(self) -> NothingFedError:
        return NothingFedError(
            f"nothing was fed to {self.name}", fix=f"call pipeline.feed_input({self.name!r}, ...) before each run"
        )

    def feed(self, data: Any, layout: str | None) -> None:
        """Append a batch to the queue."""
        column = to_column(data)
        if not len(column):
            raise SourceError(f"{self.name} was fed an empty batch")
        known = self.kinds[0]
        layout = layout or declared_layout(column) or known.layout
        if layout != known.layout and (known.layout or self._last is not None):
            raise SourceError(
                f"{self.name} was fed a batch with a different layout",
                given=layout,
                expected=known.layout or "none, as for the previous batches",
                fix="use one layout for all batches, set with layout= of fn.external_source",
            )
        kind = SampleKind(known.dtype, known.ndim, layout)
        kind.check(column)
        # Callers may reuse their buffer as soon as `feed_input` returns.
        self._queue.append(copy_column(column))
        self.kinds = (kind,)

    def fetch(self, request: BatchRequest, row: int | None) -> Any:
        """Return the next batch of the queue."""
        if not self._queue and (refill := self.refill()) is not None:
            refill()
        if not self._queue and self._repeat_last and self._last is not None:
            return self._last
        if not self._queue:
            raise self._starved()
        self._last = self._queue.popleft()
        return self._last
