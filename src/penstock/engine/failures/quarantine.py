"""Quarantine: a file of JSON lines that lists the bad samples of a run, one file per job."""

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from os import PathLike, fspath
from pathlib import Path
from typing import Any, cast

from penstock.engine.failures.bad_row import BadRow
from penstock.engine.jobs.key_value_store import KeyValueStore
from penstock.errors import ResourceError, UsageError

# Seconds between two reads of the entries of other processes. Each read is a round trip to the coordinator.
_POLL_SECONDS = 1.0


class Quarantine:
    """Writes each bad sample to a file, once.

    A line contains the sample's ``reader``, its ``index`` in the data set, its ``source`` (path, or database and key)
    and ``path``, the ``stage`` that failed and the ``reason``. If an operator depends on several readers, the entry
    ``with`` contains the samples of the others. Existing lines are kept. In a job, process 0 writes the file.

    Args:
        path: The file.
        store: Key-value store of the job; None for a single process.

    Raises:
        UsageError: The file cannot be written.
    """

    def __init__(self, path: str | PathLike[str], store: KeyValueStore | None) -> None:
        self._path, self._store = Path(fspath(path)).absolute(), store
        self._sent = 0
        self._last_poll = time.monotonic()
        self._known: set[tuple[Any, Any]] = set()
        self._read = 0
        self._writes = store is None or store.process == 0
        if self._writes:
            try:
                # Writing nothing creates the file, so that a wrong path is an error before training, not at the first
                # bad sample.
                self._append(())
            except OSError as error:
                raise UsageError(
                    f"the quarantine file cannot be written: {error.strerror}",
                    given=str(self._path),
                    fix="give a file in an existing folder with write permission",
                ) from error

    def add(self, failed: Sequence[BadRow]) -> None:
        """Write, or send to the process that writes, the samples of failed rows.

        Raises:
            ResourceError: The file cannot be written.
        """
        lines = [_entry(bad) for bad in failed]
        if self._writes:
            self._write(lines)
        elif self._store is not None:
            # Process 0 writes for all: appends of several machines to one file may overwrite each other.
            self._store.put(f"lines/{self._store.process}-{self._sent:09}", json.dumps(lines))
            self._sent += 1

    def collect(self, *, now: bool = True) -> None:
        """Write the entries of other processes. Unless `now`, at most once per second.

        Raises:
            ResourceError: The file cannot be written.
        """
        if self._store is None or not self._writes or (not now and time.monotonic() < self._last_poll + _POLL_SECONDS):
            return
        self._last_poll = time.monotonic()
        for name, text in self._store.read("lines").items():
            self._write(json.loads(text))
            self._store.remove(name)

    def flush(self) -> None:
        """Write the remaining entries when the job ends."""
        with suppress(Exception):  # the coordinator, which holds the store, may have ended
            self.collect()

    def _write(self, lines: Sequence[dict[str, Any]]) -> None:
        try:
            self._append(lines)
        except OSError as error:
            raise ResourceError(
                f"the quarantine file can no longer be written: {error.strerror}",
                given=str(self._path),
                fix="restore its folder, write permission or disk space and call again; or resume without quarantine",
            ) from error

    def _append(self, lines: Sequence[dict[str, Any]]) -> None:
        # A sample is listed once, although it fails in every epoch and in every resumed run. Only lines added since the
        # last call are parsed.
        with self._path.open("ab+") as file:
            file.seek(self._read)  # other iterators may have written lines
            written = file.readlines()
            self._known |= {_key(line) for line in map(_line, written) if line}
            if written and not written[-1].endswith(b"\n"):  # a part of a line, of a process that was killed
                file.write(b"\n")
            new = {_key(line): line for line in lines if _key(line) not in self._known}
            file.write("".join(json.dumps(line, ensure_ascii=True) + "\n" for line in new.values()).encode())
            file.flush()  # a full disk must be noticed before the lines count as known
            self._known |= new.keys()
            self._read = file.tell()


def _entry(bad: BadRow) -> dict[str, Any]:
    first, *others = [
        {"reader": sample.reader, "index": sample.index, "source": sample.source, "path": sample.path}
        for sample in bad.samples
    ]
    return {**first, "stage": bad.stage, "reason": bad.reason} | ({"with": others} if others else {})


def _key(line: dict[str, Any]) -> tuple[Any, Any]:
    return line.get("source") or line.get("reader"), line.get("index")


def _line(text: bytes) -> dict[str, Any]:
    """Parse a line of the file. Returns {} if it is incomplete: the process that wrote it was killed."""
    with suppress(ValueError):
        entry = json.loads(text)
        if isinstance(entry, dict):
            return cast(dict[str, Any], entry)
    return {}
