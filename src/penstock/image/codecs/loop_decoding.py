"""Decoding of many files by a loop, which a chain of loops can contain."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.core import Array
from penstock.native.compiled import BoundCode


class LoopDecoding(ABC):
    """`DirectDecoding` by a loop. For one thread."""

    @abstractmethod
    def __call__(self, memory: Mapping[int, Array] | Sequence[Array], rows: range) -> Sequence[int]:
        """Decode some of the files.

        Args:
            memory: Per file, memory for its pixels.
            rows: Indices of the files to decode.

        Returns:
            Indices of the files that are left.
        """

    @abstractmethod
    def loop(self, memory: Sequence[Array | None]) -> tuple[BoundCode, NDArray[np.bool_]] | None:
        """Return the loop, and where it marks the files that are left; None if it is not compiled.

        Args:
            memory: Per file, memory for its pixels; None to leave the file.
        """
