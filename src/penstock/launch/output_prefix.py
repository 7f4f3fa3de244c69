"""Forwarding of the output of a job's processes, each line prefixed with the number of the process.

Bytes are not decoded. A piece of output is forwarded when its line ends, with a newline or with the carriage return of
a progress bar, when it reaches a maximum size, or after a short pause.
"""

import os
import re
import select
import threading
from typing import IO

# Bytes to read at once, and to buffer of a line.
_SIZE = 1 << 16

# Seconds after which an unfinished line is forwarded.
_PAUSE = 0.1

_PIECES = re.compile(rb"[^\r\n]*+(?:\r\n|\r|\n)|[^\r\n]+")
_FINISHED = (b"\n", b"\r")


class Printer:
    """Merged output of several processes.

    Args:
        target: A text stream; its binary buffer is used if it has one. None discards all output.
    """

    def __init__(self, target: IO[str] | None) -> None:
        # The reason that output could not be written. A closed pipe does not count.
        self.failure: str | None = None
        self._target = target
        self._lock = threading.Lock()
        self._unfinished: int | None = None  # the process whose line is not finished

    def write(self, number: int, pieces: list[bytes]) -> None:
        """Print pieces of lines of a process."""
        with self._lock:
            for piece in pieces:
                prefix = b"" if self._unfinished == number else f"[{number}] ".encode()
                if self._unfinished not in (None, number):
                    prefix = b"\n" + prefix
                self._print(prefix + piece)
                self._unfinished = None if piece.endswith(_FINISHED) else number
            self._print(b"", flush=True)

    def say(self, text: str) -> None:
        """Print a line of the launcher."""
        with self._lock:
            self._print(f"{'' if self._unfinished is None else os.linesep}{text}\n".encode(), flush=True)
            self._unfinished = None

    def _print(self, text: bytes, *, flush: bool = False) -> None:
        if self._target is None:
            return
        buffer = getattr(self._target, "buffer", None)
        try:
            if buffer is None:
                self._target.write(text.decode(errors="replace"))
            else:
                buffer.write(text)
            if flush:
                self._target.flush()
        except (BrokenPipeError, ValueError):  # the reader has gone, or the stream is closed
            pass
        except OSError as error:
            self.failure = error.strerror


def forward_output(source: IO[bytes], printer: Printer, number: int) -> None:
    """Forward the output of a process until it ends.

    Continues to read if the output cannot be written: a full pipe would block the process.
    """
    rest = b""
    with source:
        while True:
            paused = rest and not select.select([source], [], [], _PAUSE)[0]
            read = b"" if paused else os.read(source.fileno(), _SIZE)
            pieces = _PIECES.findall(rest + read)
            flush = not read or len(rest) + len(read) >= _SIZE
            # A carriage return at the end may be the first half of "\r\n".
            rest = b"" if flush or not pieces or pieces[-1].endswith(b"\n") else pieces.pop()
            if pieces:
                printer.write(number, pieces)
            if not read and not paused:
                return
