"""The list of bad samples that a run leaves behind: a file of JSON lines, one for a job."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from os import PathLike, fspath
from pathlib import Path
from typing import Any, cast

from penstock.engine.failures.bad_row import BadRow
from penstock.engine.jobs.key_value_store import KeyValueStore
from penstock.errors import UsageError

_PERIOD = 1.0
"""Seconds between two looks at what other processes have found."""


class Quarantine:
    """Writes each bad sample to a file, once.

    A line has the sample's ``reader``, its ``index`` in the data set, its ``source`` (path, or database and key) and
    ``path``, the ``stage`` that failed on it and the ``reason``; where an operator computes from several readers, the
    samples of the others stand under ``with``. Lines that are there stay. In a job the first process writes the file.

    Args:
        path: the file.
        board: what the processes of the job show each other; None where this process is alone.

    Raises:
        UsageError: the file cannot be written.
    """

    def __init__(self, path: str | PathLike[str], board: KeyValueStore | None) -> None:
        self._path, self._board = Path(fspath(path)).absolute(), board
        self._sent = 0
        self._looked = time.monotonic()
        self._known: set[tuple[Any, Any]] = set()
        self._read = 0
        self._writes = board is None or board.process == 0
        if self._writes:
            try:
                self._write(())
            except OSError as error:
                raise UsageError(
                    f"the quarantine file cannot be written: {error.strerror}",
                    given=str(self._path),
                    fix="a file in a folder that is there and may be written to",
                ) from error

    def add(self, failed: Sequence[BadRow]) -> None:
        """Take note of rows that have failed."""
        lines = [_entry(bad) for bad in failed]
        if self._writes:
            self._write(lines)
        elif self._board is not None:
            self._board.put(f"lines/{self._board.process}-{self._sent:09}", json.dumps(lines))
            self._sent += 1

    def collect(self, *, now: bool = True) -> None:
        """Write what other processes have found; without `now`, at most once a second."""
        if self._board is None or not self._writes or (not now and time.monotonic() < self._looked + _PERIOD):
            return
        self._looked = time.monotonic()
        for name, text in self._board.read("lines").items():
            self._write(json.loads(text))
            self._board.remove(name)

    def flush(self) -> None:
        """Write what is left, when the job ends."""
        with suppress(Exception):  # the store of the job may be gone
            self.collect()

    def _write(self, lines: Sequence[dict[str, Any]]) -> None:
        with self._path.open("ab+") as file:
            file.seek(self._read)  # other iterators may write to the file, too
            self._known |= {_key(line) for line in map(_line, file) if line}
            new = {_key(line): line for line in lines if _key(line) not in self._known}
            file.write("".join(json.dumps(line, ensure_ascii=True) + "\n" for line in new.values()).encode())
            self._known |= new.keys()
            self._read = file.tell()


def _entry(bad: BadRow) -> dict[str, Any]:
    first, *others = [
        {"reader": each.reader, "index": each.index, "source": each.source, "path": each.path} for each in bad.samples
    ]
    return {**first, "stage": bad.stage, "reason": bad.reason} | ({"with": others} if others else {})


def _key(line: dict[str, Any]) -> tuple[Any, Any]:
    return line.get("source") or line.get("reader"), line.get("index")


def _line(text: bytes) -> dict[str, Any]:
    """A line of the file; nothing, where it is none: the last one of a process that was killed."""
    with suppress(ValueError):
        found = json.loads(text)
        if isinstance(found, dict):
            return cast(dict[str, Any], found)
    return {}
