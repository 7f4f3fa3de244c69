"""The file of a training's history: each save appends what came since the one before."""

from __future__ import annotations

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
    """Lines of JSON. A save says how many bytes of them are its own; what follows came later, or is half a line.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._bytes = self._sum = 0
        self._mark: Mapping[str, Any] | None = None

    def append(self, history: History) -> dict[str, int]:
        """Write what is new in the history, and say how much of the file belongs to it."""
        with self._path.open("r+b" if self._path.exists() else "w+b") as file:
            if file.seek(0, os.SEEK_END) < self._bytes:  # somebody has taken it away: all of it again
                self._bytes, self._sum, self._mark = 0, 0, None
            line = json.dumps(history.state(self._mark)).encode() + b"\n"
            file.truncate(self._bytes)
            file.seek(self._bytes)
            file.write(line)
            fsync_file(file)
        self._went_on(line, history)
        return {"bytes": self._bytes, "sum": self._sum}

    def restore(self, history: History, until: Mapping[str, int]) -> None:
        """Bring a history to where it was when `append` said this.

        A history that is damaged is begun again: a training does not end because of its curves.
        """
        try:
            with self._path.open("rb") as file:
                data = file.read(until["bytes"])
        except OSError:
            data = b""
        self._bytes, self._sum, self._mark = 0, 0, None
        if len(data) != until["bytes"] or zlib.crc32(data) != until["sum"]:
            _log.warning("%s is damaged; the history of the training begins anew, its state is whole", self._path)
            return
        history.restore(*map(json.loads, data.splitlines()))
        self._went_on(data, history)

    def _went_on(self, data: bytes, history: History) -> None:
        self._bytes, self._sum = self._bytes + len(data), zlib.crc32(data, self._sum)
        self._mark = history.position()
