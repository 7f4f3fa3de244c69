"""Many local files at once, without Python per file."""

import numpy as np
from numpy.typing import NDArray

from penstock.core import Array
from penstock.core.recycled_memory import result_memory
from penstock.native.argument_block import address
from penstock.sources.storage import file_loop
from penstock.sources.storage.sample_limit import max_sample_size

# Bytes that are allocated at once, and the largest file that is read together with others: the contents of files share
# memory, and one that is kept keeps the others. Memory of at least `_MIN_MEMORY` is used again.
_MIN_MEMORY, _MAX_MEMORY = 1 << 22, 1 << 23

# Files that are worth a call. In a pipeline, a photograph takes 40 us less CPU time if 256 are read together, because
# their memory is used again, the same if 32 or 64 are, and 20 us more if 16 are.
_MIN_FILES = 64

# Files for which reading one by one takes 0.6 s longer, as long as compiling the loop.
_ENOUGH_FILES = 10_000

# Room for files that are larger than the average.
_SPARE = 1.25


class FileBatchReader:
    """Reader of files below one folder.

    Args:
        root: Folder that relative names refer to, or "" for the working folder.
    """

    def __init__(self, root: bytes) -> None:
        prefix = root if not root or root.endswith(b"/") else root + b"/"
        self._root = np.frombuffer(prefix, np.uint8) if prefix else np.empty(0, np.uint8)
        self._mean = 1 << 16

    @staticmethod
    def pays_off(files: int) -> bool:
        """Return True if reading so many files together saves time."""
        return files >= _MIN_FILES and file_loop.read_files.pays_off(files, _ENOUGH_FILES)

    def read(self, names: NDArray[np.bytes_]) -> list[Array | None]:
        """Read files.

        Args:
            names: Names of the files.

        Returns:
            The contents of each file, read-only. None for a file that cannot be read in this way: because it is missing
            or no file, is empty or large, or changed its size.
        """
        rows, results = len(names), list[Array | None]()
        text = np.ascontiguousarray(names).view(np.uint8).reshape(rows, names.dtype.itemsize)
        path = np.zeros(self._root.size + text.shape[1] + 2, np.uint8)
        status = np.zeros(file_loop.STATUS_WORDS, np.int64)
        places = np.full((rows, 2), file_loop.UNREAD, np.int64)
        limit, needed = min(max_sample_size(), _MAX_MEMORY), 0
        while (first := len(results)) < rows:
            estimate = int(min((rows - first) * self._mean * _SPARE, _MAX_MEMORY))
            memory = result_memory.take(max(estimate, needed, _MIN_MEMORY))
            buffers = address(path), status, address(status), address(memory), memory.size
            file_loop.read_files(self._root, text[first:], path, *buffers, limit, places[first:])
            memory.flags.writeable = False
            for start, stop in places[first:].tolist():
                if start == file_loop.UNREAD:
                    needed = stop
                    break
                results.append(memory[start:stop] if start >= 0 else None)
        # Several threads may read. Whichever estimate remains is good enough.
        self._mean = max(1, int((places[:, 1] - places[:, 0]).mean()))
        return results
