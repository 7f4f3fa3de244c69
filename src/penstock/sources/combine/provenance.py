"""Sample names of a source, as a source."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.core import Array, Column, Indices, Spec
from penstock.sources.source import Source


class SampleNames(Source):
    """Names of the samples of another source, as vectors of bytes. Samples are not read for them.

    Args:
        source: Source whose samples are named.
        value: Position of the value whose name is returned.
    """

    specs = (Spec(np.dtype(np.uint8), (None,)),)

    def __init__(self, source: Source, value: int = 0) -> None:
        self.source, self._value, self.selection = source, value, source.selection

    def __len__(self) -> int:
        return len(self.source)

    def read(self, indices: Indices, out: Sequence[Array | None]) -> tuple[Column, ...]:
        """Return the names, without a terminator."""
        # A file name need not be valid UTF-8: fsencode restores the bytes that fsdecode replaced by surrogates.
        names = [os.fsencode(self.source_info(index)) for index in indices.tolist()]
        return ([np.frombuffer(name, np.uint8) for name in names],)

    def describe(self, index: int) -> str:
        """Return the location of the sample."""
        return self.source.describe(index)

    def source_info(self, index: int, value: int = 0) -> str:
        """Return the name of the sample."""
        return self.source.source_info(index, self._value)

    def identity(self) -> tuple[Any, ...]:
        """Return the named source and the position of the value."""
        return self.source, self._value

    def fingerprint(self) -> str:
        """Return a text that identifies the named samples."""
        return f"origins:{self.source.fingerprint()}"
