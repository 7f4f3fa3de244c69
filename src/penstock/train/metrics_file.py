"""File of a training's history. Each checkpoint appends the metrics since the previous one."""

import contextlib
import json
import logging
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.core.atomic_files import fsync_file
from penstock.train.history import History

_log = logging.getLogger("penstock")


class MetricsFile:
    """JSON lines. A checkpoint stores its length and checksum; bytes after it are later or partial lines.

    Args:
        path: Path of the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._bytes = self._sum = 0
        self._position: Mapping[str, Any] | None = None

    def append(self, history: History) -> dict[str, int]:
        """Append new metrics and return the length and checksum of the file."""
        with self._path.open("r+b" if self._path.exists() else "w+b") as file:
            if file.seek(0, os.SEEK_END) < self._bytes:  # the file was removed or cut: write the whole history
                self._bytes, self._sum, self._position = 0, 0, None
            line = json.dumps(history.state(self._position)).encode() + b"\n"
            # Drop the lines of a run that was killed between this file and its checkpoint.
            file.truncate(self._bytes)
            file.seek(self._bytes)
            file.write(line)
            fsync_file(file)
        self._advance(line, history)
        return {"bytes": self._bytes, "sum": self._sum}

    def restore(self, history: History, until: Mapping[str, int]) -> None:
        """Restore a history to the point at which `append` returned `until`.

        A damaged file only causes a warning and an empty history: the state of the training is intact.
        """
        data = b""
        if self._path.is_file():  # reading a pipe would wait for a writer, perhaps forever
            with contextlib.suppress(OSError), self._path.open("rb") as file:
                data = file.read(until["bytes"])
        self._bytes, self._sum, self._position = 0, 0, None
        if len(data) != until["bytes"] or zlib.crc32(data) != until["sum"]:
            _log.warning("%s is damaged; the history of the training starts again, its state is intact", self._path)
            return
        history.restore(*map(json.loads, data.splitlines()))
        self._advance(data, history)

    def _advance(self, data: bytes, history: History) -> None:
        self._bytes, self._sum = self._bytes + len(data), zlib.crc32(data, self._sum)
        self._position = history.position()
