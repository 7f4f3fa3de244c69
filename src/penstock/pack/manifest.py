"""Manifest of a pack: its settings and complete shards, in the folder of the shards."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from penstock.core.atomic_files import fsync_file
from penstock.core.file_lock import lock_file
from penstock.errors import UsageError

NAME = "pack.jsonl"


class PackManifest:
    """JSON lines: the settings, then an entry per complete shard. A line cut short by a crash is ignored.

    Args:
        folder: Directory of the shards, created if missing. Locked against other processes.
        settings: Settings that must be equal for a run to resume the pack.

    Attributes:
        shards: Entries of complete shards, by number.

    Raises:
        UsageError: The folder contains another pack, or another process is packing into it.
        OSError: The folder cannot be created or is not writable.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / NAME
        self._file = self._path.open("a+")
        try:
            try:
                lock_file(self._file.fileno())
            except BlockingIOError:
                raise UsageError("another process is packing into this folder", given=str(folder)) from None
            try:
                self._file.seek(0)
                text = self._file.read()
                # A crash can leave an unfinished last line; its shard is written again.
                whole = text[: text.rfind("\n") + 1]
                lines = [json.loads(line) for line in whole.splitlines()]
                self.shards: dict[int, dict[str, Any]] = {entry["shard"]: _checked(entry) for entry in lines[1:]}
            except (ValueError, KeyError, TypeError) as error:
                raise UsageError(f"{str(self._path)!r} is not the manifest of a pack", fix="another folder") from error
            if lines and lines[0] != settings:
                raise _other_pack(folder, lines[0], settings)
            if len(whole) < len(text):
                self._file.truncate(len(whole.encode()))
            if not lines:
                self._append(settings)
        except BaseException:
            self._file.close()
            raise

    def add(self, entry: Mapping[str, Any]) -> None:
        """Record a complete shard."""
        self.shards[entry["shard"]] = dict(entry)
        self._append(entry)

    def forget(self, shard: int) -> None:
        """Remove the entry of a damaged shard and rewrite the file."""
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


def _checked(entry: Any) -> dict[str, Any]:
    """Return the entry of a shard.

    Raises:
        ValueError: It is not one, because the file is damaged or another program's.
    """
    kinds = {"shard": int, "samples": int, "skipped": int, "content": str, "sha256": str}
    if {name: type(value) for name, value in entry.items()} != kinds:
        raise ValueError(f"not the entry of a shard: {entry}")
    return entry


def _other_pack(folder: Path, stored: Any, current: Mapping[str, Any]) -> UsageError:
    differ = [name for name in current if not isinstance(stored, dict) or stored.get(name) != current[name]] or list(
        current
    )
    return UsageError(
        f"{str(folder)!r} contains another pack",
        given=", ".join(f"{name} {current[name]}" for name in differ),
        expected=", ".join(f"{name} {stored.get(name)}" for name in differ) if isinstance(stored, dict) else stored,
        fix="use the same source and options to resume it, or another folder",
    )
