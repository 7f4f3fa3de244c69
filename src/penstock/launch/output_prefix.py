"""Passing on what the processes of a job print, with the number of the process in front of every line.

Bytes go through as they are, in pieces of a bounded size. A piece is passed on when its line ends, by a newline or by
the carriage return of a progress bar, or when nothing more comes for a moment.
"""

from __future__ import annotations

import os
import re
import select
import threading
from typing import IO

_SIZE = 1 << 16
"""Bytes that are read at once, and kept of a line at most."""

_PAUSE = 0.1
"""Seconds after which a line that is not finished is shown."""

_PIECES = re.compile(rb"[^\r\n]*+(?:\r\n|\r|\n)|[^\r\n]+")
_FINISHED = (b"\n", b"\r")


class Printer:
    """Where the output of several processes comes together.

    Args:
        target: a text stream; where it has bytes below, they are written. None where there is none.
    """

    def __init__(self, target: IO[str] | None) -> None:
        self.failure: str | None = None
        """Why something could not be written; nothing where merely nobody reads it any more."""
        self._target = target
        self._lock = threading.Lock()
        self._open: int | None = None  # whose line is not finished

    def write(self, number: int, pieces: list[bytes]) -> None:
        """Print parts of lines of a process."""
        with self._lock:
            for piece in pieces:
                front = b"" if self._open == number else f"[{number}] ".encode()
                if self._open not in (None, number):
                    front = b"\n" + front
                self._print(front + piece)
                self._open = None if piece.endswith(_FINISHED) else number
            self._print(b"", flush=True)

    def say(self, text: str) -> None:
        """Print a line that is nobody's."""
        with self._lock:
            self._print(f"{'' if self._open is None else os.linesep}{text}\n".encode(), flush=True)
            self._open = None

    def _print(self, text: bytes, *, flush: bool = False) -> None:
        if self._target is None:
            return
        below = getattr(self._target, "buffer", None)
        try:
            if below is None:
                self._target.write(text.decode(errors="replace"))
            else:
                below.write(text)
            if flush:
                self._target.flush()
        except (BrokenPipeError, ValueError):  # nobody reads it any more, or it is closed
            pass
        except OSError as error:
            self.failure = error.strerror


def forward_output(source: IO[bytes], printer: Printer, number: int) -> None:
    """Pass on what a process prints, until it ends. Goes on reading where it cannot be printed any more."""
    rest = b""
    with source:
        while True:
            waits = rest and not select.select([source], [], [], _PAUSE)[0]
            read = b"" if waits else os.read(source.fileno(), _SIZE)
            pieces = _PIECES.findall(rest + read)
            ends = not read or len(rest) + len(read) >= _SIZE
            # a carriage return at the end may be the first half of a line's end
            rest = b"" if ends or not pieces or pieces[-1].endswith(b"\n") else pieces.pop()
            if pieces:
                printer.write(number, pieces)
            if not read and not waits:
                return
