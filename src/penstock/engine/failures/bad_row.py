"""Bad samples, and the rows of a batch in which operators failed on them."""

from __future__ import annotations

from penstock.core.dataclass import dataclass
from penstock.errors import SampleError
from penstock.types import OnError


@dataclass(frozen=True, slots=True)
class BadSample:
    """Sample on which an operator failed.

    Args:
        reader: Label of the reader, or of the operator if it does not depend on a reader.
        index: Index in the data set; None if the sample is not part of one.
        source: The data set's name for the sample, such as a path or a key.
        path: File that contains the sample, if any.
    """

    reader: str
    index: int | None = None
    source: str | None = None
    path: str | None = None

    @property
    def label(self) -> str:
        """Name of the sample in messages; "" if it is not part of a data set or stream."""
        return (self.source or "") if self.index is None else f"sample {self.index} ({self.source})"


@dataclass(frozen=True, slots=True)
class BadRow:
    """Row of a batch for which an operator failed.

    Args:
        number: Number of the row in the batch.
        samples: The row's sample of each reader that the operator depends on; at least one.
        stage: Public name of the operator.
        reason: Message of the operator's error.
        policy: Policy for the row.
        error: The error that names the sample.
    """

    number: int
    samples: tuple[BadSample, ...]
    stage: str
    reason: str
    policy: OnError
    error: SampleError
