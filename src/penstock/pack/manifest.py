"""The ledger of a pack: what is packed, and which shards are complete. It lies beside them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from penstock.core.atomic_files import fsync_file
from penstock.errors import UsageError

try:
    import fcntl
except ImportError:  # not on Windows, which has no such locks
    fcntl = None

NAME = "pack.jsonl"


class PackManifest:
    """A line with what is packed, then one per complete shard. A line that was cut short by a crash does not count.

    Args:
        folder: where the shards lie; made if need be. One process at a time has it.
        settings: what tells the pack from others.

    Attributes:
        shards: per complete shard its entry.

    Raises:
        UsageError: the folder holds another pack, or another process is packing into it.
        OSError: the folder cannot be made, or not written to.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / NAME
        self._file = self._path.open("a+")
        try:
            self._lock()
            self._file.seek(0)
            text = self._file.read()
            whole = text[: text.rfind("\n") + 1]
            try:
                lines = [json.loads(line) for line in whole.splitlines()]
                self.shards: dict[int, dict[str, Any]] = {entry["shard"]: entry for entry in lines[1:]}
            except (ValueError, KeyError, TypeError) as error:
                raise UsageError(f"{str(self._path)!r} is no ledger of a pack", fix="another folder") from error
            if lines and lines[0] != settings:
                raise _another(folder, lines[0], settings)
            if len(whole) < len(text):
                self._file.truncate(len(whole.encode()))
            if not lines:
                self._append(settings)
        except BaseException:
            self._file.close()
            raise

    def _lock(self) -> None:
        if fcntl is None:
            return
        try:
            fcntl.flock(self._file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError("another process is packing into this folder", given=str(self._path.parent)) from None
        except OSError:  # a file system without locks
            return

    def add(self, entry: Mapping[str, Any]) -> None:
        """Note that a shard is complete, and lies under its name."""
        self.shards[entry["shard"]] = dict(entry)
        self._append(entry)

    def forget(self, shard: int) -> None:
        """Note that a shard is not what it was: the ledger is written anew without it."""
        del self.shards[shard]
        self._file.seek(0)
        first = self._file.readline()
        rest = [json.dumps(entry) + "\n" for entry in self.shards.values()]
        self._file.truncate(0)
        self._file.write("".join([first, *rest]))
        fsync_file(self._file)

    def _append(self, entry: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(entry) + "\n")
        fsync_file(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _another(folder: Path, there: Any, here: Mapping[str, Any]) -> UsageError:
    differ = [name for name in here if not isinstance(there, dict) or there.get(name) != here[name]] or list(here)
    return UsageError(
        f"{str(folder)!r} holds a pack of something else",
        given=", ".join(f"{name} {here[name]}" for name in differ),
        expected=", ".join(f"{name} {there.get(name)}" for name in differ) if isinstance(there, dict) else there,
        fix="the same source and options to go on with it; or another folder",
    )
