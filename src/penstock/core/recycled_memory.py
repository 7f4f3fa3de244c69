"""Large pieces of memory, used again when they are gone."""

import math
import mmap
import sys
import threading
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Bytes of all pieces that are not in use.
_MAX_FREE = 1 << 28

# References to memory that nobody uses: of its piece, and the argument of `getrefcount`.
_UNUSED = 2


class RecycledMemory:
    """Large pieces of memory, each used again when nothing refers to it.

    The operating system clears new pages. For the pixels of 256 photographs that takes a fourth of the time of decoding
    them. All views of a piece keep it referenced, as arrays of JAX do that alias it.

    Args:
        least: Bytes of the smallest piece that is kept. Smaller ones are cheap to allocate.
        spare: The most that a piece may be larger than what is asked for, as a factor.
        idle: A piece is given back if it has not been in use while so many pieces were taken.

    Example:
        >>> memory = RecycledMemory(1 << 22, spare=2, idle=16)
        >>> first = memory.take(1 << 23)
        >>> address, image = first.ctypes.data, first[5:9]
        >>> del first
        >>> memory.take(1 << 23).ctypes.data == address  # the image is in it
        False
        >>> del image
        >>> memory.take(1 << 23).ctypes.data == address
        True
    """

    def __init__(self, least: int, spare: int, idle: int) -> None:
        self._least, self._spare, self._idle = least, spare, idle
        self._lock = threading.Lock()
        self._pieces: list[_Piece] = []
        self._takes = 0

    def take(self, size: int) -> NDArray[np.uint8]:
        """Return `size` uninitialized bytes.

        Raises:
            MemoryError: There is not as much memory.
        """
        if size < self._least:
            return np.empty(size, np.uint8)
        with self._lock:
            self._takes += 1
            free: list[_Piece] = []
            for piece in self._pieces:
                if piece.is_in_use():
                    piece.used = self._takes
                else:
                    free.append(piece)
            # The smallest one, because others may need the larger ones.
            chosen = min((p for p in free if size <= p.size <= self._spare * size), key=_size, default=None)
            replaced = None
            if chosen is None:
                # Sizes of batches differ a little, so the memory has some room.
                chosen = _Piece(_allocate((size + size // 8) // 8 * 8))
                self._pieces.append(chosen)
                # What a larger piece can stand for is not needed any more.
                replaced = max((p for p in free if p.size < size <= self._spare * p.size), key=_size, default=None)
            chosen.used = self._takes
            self._pieces = [p for p in self._pieces if p is not replaced and self._takes - p.used <= self._idle]
            free = [p for p in self._pieces if p.used < self._takes]
            while sum(map(_size, free)) > _MAX_FREE:
                self._pieces.remove(free.pop(0))
            return chosen.memory[:size]

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return an uninitialized array, as `np.empty` does.

        Raises:
            MemoryError: There is not as much memory.
        """
        size = math.prod(shape) * dtype.itemsize
        if size < self._least or dtype.hasobject:
            return np.empty(shape, dtype)
        return self.take(size).view(dtype).reshape(shape)


class _Piece:
    """Piece of memory.

    Attributes:
        used: Number of takes until the piece was last found in use.
    """

    __slots__ = ("memory", "size", "used")

    def __init__(self, memory: NDArray[np.uint8]) -> None:
        self.memory, self.size, self.used = memory, memory.size, 0

    def is_in_use(self) -> bool:
        """Return True if something refers to the memory."""
        return sys.getrefcount(self.memory) > _UNUSED


_size = attrgetter("size")


def _allocate(size: int) -> NDArray[np.uint8]:
    """Return memory that is returned to the operating system as soon as nothing refers to it.

    That of `np.empty` is not, and once malloc has freed a piece of several megabytes, it also keeps as much unused
    memory of every thread.
    """
    try:
        if sys.platform == "win32":
            pages = mmap.mmap(-1, size)
        else:
            pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE)  # not shared with forked processes
    except OSError as error:
        raise MemoryError(f"cannot allocate {size:,} bytes") from error
    return np.frombuffer(pages, np.uint8)


# For results and the contents of files, which may keep their memory for long. Each chunk of a batch takes some pieces,
# so there are many takes until all pieces of the batch before are used again.
result_memory = RecycledMemory(1 << 22, spare=2, idle=256)
