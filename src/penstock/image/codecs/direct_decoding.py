"""Decoding of many files into memory, for files that need nothing else."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.core import Array
from penstock.native.compiled import BoundCode


class DirectDecoding:
    """Decoding of some files into memory, without `decode`. For one thread. This one leaves all files."""

    def __call__(self, memory: Mapping[int, Array] | Sequence[Array], rows: range) -> Sequence[int]:
        """Decode some of the files.

        Args:
            memory: Per file, memory for its pixels: uint8, C-contiguous, of their size.
            rows: Indices of the files to decode.

        Returns:
            Indices of the files that are left: those that `decode` decodes or refuses.
        """
        del memory
        return rows

    def loop(self, memory: Sequence[Array | None]) -> tuple[BoundCode, NDArray[np.bool_]] | None:
        """Return the loop that decodes files, and where it marks those that are left; None if there is no loop.

        Args:
            memory: Per file, memory for its pixels; None to leave the file.
        """
        del memory
        return None
