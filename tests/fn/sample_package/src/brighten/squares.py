"""readers.squares: square numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Unpack

import numpy as np

from penstock.extend import DataNode, Range, ReaderArguments, Source, Spec, apply_reader, open_shared, operator


class SquaresSource(Source):
    """Squares of 0, 1, 2, ...

    Args:
        count: Number of samples.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self.specs = (Spec(np.dtype(np.int64), ()),)

    def __len__(self) -> int:
        return self._count

    def read(self, indices: Any, out: Sequence[Any]) -> tuple[Any, ...]:
        """Return the squares of the indices."""
        return (indices**2,)

    def describe(self, index: int) -> str:
        """Name a sample in messages."""
        return f"the square of {index}"

    def fingerprint(self) -> str:
        """Identify the data set."""
        return f"squares {self._count}"


@operator("readers.squares")
def squares(*, count: Annotated[int, Range(1)], **arguments: Unpack[ReaderArguments]) -> DataNode:
    """Read square numbers.

    Args:
        count: Number of samples.
        **arguments: See `ReaderArguments`.

    Returns:
        Squares, int64.

    Example:
        >>> import penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=4)
        >>> with pipeline:
        ...     pipeline.set_outputs(fn.readers.squares(count=10))
        >>> pipeline.run()[0].as_array().tolist()
        [0, 1, 4, 9]
    """
    (numbers,) = apply_reader(open_shared(SquaresSource, count), arguments)
    return numbers
