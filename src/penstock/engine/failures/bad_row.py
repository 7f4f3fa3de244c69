"""Bad samples, and the rows of a batch in which operators failed on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

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

    def renamed(self, rename: Callable[[str], str]) -> BadRow:
        """Return the row with other names of files in its texts."""

        def name(text: str | None) -> str | None:
            return None if text is None else rename(text)

        samples = [replace(sample, source=name(sample.source), path=name(sample.path)) for sample in self.samples]
        old = self.error
        error = SampleError("", index=old.index, source=name(old.source), path=name(old.path), where=old.where)
        complete(error, rename(str(old.args[0])), old.subject)
        return replace(self, samples=tuple(samples), reason=rename(self.reason), error=error)


def complete(error: SampleError, text: str, subject: str) -> None:
    """Set the text and the subject of an error. Its constructor would cut the text and add lines."""
    error.args, error.subject = (text,), subject
