"""Passing on what the processes of a job print, with the number of the process in front of every line.

Bytes go through as they are, in pieces of a bounded size. A piece is passed on when its line ends, by a newline or by
the carriage return of a progress bar, or when nothing more comes for a moment.
"""

from __future__ import annotations

import os
import re
import select
import threading
from contextlib import suppress
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
        target: a text stream; where it has bytes below, they are written.
    """

    def __init__(self, target: IO[str]) -> None:
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
            self._flush()

    def say(self, text: str) -> None:
        """Print a line that is nobody's."""
        with self._lock:
            self._print(f"{'' if self._open is None else os.linesep}{text}\n".encode())
            self._open = None
            self._flush()

    def _print(self, text: bytes) -> None:
        below = getattr(self._target, "buffer", None)
        if below is None:
            self._target.write(text.decode(errors="replace"))
        else:
            below.write(text)

    def _flush(self) -> None:
        self._target.flush()


def pass_on(source: IO[bytes], printer: Printer, number: int) -> None:
    """Pass on what a process prints, until it ends. Goes on reading where nobody reads what is printed any more."""
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
                with suppress(OSError, ValueError):
                    printer.write(number, pieces)
            if not read and not waits:
                return
