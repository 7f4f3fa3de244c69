"""Bad row."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import SampleError
from penstock.types import OnError


@dataclass(frozen=True, slots=True)
class BadSample:
    """A sample that an operator failed on.

    Args:
        reader: what the reader is called; the operator, where it computes from no reader.
        index: the sample's number in its data set; None where it is of none.
        source: what the data set calls it.
        path: the file that holds it, where it is one.
    """

    reader: str
    index: int | None = None
    source: str | None = None
    path: str | None = None

    @property
    def label(self) -> str:
        """What messages call it; "" where it is no sample of anything."""
        return (self.source or "") if self.index is None else f"sample {self.index} ({self.source})"


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row of a batch for which an operator failed.

    Args:
        number: the row's number in the batch.
        samples: what stood in it, for each reader that the operator computes from; at least one.
        stage: the operator's public name.
        reason: what it said.
        policy: what is done about it.
        error: the error that names it.
    """

    number: int
    samples: tuple[BadSample, ...]
    stage: str
    reason: str
    policy: OnError
    error: SampleError
